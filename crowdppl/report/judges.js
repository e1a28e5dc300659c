// ---------------------------------------------------------------- words and figures
const counts = data.counts, systems = data.systems, judges = data.judges, panel = data.panel, [least, most] = data.range;
const rate = (x, digits = 1) => (x === null ? "–" : data.share ? percent(x, digits) : number(x));
const ends = (low, high) => (low === null ? "" : data.share ? `${(100 * low).toFixed(1)}–${percent(high, 1)}` : `${number(low)}–${number(high)}`);
const signed = (x, digits = 2) => (x === null ? "–" : (/[1-9]/.test(number(x, digits)) && x > 0 ? "+" : "") + number(x, digits));
const withEnds = (text, under) => make("span", {}, text, make("small", { class: "range", text: under }));
const signedSpan = (low, high) => (low === null ? "" : `${signed(low)} to ${signed(high)}`);
const rows = (columns) => range(Object.values(columns)[0]?.length ?? 0);
// A table under a heading of its own, if it has rows, and columns of such tables: names, whole numbers, and changes with their ends.
function section(id, heading, words, columns, what, cells) {
  if (!rows(columns).length) return;
  const place = make("div"), first = Object.values(columns)[0];
  at(id).append(make("h3", { text: heading }), small(words), place);
  table(place, what, rows(columns), cells(columns), { search: (n) => first[n] });
}
const named = (columns, key, words, row = false) => ({ name: words, text: true, row, value: (n) => columns[key][n], cell: (n) => columns[key][n] });
const countOf = (columns, key, words = key) => ({ name: words, num: true, value: (n) => columns[key][n], cell: (n) => whole(columns[key][n]) });
const change = (columns, key) => ({ name: key, num: true, value: (n) => columns[key][n], cell: (n) => withEnds(signed(columns[key][n], 3), signedSpan(columns[`${key}_low`][n], columns[`${key}_high`][n])) });

// The ends of an axis and its ticks, for values that lie between low and high.
function axis(low, high) {
  const step = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100].find((s) => (high - low) / s <= 6) ?? high - low;
  const first = Math.floor(low / step + 1e-9), last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return { low: first * step, high: last * step, ticks: range(last - first + 1).map((n) => (first + n) * step), digits };
}
// Rows of intervals on one axis: {name, mean, low, high, hollow, text, mark}. A second, hollow mark is optional.
function dots(list, { low, high, ticks, digits }, format) {
  const place = (x) => 100 * clamp((x - low) / (high - low)) + "%";
  const out = make("div", { class: "dots" });
  for (const one of list) {
    const track = make("div", { class: "track", role: "img", "aria-label": `${one.name}: ${one.text}` });
    for (const tick of ticks) {
      const line = make("s");
      line.style.left = place(tick);
      track.append(line);
    }
    if (one.low !== null) {
      const span = make("i");
      span.style.left = place(one.low);
      span.style.width = `calc(${place(one.high)} - ${place(one.low)})`;
      track.append(span);
    }
    if (one.hollow !== undefined && one.hollow !== null) {
      const ring = make("u");
      ring.style.left = place(one.hollow);
      track.append(ring);
    }
    if (one.mean !== null) {
      const dot = make("b");
      dot.style.left = place(one.mean);
      track.append(dot);
    }
    out.append(make("span", { class: "name", dir: "auto", text: one.name }), track, make("span", { class: "num", text: one.text }));
  }
  const scale = make("div", { class: "scale", "aria-hidden": "true" });
  for (const tick of ticks) {
    const label = make("span", { text: format(tick, digits) });
    label.style.left = place(tick);
    scale.append(label);
  }
  out.append(make("span"), scale, make("span"));
  return out;
}
// A matrix of coloured cells. cell(k, l) returns a number from -1 to 1 for the colour, text, and text below it.
function heat(rowNames, columnNames, corner, cell, kind = "") {
  return matrixTable(rowNames, columnNames, corner, "matrix heat " + kind, (k, l) => {
    const [shade, text, under, title] = cell(k, l);
    const node = make("td", title ? { title } : {}, text);
    if (under) node.append(make("small", { text: under }));
    if (shade !== null) node.style.background = mixed(shade < 0 ? "--accent-soft" : "--miss-soft", Math.min(1, Math.abs(shade)));
    return node;
  });
}

