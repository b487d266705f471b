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
