"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const INKS = {
  ours: ["#0072B2", "#56B4E9", "#004166", "#3d7a99"],
  incumbent: ["#000000"],
  peer: ["#D55E00", "#009E73", "#CC79A7", "#B8860B", "#6a3d9a", "#8C564B"],
  ceiling: ["#8a8a8a", "#b0b0b0"],
};
const P = D.policies.map((p) => ({ ...p, ink: INKS[p.kind][p.turn % INKS[p.kind].length] }));
const byName = Object.fromEntries(P.map((p) => [p.name, p]));
const reference = byName[D.reference];
const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
const FONT = { family: "system-ui, DejaVu Sans, sans-serif", size: 13, color: "#1b1f24" };
const state = { collection: 0, measure: 0, query: null };
const C = () => D.collections[state.collection];
const measure = () => D.measures[state.measure];
const f3 = (x) => (x === null || x === undefined ? "–" : x.toFixed(3));
const signed = (x) => (x > 0 ? "+" : x < 0 ? "−" : "±") + Math.abs(x).toFixed(3);
const pValue = (p) => (p === null ? "–" : p < 0.001 ? "< .001" : p.toFixed(3).replace(/^0/, ""));
const columnName = (c) => (D.columns_are_budgets ? `${c} documents` : c);

function element(tag, text, attributes = {}) {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => {
    const option = element("option", text, { value });
    option.selected = String(value) === String(chosen);
    return option;
  }));
}

function table(node, head, rows, textColumns = new Set()) {
  const top = element("tr");
  head.forEach((text, i) => top.append(element("th", text, { scope: "col", ...(textColumns.has(i) ? { class: "left" } : {}) })));
  const thead = element("thead");
  thead.append(top);
  const tbody = element("tbody");
  for (const row of rows) {
    const tr = element("tr", null, row.kind ? { class: row.kind } : {});
    row.cells.forEach((cell, i) => {
      const value = typeof cell === "object" && cell !== null ? cell : { text: cell };
      const td = element("td", value.text, value.title ? { title: value.title } : {});
      if (textColumns.has(i)) td.classList.add("left");
      if (value.below) td.append(element("div", value.below, { class: "below" }));
      if (value.class) td.classList.add(...value.class.split(" "));
      tr.append(td);
    });
    tbody.append(tr);
  }
  node.replaceChildren(thead, tbody);
}

function axisOfDocs(log, lines) {
  const all = lines.flatMap((l) => l.docs).filter((x) => x > 0);
  const ticks = [...new Set(lines.flatMap((l) => l.allowed))].sort((a, b) => a - b)
    .filter((x) => x > 0 && x <= Math.max(...all) * 1.05)
    .reduce((kept, x) => (kept.length && x < kept[kept.length - 1] * 1.25 ? kept : [...kept, x]), []);
  const axis = { title: { text: `documents reranked per query, mean${log ? " (log scale)" : ""}` }, gridcolor: "#e8ecef", zeroline: false };
  return log ? { ...axis, type: "log", tickvals: ticks, ticktext: ticks.map(String) } : { ...axis, rangemode: "tozero" };
}

function layout(extra) {
  return {
    font: FONT, margin: { l: 66, r: 16, t: 16, b: 56 }, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    hoverlabel: { align: "left" }, legend: { orientation: "v", x: 1.01, y: 1, font: { size: 12 } }, ...extra,
  };
}

function drawProvenance() {
  const rows = [
    ["made by", D.command],
    ["code", D.git_sha],
    ["intervals", `${Math.round(D.level * 100)}%, ${D.resamples} bootstrap resamples of the queries`],
    ["tests", `against ${reference.label}: paired t-test and paired randomization test (${D.permutations} sign vectors), ` +
      `Holm-corrected over ${D.columns_are_budgets ? "a policy's budgets" : "the runs compared"}`],
    ["full quality", D.target_label],
    ...D.notes.map((note) => ["run", note]),
  ];
  $("provenance").replaceChildren(...rows.flatMap(([k, v]) => {
    const dd = element("dd");
    dd.append(element(k === "made by" || k === "code" ? "code" : "span", v));
    return [element("dt", k), dd];
  }));
}