// ---------------------------------------------------------------- what to know first
at("what").textContent = `${count(counts.judges, "judge")} gave ${count(counts.verdicts, "verdict")} on ${count(counts.items, "item")}` +
  (counts.systems ? ` of ${count(counts.systems, "system")}` : "") + `. ${data.sample}`;
for (const sentence of data.statements) at("statements").append(make("p", { class: "note", text: sentence }));
const card = (value, words, href, kind = "") =>
  at("cards").append(make("a", { class: "card " + kind, href }, make("b", { text: value }), make("span", { text: words })));
const several = rows(systems).length > 1;
const widest = Math.max(...rows(systems).map((s) => systems.corrected_high[s] - systems.corrected_low[s]));
if (several) card(systems.system[0], `has the highest rate with probability ${percent(systems.best[0])}`, "#systems", systems.best[0] >= 0.95 ? "good" : "warn");
else card(rate(systems.corrected[0]), `corrected ${data.rate}; uncorrected ${rate(systems.uncorrected[0])}`, "#systems");
card(data.share ? `${(100 * widest).toFixed(1)} points` : number(widest), several ? "is the width of the widest interval" : "is the width of its interval", "#systems");
card(number(panel.effective[0], 1), `independent judges are what ${counts.judges === 1 ? "the judge is" : `the ${whole(counts.judges)} are`} worth`, "#panel");
card(whole(counts.labelled), `of ${count(counts.items, "item")} have human labels`, "#next", counts.labelled ? "" : "bad");

// ---------------------------------------------------------------- criteria
if (page.parts) {
  at("criteria").hidden = at("all-criteria").hidden = false;
  page.criteria.forEach((name, n) =>
    at("criteria").append(make("a", { href: `?criterion=${encodeURIComponent(name)}`, dir: "auto", text: name, ...(n === shownPart ? { "aria-current": "page" } : {}) })));
  const names = [...new Set(page.parts.flatMap((part) => part.systems.system))];
  const cellOf = (name, part) => {
    const own = part.systems, s = own.system.indexOf(name);
    if (s < 0) return "–";
    const text = (x) => (part.share ? percent(x, 1) : number(x));
    return withEnds(text(own.corrected[s]), `${text(own.corrected_low[s])}–${text(own.corrected_high[s])}`);
  };
  table(at("all-criteria-table"), "systems on all criteria", range(names.length), [
    { name: "system", text: true, row: true, value: (s) => names[s], cell: (s) => names[s] },
    ...page.parts.map((part, n) => ({ name: page.criteria[n], num: true, value: (s) => part.systems.corrected[part.systems.system.indexOf(names[s])] ?? -1, cell: (s) => cellOf(names[s], part) })),
  ], { search: (s) => names[s] });
  section("criteria-correlations", "Correlation of criteria", `Across items, with ${level} intervals: ${page.correlations_words}.`, page.correlations, "pairs of criteria", (t) => [
    named(t, "criterion_a", "criterion", true), named(t, "criterion_b", "other criterion"), countOf(t, "labelled"), change(t, "correlation"),
    { name: "of verdicts", num: true, value: (n) => t.of_verdicts[n], cell: (n) => (t.of_verdicts[n] === null ? "–" : signed(t.of_verdicts[n])) },
  ]);
}

// ---------------------------------------------------------------- systems
const transported = counts.labelled > 0 && systems.transported.some((t) => t);
at("systems-note").textContent = `Rate: ${data.rate}. Uncorrected: by the majority of the judges. Corrected: with its ${level} interval, given all verdicts and human labels.` +
  (transported ? " Transported: no item of the system has a human label, so judges are taken to treat it as they treat other systems." : "");
const inFigure = rows(systems).slice(0, 40);
const allRates = inFigure.flatMap((s) => [systems.corrected_low[s], systems.corrected_high[s], systems.uncorrected[s]]).filter((x) => x !== null);
at("systems-figure").append(
  make("figcaption", {}, make("span", { class: "key" }, make("b"), "corrected"), make("span", { class: "key" }, make("u"), "uncorrected")),
  dots(inFigure.map((s) => ({ name: counts.systems ? systems.system[s] : "all items", mean: systems.corrected[s], low: systems.corrected_low[s], high: systems.corrected_high[s],
    hollow: systems.uncorrected[s], text: rate(systems.corrected[s]) + (transported && systems.transported[s] ? " ~" : "") })),
  axis(Math.max(least, Math.min(...allRates)), Math.min(most, Math.max(...allRates))), (x, digits) => (data.share ? percent(x, Math.max(0, digits - 2)) : number(x, digits))));
