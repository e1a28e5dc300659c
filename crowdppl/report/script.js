// ---------------------------------------------------------------- words
const counts = data.counts, crew = data.workers, items = data.items, todo = data.todo, known = new Set(data.items.known);
// Numbers are written as "class 0" or "grade 0"; names of classes are shown as they are.
const className = (k) => (data.numbered ? data.names[k] : data.labels[k]);
// What the labels are called: grades have an order, and one next to the true one is no confusion.
const graded = todo.graded, aLabel = graded ? "grade" : "label", finalLabel = graded ? "most probable grade" : "final label";
const times = (n) => (n === 1 ? "once" : n === 2 ? "twice" : `${whole(n)} times`);
const given = (votes) => votes.map(([k, often]) => `${className(k)} × ${whole(often)}`).join(", ");
const verdicts = data.verdicts;
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

const openAt = todo.at[0];

// ---------------------------------------------------------------- workers
function grid(rows, columns, corner, cell, hit) {
  return matrixTable(rows, columns, corner, "matrix", (k, l) => {
    const [share, under] = cell(k, l);
    const node = make("td", { class: hit && k === l ? "hit" : "" }, share === null ? "–" : percent(share), make("small", { text: under }));
    node.style.background = mixed(k === l ? "--accent-soft" : "--miss-soft", share ?? 0);
    return node;
  });
}
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
    out.append(make("p", { class: "small", text: `How often this worker gives each ${aLabel} (columns) to items of each true ${graded ? "grade" : "class"} (rows), with ${level} intervals:` }));
    const names = range(K).map(className), [mean, low, high] = cells;
    out.append(grid(names, names, graded ? "true grade" : "true class", (k, l) => [mean[k * K + l], span100(low[k * K + l], high[k * K + l])], true));
    return out;
  };
}
const signed = (value) => (value === null ? "–" : (value < 0 ? "−" : "+") + number(Math.abs(value), 2));
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
if (crew.severity) columns.splice(2, 2,
  { name: "severity", num: true, value: (j) => crew.severity[j],
    cell: (j) => make("span", {}, signed(crew.severity[j]), make("small", { class: "range", text: `${signed(crew.severity_low[j])} to ${signed(crew.severity_high[j])}` })) },
  { name: "correlation", num: true, value: (j) => crew.grade_correlation[j], cell: (j) => number(crew.grade_correlation[j], 2) });
if (crew.seconds) columns.splice(5, 0, { name: "seconds", num: true, value: (j) => crew.seconds[j], cell: (j) => number(crew.seconds[j], 1) + pace(j) });
if (crew.severity) at("workers-note").textContent = `Severity: by how many grades lower than the mean rater, on the same items, with its ${level} interval. ` +
  "Correlation: of the grades with the true ones. Open a rater to see which grades they give to items of each true grade.";
else at("workers-note").textContent = `Accuracy: probability that a further annotation is correct, with its ${level} interval. Rank: by accuracy, with its interval. ` +
  "Open a worker to see which labels they give to items of each class.";
// Workers with the same verdict are sorted by their number of wrong labels.
const wrong = (j) => crew.annotations[j] * (1 - (crew.accuracy[j] ?? 1));
const place = new Map(range(crew.worker.length).sort((a, b) => wrong(b) - wrong(a) || a - b).map((j, n) => [j, n]));
columns[1].value = (j) => severity.indexOf(crew.verdict[j]) * crew.worker.length + place.get(j);
const find = table(at("workers-table"), "workers", range(crew.worker.length), columns,
  { search: (j) => crew.worker[j] + " " + verdicts[crew.verdict[j]][0], sorted: 1, descending: false, detail: (j) => matrix(j) });

for (const link of document.querySelectorAll("[data-worker]")) link.addEventListener("click", () => find(crew.worker[Number(link.dataset.worker)]));

// ---------------------------------------------------------------- who confuses what
const crowd = data.crowd, confusions = at("confusions-body");
confusions.append(small(`Share of each ${aLabel} among the annotations of items with each ${finalLabel}` +
  (crowd.without ? `; without ${count(crowd.without, "worker")} to stop and check` : "") + "."));
