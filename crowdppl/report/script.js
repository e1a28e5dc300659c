
"use strict";
// Everything shown comes from the JSON in this file, and gets into the page as text: names are never markup.
const data = JSON.parse(document.getElementById("data").textContent);
const percent = (x, digits = 0) => (x === null ? "–" : (100 * x).toFixed(digits) + "%");
const number = (x, digits = 2) => (x === null ? "–" : x.toFixed(digits));
const whole = (x) => x.toLocaleString("en");
const level = percent(data.level);
const PAGE = 25;

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
const span = (low, high) => (low === null ? "none" : number(low) + "–" + number(high));

// ---------------------------------------------------------------- summary
const counts = data.counts;
at("what").textContent =
  `${whole(counts.judgements)} judgements of ${whole(counts.items)} items by ${whole(counts.workers)} workers in ` +
  `${whole(counts.classes)} classes, fitted with ${data.model} by ${data.method}. ${data.how}`;
const card = (value, words) => at("cards").append(make("div", { class: "card" }, make("b", { text: value }), make("span", { text: words })));
for (const [threshold, number_of] of data.sure.filter((pair) => pair[0] === 0.95 || pair[0] === 0.8)) {
  card(whole(number_of), `of ${whole(counts.items)} items have a label at least ${percent(threshold)} probable`);
}
card(percent(data.confidence, 1), "of labels are expected to be right");
if (data.known) card(whole(data.known), "items had a known truth");
const doubtful = data.workers.verdict.filter((v) => v === "guesses" || v === "always").length;
card(whole(doubtful), doubtful === 1 ? "worker probably does not look" : "workers probably do not look");

const edges = [0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001];
const histogram = make("div", { class: "bars" });
const tally = edges.slice(1).map((high, n) => data.items.probability.filter((p) => p >= edges[n] && p < high).length);
tally.forEach((size, n) => {
  if (n === 0 && size === 0) return;
  const high = n === tally.length - 1 ? 1 : edges[n + 1];
  histogram.append(
    make("span", { text: `${number(edges[n])}–${number(high)}` }),
    bar(size / Math.max(1, ...tally)),
    make("span", { class: "num", text: whole(size) })
  );
});
at("histogram").append(histogram);
const prevalence = make("div", { class: "bars" });
const shares = [...data.prevalence].sort((a, b) => b[1] - a[1]);
for (const [label, share, low, high] of shares.slice(0, 20)) {
  prevalence.append(
    make("span", { class: "name", text: label }),
    bar(share, low, high),
    make("span", { class: "num", text: `${percent(share)} (${low === null ? "none" : percent(low) + "–" + percent(high)})` })
  );
}
at("prevalence").append(prevalence);
if (shares.length > 20) at("prevalence").append(make("p", { class: "small", text: `and ${shares.length - 20} classes more` }));
for (const sentence of data.advice) at("advice").append(make("p", { text: sentence }));
for (const sentence of data.warnings) at("advice").append(make("p", { class: "note", text: sentence }));
at("correlation").textContent = data.correlation;
const footnote = `Intervals are ${level} intervals. ${data.coverage}`;
at("coverage").textContent = footnote;
for (const node of document.querySelectorAll("[data-footnote]")) node.textContent = footnote + " " + data.correlation;

// ---------------------------------------------------------------- tables
// columns: {name, value(row) to sort by, cell(row) node or text, num, row}; detail(row) opens under the row.
function table(place, name, rows, columns, { search, detail, sorted, descending = true } = {}) {
  let shown = rows, page = 0, by = sorted, down = descending;
  const body = make("tbody"), head = make("tr"), status = make("span", { class: "small", "aria-live": "polite" });
  const input = make("input", { type: "search", placeholder: `Search ${name}`, "aria-label": `Search ${name}` });
  const back = make("button", { type: "button", text: "Previous", onclick: () => { page -= 1; draw(); } });
  const on = make("button", { type: "button", text: "Next", onclick: () => { page += 1; draw(); } });
  if (detail) head.append(make("th", { class: "open" }, make("span", { class: "hidden", text: "Open" })));
  const skipped = detail ? 1 : 0;
  columns.forEach((column, n) => {
    const button = make("button", {
      type: "button", text: column.name,
      onclick: () => { down = by === n ? !down : !column.text; by = n; page = 0; order(); draw(); },
    });
    head.append(make("th", { scope: "col", class: column.num ? "num" : "" }, button));
  });
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
        const cell = column.cell(row);
        line.append(make(column.row ? "th" : "td", column.row ? { scope: "row" } : { class: column.num ? "num" : column.text ? "id" : "" }, cell));
      });
      body.append(line);
      if (detail) {
        const content = detail(row);
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
    }
    head.querySelectorAll("th").forEach((cell, n) => {
      if (n - skipped === by) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const last = Math.min(shown.length, (page + 1) * PAGE);
    status.textContent = shown.length ? `${whole(page * PAGE + 1)}–${whole(last)} of ${whole(shown.length)}` : "nothing found";
    back.disabled = page === 0;
    on.disabled = last >= shown.length;
  }
  input.addEventListener("input", find);
  const tools = make("div", { class: "tools" });
  if (search) tools.append(input);
  tools.append(status);
  if (rows.length > PAGE) tools.append(back, on);
  place.append(tools, make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body)));
  order();
  draw();
}
const range = (n) => Array.from({ length: n }, (_, i) => i);
const said = (votes) => votes.map(([k, often]) => `${whole(often)} × ${data.labels[k]}`).join(", ");