const systemName = (s) => (counts.systems ? systems.system[s] : "all items");
const ranked = (s, t = systems) => (t.rank_low[s] === t.rank_high[s] ? whole(t.rank_low[s]) : `${whole(t.rank_low[s])}–${whole(t.rank_high[s])}`);
const elo = (t) => (t.elo ? [{ name: "Elo", num: true, value: (s) => t.elo[s], cell: (s) => withEnds(number(t.elo[s], 0), `${number(t.elo_low[s], 0)}–${number(t.elo_high[s], 0)}`) }] : []);
const systemColumns = [
  { name: "system", text: true, row: true, value: (s) => systems.system[s], cell: systemName },
  { name: "rank", num: true, value: (s) => -systems.rank[s], cell: ranked },
  { name: "uncorrected", num: true, value: (s) => systems.uncorrected[s], cell: (s) => rate(systems.uncorrected[s]) },
  { name: "corrected", num: true, value: (s) => systems.corrected[s], cell: (s) => withEnds(rate(systems.corrected[s]), ends(systems.corrected_low[s], systems.corrected_high[s])) },
  ...elo(systems),
  { name: "best", num: true, value: (s) => systems.best[s], cell: (s) => percent(systems.best[s]) },
  { name: "items", num: true, value: (s) => systems.items[s], cell: (s) => whole(systems.items[s]) },
  { name: "labelled", num: true, value: (s) => systems.labelled[s], cell: (s) => whole(systems.labelled[s]) },
  { name: "note", text: true, value: (s) => Number(systems.transported[s]), cell: (s) => (systems.transported[s] ? make("span", { class: "pill warn", text: "transported" }) : "") },
];
table(at("systems-table"), "systems", rows(systems), systemColumns.filter((c) => (several || !["rank", "best"].includes(c.name)) && (c.name !== "note" || transported)),
  { search: several ? (s) => systems.system[s] : null, sorted: several ? 3 : undefined });
if (data.better.length) {
  const names = systems.system, numbered = names.map((name, n) => `${n + 1}  ${name}`);
  at("better").append(make("h3", { text: "Which of two systems is better" }),
    small("Probability that the system of the row is better than that of the column, on these items."),
    heat(numbered, names.map((_, n) => String(n + 1)), "", (k, l) => {
      const p = data.better[k][l];
      return k === l || p === null ? [null, ""] : [-Math.max(0, 2 * p - 1), percent(p), "", `${names[k]} better than ${names[l]}: ${percent(p)}`];
    }, "tiny"));
}
const corrected = (t, name, words) => ({ name: words, num: true, value: (n) => t[name][n], cell: (n) => withEnds(rate(t[name][n]), ends(t[`${name}_low`][n], t[`${name}_high`][n])) });
section("population", "Rates on further questions", `With ${level} intervals, ${data.population_words}.`, data.population, "systems on further questions", (t) => [
  named(t, "system", "system", true), { name: "rank", num: true, value: (n) => -t.rank[n], cell: (n) => ranked(n, t) }, corrected(t, "corrected", "corrected"), ...elo(t),
]);
section("pass-at", "Several answers to a question", "Whether one of k answers passes (pass@k), whether all do, and the rate of the one with the best verdicts.", data.pass_at, "numbers of answers", (t) => [
  named(t, "system", "system", true), countOf(t, "k"), countOf(t, "questions"), corrected(t, "pass_at_k", "one passes"), corrected(t, "all_pass", "all pass"), corrected(t, "picked", "picked"),
]);

// ---------------------------------------------------------------- judges
const binary = "sensitivity" in judges, has = (name) => name in judges && judges[name].some((x) => x !== null);
at("judges-note").textContent = `Accuracy: probability that a verdict on a further item is correct, with its ${level} interval. ` +
  (binary ? "Sensitivity and specificity: probability of passing an item that should pass, and of failing one that should fail. " : "") +
  "Kappa: agreement with the true label beyond chance." +
  (has("position_bias") ? " Position: accuracy where the correct answer is shown first, minus that where it is second. Inconsistent: share of pairs with two verdicts in the two orders." : "") +
  (has("self_preference") ? " Self-preference: how much more often a judge passes systems of its own family, given the true label." : "") +
  (has("length_bias") ? " Length: how much more often it passes answers as long as the upper quartile of the lengths than those as long as the lower quartile, given the true label." : "");
