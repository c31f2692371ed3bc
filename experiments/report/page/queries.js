// Query by query: where a policy wins and loses, and the steps of one query.
const differences = (policy, column) => {
  const ours = C().values[policy][column][state.measure], theirs = C().values[D.reference][column][state.measure];
  return ours.map((v, i) => v - theirs[i]);
};
const gainInk = (d) => (d > 1e-9 ? "#0072B2" : d < -1e-9 ? "#D55E00" : "#8a8a8a");

function drawQueries() {
  const p = byName[state.policy], c = state.column, diff = differences(p.name, c), ids = C().queries;
  const name = (q) => `${q}${C().query_texts[q] ? `: ${C().query_texts[q]}` : ""}`.replace(/</g, "&lt;");
  const order = diff.map((_, i) => i).sort((a, b) => diff[b] - diff[a]);
  const edge = order.map((i) => (ids[i] === state.query ? "#000" : "#fff"));
  Plotly.react("bars", [{
    type: "bar", x: order.map((_, i) => i + 1), y: order.map((i) => diff[i]), customdata: order.map((i) => ids[i]), text: order.map((i) => name(ids[i])),
    marker: { color: order.map((i) => gainInk(diff[i])), line: { color: edge, width: order.map((i) => (ids[i] === state.query ? 3 : 0)) } },
    textposition: "none", hovertemplate: "%{text}<br>%{y:+.3f}<extra></extra>",
  }], layout({
    xaxis: { title: { text: "queries, largest gain first" }, gridcolor: "#fff", zeroline: false },
    yaxis: { title: { text: `${measure()}, difference` }, gridcolor: GRID, zerolinecolor: "#444" }, bargap: 0.15,
  }), CONFIG);
  const wins = diff.filter((d) => d > 1e-9).length, losses = diff.filter((d) => d < -1e-9).length, m = C().cells[p.name][c].measures[state.measure];
  $("queries-note").textContent = p.name === D.reference ? "" :
    `${p.label}, ${columnName(c)}, against ${reference.label}: ${wins} queries better, ${losses} worse, ${diff.length - wins - losses} equal; mean difference ` +
    `${signed(m.diff)} [${signed(m.diff_low)}, ${signed(m.diff_high)}], p (Holm) t-test ${pValue(m.p_t)}, randomization ${pValue(m.p_randomization)}. ` +
    "Follow a query to see what was reranked, why, and what it cost.";
  drawList(p, c, diff);
}

function sortButton(key, text) {
  const [by, way] = state.sort, button = element("button", text + (by === key ? (way < 0 ? " ↓" : " ↑") : ""), { type: "button", "data-sort": key });
  button.addEventListener("click", () => {
    state.sort = [key, by === key ? -way : -1];
    drawQueries();
    document.querySelector(`[data-sort=${key}]`).focus();
  });
  return button;
}

function drawList(p, c, diff) {
  const ours = C().values[p.name][c][state.measure], theirs = C().values[D.reference][c][state.measure];
  const docs = C().charged[p.name][c], ids = C().queries, [by, way] = state.sort;
  const keys = { difference: diff, documents: docs, ours, theirs };
  const order = ids.map((_, i) => i).sort((a, b) => way * (by === "query" ? (ids[a] < ids[b] ? 1 : -1) : keys[by][a] - keys[by][b]) || a - b);
  const head = [sortButton("query", "query"), sortButton("difference", "difference"), sortButton("ours", p.label), sortButton("theirs", reference.label),
    sortButton("documents", "documents"), `documents of ${reference.label}`];
  table($("list"), head, order.map((i) => {
    const link = element("a", ids[i], { href: addressOf(ids[i]) }), cell = element("span");
    cell.append(link, C().query_texts[ids[i]] ? ` ${C().query_texts[ids[i]]}` : "");
    return { kind: ids[i] === state.query ? "picked" : "", cells: [cell, signed(diff[i]), f3(ours[i]), f3(theirs[i]), docs[i], C().charged[D.reference][c][i]] };
  }), new Set([0]));
}