function stepped(l, j) {
  const points = { docs: [], low: [], high: [] };
  l.docs.forEach((x, i) => {
    if (i && !D.columns_are_budgets) { points.docs.push(x); points.low.push(l.low[j][i - 1]); points.high.push(l.high[j][i - 1]); }
    points.docs.push(x); points.low.push(l.low[j][i]); points.high.push(l.high[j][i]);
  });
  return points;
}

function drawCurves() {
  const log = $("log").checked, j = state.measure, traces = [];
  const visible = P.filter((p) => p.kind !== "ceiling" || $("ceilings").checked);
  for (const p of [reference, byName[$("banded").value]]) {
    const l = stepped(C().lines[p.name], j);
    traces.push({
      x: [...l.docs, ...[...l.docs].reverse()], y: [...l.high, ...[...l.low].reverse()], fill: "toself",
      fillcolor: p.ink + "22", line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false,
    });
  }
  for (const p of visible) {
    const l = C().lines[p.name];
    traces.push({
      x: l.docs, y: l.mean[j], name: p.label, mode: "lines+markers",
      line: { shape: D.columns_are_budgets ? "linear" : "hv", color: p.ink, dash: p.dash, width: p.kind === "ours" && p.turn === 0 ? 3 : 1.7 },
      marker: { symbol: p.marker, size: 8, color: p.ink },
      customdata: l.docs.map((_, i) => [l.allowed[i], l.low[j][i], l.high[j][i]]),
      hovertemplate: `<b>${p.label}</b><br>allowed %{customdata[0]}, charged %{x:.1f} documents<br>` +
        `${measure()} %{y:.3f} [%{customdata[1]:.3f}, %{customdata[2]:.3f}]<extra></extra>`,
    });
  }
  const full = C().target[j];
  Plotly.react("curves", traces, layout({
    xaxis: axisOfDocs(log, Object.values(C().lines)),
    yaxis: { title: { text: `mean ${measure()} over ${C().queries.length} queries` }, gridcolor: "#e8ecef", zeroline: false },
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: full, y1: full, line: { color: "#777", width: 1, dash: "dot" },
      showlegend: true, name: `full quality ${full.toFixed(3)} (${C().target_docs.toFixed(0)} documents)` }],
    hovermode: "closest",
  }), CONFIG);
  $("curves-note").textContent = `Shaded: ${Math.round(D.level * 100)}% interval of the mean. Click a name to hide it, twice to see it alone. ` +
    "The vertical axis does not begin at 0." + (log && Object.values(C().lines).some((l) => l.docs[0] === 0) ? " A log axis has no place for 0 documents." : "");
}

function drawMeans() {
  const j = state.measure;
  const best = Object.fromEntries(D.columns.map((c) => [c, Math.max(...P.filter((p) => p.kind !== "ceiling").map((p) => C().cells[p.name][c].measures[j].mean))]));
  table($("means"), [D.columns_are_budgets ? `${measure()} by budget (documents)` : "run", ...D.columns], P.map((p) => ({
    kind: p.kind,
    cells: [p.label, ...D.columns.map((c) => {
      const cell = C().cells[p.name][c], m = cell.measures[j];
      const stops = Object.entries(cell.stops).map(([why, n]) => `${why} ${n}`).join(", ");
      const test = p.name === D.reference ? "" : `\n${signed(m.diff)} [${signed(m.diff_low)}, ${signed(m.diff_high)}] to ${reference.label}` +
        `\np (Holm): t ${pValue(m.p_t)}, randomization ${pValue(m.p_randomization)}`;
      return {
        text: f3(m.mean) + m.verdict, class: p.kind !== "ceiling" && m.mean === best[c] ? "best" : "",
        title: `[${f3(m.low)}, ${f3(m.high)}]${test}\ncharged ${cell.docs_mean} documents (median ${cell.docs_median}), ${cell.calls_mean} calls` +
          `${cell.expanded_mean ? `, ${cell.expanded_mean} found by expansion` : ""}\nstopped: ${stops}`,
      };
    })],
  })));
  $("means-note").textContent = `Mean ${measure()}. ▲ / ▼: above / below ${reference.label}, corrected p < .05 in both tests; △ / ▽: in one of them. ` +
    "Hold the pointer over a figure for its interval, difference, p-values, costs and stop reasons.";
  const s = C().summary;
  const docs = (row, k) => (row[`docs_to_${k}`] === null ? "–" : (row[`docs_to_${k}_at_first`] ? "≤ " : "") + row[`docs_to_${k}`].toFixed(1));
  table($("areas"), [`headline (${D.measures[0]})`, "area under the curve", "area, log axis", "documents to 95%", "documents to 99%", "largest fall"],
    P.map((p) => ({ kind: p.kind, cells: [p.label, s[p.name].area.toFixed(4), s[p.name].area_log.toFixed(4), docs(s[p.name], 95), docs(s[p.name], 99), s[p.name].largest_fall.toFixed(4)] })));
}