const shown = rows(judges).slice(0, 40);
for (const [name, words] of binary ? [["sensitivity", "Sensitivity"], ["specificity", "Specificity"]] : [["accuracy", "Accuracy"]]) {
  const values = shown.flatMap((j) => [judges[`${name}_low`][j], judges[`${name}_high`][j]]).filter((x) => x !== null);
  at("judges-figure").append(make("figure", {}, make("figcaption", { text: words }),
    dots(shown.map((j) => ({ name: judges.judge[j], mean: judges[name][j], low: judges[`${name}_low`][j], high: judges[`${name}_high`][j], text: percent(judges[name][j]) })),
      axis(Math.min(...values), Math.min(1, Math.max(...values))), (x, digits) => percent(x, Math.max(0, digits - 2)))));
}
const share100 = (low, high) => (low === null ? "" : `${percent(low).slice(0, -1)}–${percent(high)}`);
const quality = (name, words, text = percent, under = share100) => ({ name: words, num: true, value: (j) => judges[name][j],
  cell: (j) => withEnds(text(judges[name][j]), `${name}_low` in judges ? under(judges[`${name}_low`][j], judges[`${name}_high`][j]) : "") });
const span = (low, high) => (low === null ? "" : `${number(low)}${low < 0 ? " to " : "–"}${number(high)}`);
const judgeColumns = [
  { name: "judge", text: true, row: true, value: (j) => judges.judge[j], cell: (j) => judges.judge[j] },
  { name: "family", text: true, value: (j) => judges.family[j], cell: (j) => judges.family[j] },
  { name: "verdicts", num: true, value: (j) => judges.verdicts[j], cell: (j) => whole(judges.verdicts[j]) },
  quality("accuracy", "accuracy"),
  ...(binary ? [quality("sensitivity", "sensitivity"), quality("specificity", "specificity")] : []),
  quality("kappa", "kappa", number, span),
  ...(has("position_bias") ? [quality("position_bias", "position", signed, signedSpan)] : []),
  ...(has("inconsistent") ? [quality("inconsistent", "inconsistent")] : []),
  ...(has("self_preference") ? [quality("self_preference", "self-preference", signed, signedSpan)] : []),
  ...(has("length_bias") ? [quality("length_bias", "length", signed, signedSpan)] : []),
  ...(has("cost_per_effective_verdict") ? [{ name: "cost", num: true, value: (j) => judges.cost_per_effective_verdict[j],
    cell: (j) => withEnds(judges.cost_per_effective_verdict[j] === null ? "–" : String(Number(judges.cost_per_effective_verdict[j].toPrecision(3))), "an effective verdict") }] : []),
];
table(at("judges-table"), "judges", rows(judges), judgeColumns, { search: (j) => `${judges.judge[j]} ${judges.family[j]}`, sorted: 3 });
section("judge-pairs", "Judge against judge", "Accuracy of the first judge minus that of the second, on the items that both judged.", data.judge_pairs, "pairs of judges", (t) => [
  named(t, "judge_a", "judge", true), named(t, "judge_b", "other judge"), countOf(t, "items"), change(t, "difference"),
  { name: "first is better", num: true, value: (n) => t.probability_better[n], cell: (n) => percent(t.probability_better[n]) },
]);
section("versions", "Versions of a judge", "Share of correct verdicts of the later version minus that of the earlier one, on the items that both saw.", data.versions, "versions", (t) => [
  named(t, "judge", "judge", true), named(t, "version_a", "from"), named(t, "version_b", "to"), countOf(t, "items"), change(t, "difference"),
  { name: "later is better", num: true, value: (n) => t.probability_better[n], cell: (n) => percent(t.probability_better[n]) },
]);
section("drift", "Changes of judges", `Mean of the verdicts after minus before, at equal true labels, with ${level} intervals: ${data.drift_words}.`, data.drift, "changes", (t) => [
  named(t, "judge", "judge", true), named(t, "before", "from"), named(t, "after", "to"), named(t, "measure", "measure"), countOf(t, "verdicts"),
  { ...change(t, "change"), cell: (n) => (t.verdicts[n] ? change(t, "change").cell(n) : "cannot be known") },
  { name: "note", text: true, value: (n) => Number(t.changed[n]), cell: (n) => (t.changed[n] ? make("span", { class: "pill warn", text: "changed" }) : "") },
]);

