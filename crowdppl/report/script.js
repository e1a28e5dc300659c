
"use strict";
// Everything shown comes from the JSON in this file and is inserted as text: names are never markup.
const data = JSON.parse(document.getElementById("data").textContent);
const percent = (x, digits = 0) => (x === null ? "–" : (100 * x).toFixed(digits) + "%");
const number = (x, digits = 2) => (x === null ? "–" : x.toFixed(digits));
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

// ---------------------------------------------------------------- words
const counts = data.counts, crew = data.workers, items = data.items, todo = data.todo, known = new Set(data.items.known);
const count = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
const range = (n) => Array.from({ length: n }, (_, i) => i);
// Numbers are written as "class 0"; names of classes are shown as they are.
const numbered = data.names.length > 0 && data.names[0].startsWith("class ");
const className = (k) => (numbered ? data.names[k] : data.labels[k]);
const times = (n) => (n === 1 ? "once" : n === 2 ? "twice" : `${whole(n)} times`);
const given = (votes) => votes.map(([k, often]) => `${className(k)} × ${whole(often)}`).join(", ");
const verdicts = {
  adversarial: ["adversarial", "bad", "✕", "ask why"], random: ["random labels", "bad", "✕", "exclude"],
  constant: ["one label for all", "bad", "✕", "exclude"], hasty: ["hasty", "bad", "✕", "check speed"],
  confuses: ["confuses classes", "warn", "!", "retrain"], weak: ["weak", "warn", "!", "retrain"],
  unknown: ["not known yet", "dim", "?", "wait"], fair: ["fair", "plain", "•", "keep"], reliable: ["reliable", "good", "✓", "keep"],
};
const severity = Object.keys(verdicts);
function pill(verdict) {
  const [words, kind, mark] = verdicts[verdict];
  return make("span", { class: "pill " + kind }, make("span", { class: "mark", "aria-hidden": "true", text: mark }), words);
}
// Only http and https addresses become links, whatever the data say. Python has checked them before.
function address(url) {
  try {
    const parsed = new URL(url);
    return ["http", "https"].includes(parsed.protocol.slice(0, -1)) ? parsed.href : null;
  } catch { return null; }
}
function itemName(i) {
  const href = items.url && items.url[i] ? address(items.url[i]) : null;
  const name = href
    ? make("a", { href, target: "_blank", rel: "noopener noreferrer", class: "name", dir: "auto", text: items.task[i] })
    : make("span", { class: "name", dir: "auto", text: items.task[i] });
  const out = make("span", { class: "item" }, name);
  if (items.text && items.text[i]) out.append(make("span", { class: "excerpt", dir: "auto", text: items.text[i] }));
  return out;
}
const itemWords = (i) => items.task[i] + " " + (items.text ? items.text[i] : "");

// ---------------------------------------------------------------- what to do
const [openAt, finishedAt] = todo.at;
at("what").textContent =
  `${count(counts.workers, "worker")} gave ${count(counts.annotations, "annotation")} to ${count(counts.items, "item")} in ` +
  `${counts.classes === 1 ? "one class" : whole(counts.classes) + " classes"}. ` +
  (todo.correct === null ? "" : `About ${percent(todo.correct)} of the resulting labels are expected to be correct.`);
if (data.warnings.length) {
  at("caution").append(make("p", { class: "note" }, "Read before relying on this report: ",
    make("a", { href: "#appendix", text: count(data.warnings.length, "warning") }), "."));
}
const card = (value, words, href, kind = "") =>
  at("cards").append(make("a", { class: "card " + kind, href }, make("b", { text: value }), make("span", { text: words })));
card(whole(todo.stop.length), `worker${todo.stop.length === 1 ? "" : "s"} to stop and check`, "#do-stop", todo.stop.length ? "bad" : "");
card(whole(todo.retrain.length), `worker${todo.retrain.length === 1 ? "" : "s"} to talk to`, "#do-retrain", todo.retrain.length ? "warn" : "");
card(whole(todo.open), `item${todo.open === 1 ? "" : "s"} to send out again`, "#do-items", todo.open ? "warn" : "");
card(whole(todo.finished), `of ${count(todo.total, "item")} finished`, "#do-finished", todo.finished ? "good" : "");