const traced = () => P.filter((p) => C().decisions[p.name]?.[state.query]);
const field = (row, name) => row[D.fields.indexOf(name)];
const stepField = (row, name) => row[D.step_fields.indexOf(name)];
const facts = (node) => Object.entries(node ?? {}).map(([k, v]) => `${k.replaceAll("_", " ")} ${typeof v === "object" ? JSON.stringify(v) : v}`).join(", ");

function fillQueries() {
  const ids = C().queries.filter((q) => P.some((p) => C().decisions[p.name]?.[q])), diff = differences(state.policy, state.column);
  const gain = Object.fromEntries(C().queries.map((q, i) => [q, diff[i]]));
  ids.sort((a, b) => gain[b] - gain[a]);
  if (!ids.includes(state.query)) state.query = ids[0] ?? null;
  fill($("query"), ids.map((q) => [q, `${q}${C().query_texts[q] ? " · " + C().query_texts[q] : ""} (${signed(gain[q])})`]), state.query);
}

function drawProgress() {
  const known = traced().filter((p) => C().decisions[p.name][state.query].quality?.length);
  $("progress").hidden = !known.length || state.measure !== 0;
  if ($("progress").hidden) return;
  const traces = known.map((p) => {
    const d = C().decisions[p.name][state.query], paid = d.steps.filter((s) => stepField(s, "outcome") === "scored");
    const costs = [0, ...paid.map((s) => stepCost(stepField(s, "cost")))].slice(0, d.quality.length);
    return {
      x: costs, y: d.quality.slice(0, costs.length), name: p.label, mode: "lines+markers", line: { shape: "hv", color: p.ink, dash: p.dash, width: 2 },
      marker: { symbol: p.marker, size: 8, color: p.ink }, hovertemplate: `<b>${p.label}</b><br>${D.measures[0]} %{y:.3f}<extra></extra>`,
    };
  });
  const x = { ...costAxis(traces.flatMap((t) => t.x), false), title: { text: `${unitLabel()}, this query` } }, y = [-0.06, 1.06];
  thinMarkers(traces, $("progress"), x, y);
  Plotly.react("progress", traces, layout({ xaxis: x, yaxis: { title: { text: D.measures[0] }, range: y, gridcolor: GRID }, showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" }, margin: { l: 56, r: 10, t: 30, b: 50 } }), CONFIG);
}

const OUTCOMES = { scored: "granted", failed: "granted, but the call failed", denied: "denied" };

// Why the budget let a batch pass, which is known where it limits documents: so many were left.
function room(step, d) {
  const i = d.steps.indexOf(step), before = i ? stepField(d.steps[i - 1], "cost")[0] : 0;
  return D.columns_are_budgets && stepField(step, "outcome") !== "denied" ? `${D.traced_column - before} of ${D.traced_column} documents were left` : "";
}

function stepHead(step, d) {
  const node = element("span"), batch = stepField(step, "batch"), outcome = stepField(step, "outcome"), note = d.notes[batch], reason = facts(stepField(step, "reason")) || room(step, d);
  const strategy = stepField(step, "strategy"), by = strategy === "default" ? "" : ` by ${strategy}`;
  node.append(element("b", `Batch ${batch}: ${stepField(step, "asked")} documents proposed${by}, ${OUTCOMES[outcome]}`));
  const quality = outcome === "scored" && d.quality?.[batch] !== undefined ? `; ${D.measures[0]} now ${f3(d.quality[batch])}` : "";
  node.append(`${reason ? ` (${reason})` : ""}${note ? `. Why: ${facts(note)}` : ""}. Paid so far: ${spentText(stepCost(stepField(step, "cost")))}${quality}.`);
  return { step: node, kind: "step" };
}

function docCell(doc) {
  const text = C().doc_texts[doc];
  if (!text) return { text: doc, class: "doc" };
  const node = element("span", doc, { class: "doc" }), below = element("div", null, { class: "below" });
  if (text.length <= 90) below.textContent = text;
  else {
    const more = element("details");
    more.append(element("summary", text.slice(0, 90).replace(/\s+\S*$/, "") + " …"), text);
    below.append(more);
  }
  return { node, below };
}

// What a table says of a scored document. A column that has no figure in the whole table is left out.
const TOLD = {
  "first-stage rank": (row) => field(row, "first_rank"),
  "estimate (place)": (row) => (field(row, "estimate") === null ? null : `${f3(field(row, "estimate"))} (${field(row, "standing")}/${field(row, "open")})`),
  score: (row) => f3(field(row, "score")),
  grade: (row, graded) => graded[field(row, "doc")] ?? null,
  "rank before": (row) => field(row, "before"),
  after: (row) => field(row, "after"),
  final: (row) => field(row, "final_rank"),
};

function docRow(row, number, graded, columns) {
  const doc = field(row, "doc");
  return {
    kind: (graded[doc] ?? 0) > 0 ? "picked" : "",
    cells: [{ text: number, class: "narrow" }, docCell(doc), ...columns.map((name) => TOLD[name](row, graded) ?? "–")],
  };
}

function traceTable(p) {
  const d = C().decisions[p.name][state.query], graded = C().grades[state.query] ?? {}, box = element("details", null, { class: "steps" });
  box.open = p.name === state.policy;
  const value = C().values[p.name][D.traced_column][state.measure][C().queries.indexOf(state.query)], detail = facts(d.stop.details);
  const last = d.steps.length ? stepField(d.steps[d.steps.length - 1], "cost") : [0, 0, 0, 0, 0];
  box.append(element("summary", `${p.label}: ${measure()} ${f3(value)}, ${d.rows.length} documents scored in ${d.steps.length} ${d.steps.length === 1 ? "batch" : "batches"}`));
  box.append(element("p", `${d.rows.length} documents scored${state.unit === "docs" ? "" : ` for ${spentText(stepCost(last))}`}; ` +
    `stopped: ${d.stop.reason.replaceAll("_", " ")}${detail ? ` (${detail})` : ""}.`, { class: "note" }));
  const scroll = element("div", null, { class: "scroll", tabindex: 0, role: "region", "aria-label": `Steps of ${p.label}` }), node = element("table", null, { "data-policy": p.name });
  const columns = Object.keys(TOLD).filter((name) => d.rows.some((row) => TOLD[name](row, graded) !== null));
  let number = 0;
  const rows = d.steps.flatMap((step) => [stepHead(step, d),
    ...d.rows.filter((r) => field(r, "batch") === stepField(step, "batch")).map((r) => docRow(r, (number += 1), graded, columns))]);
  table(node, ["no.", "document", ...columns], rows, new Set([1]));
  scroll.append(node);
  box.append(scroll);
  return box;
}

function drawTrace() {
  const none = state.query === null || !traced().length;
  $("progress").hidden = none;
  $("link").setAttribute("href", none ? "#" : addressOf(state.query));
  if (none) {
    $("trace-note").textContent = "No decisions were kept: name policies under traces in the configuration.";
    $("traces").replaceChildren();
    return;
  }
  const text = C().query_texts[state.query];
  $("h-trace").textContent = `One query: ${state.query}${text ? `, “${text}”` : ""}`;
  $("trace-note").textContent = `The steps of each policy with ${columnName(D.traced_column)}. A policy proposes a batch; the budget grants or denies it; the reranker scores it. ` +
    "“Estimate” is what the policy expected of a document just before the batch, with its place among those still open. Ranks are in the result, before and after the batch, and at the end. " +
    "“Grade” is the judgment; shaded rows are judged relevant; – is not judged or not known." +
    (Object.keys(C().doc_texts).length ? "" : " Texts are not part of this report.");
  drawProgress();
  $("traces").replaceChildren(...traced().map(traceTable));
}
