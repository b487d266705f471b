"use strict";
// Opens a call to its prompt, its answer and the rows that were read from it.
// All text is set as text, never as HTML.
(() => {
  const { texts, calls } = JSON.parse(document.getElementById("data").textContent);
  const MISSING = "(not in this page: it is full)";

  const el = (name, text, parent, cls) => {
    const made = document.createElement(name);
    if (text !== null && text !== undefined) made.textContent = text;
    if (cls) made.className = cls;
    if (parent) parent.append(made);
    return made;
  };
  const at = (place) => (place === null ? MISSING : texts[place]);
  const level = document.querySelector("article") ? "h4" : "h3";
  const block = (title, text, parent) => {
    el(level, title, parent);
    const pre = el("pre", text, parent);
    pre.tabIndex = 0;
    pre.setAttribute("role", "region");
    pre.setAttribute("aria-label", title);
  };

  const rows = (call, parent) => {
    if (!call.items.length) return;
    el(level, "Rows that were read from it", parent);
    const table = el("table", null, parent);
    const number = call.items.length + call.more;
    const first = call.more ? `, the first ${call.items.length} here` : "";
    el("span", `${number} row${number === 1 ? "" : "s"}${first}`, el("caption", null, table));
    const paired = call.items.some((item) => item[1] === null || texts[item[1]] !== "");
    const head = el("tr", null, el("thead", null, table));
    for (const name of ["asked about", ...(paired ? ["beside"] : []), "answer"]) el("th", name, head).scope = "col";
    const body = el("tbody", null, table);
    for (const [left, right, answer] of call.items) {
      const row = el("tr", null, body);
      for (const place of paired ? [left, right, answer] : [left, answer]) el("td", at(place), row);
    }
  };

  const inside = (call) => {
    const box = el("div", null, null, "fits");
    if (call.error) el("p", `No answer: ${call.error}`, box, "bad");
    if (call.lost) el("p", call.lost, box, "quiet");
    for (const [role, place] of call.messages || []) block(`Prompt: ${role}`, at(place), box);
    if (call.messages) {
      block("Answer", at(call.answer), box);
      const folded = el("details", null, box);
      el("summary", "Schema of the answer", folded);
      el("pre", at(call.schema), folded).tabIndex = 0;
    }
    rows(call, box);
    el("p", call.id ? `call ${call.id}` : "", box, "quiet");
    return box;
  };

  const button = (number) => document.querySelector(`button.open[data-call="${number}"]`);
  const toggle = (number, open) => {
    const opener = button(number);
    if (!opener || (opener.getAttribute("aria-expanded") === "true") === open) return;
    const row = opener.closest("tr");
    if (open) {
      const made = el("tr", null, null, "inside");
      made.id = `call-${number}`;
      const cell = el("td", null, made);
      cell.colSpan = row.children.length;
      cell.append(inside(calls[number]));
      row.after(made);
      opener.setAttribute("aria-controls", made.id);
    } else {
      document.getElementById(`call-${number}`).remove();
      opener.removeAttribute("aria-controls");
    }
    opener.setAttribute("aria-expanded", String(open));
  };

  const hint = (box) => {
    const rest = box.scrollWidth - box.clientWidth, { classList } = box.parentElement;
    classList.toggle("scrolls", rest > 1);
    classList.toggle("more-left", rest > 1 && box.scrollLeft > 1);
    classList.toggle("more-right", rest > 1 && box.scrollLeft < rest - 1);
  };
  const sized = new ResizeObserver((entries) => { for (const { target } of entries) if (target.isConnected) hint(target.closest(".scroll")); });
  for (const box of document.querySelectorAll(".scroll")) {
    box.addEventListener("scroll", () => hint(box), { passive: true });
    for (const each of [box, ...box.children]) sized.observe(each);
  }

  // The lines of a plan: from each step, or from the closed called plan around it, to what reads it.
  const shape = (parent, name, attributes) => {
    const made = document.createElementNS(parent.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return parent.appendChild(made);
  };
  const wire = (plan, n) => {
    const svg = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg"), boxes = new Map(), pairs = [];
    svg.setAttribute("aria-hidden", "true");
    plan.append(svg);
    for (const box of plan.querySelectorAll(".box")) boxes.set(box.dataset.path, box);
    for (const [path, box] of boxes) for (const from of JSON.parse(box.dataset.reads || "[]")) pairs.push([from, path]);
    const seen = (path) => { // the step, or the outermost closed plan around it
      for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
        const group = boxes.get(path.slice(0, at + 1));
        if (group && !group.open) return group;
      }
      return boxes.get(path);
    };
    const draw = () => {
      const base = plan.getBoundingClientRect(), all = [...boxes.values()].filter((box) => box.offsetParent);
      const at = (box) => { const r = box.getBoundingClientRect(); return { left: r.left - base.left, right: r.right - base.left, top: r.top - base.top, bottom: r.bottom - base.top, x: (r.left + r.right) / 2 - base.left }; };
      const places = new Map(all.map((box) => [box, at(box)])), done = new Set();
      svg.replaceChildren();
      svg.setAttribute("width", base.width);
      svg.setAttribute("height", base.height);
      shape(shape(shape(svg, "defs", {}), "marker", { id: `reads-${n}`, viewBox: "0 0 9 9", refX: 8, refY: 4.5, markerWidth: 7, markerHeight: 7, orient: "auto" }), "path", { d: "M0 0L9 4.5L0 9z" });
      for (const [from, to] of pairs) {
        const a = seen(from), b = seen(to), key = `${a?.dataset.path} ${b?.dataset.path}`;
        if (!a || !b || a === b || done.has(key)) continue;
        done.add(key);
        const one = places.get(a), two = places.get(b), down = one.bottom < two.top, [start, end] = down ? [one.bottom, two.top - 1] : [one.top, two.bottom + 1];
        const between = all.filter((box) => !box.contains(a) && !box.contains(b) && !a.contains(box) && !b.contains(box)).map((box) => places.get(box))
          .filter((box) => box.top > Math.min(start, end) && box.bottom < Math.max(start, end) && box.left < Math.max(one.x, two.x) + 6 && box.right > Math.min(one.x, two.x) - 6);
        let way = `C${one.x} ${(start + end) / 2} ${two.x} ${(start + end) / 2} ${two.x} ${end}`;
        if (between.length) { // around what is between, on the nearer side
          const left = Math.min(...between.map((box) => box.left)) - 12, right = Math.max(...between.map((box) => box.right)) + 12;
          const x = Math.abs(left - one.x) + Math.abs(left - two.x) < Math.abs(right - one.x) + Math.abs(right - two.x) ? left : right, by = down ? 30 : -30;
          way = `C${one.x} ${start + by} ${x} ${start} ${x} ${start + by}L${x} ${end - by}C${x} ${end} ${two.x} ${end - by} ${two.x} ${end}`;
        }
        const line = shape(svg, "path", { d: `M${one.x} ${start}${way}`, class: "reads", "marker-end": `url(#reads-${n})` });
        line.ends = [a, b];
      }
    };
    const light = (event) => {
      const box = event.type === "pointerleave" ? null : event.target.closest(".box");
      for (const line of svg.querySelectorAll(".reads")) line.classList.toggle("on", line.ends.includes(box));
    };
    for (const name of ["pointerover", "pointerleave", "focusin"]) plan.addEventListener(name, light);
    plan.addEventListener("toggle", draw, true);
    new ResizeObserver(draw).observe(plan);
  };
  document.querySelectorAll(".plan").forEach(wire);

  document.addEventListener("click", (event) => {
    const target = event.target;
    if (target.matches("button.open")) {
      toggle(target.dataset.call, target.getAttribute("aria-expanded") !== "true");
    } else if (target.matches("button.all")) {
      const open = target.textContent === "Open all";
      for (const each of target.closest("section").querySelectorAll("button.open")) toggle(each.dataset.call, open);
      target.textContent = open ? "Close all" : "Open all";
    } else if (target.matches(".bar[data-call]")) {
      toggle(target.dataset.call, true);
      button(target.dataset.call)?.focus();
    }
  });
})();