const left = make("div"), right = make("div");
at("todo-body").append(left, right);
function block(side, id, title, kind, ...children) {
  const out = make("section", { class: "block " + kind, id, "aria-label": title }, make("h3", { text: title }), ...children);
  side.append(out);
  return out;
}
const small = (text) => make("p", { class: "small", text });
function people(list) {
  const out = make("ul", { class: "people" });
  for (const person of list.slice(0, todo.shown)) {
    out.append(make("li", {},
      make("div", { class: "who" },
        make("a", { href: "#workers", dir: "auto", text: person.name, onclick: () => find(crew.worker[person.index]) }), pill(person.verdict)),
      make("p", {}, make("b", { text: person.action + ". " }), person.sentence)));
  }
  return out;
}
function more(list, words) {
  return list.length > todo.shown ? [make("p", { class: "small" }, make("a", { href: "#workers", text: `${whole(list.length - todo.shown)} more ${words}` }))] : [];
}
if (todo.stop.length) {
  block(left, "do-stop", "Stop and check these workers", "bad", small("Assign them no further work until somebody has checked. The final labels already account for this."),
    people(todo.stop), ...more(todo.stop, "in the table of workers"));
}
if (todo.retrain.length) {
  block(left, "do-retrain", "Talk to these workers", "warn", small("Their labels can be used. Workers with most wrong labels first."), people(todo.retrain),
    ...more(todo.retrain, "in the table of workers"));
}
if (!todo.stop.length && !todo.retrain.length) {
  block(left, "do-retrain", "Workers", "good", make("p", { text: crew.verdict.every((v) => v === "unknown")
    ? "Nothing can be said about the workers: there is nothing to compare their labels with."
    : "No worker stands out: there is nobody to talk to." }));
}
if (todo.open) {
  const list = make("ul", { class: "people" });
  for (const one of data.again.slice(0, todo.shown)) {
    const likely = one.probabilities.slice(0, 2).map(([k, p]) => `${className(k)} ${percent(p)}`).join(" or ");
    list.append(make("li", {}, make("span", { class: "now", text: likely }), itemName(one.item)));
  }
  block(right, "do-items", `Send out again: ${count(todo.open, "item")}`, "warn",
    small(`Their label is less than ${percent(openAt)} probable. Least certain first.`), list,
    make("p", { class: "small" }, make("a", { href: "#again", text: "Who gave which label" }), " · all of them as a file: ", make("code", { text: todo.command })));
}
if (todo.questions.length) {
  const list = make("ul", { class: "people" });
  for (const one of todo.questions.slice(0, todo.shown)) {
    list.append(make("li", {}, make("b", { dir: "auto", text: `${data.names[one.first]} or ${data.names[one.second]}?` }), make("p", { text: one.sentence })));
  }
  block(left, "do-questions", "Clarify in the guideline", "plain", small("Most workers confuse these classes, so the instructions are probably unclear."), list,
    ...(todo.questions.length > todo.shown ? [make("p", { class: "small" }, make("a", { href: "#confusions", text: "All confusions" }))] : []));
}
if (todo.rounds.length) {
  const priced = todo.rounds[0].cost !== null, simulated = todo.rounds[0].corrected !== null;
  const money = (x) => x.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: x < 0.1 && x > 0 ? 4 : 2 });
  const head = make("tr", {}, make("th", { scope: "col", text: "rounds" }), make("th", { scope: "col", class: "num", text: "annotations" }));
  if (priced) head.append(make("th", { scope: "col", class: "num", text: "cost" }));
  if (simulated) head.append(make("th", { scope: "col", class: "num", text: "labels corrected" }));
  const rows = make("tbody");
  for (const one of todo.rounds) {
    const line = make("tr", {}, make("th", { scope: "row", text: `+${one.each}` }), make("td", { class: "num", text: whole(one.annotations) }));
    if (priced) line.append(make("td", { class: "num", text: money(one.cost) }));
    if (simulated) line.append(make("td", { class: "num", text: one.corrected < 0.5 ? "under 1" : `about ${whole(Math.round(one.corrected))}` }));
    rows.append(line);
  }
  block(right, "do-cost", "What it costs", "plain", small("Each round has one further annotation per item to send out again, given to the items that are least certain at that time" +
    (priced ? "." : ". Write the report with --cost to see prices.")),
    make("table", { class: "tight" }, make("thead", {}, head), rows));
}
const finished = make("div", { class: "bars" });
for (const [words, n] of [[`finished (${percent(finishedAt)} or more)`, todo.finished], [`probable (${percent(openAt)}–${percent(finishedAt)})`, todo.probable],
  [`open (under ${percent(openAt)})`, todo.open]]) {
  finished.append(make("span", { text: words }), bar(todo.total ? n / todo.total : 0), make("span", { class: "num", text: whole(n) }));
}
block(right, "do-finished", "What is finished", "good", small("Items by the probability of their label" + (data.known ? `; ${count(data.known, "item")} had a known true label` : "") + "."), finished);

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