function drawFront() {
  const usable = P.filter((p) => p.kind !== "ceiling"), points = [];
  for (const p of usable) {
    const l = C().lines[p.name];
    l.docs.forEach((x, i) => points.push({ p, x, y: l.mean[0][i], allowed: l.allowed[i], front: C().fronts[p.name][i] }));
  }
  const front = points.filter((a) => a.front).sort((a, b) => a.x - b.x || a.y - b.y);
  const traces = [{ x: front.map((a) => a.x), y: front.map((a) => a.y), mode: "lines", line: { shape: "hv", color: "#c9d1d9", width: 6 }, name: "front", hoverinfo: "skip" }];
  for (const p of [...usable].reverse()) {
    const mine = points.filter((a) => a.p === p), held = mine.filter((a) => a.front).length;
    traces.push({
      x: mine.map((a) => a.x), y: mine.map((a) => a.y), mode: "markers", name: `${p.label} (${held} of ${mine.length})`,
      marker: { symbol: mine.map((a) => p.marker.replace("-open", "") + (a.front ? "" : "-open")), size: mine.map((a) => (a.front ? 12 : 7)), color: p.ink, line: { color: p.ink, width: 1.4 } },
      customdata: mine.map((a) => a.allowed),
      hovertemplate: `<b>${p.label}</b><br>allowed %{customdata}, charged %{x:.1f}<br>${D.measures[0]} %{y:.3f}<extra></extra>`,
    });
  }
  Plotly.react("front", traces, layout({
    xaxis: axisOfDocs($("log").checked, Object.values(C().lines)),
    yaxis: { title: { text: `mean ${D.measures[0]} over ${C().queries.length} queries` }, gridcolor: "#e8ecef", zeroline: false }, hovermode: "closest",
    legend: { x: 1.01, y: 1, font: { size: 12 }, traceorder: "reversed" },
  }), CONFIG);
}

const differences = (policy, column) => {
  const ours = C().values[policy][column][state.measure], theirs = C().values[D.reference][column][state.measure];
  return ours.map((v, i) => v - theirs[i]);
};

function drawQueries() {
  const p = byName[$("policy").value], c = $("column").value, j = state.measure;
  const ours = C().values[p.name][c][j], theirs = C().values[D.reference][c][j], diff = differences(p.name, c);
  const title = (q) => { const text = C().query_texts[q]; return text ? `${q}: ${text}` : q; };
  const ids = C().queries, names = ids.map((q) => title(q).replace(/</g, "&lt;"));
  const ink = diff.map((d) => (d > 1e-9 ? "#0072B2" : d < -1e-9 ? "#D55E00" : "#8a8a8a"));
  const size = ids.map((q) => (q === state.query ? 15 : 8)), edge = ids.map((q) => (q === state.query ? "#000" : "#fff"));
  const cost = C().charged;
  Plotly.react("scatter", [
    { x: [0, 1], y: [0, 1], mode: "lines", line: { color: "#999", dash: "dot", width: 1 }, hoverinfo: "skip", showlegend: false },
    {
      x: theirs, y: ours, mode: "markers", customdata: ids, showlegend: false,
      text: names.map((n, i) => `${n}<br>charged ${cost[p.name][c][i]} / ${cost[D.reference][c][i]} documents`),
      marker: { size, color: ink, line: { color: edge, width: 1 }, opacity: 0.85, symbol: diff.map((d) => (d > 1e-9 ? "triangle-up" : d < -1e-9 ? "triangle-down" : "circle")) },
      hovertemplate: `%{text}<br>${reference.label} %{x:.3f}, ${p.label} %{y:.3f}<extra></extra>`,
    },
  ], layout({
    xaxis: { title: { text: `${measure()}, ${reference.label}` }, range: [-0.03, 1.03], constrain: "domain", gridcolor: "#e8ecef", zeroline: false },
    yaxis: { title: { text: `${measure()}, ${p.label}` }, range: [-0.03, 1.03], constrain: "domain", gridcolor: "#e8ecef", zeroline: false, scaleanchor: "x" },
    hovermode: "closest",
  }), CONFIG);
  const order = diff.map((_, i) => i).sort((a, b) => diff[b] - diff[a]);
  Plotly.react("bars", [{
    type: "bar", x: order.map((_, i) => i + 1), y: order.map((i) => diff[i]), customdata: order.map((i) => ids[i]), text: order.map((i) => names[i]),
    marker: { color: order.map((i) => (ids[i] === state.query ? "#000" : ink[i])) }, textposition: "none", hovertemplate: "%{text}<br>%{y:+.3f}<extra></extra>",
  }], layout({
    xaxis: { title: { text: "queries, best gain first" }, gridcolor: "#fff", zeroline: false },
    yaxis: { title: { text: `difference in ${measure()}` }, gridcolor: "#e8ecef", zerolinecolor: "#444" }, bargap: 0.05,
  }), CONFIG);
  const wins = diff.filter((d) => d > 1e-9).length, losses = diff.filter((d) => d < -1e-9).length;
  const m = C().cells[p.name][c].measures[j];
  $("queries-note").textContent = p.name === D.reference ? "" :
    `${p.label} at ${columnName(c)}: ${wins} queries better, ${losses} worse, ${diff.length - wins - losses} equal; mean difference ` +
    `${signed(m.diff)} [${signed(m.diff_low)}, ${signed(m.diff_high)}], p (Holm) t-test ${pValue(m.p_t)}, randomization ${pValue(m.p_randomization)}. ` +
    "Click a point or a bar to see that query's decisions below.";
}

