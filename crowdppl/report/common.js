
"use strict";
// Everything shown comes from the JSON in this file and is inserted as text: names are never markup.
const page = JSON.parse(document.getElementById("data").textContent);
// A page on several criteria shows the one that its address names.
const shownPart = Math.max(0, (page.criteria ?? []).indexOf(new URLSearchParams(location.search).get("criterion")));
const data = page.parts ? page.parts[shownPart] : page;
const percent = (x, digits = 0) => (x === null ? "–" : (100 * x).toFixed(digits) + "%");
const number = (x, digits = 2) => (x === null ? "–" : x.toFixed(digits).replace(/^-(?=0\.?0*$)/, "").replace("-", "−"));
const whole = (x) => x.toLocaleString("en");
const level = percent(data.level);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  for (const child of children) node.append(child);
  return node;
}
const at = (id) => document.getElementById(id);
// The first screen is markup. Tops of tables, which are read where scripts do not run, give way to the tables with all rows.
document.querySelectorAll("[data-top]").forEach((node) => node.replaceChildren());
document.querySelectorAll(".drawn").forEach((node) => node.classList.remove("drawn"));
const clamp = (x) => Math.max(0, Math.min(1, x));

function bar(share, low = null, high = null) {
  const fill = make("i");
  fill.style.width = 100 * clamp(share) + "%";
  const out = make("div", { class: "bar" }, fill);
  if (low !== null && high !== null) {
    const range = make("i", { class: "range" });
    range.style.left = 100 * clamp(low) + "%";
    range.style.width = 100 * (clamp(high) - clamp(low)) + "%";
    out.append(range);
  }
  return out;
}
function interval(mean, low, high, most = 1) {
  const out = make("span", { class: "interval", "aria-hidden": "true" });
  if (low !== null) {
    const range = make("i");
    range.style.left = 100 * clamp(low / most) + "%";
    range.style.width = 100 * (clamp(high / most) - clamp(low / most)) + "%";
    out.append(range);
  }
  const dot = make("b");
  dot.style.left = 100 * clamp(mean / most) + "%";
  out.append(dot);
  return out;
}
const mixed = (colour, share) => `color-mix(in srgb, var(${colour}) ${Math.round(100 * share)}%, transparent)`;
// A matrix with names of rows and columns; cell(k, l) returns the node of row k and column l.
function matrixTable(rowNames, columnNames, corner, kind, cell) {
  const head = make("tr", {}, make("th", { scope: "col", text: corner }));
  columnNames.forEach((name) => head.append(make("th", { scope: "col", dir: "auto", text: name })));
  const body = make("tbody");
  rowNames.forEach((name, k) => {
    const line = make("tr", {}, make("th", { scope: "row", dir: "auto", text: name }));
    columnNames.forEach((_, l) => line.append(cell(k, l)));
    body.append(line);
  });
  return make("div", { class: "scroll" }, make("table", { class: kind }, make("thead", {}, head), body));
}
const count = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
const range = (n) => Array.from({ length: n }, (_, i) => i);
const small = (text) => make("p", { class: "small", text });
const span100 = (low, high) => (low === null ? "" : `${percent(low).slice(0, -1)}–${percent(high)}`);

// ---------------------------------------------------------------- tables
// columns: {name, value(row) to sort by, cell(row) node or text, num, row, wide}; detail(row) opens under the row.
function table(place, name, rows, columns, { search, detail, sorted, descending = true } = {}, PAGE = 25) {
  let shown = rows, page = 0, by = sorted, down = descending;
  const body = make("tbody"), head = make("tr"), status = make("span", { class: "small", "aria-live": "polite" });
  const input = make("input", { type: "search", placeholder: `Search ${name}`, "aria-label": `Search ${name}` });
  const back = make("button", { type: "button", text: "Previous", onclick: () => { page -= 1; draw(); } });
  const on = make("button", { type: "button", text: "Next", onclick: () => { page += 1; draw(); } });
  const choice = make("select", { class: "sort", "aria-label": `Sort ${name} by`, onchange: () => sort(Number(choice.value), !columns[choice.value].text) });
  const skipped = detail ? 1 : 0;
  if (detail) head.append(make("th", { class: "open" }, make("span", { class: "hidden", text: "Open" })));
  columns.forEach((column, n) => {
    const button = make("button", { type: "button", text: column.name, onclick: () => sort(n, by === n ? !down : !column.text) });
    head.append(make("th", { scope: "col", class: (column.num ? "num " : "") + (column.wide ? "wide" : "") }, button));
    if (!column.wide) choice.append(make("option", { value: n, text: `by ${column.name}` }));
  });
  function sort(n, descend) { by = n; down = descend; page = 0; order(); draw(); }
  function order() {
    if (by === undefined) return;
    const value = columns[by].value, sign = down ? -1 : 1;
    shown = [...shown].sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || y === null) return (x === null) - (y === null);
      return (x < y ? -1 : x > y ? 1 : 0) * sign || a - b;
    });
  }
  function find() {
    const wanted = input.value.trim().toLocaleLowerCase();
    shown = wanted ? rows.filter((row) => search(row).toLocaleLowerCase().includes(wanted)) : rows;
    page = 0;
    order();
    draw();
  }
  function draw() {
    body.replaceChildren();
    const part = shown.slice(page * PAGE, (page + 1) * PAGE);
    for (const row of part) {
      const line = make("tr"), opener = make("td", { class: "open" });
      if (detail) line.append(opener);
      columns.forEach((column) => {
        const kind = (column.num ? "num " : "") + (column.text ? "id " : "") + (column.wide ? "wide " : "");
        line.append(make(column.row ? "th" : "td", { ...(column.row ? { scope: "row" } : {}), class: kind, "data-label": column.name, dir: column.text ? "auto" : "ltr" }, column.cell(row)));
      });
      body.append(line);
      const content = detail ? detail(row) : null;
      if (content) {
        const under = make("tr", { class: "detail", hidden: "" });
        const button = make("button", {
          type: "button", "aria-expanded": "false", text: "Open", "aria-label": `Open ${search(row)}`,
          onclick: () => {
            const open = under.hasAttribute("hidden");
            under.toggleAttribute("hidden", !open);
            if (open && !under.firstChild) under.append(make("td", { colspan: columns.length + 1 }, make("div", { class: "inside" }, content())));
            button.setAttribute("aria-expanded", String(open));
            button.textContent = open ? "Close" : "Open";
          },
        });
        opener.append(button);
        body.append(under);
      }
    }
    head.querySelectorAll("th").forEach((cell, n) => {
      if (n - skipped === by) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    if (by !== undefined) choice.value = String(by);
    const last = Math.min(shown.length, (page + 1) * PAGE);
    status.textContent = shown.length ? `${whole(page * PAGE + 1)}–${whole(last)} of ${whole(shown.length)}` : "no match";
    back.disabled = page === 0;
    on.disabled = last >= shown.length;
  }
  input.addEventListener("input", find);
  const tools = make("div", { class: "tools" });
  if (search) tools.append(input);
  tools.append(choice, status);
  if (rows.length > PAGE) tools.append(back, on);
  place.append(tools, make("div", { class: "scroll" }, make("table", { class: "data" + (detail ? " opens" : "") }, make("thead", {}, head), body)));
  order();
  draw();
  return (text) => { input.value = text; find(); };
}

// ---------------------------------------------------------------- light and dark
const root = document.documentElement, theme = at("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const showTheme = () => { theme.setAttribute("aria-pressed", String(isDark())); theme.textContent = isDark() ? "Light" : "Dark"; };
theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; showTheme(); });
showTheme();
