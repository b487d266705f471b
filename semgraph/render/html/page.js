"use strict";
// Opens a call to its prompt, its answer and the rows that were read from it; tells the facts of a node or an edge.
// All text is set as text, never as HTML.
(() => {
  const { texts, calls, graphs } = JSON.parse(document.getElementById("data").textContent);
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

  const known = (svg) => graphs[svg.dataset.graph];
  const ties = (svg, node) => known(svg).edges.map((edge, i) => [edge, i]).filter(([edge]) => edge.ends.includes(node));
  const part = (svg, kind, number) => svg.querySelector(`[data-${kind}="${number}"]`);
  const about = (edge) => [edge.text, edge.holds && `holds ${edge.holds}`].filter(Boolean).join(" · ");

  const tellNode = (svg, number, box) => {
    const { nodes } = known(svg), node = nodes[number];
    const head = el("p", null, box);
    el("b", node.name, head);
    el("span", node.known ? ` ${node.label}` : ` ${node.label} not written by this run`, head, "quiet");
    const list = node.facts.length && el("dl", null, box);
    for (const [name, value] of node.facts) { el("dt", name, list); el("dd", value, list); }
    const edges = ties(svg, number), rows = edges.length && el("ul", null, box);
    for (const [edge] of edges) {
      const [from, to] = edge.ends, out = from === number;
      const row = el("li", `${out ? "→" : "←"} ${edge.name || edge.label} ${nodes[out ? to : from].name}`, rows);
      if (about(edge)) el("span", `: ${about(edge)}`, row);
    }
  };
  const tellEdge = (svg, number, box) => {
    const { nodes, edges } = known(svg), edge = edges[number], head = el("p", null, box);
    el("b", `${nodes[edge.ends[0]].name} → ${edge.name || edge.label || "…"} → ${nodes[edge.ends[1]].name}`, head);
    if (edge.label && edge.label !== edge.name) el("span", ` ${edge.label}`, head, "quiet");
    if (edge.text) el("p", edge.text, box);
    if (edge.holds) el("p", `holds ${edge.holds}`, box);
    if (edge.sources.length) el("p", `from: ${edge.sources.join("; ")}${edge.more ? ` and ${edge.more} more` : ""}`, box, "quiet");
  };
  const tell = (item) => {
    const svg = item.ownerSVGElement, box = svg.closest("figure").querySelector(".told");
    const { node, edge } = item.dataset;
    const edges = node === undefined ? [Number(edge)] : ties(svg, Number(node)).map(([, i]) => i);
    const ends = edges.flatMap((i) => known(svg).edges[i].ends).concat(node === undefined ? [] : [Number(node)]);
    for (const each of svg.querySelectorAll(".node, .edge")) {
      const on = each.dataset.node === undefined ? edges.includes(Number(each.dataset.edge)) : ends.includes(Number(each.dataset.node));
      each.classList.toggle("on", on);
      each.classList.toggle("dim", !on);
    }
    box.replaceChildren();
    box.hidden = false;
    (node === undefined ? tellEdge : tellNode)(svg, Number(node ?? edge), box);
  };
  const clear = (svg, all) => {
    for (const each of svg.querySelectorAll(".node, .edge")) each.classList.remove("on", "dim");
    if (all) { delete svg.dataset.kept; svg.closest("figure").querySelector(".told").hidden = true; }
  };
  const keep = (item, yes) => {
    const svg = item.ownerSVGElement;
    for (const each of svg.querySelectorAll("[aria-pressed]")) each.removeAttribute("aria-pressed");
    if (yes) { item.setAttribute("aria-pressed", "true"); svg.dataset.kept = "yes"; } else delete svg.dataset.kept;
    tell(item);
  };
  const step = (item, by) => {
    const svg = item.ownerSVGElement, from = item.dataset.from ?? item.dataset.node;
    if (from === undefined) return;
    const edges = ties(svg, Number(from)).map(([, i]) => i);
    const stops = [part(svg, "node", from), ...edges.map((i) => part(svg, "edge", i))];
    const next = stops[(stops.indexOf(item) + by + stops.length) % stops.length];
    if (next.dataset.node === undefined) next.dataset.from = from;
    next.focus();
  };
  const hint = (box) => {
    const rest = box.scrollWidth - box.clientWidth, { classList } = box.parentElement;
    classList.toggle("scrolls", rest > 1);
    classList.toggle("more-left", rest > 1 && box.scrollLeft > 1);
    classList.toggle("more-right", rest > 1 && box.scrollLeft < rest - 1);
  };
  const sized = new ResizeObserver((entries) => { for (const { target } of entries) hint(target.closest(".scroll")); });
  for (const box of document.querySelectorAll(".scroll")) {
    box.addEventListener("scroll", () => hint(box), { passive: true });
    for (const each of [box, ...box.children]) sized.observe(each);
  }

  for (const svg of document.querySelectorAll("svg.graph")) {
    const around = svg.closest(".scroll"); // Chromium would let Tab stop at an svg that itself listens to the focus
    const listen = (name, act) => around.addEventListener(name, (event) => act(event.target.closest(".node, .edge"), event));
    listen("pointerover", (item) => { if (item && !svg.dataset.kept) tell(item); });
    listen("pointerleave", () => { if (!svg.dataset.kept && !svg.contains(document.activeElement)) clear(svg); });
    listen("focusin", (item) => { if (item) { delete svg.dataset.kept; tell(item); } });
    listen("focusout", (item, event) => { if (item && !svg.dataset.kept && !svg.contains(event.relatedTarget)) clear(svg); });
    listen("click", (item) => { if (item) keep(item, true); else clear(svg, true); });
    listen("keydown", (item, event) => {
      if (!item) return;
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") { event.preventDefault(); step(item, event.key === "ArrowRight" ? 1 : -1); }
      else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); keep(item, item.getAttribute("aria-pressed") !== "true"); }
      else if (event.key === "Escape") { if (item.dataset.from) part(svg, "node", item.dataset.from).focus(); else clear(svg, true); }
    });
  }

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