const items = data.items, known = new Set(items.known);
table(at("items-table"), "items", range(items.task.length), [
  { name: "item", text: true, row: true, value: (i) => items.task[i], cell: (i) => items.task[i] },
  { name: "label", text: true, value: (i) => items.label[i], cell: (i) => data.labels[items.label[i]] + (known.has(i) ? " (known)" : "") },
  { name: "probability", num: true, value: (i) => items.probability[i], cell: (i) => number(items.probability[i], 3) },
  { name: "judgements", num: true, value: (i) => items.judgements[i], cell: (i) => whole(items.judgements[i]) },
  { name: "labels given", text: true, value: (i) => items.votes[i].length, cell: (i) => said(items.votes[i]) },
], { search: (i) => items.task[i] + " " + data.labels[items.label[i]], sorted: 2, descending: false });

// ---------------------------------------------------------------- workers
const crew = data.workers;
const words = {
  informed: ["informed", "good"], contrary: ["swaps labels", "bad"], guesses: ["probably guesses", "bad"],
  always: ["one label for all", "bad"], unknown: ["unknown", "dim"],
};
function matrix(j) {
  const cells = crew.confusion[j];
  if (!cells) return null;
  return () => {
    const K = data.labels.length, [mean, low, high] = cells;
    const head = make("tr", {}, make("th", { scope: "col", text: "truth \\ label" }));
    data.labels.forEach((label) => head.append(make("th", { scope: "col", text: label })));
    const body = make("tbody");
    for (let k = 0; k < K; k += 1) {
      const line = make("tr", {}, make("th", { scope: "row", text: data.labels[k] }));
      for (let l = 0; l < K; l += 1) {
        const n = k * K + l;
        const cell = make("td", { class: k === l ? "hit" : "" }, number(mean[n]), make("small", { text: span(low[n], high[n]) }));
        cell.style.background = `color-mix(in srgb, var(--accent-soft) ${Math.round(100 * mean[n])}%, transparent)`;
        line.append(cell);
      }
      body.append(line);
    }
    const given = crew.given.length ? `Gave ${said(crew.given[j].map((n, k) => [k, n]).filter((pair) => pair[1]))}. ` : "";
    return make("div", {},
      make("p", { class: "small", text: `${given}Probability of being a spammer ${percent(crew.spammer[j])}. Share of own judgements right ` +
        `${number(crew.share_right[j])} (${span(crew.share_right_low[j], crew.share_right_high[j])}). Below: how probable each label is ` +
        `under each truth, with ${level} intervals.` }),
      make("div", { class: "scroll" }, make("table", { class: "matrix" }, make("thead", {}, head), body)));
  };
}
const bits = Math.max(0.1, ...crew.informativeness_high.map((x) => x ?? 0));
const columns = [
  { name: "worker", text: true, row: true, value: (j) => crew.worker[j], cell: (j) => crew.worker[j] },
  { name: "judgements", num: true, value: (j) => crew.judgements[j], cell: (j) => whole(crew.judgements[j]) },
  { name: "accuracy", num: true, value: (j) => crew.accuracy_low[j] ?? crew.accuracy[j], cell: (j) => number(crew.accuracy[j]) },
  { name: "interval", num: true, value: (j) => (crew.accuracy_high[j] === null ? null : crew.accuracy_high[j] - crew.accuracy_low[j]),
    cell: (j) => span(crew.accuracy_low[j], crew.accuracy_high[j]) },
  { name: "0 … 1", value: (j) => crew.accuracy[j], cell: (j) => interval(crew.accuracy[j], crew.accuracy_low[j], crew.accuracy_high[j]) },
  { name: "bits", num: true, value: (j) => crew.informativeness_low[j] ?? crew.informativeness[j],
    cell: (j) => `${number(crew.informativeness[j])} (${span(crew.informativeness_low[j], crew.informativeness_high[j])})` },
  { name: "place", num: true, value: (j) => (crew.place[j] === "unknown" ? null : crew.rank[j]), cell: (j) => crew.place[j] },
  { name: "verdict", text: true, value: (j) => crew.verdict[j],
    cell: (j) => make("span", { class: "pill " + words[crew.verdict[j]][1], text: words[crew.verdict[j]][0] }) },
];
if (crew.seconds) columns.splice(2, 0, { name: "seconds", num: true, value: (j) => crew.seconds[j], cell: (j) => number(crew.seconds[j], 1) });
table(at("workers-table"), "workers", range(crew.worker.length), columns,
  { search: (j) => crew.worker[j] + " " + words[crew.verdict[j]][0], sorted: 1, detail: (j) => matrix(j) });