// ---------------------------------------------------------------- people
section("people-errors", "Errors", `Probability of an incorrect label, with ${level} intervals. Shared: items that others labelled, too.`, data.people, "people", (t) => [
  named(t, "annotator", "person", true), countOf(t, "labels"), countOf(t, "shared_items", "shared"),
  { name: "error", num: true, value: (n) => t.error[n], cell: (n) => withEnds(percent(t.error[n], 1), t.basis[n] === "learned" ? `${(100 * t.error_low[n]).toFixed(1)}–${percent(t.error_high[n], 1)}` : "") },
  named(t, "basis", "basis"),
]);
section("alternative", "May a judge take the place of a person?", `By ${data.alternative_words}.`, data.alternative, "judges", (t) => [
  named(t, "judge", "judge", true), countOf(t, "annotators", "people"), countOf(t, "items"),
  { name: "winning rate", num: true, value: (n) => t.winning_rate[n], cell: (n) => number(t.winning_rate[n]) },
  { name: "as good", num: true, value: (n) => t.advantage[n], cell: (n) => percent(t.advantage[n], 1) },
  { name: "passes", text: true, value: (n) => Number(t.passes[n]), cell: (n) => (t.passes[n] ? "yes" : "no") },
]);
if (!rows(data.people).length && !rows(data.alternative).length) {
  at("people").remove();
  at("to-people").remove();
}

// ---------------------------------------------------------------- the panel
const panelBody = at("panel-body"), fam = panel.families, adds = panel.adds;
panelBody.append(make("p", {}, make("b", { text: panel.statement })));
if (panel.families_sentence) panelBody.append(make("p", { text: panel.families_sentence }));
const families = [...new Set([...fam.family_a, ...fam.family_b])];
const pairOf = new Map(rows(fam).flatMap((n) => [[`${fam.family_a[n]}\n${fam.family_b[n]}`, n], [`${fam.family_b[n]}\n${fam.family_a[n]}`, n]]));
const meaning = "Red: two judges are wrong about the same items. Blue: about different ones. White: as independent judges would be.";
if (families.length > 1 && families.length <= 12 && families.length < counts.judges) {
  panelBody.append(make("h3", { text: "Correlation of errors by family" }), small(`Mean over pairs of judges, with ${level} intervals. ${meaning}`),
    heat(families, families, "", (k, l) => {
      const n = pairOf.get(`${families[k]}\n${families[l]}`);
      return n === undefined ? [null, "–"] : [fam.correlation[n], number(fam.correlation[n]), span(fam.correlation_low[n], fam.correlation_high[n])];
    }));
}
const crowd = panel.judges;
if (crowd.names.length > 1) {
  const numbers = crowd.names.map((_, n) => String(n + 1)), fits = crowd.names.length <= 12;
  const picture = heat(crowd.names.map((name, n) => `${n + 1}  ${name}`), numbers, "", (k, l) => {
    const x = crowd.correlation[k][l];
    return k === l || x === null ? [null, ""] : [x, fits ? number(x) : "", "", `${crowd.names[k]} and ${crowd.names[l]}: ${number(x)}`];
  }, "tiny");
  const words = small(fits ? meaning : `${meaning} Rest the pointer on a cell to see its number.`);
  if (crowd.names.length <= 30) panelBody.append(make("h3", { text: "Correlation of errors of each pair of judges" }), words, picture);
  else panelBody.append(make("details", {}, make("summary", { text: "Correlation of errors of each pair of judges" }), words, picture));
}
if (counts.judges > 1) {
  const part = rows(adds).slice(0, 40), values = part.flatMap((n) => [adds.adds_low[n], adds.adds_high[n]]).filter((x) => x !== null);
  const fine = Math.max(...values.map(Math.abs)) < 0.1 ? 3 : 2;
  panelBody.append(make("figure", { class: "apart" }, make("figcaption", { text: "What each judge adds to the effective number" }),
    small("Without the judge, the effective number of judges is lower by this much. A judge below 0 repeats the errors of others more than it adds."),
    dots(part.map((n) => ({ name: adds.judge[n], mean: adds.adds[n], low: adds.adds_low[n], high: adds.adds_high[n], text: signed(adds.adds[n], fine) })),
      axis(Math.min(0, ...values), Math.max(0, ...values)), signed)));
}