// ---------------------------------------------------------------- workers
function grid(rows, columns, corner, cell, hit) {
  const head = make("tr", {}, make("th", { scope: "col", text: corner }));
  columns.forEach((name) => head.append(make("th", { scope: "col", dir: "auto", text: name })));
  const body = make("tbody");
  rows.forEach((name, k) => {
    const line = make("tr", {}, make("th", { scope: "row", dir: "auto", text: name }));
    columns.forEach((_, l) => {
      const [share, under] = cell(k, l);
      const node = make("td", { class: hit && k === l ? "hit" : "" }, share === null ? "–" : percent(share), make("small", { text: under }));
      node.style.background = `color-mix(in srgb, var(${k === l ? "--accent-soft" : "--miss-soft"}) ${Math.round(100 * (share ?? 0))}%, transparent)`;
      line.append(node);
    });
    body.append(line);
  });
  return make("div", { class: "scroll" }, make("table", { class: "matrix" }, make("thead", {}, head), body));
}
const span100 = (low, high) => (low === null ? "" : `${percent(low).slice(0, -1)}–${percent(high)}`);
const sentences = new Map([...todo.stop, ...todo.retrain].map((one) => [one.index, one]));
function matrix(j) {
  const cells = crew.confusion[j], person = sentences.get(j);
  if (!cells && !person) return null;
  return () => {
    const K = data.labels.length, out = make("div");
    if (person) out.append(make("p", {}, make("b", { text: person.action + ". " }), person.sentence));
    const gave = crew.given.length ? crew.given[j].map((n, k) => [k, n]).filter((pair) => pair[1]).sort((a, b) => b[1] - a[1]) : [];
    const listed = gave.slice(0, 8).map(([k, n]) => `${className(k)} ${times(n)}`).join(", ") + (gave.length > 8 ? `, and ${gave.length - 8} other classes` : "");
    out.append(make("p", { class: "small", text: (gave.length ? `Gave ${listed}. ` : "") +
      `Share of correct annotations ${percent(crew.share_correct[j])} (${span100(crew.share_correct_low[j], crew.share_correct_high[j])}). ` +
      `Labels independent of the true class with probability ${percent(crew.spammer[j])}. Information of one annotation: ${number(crew.informativeness[j])} bits.` }));
    if (!cells) return out;
    out.append(make("p", { class: "small", text: `How often this worker gives each label (columns) to items of each true class (rows), with ${level} intervals:` }));
    const names = range(K).map(className), [mean, low, high] = cells;
    out.append(grid(names, names, "true class", (k, l) => [mean[k * K + l], span100(low[k * K + l], high[k * K + l])], true));
    return out;
  };
}
const pace = (j) => (crew.speed && crew.speed[j] !== null && crew.speed[j] < 1 / 3 ? " (fast)" : "");
const columns = [
  { name: "worker", text: true, row: true, value: (j) => crew.worker[j], cell: (j) => crew.worker[j] },
  { name: "verdict", text: true, value: (j) => severity.indexOf(crew.verdict[j]),
    cell: (j) => make("span", { class: "verdict" }, pill(crew.verdict[j]), make("span", { class: "small", text: verdicts[crew.verdict[j]][3] })) },
  { name: "accuracy", num: true, value: (j) => crew.accuracy_low[j] ?? crew.accuracy[j],
    cell: (j) => make("span", {}, percent(crew.accuracy[j]), make("small", { class: "range", text: span100(crew.accuracy_low[j], crew.accuracy_high[j]) })) },
  { name: "0 … 100%", wide: true, value: (j) => crew.accuracy[j], cell: (j) => interval(crew.accuracy[j], crew.accuracy_low[j], crew.accuracy_high[j]) },
  { name: "annotations", num: true, value: (j) => crew.annotations[j], cell: (j) => whole(crew.annotations[j]) },
  { name: "rank", num: true, value: (j) => (crew.place[j] === "unknown" ? null : -crew.rank[j]), cell: (j) => (crew.place[j] === "unknown" ? "–" : crew.place[j]) },
];
if (crew.seconds) columns.splice(5, 0, { name: "seconds", num: true, value: (j) => crew.seconds[j], cell: (j) => number(crew.seconds[j], 1) + pace(j) });
at("workers-note").textContent = `Accuracy: probability that a further annotation is correct, with its ${level} interval. Rank: by accuracy, with its interval. ` +
  "Open a worker to see which labels they give to items of each class.";