const traced = () => P.filter((p) => C().decisions[p.name]);

function fillQueries() {
  const have = traced();
  const ids = C().queries.filter((q) => have.some((p) => C().decisions[p.name][q]));
  const diff = differences($("policy").value, $("column").value);
  const gain = Object.fromEntries(C().queries.map((q, i) => [q, diff[i]]));
  ids.sort((a, b) => gain[b] - gain[a]);
  if (!ids.includes(state.query)) state.query = ids[0] ?? null;
  fill($("query"), ids.map((q) => [q, `${q}${C().query_texts[q] ? " · " + C().query_texts[q] : ""} (${signed(gain[q])})`]), state.query);
}

const field = (row, name) => row[D.fields.indexOf(name)];

function drawOrder() {
  const graded = C().grades[state.query] ?? {}, traces = [];
  const known = traced().some((p) => C().decisions[p.name][state.query].rows.some((r) => field(r, "first_rank") !== null));
  for (const p of traced()) {
    const rows = C().decisions[p.name][state.query].rows;
    traces.push({
      x: rows.map((_, i) => i + 1), y: rows.map((r) => field(r, known ? "first_rank" : "final_rank")), name: p.label, mode: "lines+markers",
      line: { color: p.ink, width: 0.8, dash: p.dash }, customdata: rows.map((r) => [field(r, "doc"), field(r, "score"), field(r, "batch"), grade(graded, field(r, "doc"))]),
      marker: {
        size: rows.map((r) => 7 + 13 * Math.max(0, Math.min(1, field(r, "score")))), color: p.ink, opacity: 0.9,
        symbol: rows.map((r) => ((graded[field(r, "doc")] ?? 0) > 0 ? (p.kind === "incumbent" ? "square" : "circle") : p.kind === "incumbent" ? "square-open" : "circle-open")),
      },
      hovertemplate: `<b>${p.label}</b>, batch %{customdata[2]}<br>%{customdata[0]}, grade %{customdata[3]}<br>score %{customdata[1]:.3f}<extra></extra>`,
    });
  }
  Plotly.react("order", traces, layout({
    xaxis: { title: { text: "order of reranking (1: first document paid for)" }, gridcolor: "#e8ecef", zeroline: false },
    yaxis: { title: { text: known ? "first-stage rank" : "final rank" }, autorange: "reversed", gridcolor: "#e8ecef", zeroline: false }, hovermode: "closest",
  }), CONFIG);
}

const grade = (graded, doc) => (graded[doc] === undefined ? "–" : String(graded[doc]));

const facts = (node) => Object.entries(node ?? {}).map(([k, v]) => `${k.replaceAll("_", " ")} ${typeof v === "object" ? JSON.stringify(v) : v}`).join(", ");