// ---------------------------------------------------------------- states
const states = data.states;
if (states.judge) {
  const part = (name) => ({ name, num: true, value: (n) => states[name][n], cell: (n) => withEnds(whole(states[name][n]), percent(states[name][n] / states.verdicts[n], 1)) });
  table(at("states-table"), "judges", rows(states), [
    { name: "judge", text: true, row: true, value: (n) => states.judge[n], cell: (n) => states.judge[n] },
    { name: "requests", num: true, value: (n) => states.verdicts[n], cell: (n) => whole(states.verdicts[n]) },
    part("given"), part("missing"), part("unparseable"), part("abstained"),
  ], { search: (n) => states.judge[n] });
} else {
  at("states").remove();
  at("to-states").remove();
}

// ---------------------------------------------------------------- items
const next = data.next;
at("needed").textContent = data.needed ?? "";
if (rows(next).length) {
  at("next-note").textContent = "Human labels of these items, in this order, narrow the intervals of the systems most. Width: expected mean width of the intervals with this label and those above.";
  table(at("next-table"), "items to label next", rows(next), [
    { name: "order", num: true, value: (n) => -n, cell: (n) => whole(n + 1) },
    { name: "item", text: true, row: true, value: (n) => next.item[n], cell: (n) => next.item[n] },
    ...["system", "opponent"].filter((name) => next[name]).map((name) => ({ name, text: true, value: (n) => next[name][n] ?? "", cell: (n) => next[name][n] ?? "–" })),
    { name: "probable label", text: true, value: (n) => next.label[n], cell: (n) => next.label[n] },
    { name: "probability", num: true, value: (n) => next.probability[n], cell: (n) => percent(next.probability[n]) },
    { name: "width", num: true, value: (n) => next.width_after[n], cell: (n) => number(next.width_after[n], 3) },
  ], { search: (n) => `${next.item[n]} ${next.system ? next.system[n] : ""} ${next.opponent ? next.opponent[n] : ""}` });
} else at("next-note").textContent = "Every item has a human label.";
const items = data.items, listed = rows(items);
at("items-note").textContent = "Most probable true label given all verdicts, least certain first." +
  (listed.length < counts.items ? ` The ${whole(listed.length)} least certain of ${count(counts.items, "item")}.` : "");
table(at("items-table"), "items", listed, [
  { name: "item", text: true, row: true, value: (i) => items.item[i], cell: (i) => items.item[i] },
  ...["system", "opponent"].filter((name) => items[name]).map((name) => ({ name, text: true, value: (i) => items[name][i] ?? "", cell: (i) => items[name][i] ?? "–" })),
  { name: "label", text: true, value: (i) => items.label[i], cell: (i) => items.label[i] },
  { name: "probability", num: true, value: (i) => items.probability[i], cell: (i) => percent(items.probability[i], 1) },
  { name: "by", text: true, value: (i) => Number(items.labelled[i]), cell: (i) => (items.labelled[i] ? "people" : "judges") },
], { search: (i) => `${items.item[i]} ${items.system ? items.system[i] : ""} ${items.opponent ? items.opponent[i] : ""} ${items.label[i]}` });

// ---------------------------------------------------------------- appendix
if (data.notes.length) {
  const list = make("ul");
  for (const sentence of data.notes) list.append(make("li", { text: sentence }));
  at("notes").append(make("h3", { text: "Notes on the data" }), list);
}
at("footnote").textContent = `Intervals are ${level} credible intervals.`;
const again = data.reproduce, facts = make("dl");
const fact = (name, value) => facts.append(make("dt", { text: name }), make("dd", { text: value }));
if (again.command.length) at("reproduce-body").append(make("pre", { text: again.command.map((word) => (/^[\w./=:-]+$/.test(word) ? word : JSON.stringify(word))).join(" ") }));
for (const [key, value] of Object.entries(again.input)) fact(key === "sha256" ? "SHA-256 of the input" : key === "sha256 of the human labels" ? "SHA-256 of the human labels" : key, String(value));
if (again.seed !== null) fact("seed", String(again.seed));
fact("draws", whole(again.draws));
if (again.seconds !== null) fact("time", `${number(again.seconds, 1)} s`);
fact("version", `crowdppl ${again.version}`);
at("reproduce-body").append(facts);