// Workers with the same verdict are sorted by their number of wrong labels.
const wrong = (j) => crew.annotations[j] * (1 - (crew.accuracy[j] ?? 1));
const place = new Map(range(crew.worker.length).sort((a, b) => wrong(b) - wrong(a) || a - b).map((j, n) => [j, n]));
columns[1].value = (j) => severity.indexOf(crew.verdict[j]) * crew.worker.length + place.get(j);
const find = table(at("workers-table"), "workers", range(crew.worker.length), columns,
  { search: (j) => crew.worker[j] + " " + verdicts[crew.verdict[j]][0], sorted: 1, descending: false, detail: (j) => matrix(j) });

// ---------------------------------------------------------------- who confuses what
const crowd = data.crowd, confusions = at("confusions-body");
confusions.append(small("Share of each label among the annotations of items with each final label" +
  (crowd.without ? `; without ${count(crowd.without, "worker")} to stop and check` : "") + "."));
const names = range(data.labels.length).map(className);
if (crowd.matrix.length) {
  const totals = crowd.matrix.map((row) => row.reduce((a, b) => a + b, 0));
  confusions.append(make("div", { class: names.length > 3 ? "broad" : "" }, make("h3", { text: "The crowd" }), grid(names, names, "final label ↓  label given →",
    (k, l) => [totals[k] ? crowd.matrix[k][l] / totals[k] : null, whole(crowd.matrix[k][l])], true)));
}
if (crowd.pairs.length && names.length > 3) {
  // A list where there are many classes, and in place of the matrix where the screen is narrow.
  const place = make("div");
  confusions.append(make("div", { class: crowd.matrix.length ? "narrow" : "" }, make("h3", { text: "The crowd: the most frequent confusions" }), place));
  table(place, "confusions", range(crowd.pairs.length), [
    { name: "final label", text: true, row: true, value: (n) => className(crowd.pairs[n][0]), cell: (n) => className(crowd.pairs[n][0]) },
    { name: "label given", text: true, value: (n) => className(crowd.pairs[n][1]), cell: (n) => className(crowd.pairs[n][1]) },
    { name: "share", num: true, value: (n) => crowd.pairs[n][2] / crowd.pairs[n][3], cell: (n) => percent(crowd.pairs[n][2] / crowd.pairs[n][3]) },
    { name: "annotations", num: true, value: (n) => crowd.pairs[n][2], cell: (n) => `${whole(crowd.pairs[n][2])} of ${whole(crowd.pairs[n][3])}` },
  ], { search: (n) => className(crowd.pairs[n][0]) + " " + className(crowd.pairs[n][1]), sorted: 3 }, 10);
}
confusions.append(make("h3", { text: "Single workers" }));
if (crowd.single.length) {
  const place = make("div");
  confusions.append(small("Wrong labels that a worker gives systematically and the others do not."), place);
  const single = crowd.single;
  table(place, "confusions of workers", range(single.length), [
    { name: "worker", text: true, row: true, value: (n) => crew.worker[single[n][0]], cell: (n) => crew.worker[single[n][0]] },
    { name: "final label", text: true, value: (n) => className(single[n][1]), cell: (n) => className(single[n][1]) },
    { name: "label given", text: true, value: (n) => className(single[n][2]), cell: (n) => className(single[n][2]) },
    { name: "share", num: true, value: (n) => single[n][3] / single[n][4], cell: (n) => percent(single[n][3] / single[n][4]) },
    { name: "annotations", num: true, value: (n) => single[n][3], cell: (n) => `${whole(single[n][3])} of ${whole(single[n][4])}` },
    { name: "others", num: true, value: (n) => single[n][5], cell: (n) => percent(single[n][5]) },
  ], { search: (n) => [crew.worker[single[n][0]], className(single[n][1]), className(single[n][2])].join(" "), sorted: 4 });
} else confusions.append(small("No worker systematically gives a wrong label that the others do not give."));