const names = range(data.labels.length).map(className);
if (crowd.matrix.length) {
  const totals = crowd.matrix.map((row) => row.reduce((a, b) => a + b, 0));
  confusions.append(make("div", { class: names.length > 3 ? "broad" : "" }, make("h3", { text: "The crowd" }), grid(names, names, `${finalLabel} ↓  ${aLabel} given →`,
    (k, l) => [totals[k] ? crowd.matrix[k][l] / totals[k] : null, whole(crowd.matrix[k][l])], true)));
}
if (crowd.pairs.length && names.length > 3) {
  // A list where there are many classes, and in place of the matrix where the screen is narrow.
  const place = make("div");
  confusions.append(make("div", { class: crowd.matrix.length ? "narrow" : "" }, make("h3", { text: graded ? "The crowd: the most frequent differences" : "The crowd: the most frequent confusions" }), place));
  table(place, "confusions", range(crowd.pairs.length), [
    { name: finalLabel, text: true, row: true, value: (n) => className(crowd.pairs[n][0]), cell: (n) => className(crowd.pairs[n][0]) },
    { name: `${aLabel} given`, text: true, value: (n) => className(crowd.pairs[n][1]), cell: (n) => className(crowd.pairs[n][1]) },
    { name: "share", num: true, value: (n) => crowd.pairs[n][2] / crowd.pairs[n][3], cell: (n) => percent(crowd.pairs[n][2] / crowd.pairs[n][3]) },
    { name: "annotations", num: true, value: (n) => crowd.pairs[n][2], cell: (n) => `${whole(crowd.pairs[n][2])} of ${whole(crowd.pairs[n][3])}` },
  ], { search: (n) => className(crowd.pairs[n][0]) + " " + className(crowd.pairs[n][1]), sorted: 3 }, 10);
}
if (!graded) confusions.append(make("h3", { text: "Single workers" }));
if (graded) { /* Differences of single raters are severities, and have a section of their own. */ }
else if (crowd.single.length) {
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
const what = graded ? "true grade or one next to it" : "label";
if (data.again.length) {
  at("again-note").textContent = `The ${what} of ${todo.open === 1 ? "this item" : "these items"} is less than ${percent(openAt)} probable` +
    (todo.open > data.again.length ? `; the ${data.again.length} least certain of ${whole(todo.open)}` : "") + ". Open an item to see who gave which " + aLabel + ".";
  table(at("again-table"), "items to send out again", range(data.again.length), [
    { name: "item", text: true, row: true, value: (n) => items.task[data.again[n].item], cell: (n) => itemName(data.again[n].item) },
    { name: `probable ${aLabel}s`, text: true, value: (n) => data.again[n].probabilities[0][1],
      cell: (n) => data.again[n].probabilities.slice(0, 3).map(([k, p]) => `${className(k)} ${percent(p)}`).join(", ") },
    { name: `${aLabel}s given`, text: true, value: (n) => items.votes[data.again[n].item].length, cell: (n) => given(items.votes[data.again[n].item]) || "none" },
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
} else at("again-note").textContent = `None: every ${what} is at least ${percent(openAt)} probable.`;
table(at("items-table"), "items", range(items.task.length), [
  { name: "item", text: true, row: true, value: (i) => items.task[i], cell: itemName },
  ...(graded ? [
    { name: "true grade", num: true, value: (i) => items.grade[i],
      cell: (i) => make("span", {}, number(items.grade[i], 2), make("small", { class: "range", text: known.has(i) ? "known" : items.interval[i] })) },
    { name: "mean grade", num: true, value: (i) => items.mean_grade[i], cell: (i) => (items.mean_grade[i] === null ? "–" : number(items.mean_grade[i], 2)) },
    { name: "within one grade", num: true, value: (i) => items.near[i], cell: (i) => percent(items.near[i], 1) },
  ] : [
    { name: "label", text: true, value: (i) => className(items.label[i]), cell: (i) => className(items.label[i]) + (known.has(i) ? " (known)" : "") },
    { name: "probability", num: true, value: (i) => items.probability[i], cell: (i) => percent(items.probability[i], 1) },
  ]),
  { name: "annotations", num: true, value: (i) => items.annotations[i], cell: (i) => whole(items.annotations[i]) },
  { name: `${aLabel}s given`, text: true, value: (i) => items.votes[i].length, cell: (i) => given(items.votes[i]) || "none" },
], { search: (i) => itemWords(i) + " " + className(items.label[i]), sorted: graded ? 3 : 2, descending: false });

const sure = graded ? items.near : items.probability;
const edges = [0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001];
const histogram = make("div", { class: "bars" });
const tally = edges.slice(1).map((high, n) => sure.filter((p) => p >= edges[n] && p < high).length);
tally.forEach((size, n) => {
  if (n === 0 && size === 0) return;
  const high = n === tally.length - 1 ? 1 : edges[n + 1];
  histogram.append(make("span", { text: `${percent(edges[n])}–${percent(high)}` }), bar(size / Math.max(1, ...tally)), make("span", { class: "num", text: whole(size) }));
});
at("histogram").append(histogram);
const prevalence = make("div", { class: "bars" });
const shares = data.prevalence.map((row, k) => [k, ...row.slice(1)]);
if (!graded) shares.sort((a, b) => b[1] - a[1]);  // grades stay in their order
for (const [k, share, low, high] of shares.slice(0, 20)) {
  prevalence.append(make("span", { class: "name", dir: "auto", text: className(k) }), bar(share, low, high),
    make("span", { class: "num", text: percent(share) + (low === null ? "" : ` (${span100(low, high)})`) }));
}
at("prevalence").append(prevalence);
if (shares.length > 20) at("prevalence").append(small(`and ${shares.length - 20} further classes`));

// ---------------------------------------------------------------- appendix
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