function why(row, note) {
  const estimate = field(row, "estimate");
  const expected = estimate === null ? [] : [`${f3(estimate)} (${field(row, "standing")}/${field(row, "open")})`];
  return [...expected, ...(note ? [facts(note)] : [])].join("; ") || "–";
}

function traceTable(p) {
  const d = C().decisions[p.name][state.query], graded = C().grades[state.query] ?? {}, box = element("div");
  const i = C().queries.indexOf(state.query), value = C().values[p.name][D.traced_column][state.measure][i];
  const detail = facts(d.stop.details);
  box.append(element("h3", `${p.label}: ${measure()} ${f3(value)}`));
  box.append(element("p", `${d.rows.length} documents scored; stopped: ${d.stop.reason}${detail ? ` (${detail})` : ""}`, { class: "note" }));
  const scroll = element("div", null, { class: "scroll" }), node = element("table", null, { "data-policy": p.name });
  table(node, ["no.", "batch", "document", "first", "expected", "score", "grade", "final"], d.rows.map((r, n) => {
    const doc = field(r, "doc"), text = C().doc_texts[doc];
    return {
      cells: [n + 1, field(r, "batch"), { text: doc, below: text, title: text, class: "doc" }, field(r, "first_rank") ?? "–",
        why(r, d.notes[field(r, "batch")]), f3(field(r, "score")), grade(graded, doc), field(r, "final_rank") ?? "–"],
      kind: (graded[doc] ?? 0) > 0 ? "picked" : "",
    };
  }), new Set([2]));
  scroll.append(node);
  box.append(scroll);
  return box;
}

function drawTrace() {
  const note = $("trace-note");
  if (state.query === null) {
    note.textContent = "No decisions were kept: name policies under traces in the configuration.";
    $("traces").replaceChildren();
    return;
  }
  note.textContent = `Decisions at ${columnName(D.traced_column)}: which document was reranked when, why, and what it scored. ` +
    "Marker size: the reranker's score; filled (shaded rows): judged relevant. “Expected” is the policy's estimate of the score just before the batch (its place/of the documents still open); " +
    "“first” is the first stage's rank, “final” the rank in the result.";
  drawOrder();
  $("traces").replaceChildren(...traced().map(traceTable));
}

function pick(query) {
  if (![...$("query").options].some((o) => o.value === query)) return;
  state.query = query;
  $("query").value = query;
  drawQueries();
  drawTrace();
}

function step(by) {
  const options = [...$("query").options], i = options.findIndex((o) => o.value === state.query);
  if (options.length) pick(options[(i + by + options.length) % options.length].value);
}

function drawAll() {
  drawCurves();
  drawMeans();
  drawFront();
  fillQueries();
  drawQueries();
  drawTrace();
}

function listen(id, act) {
  $(id).addEventListener("change", act);
}

function start() {
  const others = P.filter((p) => p.name !== D.reference), ours = others.find((p) => p.kind === "ours") ?? others[0] ?? reference;
  fill($("collection"), D.collections.map((c, i) => [i, c.name]), 0);
  fill($("measure"), D.measures.map((m, i) => [i, m]), 0);
  fill($("banded"), P.map((p) => [p.name, p.label]), ours.name);
  fill($("policy"), (others.length ? others : P).map((p) => [p.name, p.label]), ours.name);
  fill($("column"), D.columns.map((c) => [c, c]), D.traced_column);
  if (!D.columns_are_budgets) $("column").parentElement.hidden = true;
  $("log").checked = !D.collections.some((c) => Object.values(c.lines).some((l) => l.docs[0] === 0));
  drawProvenance();
  drawAll();
  listen("collection", (e) => { state.collection = Number(e.target.value); state.query = null; drawAll(); });
  listen("measure", (e) => { state.measure = Number(e.target.value); drawAll(); });
  for (const id of ["log", "ceilings", "banded"]) listen(id, () => { drawCurves(); drawFront(); });
  for (const id of ["policy", "column"]) listen(id, () => { fillQueries(); drawQueries(); drawTrace(); });
  listen("query", (e) => pick(e.target.value));
  $("previous").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  for (const id of ["scatter", "bars"]) $(id).on("plotly_click", (e) => pick(e.points[0].customdata));
}

start();