// ---------------------------------------------------------------- items
if (data.again.length) {
  at("again-note").textContent = `The label of ${todo.open === 1 ? "this item" : "these items"} is less than ${percent(openAt)} probable` +
    (todo.open > data.again.length ? `; the ${data.again.length} least certain of ${whole(todo.open)}` : "") + ". Open an item to see who gave which label.";
  table(at("again-table"), "items to send out again", range(data.again.length), [
    { name: "item", text: true, row: true, value: (n) => items.task[data.again[n].item], cell: (n) => itemName(data.again[n].item) },
    { name: "probable labels", text: true, value: (n) => data.again[n].probabilities[0][1],
      cell: (n) => data.again[n].probabilities.slice(0, 3).map(([k, p]) => `${className(k)} ${percent(p)}`).join(", ") },
    { name: "labels given", text: true, value: (n) => items.votes[data.again[n].item].length, cell: (n) => given(items.votes[data.again[n].item]) || "none" },
  ], {
    search: (n) => itemWords(data.again[n].item), sorted: 1, descending: false,
    detail: (n) => data.again[n].said.length ? () => {
      const list = make("ul", { class: "said" });
      for (const [j, k] of data.again[n].said) {
        list.append(make("li", {}, make("bdi", { text: crew.worker[j] }), ` (accuracy ${percent(crew.accuracy[j])}): `, make("b", { dir: "auto", text: className(k) })));
      }
      return list;
    } : null,
  });
} else at("again-note").textContent = `None: every label is at least ${percent(openAt)} probable.`;
table(at("items-table"), "items", range(items.task.length), [
  { name: "item", text: true, row: true, value: (i) => items.task[i], cell: itemName },
  { name: "label", text: true, value: (i) => className(items.label[i]), cell: (i) => className(items.label[i]) + (known.has(i) ? " (known)" : "") },
  { name: "probability", num: true, value: (i) => items.probability[i], cell: (i) => percent(items.probability[i], 1) },
  { name: "annotations", num: true, value: (i) => items.annotations[i], cell: (i) => whole(items.annotations[i]) },
  { name: "labels given", text: true, value: (i) => items.votes[i].length, cell: (i) => given(items.votes[i]) || "none" },
], { search: (i) => itemWords(i) + " " + className(items.label[i]), sorted: 2, descending: false });

const edges = [0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001];
const histogram = make("div", { class: "bars" });
const tally = edges.slice(1).map((high, n) => items.probability.filter((p) => p >= edges[n] && p < high).length);
tally.forEach((size, n) => {
  if (n === 0 && size === 0) return;
  const high = n === tally.length - 1 ? 1 : edges[n + 1];
  histogram.append(make("span", { text: `${percent(edges[n])}–${percent(high)}` }), bar(size / Math.max(1, ...tally)), make("span", { class: "num", text: whole(size) }));
});
at("histogram").append(histogram);
const prevalence = make("div", { class: "bars" });
const shares = data.prevalence.map((row, k) => [k, ...row.slice(1)]).sort((a, b) => b[1] - a[1]);
for (const [k, share, low, high] of shares.slice(0, 20)) {
  prevalence.append(make("span", { class: "name", dir: "auto", text: className(k) }), bar(share, low, high),
    make("span", { class: "num", text: percent(share) + (low === null ? "" : ` (${span100(low, high)})`) }));
}
at("prevalence").append(prevalence);
if (shares.length > 20) at("prevalence").append(small(`and ${shares.length - 20} further classes`));

