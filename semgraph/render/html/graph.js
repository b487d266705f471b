"use strict";
// Draws the graphs of a page: places what is to be seen so that no two labels overlap, folds clusters, filters, and
// tells the facts of a node or an edge. All text is set as text, never as HTML.
(() => {
  const SHOWN = 80, NAMED = 160, LISTED = 50, DOTS = 400;
  const LINE = 14, TOP = 12, FONT = '12px system-ui, "DejaVu Sans", sans-serif';
  const pen = document.createElement("canvas").getContext("2d");
  const wide = (text, font) => { pen.font = font; return pen.measureText(text).width; };

  const el = (name, text, parent, cls) => {
    const made = document.createElement(name);
    if (text !== null) made.textContent = text;
    if (cls) made.className = cls;
    if (parent) parent.append(made);
    return made;
  };
  const shape = (name, parent, attributes, text) => {
    const made = document.createElementNS(parent.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    parent.append(made);
    return made;
  };
  const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
  const brief = (text, most) => (text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text);
  const wrapped = (text, most) => {
    const lines = [];
    for (const word of text.split(/\s+/).flatMap((each) => each.match(/.{1,22}/gu) || [])) {
      const last = lines[lines.length - 1];
      if (last !== undefined && last.length + word.length < 22) lines[lines.length - 1] = `${last} ${word}`;
      else lines.push(word);
    }
    if (lines.length > most) lines[most - 1] = `${brief(lines[most - 1], 20)} …`;
    return lines.slice(0, most);
  };

  // Boxes
  const cut = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const box = (item, gap = 0) => ({ left: item.x - item.wide / 2 - gap, right: item.x + item.wide / 2 + gap, top: item.y - item.up - gap, bottom: item.y + item.down + gap });
  const apart = (all, width) => { // pushes boxes apart between the sides of the page; what remains moves down
    const inside = (item) => { item.x = Math.min(Math.max(item.x, item.wide / 2), Math.max(width - item.wide / 2, item.wide / 2)); };
    const items = [...all];
    items.forEach(inside);
    for (let round = 0, moved = true; moved && round < 150; round++) {
      moved = false;
      items.sort((a, b) => a.y - a.up - a.gap - (b.y - b.up - b.gap));
      for (let i = 0; i < items.length; i++) for (let j = i + 1; j < items.length; j++) {
        const one = items[i], two = items[j], a = box(one, one.gap), b = box(two, two.gap);
        if (b.top >= a.bottom) break;
        if (!cut(a, b)) continue;
        moved = true;
        const across = Math.min(a.right - b.left, b.right - a.left) + 1, down = Math.min(a.bottom - b.top, b.bottom - a.top) + 1;
        if (across <= down * 1.5) { const by = one.x <= two.x ? across / 2 : -across / 2; one.x -= by; two.x += by; inside(one); inside(two); }
        else { const by = one.y <= two.y ? down / 2 : -down / 2; one.y -= by; two.y += by; }
      }
    }
    const settled = [];
    for (const item of items.sort((a, b) => a.y - b.y)) {
      for (let other; (other = settled.find((each) => cut(box(item), box(each))));) item.y = other.y + other.down + item.up + 1;
      settled.push(item);
    }
    const top = Math.min(...items.map((item) => item.y - item.up));
    for (const item of items) item.y += 4 - top;
  };
  const free = (places, taken) => {
    const place = places.find((each) => !taken.some((other) => cut(each, other)));
    if (place) taken.push(place);
    return place;
  };

  // Lines
  const leave = (from, to, item) => { // where a line leaves the mark of a node, or its label below
    const dx = to[0] - from[0], dy = to[1] - from[1], half = item.wide / 2;
    let share = (item.radius + 3) / Math.max(Math.hypot(dx, dy), 1);
    if (dy > 0 && Math.abs(dx / dy) * item.radius < half) share = Math.min((item.down - 1) / dy, dx ? half / Math.abs(dx) : 1);
    share = Math.min(share, 0.9);
    return [from[0] + dx * share, from[1] + dy * share];
  };
  const curve = (a, b, aside) => {
    if (a === b) return [[a.x - 6, a.y - 9], [a.x - 34, a.y - 44], [a.x + 34, a.y - 44], [a.x + 6, a.y - 11]];
    const length = Math.max(Math.hypot(b.x - a.x, b.y - a.y), 1), by = aside * 70 / length;
    const middle = [(a.x + b.x) / 2 + (a.y - b.y) * by, (a.y + b.y) / 2 + (b.x - a.x) * by];
    return [leave([a.x, a.y], middle, a), middle, leave([b.x, b.y], middle, b)];
  };
  const along = (points, t) => {
    for (let rest = points; ; rest = rest.slice(1).map((to, i) => [rest[i][0] + (to[0] - rest[i][0]) * t, rest[i][1] + (to[1] - rest[i][1]) * t])) {
      if (rest.length === 1) return rest[0];
    }
  };
  const path = (points) => `M${points.map((each) => each.map((v) => v.toFixed(1)).join(" ")).join("|").replace("|", points.length === 3 ? "Q" : "C").replaceAll("|", " ")}`;

  const start = (figure) => {
    const { kinds, clusters, nodes, edges } = JSON.parse(figure.querySelector(".graph-data").textContent);
    const $ = (name) => figure.querySelector(name);
    const svg = $(".graph"), scroll = svg.parentElement, told = $(".told"), find = $(".find"), slider = $(".when"), status = $(".status"), trail = $(".trail");
    const ties = nodes.map(() => []);
    edges.forEach((edge, i) => { for (const end of new Set(edge.ends)) ties[end].push(i); });
    const times = [...new Set(edges.filter((e) => !kinds[e.kind].sign).flatMap((e) => [e.from, e.to]).filter(Boolean))].sort();
    const off = new Set(kinds.flatMap((kind, i) => (kind.behind ? [i] : [])));
    const state = { time: undefined, inside: [], near: null, kept: null };
    let items, drawn, weak = 0, width = 0;

    const arrow = (edge) => `${nodes[edge.ends[0]].name} ${edge.name || edge.label || "→"} ${nodes[edge.ends[1]].name}`;
    const holds = (edge) => {
      if (kinds[edge.kind].sign) return "holds";
      if (state.time === undefined) return edge.to ? "ended" : "holds";
      return edge.from > state.time ? "later" : edge.to && edge.to <= state.time ? "ended" : "holds";
    };
    const has = (node, text) => `${node.name}\n${node.label}\n${node.facts.map(([, value]) => value).join("\n")}`.toLowerCase().includes(text);

    // What is to be seen: numbers of nodes and edges, by labels, time, text and neighbourhood.
    const visible = () => {
      const text = find.value.trim().toLowerCase();
      let ends = edges.flatMap((edge, i) => (off.has(edge.kind) || edge.ends.some((end) => off.has(nodes[end].kind)) || holds(edge) === "later" ? [] : [i]));
      let shown = nodes.map((node, i) => !off.has(node.kind) && (state.time === undefined || !ties[i].some((e) => edges[e].from && !kinds[edges[e].kind].behind)));
      if (state.time !== undefined) for (const i of ends) for (const end of edges[i].ends) shown[end] = true;
      if (text) {
        const hit = nodes.map((node, i) => shown[i] && has(node, text)), also = hit.slice();
        const told = new Set(ends.filter((i) => `${edges[i].name}\n${edges[i].label}\n${edges[i].text}`.toLowerCase().includes(text)));
        for (const i of told) for (const end of edges[i].ends) also[end] = true;
        ends = ends.filter((i) => told.has(i) || edges[i].ends.every((end) => hit[end]));
        shown = also;
      }
      if (state.near !== null) {
        ends = ends.filter((i) => edges[i].ends.includes(state.near));
        const around = new Set([state.near, ...ends.flatMap((i) => edges[i].ends)]);
        shown = nodes.map((_, i) => around.has(i));
      }
      return { shown: shown.flatMap((yes, i) => (yes ? [i] : [])), ends };
    };

    // Nodes and folded clusters: unfolded are those of a few nodes, and all if there is room.
    const folded = (shown) => {
      const top = state.inside.at(-1) ?? -1, members = new Map(), children = new Map();
      let inside = 0;
      const child = (of, key) => { if (!children.has(of)) children.set(of, new Set()); children.get(of).add(key); };
      for (const n of shown) {
        if (n === state.near) continue;
        const chain = [];
        for (let c = nodes[n].in; c !== -1 && c !== top; c = clusters[c]) chain.push(c);
        if (chain.length ? clusters[chain.at(-1)] !== top : nodes[n].in !== top) continue;
        inside++;
        chain.forEach((c, i) => { child(c, i ? `c${chain[i - 1]}` : `n${n}`); (members.get(c) || members.set(c, []).get(c)).push(n); });
        child(top, chain.length ? `c${chain.at(-1)}` : `n${n}`);
      }
      const out = new Set(children.get(top));
      if (state.near !== null) out.add(`n${state.near}`);
      for (;;) {
        const closed = [...out].filter((key) => key[0] === "c").map((key) => Number(key.slice(1)));
        const next = closed.sort((a, b) => members.get(a).length - members.get(b).length)[0];
        if (next === undefined || (inside > Math.min(SHOWN, Math.max(20, width / 14)) && out.size > 1 && members.get(next).length > 3)) break;
        out.delete(`c${next}`);
        for (const key of children.get(next)) out.add(key);
      }
      return [...out].map((key) => (key[0] === "c" ? { cluster: Number(key.slice(1)), nodes: members.get(Number(key.slice(1))) } : { nodes: [Number(key.slice(1))] }));
    };
    const title = (item) => {
      const first = item.nodes.reduce((a, b) => (ties[b].length > ties[a].length ? b : a));
      return item.cluster === undefined ? nodes[first].name : `${brief(nodes[first].name, 40)} + ${(item.nodes.length - 1).toLocaleString("en")}`;
    };
    const sized = (item, lines) => {
      item.name = title(item);
      item.lines = wrapped(item.name, lines);
      item.radius = item.cluster === undefined ? 9 : Math.min(12 + Math.sqrt(item.nodes.length), 30);
      item.gap = items.length <= 24 ? 14 : 2; // room for the names of edges
      item.wide = Math.max(2 * item.radius + 8, ...item.lines.map((line) => wide(line, `600 ${FONT}`))) + 10;
      item.up = item.radius + 4;
      item.down = item.radius + 6 + LINE * item.lines.length;
      const mean = (axis) => item.nodes.reduce((sum, n) => sum + nodes[n][axis], 0) / item.nodes.length;
      [item.x, item.y] = [mean("x"), mean("y")];
    };
    const place = (ties) => {
      const area = items.reduce((sum, item) => sum + item.wide * (item.up + item.down), 0) * 3 + ties * 6500 + 12000;
      const page = items.length < 8 ? Math.min(width, Math.max(360, Math.sqrt(area * 2.5))) : width, high = Math.max(area / page, Math.min(420, items.length * 42), 90);
      const centre = items.find((item) => state.near !== null && item.nodes[0] === state.near);
      const lay = (axis, to) => {
        const low = Math.min(...items.map((item) => item[axis])), span = Math.max(...items.map((item) => item[axis])) - low;
        for (const item of items) item[axis] = span ? ((item[axis] - low) / span) * to : to / 2;
      };
      if (centre) {
        const turn = (item) => Math.atan2(item.y - centre.y, item.x - centre.x), others = items.filter((item) => item !== centre);
        const ring = others.map((item) => [turn(item), item]).sort((a, b) => a[0] - b[0]);
        ring.forEach(([, item], i) => {
          const far = ring.length > 14 && i % 2 ? 0.62 : 1, at = (2 * Math.PI * i) / ring.length - Math.PI / 2;
          [item.x, item.y] = [page / 2 + Math.cos(at) * (page / 2 - 70) * far, high / 2 + (Math.sin(at) * high * far) / 2];
        });
        [centre.x, centre.y] = [page / 2, high / 2];
      } else { lay("x", page); lay("y", high); }
      apart(items, page);
      for (const item of items) item.x += (width - page) / 2;
    };

    // Drawing
    const bundles = (ends) => { // edges by the items at their ends; those at clusters are one line
      const at = new Map(items.flatMap((item) => item.nodes.map((n) => [n, item]))), found = new Map();
      for (const i of ends) {
        const [a, b] = edges[i].ends.map((end) => at.get(end));
        if (!a || !b || (a === b && a.cluster !== undefined)) continue;
        const [one, two] = items.indexOf(a) <= items.indexOf(b) ? [a, b] : [b, a], key = `${items.indexOf(one)} ${items.indexOf(two)}`;
        if (!found.has(key)) found.set(key, { one, two, edges: [] });
        found.get(key).edges.push({ i, a, b });
      }
      return [...found.values()];
    };
    const line = (group, a, b, aside, cls, all) => {
      const points = curve(a, b, aside), one = all.length === 1 && a.cluster === undefined && b.cluster === undefined;
      const g = shape("g", group, { class: `edge ${cls}${one ? "" : " many"}`, tabindex: "-1", role: "button" });
      shape("path", g, { d: path(points), class: "hit" });
      const drawn = shape("path", g, { d: path(points), class: "line" });
      if (one && !cls.includes("behind")) drawn.setAttribute("marker-end", `url(#arrow-${figure.dataset.graph})`);
      else if (!one) drawn.style.strokeWidth = 1 + Math.min(Math.log2(all.length + 1), 6);
      return { g, a, b, points, edges: all };
    };
    const said = (edge) => [kinds[edge.kind].sign, arrow(edge), edge.text, edge.holds].filter(Boolean).join(" · ");
    const lines = (group, taken, ends) => {
      const folds = ({ one, two }) => one.cluster !== undefined || two.cluster !== undefined, all = bundles(ends);
      const strong = all.filter(folds).sort((a, b) => b.edges.length - a.edges.length).slice(0, 3 * items.length);
      const found = [...all.filter((each) => !folds(each)), ...strong];
      weak = all.length - found.length;
      for (const { one, two, edges: all } of found) {
        const apart = one.cluster === undefined && two.cluster === undefined;
        const each = (apart ? all.map((tie) => [tie]) : [all]).map((some, n, { length }) => {
          const { a, b } = apart ? some[0] : { a: one, b: two }, edge = edges[some[0].i], numbers = some.map((tie) => tie.i);
          const aside = (n - (length - 1) / 2) * (a === one ? 1 : -1), behind = kinds[edge.kind].behind ? " behind" : "";
          const cls = apart ? `kind-${kinds[edge.kind].colour}${holds(edge) === "ended" ? " ended" : ""}${behind}` : "kind-none";
          const made = line(group, a, b, aside, cls, numbers);
          made.g.setAttribute("aria-label", apart ? said(edge).slice(0, 400) : `${counted(some.length, "edge")} between ${one.name} and ${two.name}`);
          if (apart) made.g.dataset.edge = numbers[0];
          return made;
        });
        drawn.push(...each);
      }
      const facts = drawn.filter(({ edges: [i] }) => !kinds[edges[i].kind].behind);
      if (facts.length > NAMED) return;
      for (const { g, points, edges: [i, more] } of facts) {
        const name = more === undefined && edges[i].name !== edges[i].label ? brief(edges[i].name, 40) : "";
        if (!name) continue;
        const half = wide(name, `10.5px ${FONT.slice(5)}`) / 2 + 2;
        const spot = free([0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78].map((t) => along(points, t)).map(([x, y]) => ({ left: x - half, right: x + half, top: y - 7, bottom: y + 7 })), taken);
        if (spot) shape("text", g, { x: ((spot.left + spot.right) / 2).toFixed(1), y: (spot.top + 10.5).toFixed(1) }, name);
      }
    };
    const dots = (behind, taken) => { // background nodes: small, near what they lead to, where there is room
      const at = new Map(items.filter((item) => item.cluster === undefined).map((item) => [item.nodes[0], item]));
      const made = [];
      for (const n of behind) {
        const ends = ties[n].flatMap((i) => edges[i].ends.map((end) => at.get(end)).filter(Boolean));
        if (!ends.length || made.length >= DOTS) continue;
        const [x, y] = ["x", "y"].map((axis) => ends.reduce((sum, item) => sum + item[axis], 0) / ends.length);
        const spots = Array.from({ length: 90 }, (_, k) => [x + 9 * Math.sqrt(k) * Math.cos(k * 2.4), y + 7 * Math.sqrt(k) * Math.sin(k * 2.4)]);
        const spot = free(spots.map(([x, y]) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 })).filter((each) => each.left > 0 && each.right < width), taken);
        if (spot) made.push({ nodes: [n], x: spot.left + 6, y: spot.top + 6, wide: 12, up: 6, down: 6, radius: 4, name: nodes[n].name, lines: [], dot: true });
      }
      return made;
    };
    const node = (item, i) => {
      const { cluster, nodes: [n], x, y } = item, kind = kinds[nodes[n].kind], number = drawn.filter((each) => each.a === item || each.b === item).length;
      const g = shape("g", svg, { class: `node kind-${cluster === undefined ? kind.colour : "none"}${item.dot ? " dot" : ""}`, "data-node": i, tabindex: "0", role: "button" });
      g.setAttribute("aria-label", cluster === undefined ? [item.name, nodes[n].label, kind.sign, counted(number, "edge")].filter(Boolean).join(", ").slice(0, 400)
        : `Cluster of ${counted(item.nodes.length, "node")}: ${item.name}. Enter opens it`);
      const area = box(item);
      shape("rect", g, { class: "area", x: area.left, y: area.top, width: item.wide, height: item.up + item.down });
      if (cluster === undefined) shape("path", g, { d: kind.shape, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})${item.dot ? " scale(.6)" : ""}`, class: "mark" });
      else {
        shape("circle", g, { cx: x, cy: y, r: item.radius, class: "mark fold" });
        shape("text", g, { x, y: y + 4, class: "number" }, item.nodes.length.toLocaleString("en"));
      }
      const text = item.lines.length && shape("text", g, { class: "label" });
      item.lines.forEach((each, j) => shape("tspan", text, { x: x.toFixed(1), y: (y + item.radius + LINE * (j + 1)).toFixed(1) }, each));
    };
    const draw = () => {
      const now = Math.floor(scroll.clientWidth);
      if (now < 50) return;
      const active = svg.contains(document.activeElement) && Number(document.activeElement.dataset.node), before = active !== false && items?.[active]?.nodes[0];
      width = now;
      const { shown, ends } = visible(), front = shown.filter((n) => nodes[n].x !== undefined);
      items = folded(front);
      const most = items.length <= 24 ? 8 : 3;
      for (const item of items) sized(item, most);
      drawn = [];
      const closed = items.filter((item) => item.cluster !== undefined).length;
      if (items.length) place(closed ? items.length : Math.min(ends.length, 3 * items.length));
      svg.replaceChildren();
      shape("path", shape("marker", shape("defs", svg, {}), { id: `arrow-${figure.dataset.graph}`, viewBox: "0 0 9 9", refX: 8, refY: 4.5, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }), { d: "M0 0L9 4.5L0 9z" });
      const taken = items.map((item) => box(item)), group = shape("g", svg, {});
      const small = dots(shown.filter((n) => nodes[n].x === undefined), taken);
      items.push(...small);
      lines(group, taken, ends);
      items.forEach(node);
      const all = [...taken, ...drawn.map(({ points }) => along(points, 0.5)).map(([x, y]) => ({ left: x, right: x, top: y, bottom: y }))];
      const left = Math.min(0, ...all.map((each) => each.left)), top = Math.min(0, ...all.map((each) => each.top));
      const across = Math.max(width, ...all.map((each) => each.right)) - left, down = Math.max(40, ...all.map((each) => each.bottom)) - top + 6;
      for (const [name, value] of [["viewBox", `${left} ${top} ${across} ${down}`], ["width", across], ["height", down]]) svg.setAttribute(name, value);
      const here = new Set(items.flatMap((item) => item.nodes)), among = ends.filter((i) => edges[i].ends.every((end) => here.has(end)));
      status.textContent = `${counted(here.size, "node")}, ${counted(among.length, "edge")}${state.time === undefined ? "" : ` as of ${state.time}`}` +
        (closed ? `; ${counted(closed, "cluster")} folded, a click or Enter opens one` : "") + (weak ? `; ${weak} of their lines left out` : "") + (items.length ? "." : ": nothing to draw.");
      steps();
      if (before !== undefined && before !== false) svg.querySelectorAll(".node")[items.findIndex((item) => item.nodes[0] === before)]?.focus();
    };
    const steps = () => {
      trail.replaceChildren();
      if (!state.inside.length && state.near === null) return;
      const back = (text, act) => { el("button", text, trail).addEventListener("click", () => { act(); redraw(); }); };
      back("← everything", () => { state.inside = []; state.near = null; });
      state.inside.slice(0, -1).forEach((c, i) => back(`cluster ${i + 1}`, () => { state.inside.length = i + 1; state.near = null; }));
      if (state.near !== null) el("span", `around ${nodes[state.near].name}`, trail);
    };
    const redraw = () => { clear(true); draw(); };

    // Facts
    const about = (edge) => [edge.text, edge.holds && `holds ${edge.holds}`].filter(Boolean).join(" · ");
    const link = (n, parent) => { el("button", brief(nodes[n].name, 80), parent, "go").addEventListener("click", () => go(n)); };
    const tellNode = (n, item) => {
      const node = nodes[n], head = el("p", null, told), list = node.facts.length && el("dl", null, told);
      el("b", node.name, head);
      el("span", node.known ? ` ${node.label}` : ` ${node.label} not written by this run`, head, "quiet");
      for (const [name, value] of node.facts) { el("dt", name, list); el("dd", value, list); }
      const own = ties[n].filter((i) => !off.has(edges[i].kind) || !kinds[edges[i].kind].behind), rows = own.length && el("ul", null, told);
      for (const i of own.sort((a, b) => kinds[edges[a].kind].behind - kinds[edges[b].kind].behind || (edges[a].from < edges[b].from ? -1 : 1)).slice(0, LISTED)) {
        const edge = edges[i], out = edge.ends[0] === n, row = el("li", `${out ? "→" : "←"} ${edge.name || edge.label} `, rows, holds(edge) === "ended" ? "quiet" : "");
        link(edge.ends[out ? 1 : 0], row);
        if (about(edge)) el("span", `: ${about(edge)}`, row);
      }
      if (own.length > LISTED) el("p", `… and ${own.length - LISTED} more`, told);
      if (own.length && state.near !== n) el("button", "Only what is around it", el("p", null, told)).addEventListener("click", () => { state.near = n; redraw(); focus(n); });
    };
    const tellEdge = (edge) => {
      const head = el("p", null, told);
      el("b", `${nodes[edge.ends[0]].name} → ${edge.name || edge.label || "…"} → ${nodes[edge.ends[1]].name}`, head);
      if (edge.label && edge.label !== edge.name) el("span", ` ${edge.label}`, head, "quiet");
      if (edge.text) el("p", edge.text, told);
      if (edge.holds) el("p", `holds ${edge.holds}`, told);
      if (edge.sources.length) el("p", `from: ${edge.sources.join("; ")}${edge.more ? ` and ${edge.more} more` : ""}`, told, "quiet");
    };
    const tellMany = (head, rows, more) => {
      el("b", head, el("p", null, told));
      const list = el("ul", null, told);
      for (const row of rows) el("li", row, list);
      if (more > 0) el("p", `… and ${more} more`, told);
    };
    const lineOf = (each) => drawn.find(({ g }) => g === each);
    const tell = (each) => {
      const item = items[each.dataset.node], lit = item ? drawn.filter(({ a, b }) => a === item || b === item) : [lineOf(each)];
      const ends = new Set([item, ...lit.flatMap(({ a, b }) => [a, b])]), on = new Set(lit.map(({ g }) => g));
      for (const other of svg.querySelectorAll(".node, .edge")) {
        const yes = other.dataset.node === undefined ? on.has(other) : ends.has(items[other.dataset.node]);
        other.classList.toggle("on", yes);
        other.classList.toggle("dim", !yes);
      }
      told.replaceChildren();
      told.hidden = false;
      told.scrollTop = 0;
      if (item && item.cluster === undefined) tellNode(item.nodes[0], item);
      else if (item) tellMany(`${counted(item.nodes.length, "node")} in a cluster`, [...item.nodes].sort((a, b) => ties[b].length - ties[a].length).slice(0, 12).map((n) => nodes[n].name), item.nodes.length - 12);
      else if (lit[0].edges.length === 1) tellEdge(edges[lit[0].edges[0]]);
      else tellMany(each.getAttribute("aria-label"), lit[0].edges.slice(0, 12).map((i) => `${arrow(edges[i])}${about(edges[i]) && `: ${about(edges[i])}`}`), lit[0].edges.length - 12);
    };
    const clear = (all) => {
      for (const each of svg.querySelectorAll(".on, .dim")) each.classList.remove("on", "dim");
      if (all) { state.kept = null; told.hidden = true; for (const each of svg.querySelectorAll("[aria-pressed]")) each.removeAttribute("aria-pressed"); }
    };
    const focus = (n) => svg.querySelectorAll(".node")[items.findIndex((item) => item.nodes.length === 1 && item.nodes[0] === n)]?.focus();
    const go = (n) => { // to a node, if need be in its cluster
      if (state.near !== null || !items.some((item) => item.nodes.length === 1 && item.nodes[0] === n)) {
        find.value = "";
        state.near = n;
        redraw();
      }
      focus(n);
    };
    const choose = (each, byKey) => {
      const item = items[each.dataset.node];
      if (item?.cluster !== undefined) {
        const chain = [];
        for (let c = item.cluster; c !== -1; c = clusters[c]) chain.unshift(c);
        Object.assign(state, { inside: chain, near: null });
        redraw();
        if (byKey) svg.querySelector(".node")?.focus();
        return;
      }
      const again = state.kept === each;
      clear(true);
      state.kept = again ? null : each;
      if (!again) each.setAttribute("aria-pressed", "true");
      tell(each);
    };
    const step = (each, by) => {
      const from = each.dataset.from ?? each.dataset.node, item = items[from];
      if (!item) return;
      const stops = [svg.querySelector(`[data-node="${from}"]`), ...drawn.filter(({ a, b }) => a === item || b === item).map(({ g }) => g)];
      const next = stops[(stops.indexOf(each) + by + stops.length) % stops.length];
      if (next.dataset.node === undefined) next.dataset.from = from;
      next.focus();
    };
    const up = () => {
      if (state.near !== null) state.near = null; else if (state.inside.length) state.inside.pop(); else return false;
      redraw();
      return true;
    };
    const listen = (name, act) => scroll.addEventListener(name, (event) => act(event.target.closest?.(".node, .edge"), event));
    listen("pointerover", (each) => { if (each && !state.kept) tell(each); });
    listen("pointerleave", () => { if (!state.kept && !svg.contains(document.activeElement)) clear(false); });
    listen("focusin", (each) => { if (each) { state.kept = null; tell(each); } });
    listen("focusout", (each, event) => { if (each && !state.kept && !svg.contains(event.relatedTarget)) clear(false); });
    listen("click", (each) => { if (each) choose(each, false); else clear(true); });
    listen("keydown", (each, event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape" && !each?.dataset.from && (state.kept || !up())) clear(true);
      if (!each) return;
      if (by) { event.preventDefault(); step(each, by); }
      else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(each, true); }
      else if (event.key === "Escape" && each.dataset.from) svg.querySelector(`[data-node="${each.dataset.from}"]`)?.focus();
    });
    for (const button of figure.querySelectorAll(".legend button")) {
      button.disabled = false;
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        for (const kind of button.dataset.kinds.split(" ")) if (on) off.delete(Number(kind)); else off.add(Number(kind));
        redraw();
      });
    }
    find.addEventListener("input", redraw);
    find.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); svg.querySelector(".node")?.focus(); } });
    $(".controls").hidden = false;
    if (times.length > 1) {
      slider.closest("label").hidden = false;
      slider.max = times.length;
      slider.value = times.length;
      const spell = () => { const text = state.time ?? "all times"; slider.setAttribute("aria-valuetext", text); slider.nextElementSibling.textContent = text; };
      slider.addEventListener("input", () => { state.time = times[slider.value]; spell(); redraw(); });
      spell();
    }
    new ResizeObserver(() => { if (Math.abs(scroll.clientWidth - width) > 1) redraw(); }).observe(scroll);
    draw();
  };
  for (const figure of document.querySelectorAll(".graph-figure:not([data-drawn])")) {
    figure.dataset.drawn = "";
    start(figure);
  }
})();