// ---------------------------------------------------------------- disputed items, next
for (const one of data.disputed) {
  const i = one.item;
  const likely = one.probabilities.map(([k, p]) => `${data.labels[k]} ${percent(p)}`).join(", ");
  const list = make("ul");
  for (const [j, k] of one.said) {
    list.append(make("li", { text: `${crew.worker[j]} (accuracy ${number(crew.accuracy[j])}): ${data.labels[k]}` }));
  }
  at("disputed-list").append(make("details", {}, make("summary", {}, make("b", { text: items.task[i] }), `: ${likely}`), list));
}
if (!data.disputed.length) at("disputed-list").append(make("p", { text: "No item was judged." }));
const gain = new Map(data.next);
table(at("next-table"), "items to label next", data.next.map((pair) => pair[0]), [
  { name: "item", text: true, row: true, value: (i) => items.task[i], cell: (i) => items.task[i] },
  { name: "label now", text: true, value: (i) => items.label[i], cell: (i) => data.labels[items.label[i]] },
  { name: "probability", num: true, value: (i) => items.probability[i], cell: (i) => number(items.probability[i], 3) },
  { name: "judgements", num: true, value: (i) => items.judgements[i], cell: (i) => whole(items.judgements[i]) },
  { name: "open", num: true, value: (i) => gain.get(i), cell: (i) => number(gain.get(i), 3) },
], { sorted: 4 });
const worth = make("tbody");
for (const [n, mean, low, high] of data.redundancy) {
  worth.append(make("tr", {}, make("td", { class: "num", text: whole(n) }), make("td", { class: "num", text: number(mean, 1) }),
    make("td", { class: "num", text: low === null ? "none" : `${number(low, 1)}–${number(high, 1)}` })));
}
at("redundancy").append(make("div", { class: "scroll" }, make("table", { class: "matrix" },
  make("thead", {}, make("tr", {}, make("th", { text: "judgements" }), make("th", { text: "worth" }), make("th", { text: `${level} interval` }))), worth)));

// ---------------------------------------------------------------- checks, how to make it again
const checks = at("checks-body"), check = data.check;
if (check.left_out) checks.append(make("p", { text: "With so many judgements the predictive check is left to crowdppl.criticism.check." }));
else {
  checks.append(make("p", { text: check.sentences.length
    ? "Labels drawn from the fitted model differ from those given in what follows. What the model says of it is to be taken with care:"
    : "Labels drawn from the fitted model look like those that were given, by every statistic below." }));
  if (check.sentences.length) {
    const list = make("ul");
    for (const sentence of check.sentences) list.append(make("li", { text: sentence }));
    checks.append(list);
  }
  const body = make("tbody");
  for (const [meaning, observed, low, high, p] of check.rows) {
    body.append(make("tr", {}, make("td", { text: meaning }), make("td", { class: "num", text: number(observed, 3) }),
      make("td", { class: "num", text: `${number(low, 3)}–${number(high, 3)}` }), make("td", { class: "num", text: number(p, 3) })));
  }
  checks.append(make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", { text: "what" }),
    make("th", { class: "num", text: "given" }), make("th", { class: "num", text: `the model's, ${level}` }), make("th", { class: "num", text: "p" }))), body)));
}
for (const sentence of data.notes) checks.append(make("p", { class: "note", text: sentence }));

const again = data.reproduce, list = make("dl");
const fact = (name, value) => list.append(make("dt", { text: name }), make("dd", { text: value }));
if (again.command.length) at("reproduce-body").append(make("pre", { text: again.command.map((word) => (/^[\w./=:-]+$/.test(word) ? word : JSON.stringify(word))).join(" ") }));
for (const [key, value] of Object.entries(again.input)) fact(key === "sha256" ? "SHA-256 of the input" : key, String(value));
fact("seed", String(again.seed));
fact("options", Object.entries(again.options).map(([k, v]) => `${k}=${v}`).join(", ") || "none");
fact("prior", Object.entries(again.hyperparameters).map(([k, v]) => `${k}=${v}`).join(", ") || "defaults");
fact("time", `${number(again.seconds, 1)} s`);
fact("versions", Object.entries(again.versions).map(([k, v]) => `${k} ${v}`).join(", "));
at("reproduce-body").append(list);

// ---------------------------------------------------------------- light and dark
const root = document.documentElement, theme = at("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const told = () => { theme.setAttribute("aria-pressed", String(isDark())); theme.textContent = isDark() ? "Light" : "Dark"; };
theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; told(); });
told();