// ---------------------------------------------------------------- appendix
for (const sentence of data.warnings) at("notes").append(make("p", { class: "note", text: sentence }));
if (data.notes.length) {
  const list = make("ul");
  for (const sentence of data.notes) list.append(make("li", { text: sentence }));
  at("notes").append(make("h3", { text: "Notes on the data" }), list);
}
at("advice").append(make("p", { text: `Model ${data.model}, fitted by ${data.method}. ${data.interval_method}` }));
for (const sentence of data.advice) at("advice").append(make("p", { text: sentence }));
at("correlation").textContent = data.correlation;
const footnote = `Intervals are ${level} intervals. ${data.coverage}`;
at("coverage").textContent = footnote;
for (const node of document.querySelectorAll("[data-footnote]")) node.textContent = footnote;

at("redundancy-source").textContent = data.redundancy_source;
const worth = make("tbody");
for (const [n, mean, low, high] of data.redundancy) {
  worth.append(make("tr", {}, make("td", { class: "num", text: whole(n) }), make("td", { class: "num", text: number(mean, 1) }),
    make("td", { class: "num", text: low === null ? "none" : `${number(low, 1)}–${number(high, 1)}` })));
}
at("redundancy").append(make("div", { class: "scroll" }, make("table", { class: "tight" },
  make("thead", {}, make("tr", {}, make("th", { class: "num", text: "annotations" }), make("th", { class: "num", text: "independent" }), make("th", { class: "num", text: `${level} interval` }))), worth)));

const checks = at("checks-body"), check = data.check;
if (check.left_out) checks.append(make("p", { text: "With so many annotations or classes the predictive check is not part of the report; run crowdppl check." }));
else {
  for (const sentence of check.summary) checks.append(make("p", { text: sentence }));
  if (check.sentences.length) {
    const list = make("ul");
    for (const sentence of check.sentences) list.append(make("li", { text: sentence }));
    checks.append(list);
  }
  const body = make("tbody");
  for (const [meaning, observed, low, high, p] of check.rows) {
    body.append(make("tr", {}, make("td", { text: meaning }), make("td", { class: "num", text: number(observed, 3) }),
      make("td", { class: "num", text: `${number(low, 3)}–${number(high, 3)}` }), make("td", { class: "num", text: number(p, 3) }),
      make("td", { text: p < check.notable ? "differs" : "" })));
  }
  checks.append(make("div", { class: "scroll" }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, make("th", { text: "statistic" }),
    make("th", { class: "num", text: "given" }), make("th", { class: "num", text: `model, ${level}` }), make("th", { class: "num", text: "p-value" }), make("th"))), body)));
}

const again = data.reproduce, list = make("dl");
const fact = (name, value) => list.append(make("dt", { text: name }), make("dd", { text: value }));
if (again.command.length) at("reproduce-body").append(make("pre", { text: again.command.map((word) => (/^[\w./=:-]+$/.test(word) ? word : JSON.stringify(word))).join(" ") }));
for (const [key, value] of Object.entries(again.input)) fact(key === "sha256" ? "SHA-256 of the input" : key, typeof value === "object" ? JSON.stringify(value) : String(value));
fact("seed", String(again.seed));
fact("options", Object.entries(again.options).map(([k, v]) => `${k}=${v}`).join(", ") || "none");
fact("prior", Object.entries(again.hyperparameters).map(([k, v]) => `${k}=${v}`).join(", ") || "defaults");
fact("time", `${number(again.seconds, 1)} s`);
fact("versions", Object.entries(again.versions).map(([k, v]) => `${k} ${v}`).join(", "));
at("reproduce-body").append(list);

// ---------------------------------------------------------------- light and dark
const root = document.documentElement, theme = at("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
const showTheme = () => { theme.setAttribute("aria-pressed", String(isDark())); theme.textContent = isDark() ? "Light" : "Dark"; };
theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; showTheme(); });
showTheme();
