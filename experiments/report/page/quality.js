// The recommendation, curves, tables of means and costs, and the Pareto front.
function drawAdvice() {
  for (const part of ["title", "summary", "rule"]) $(`advice-${part}`).textContent = D.advice[part];
  $("advice-evidence").replaceChildren(...D.advice.evidence.map((sentence) => element("li", sentence)));
}

// The rule counts documents; what its choice costs otherwise may be another story, so it is told.
function drawAdviceCost() {
  const { policy, column } = D.advice, ours = cellCost(policy, column), theirs = cellCost(D.reference, column);
  $("advice-cost").textContent = state.unit === "docs" || policy === D.reference ? "" :
    `The rule looks at documents. In ${unitLabel()}, on ${C().name}, a query costs ${costText(ours)} on average, and ${costText(theirs)} with ${reference.label} ${D.columns_are_budgets ? "at the same budget" : "as it ended"}` +
    (ours > 1.05 * theirs ? ": see “What is worth its cost” before you follow it." : ".");
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

function swatch(p) {
  const holder = element("span");
  holder.innerHTML = `<svg class="swatch" viewBox="0 0 44 14" aria-hidden="true"><line x1="1" y1="7" x2="43" y2="7" stroke="${p.ink}" stroke-width="2" ` +
    `stroke-dasharray="${p.dash === "solid" ? "none" : p.dash.replaceAll("px", "")}"/><text x="22" y="11.5" text-anchor="middle" font-size="13" fill="${p.ink}">${p.sign}</text></svg>`;
  return holder.firstChild;
}

function drawChips() {
  $("chips").replaceChildren(...P.map((p) => {
    const label = element("label"), box = element("input", null, { type: "checkbox", value: p.name });
    box.checked = state.shown.has(p.name);
    box.addEventListener("change", () => { state.shown[box.checked ? "add" : "delete"](p.name); drawCurves(); });
    label.append(box, swatch(p), p.label);
    return label;
  }));
}

function band(p, costs, j) {
  const l = C().curves[p.name], points = [];
  costs.forEach((x, i) => {
    if (x <= 0 && $("log").checked) return;
    if (i && l.steps) points.push([x, l.low[j][i - 1], l.high[j][i - 1]]);
    points.push([x, l.low[j][i], l.high[j][i]]);
  });
  const back = [...points].reverse();
  return {
    x: [...points, ...back].map((a) => a[0]), y: [...points.map((a) => a[2]), ...back.map((a) => a[1])], fill: "toself",
    fillcolor: `${p.ink}1f`, line: { width: 0.6, color: p.ink, dash: "dot" }, mode: "lines", hoverinfo: "skip",
  };
}

function curveTrace(p, costs, j, isShown) {
  const l = C().curves[p.name], shape = l.steps ? "hv" : "linear";
  const hover = `<b>${p.label}</b><br>%{customdata[0]}<br>${measure()} %{y:.3f} [%{customdata[1]:.3f}, %{customdata[2]:.3f}]<extra></extra>`;
  const said = l.allowed.map((n, i) => [`at most ${n} documents: ${costText(costs[i])} ${state.unit.endsWith("usd") ? "" : unitLabel()}` +
    (n === 0 ? "<br>nothing reranked yet" : ""), l.low[j][i], l.high[j][i]]);
  const trace = { x: costs, y: l.mean[j], name: p.label, customdata: said, hovertemplate: hover };
  if (!isShown) return { ...trace, mode: "lines", line: { shape, color: "#c3c9cf", width: 1 } };
  return { ...trace, mode: "lines+markers", line: { shape, color: p.ink, dash: p.dash, width: 2 }, marker: { symbol: p.marker, size: 8, color: p.ink } };
}

// Markers that would cover another are left out; the line goes on through their point.
function thinMarkers(traces, box, x, y) {
  const log = x.type === "log", wide = (box.clientWidth - 80) / (x.range[1] - x.range[0]), high = (box.clientHeight - 70) / (y[1] - y[0]);
  const points = traces.flatMap((t) => t.x.map((v, i) => ({ t, i, px: (log ? Math.log10(Math.max(v, 1e-12)) : v) * wide, py: t.y[i] * high })));
  apart(points);
  for (const t of traces) t.marker.opacity = points.filter((a) => a.t === t).map((a) => (a.free ? 1 : 0));
}

function levels(j) {
  const full = C().target[j], start = C().start?.[j];
  const line = (y, dash) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: "#555", width: 1, dash } });
  const text = (y, words, yanchor, x) => ({ xref: "paper", x, y, xanchor: x ? "right" : "left", yanchor, showarrow: false, text: words, font: { size: 11, color: "#444" }, bgcolor: "rgba(255,255,255,.75)" });
  const shapes = [line(full, "dot")], annotations = [text(full, `${D.columns_are_budgets ? "full quality" : "where the first run ends"} ${f3(full)}`, "bottom", 0)];
  if (start !== undefined) {
    shapes.push(line(start, "dashdot"));
    annotations.push(text(start, `${D.columns_are_budgets ? reference.label : "the first run"} at 0 documents: ${f3(start)}`, start < full ? "top" : "bottom", 1));
  }
  return { shapes, annotations };
}

// Where each curve begins whose first point costs nothing.
function starts(shown, j) {
  const found = shown.filter((p) => C().lines[p.name].allowed[0] === 0).map((p) => `${p.label} ${f3(C().lines[p.name].mean[j][0])}`);
  return found.length ? `: ${found.join(", ")}` : "";
}

function drawCurves() {
  const j = state.measure, shown = P.filter((p) => state.shown.has(p.name)), rest = P.filter((p) => !state.shown.has(p.name) && p.kind !== "ceiling");
  const costs = Object.fromEntries(P.map((p) => [p.name, lineCosts(p.name, C().curves[p.name])]));
  const drawn = [...shown, ...rest], all = drawn.flatMap((p) => costs[p.name]), log = $("log").checked;
  const x = costAxis(all.length ? all : costs[D.reference], log);
  const values = [...drawn.flatMap((p) => C().curves[p.name].mean[j]), ...shown.flatMap((p) => [...C().curves[p.name].low[j], ...C().curves[p.name].high[j]]),
    C().target[j], ...(C().start ? [C().start[j]] : [])];
  const low = Math.min(...values), high = Math.max(...values), pad = 0.07 * (high - low) || 0.02, y = [low - pad, high + pad];
  const lines = shown.map((p) => curveTrace(p, costs[p.name], j, true));
  thinMarkers(lines, $("curves"), x, y);
  const traces = [...rest.map((p) => curveTrace(p, costs[p.name], j, false)), ...shown.map((p) => band(p, costs[p.name], j)), ...lines];
  Plotly.react("curves", traces, layout({
    xaxis: x, yaxis: { title: { text: `mean ${measure()}, ${C().queries.length} queries` }, range: y, gridcolor: GRID, zeroline: false }, ...levels(j),
  }), CONFIG);
  $("curves-note").textContent = `Shaded: ${Math.round(D.level * 100)}% interval of the mean. Grey: policies that are not ticked. The vertical axis does not begin at 0. ` +
    `At 0 documents nothing is reranked yet. Fixed depth then has the first stage's order (of several first stages, their fused order), ` +
    `a policy with an estimator its own order by first-stage scores and texts${starts(shown, j)}. ${D.columns_are_budgets ? "“Full quality”" : "“Where the first run ends”"} (${f3(C().target[j])} at ${C().target_docs.toFixed(0)} documents): ${D.target_label}.` +
    (log && Object.values(costs).some((c) => c[0] === 0) ? " A log axis has no place for a cost of 0." : "") +
    (state.unit === "usd" || state.unit === "ms" ? ` ${unitLabel()[0].toUpperCase() + unitLabel().slice(1)} by the prices above.` : "");
}

function meanCell(p, c, j, best) {
  const cell = C().cells[p.name][c], m = cell.measures[j];
  const stops = Object.entries(cell.stops).map(([why, n]) => `${why} ${n}`).join(", ");
  const test = p.name === D.reference ? "" : `\n${signed(m.diff)} [${signed(m.diff_low)}, ${signed(m.diff_high)}] to ${reference.label}` +
    `\np (Holm): t ${pValue(m.p_t)}, randomization ${pValue(m.p_randomization)}`;
  return {
    text: f3(m.mean) + m.verdict, class: p.kind !== "ceiling" && m.mean === best[c] ? "best" : "",
    title: `[${f3(m.low)}, ${f3(m.high)}]${test}\ncharged ${cell.docs_mean} documents (median ${cell.docs_median}), ${cell.calls_mean} calls` +
      `${cell.expanded_mean ? `, ${cell.expanded_mean} found by expansion` : ""}\nstopped: ${stops}`,
  };
}

function drawTables() {
  const j = state.measure, usable = P.filter((p) => p.kind !== "ceiling"), heads = D.columns_are_budgets ? D.columns : ["as it ended"];
  const best = Object.fromEntries(D.columns.map((c) => [c, Math.max(...usable.map((p) => C().cells[p.name][c].measures[j].mean))]));
  const kind = (p) => (p.name === D.advice.policy ? "advised" : p.kind);
  table($("means"), [D.columns_are_budgets ? `${measure()}, by budget in documents` : "run", ...heads],
    P.map((p) => ({ kind: kind(p), cells: [p.label, ...D.columns.map((c) => meanCell(p, c, j, best))] })));
  $("means-note").textContent = `Mean ${measure()}. ▲ / ▼: above / below ${reference.label}, corrected p < .05 in both tests; △ / ▽: in one of them. ` +
    "Bold: the best of a column. Green: recommended. Hold the pointer over a figure for its interval, difference, p-values, costs and stop reasons.";
  $("h-costs").textContent = `What a query costs on average: ${unitLabel()}`;
  table($("costs"), [D.columns_are_budgets ? "by budget in documents" : "run", ...heads],
    P.map((p) => ({ kind: kind(p), cells: [p.label, ...D.columns.map((c) => costText(cellCost(p.name, c)))] })));
  const s = C().summary, goal = C().target[0];
  const to = (p, share) => {
    const curve = C().curves[p.name];
    return costToReach(lineCosts(p.name, curve), curve.mean[0], share * goal, curve.steps);
  };
  table($("areas"), [`headline (${D.measures[0]})`, "area under the curve", "area, log axis", `${unitLabel()} to 95% of full quality`, "to 99%", "largest fall"],
    P.map((p) => ({ kind: kind(p), cells: [p.label, s[p.name].area.toFixed(4), s[p.name].area_log.toFixed(4), to(p, 0.95), to(p, 0.99), s[p.name].largest_fall.toFixed(4)] })));
}

function drawFront() {
  const points = P.filter((p) => p.kind !== "ceiling").flatMap((p) => {
    const l = C().lines[p.name], costs = lineCosts(p.name, l);
    return costs.map((x, i) => ({ p, x, y: l.mean[0][i], low: l.low[0][i], high: l.high[0][i], allowed: l.allowed[i] }));
  });
  const held = front(points).sort((a, b) => a.x - b.x || a.y - b.y || P.indexOf(a.p) - P.indexOf(b.p));
  const distinct = held.filter((a, i) => !i || Math.abs(a.x - held[i - 1].x) > 1e-9 || Math.abs(a.y - held[i - 1].y) > 1e-9);
  const x = costAxis(distinct.map((a) => a.x), $("log").checked && distinct.every((a) => a.x > 0));
  const lows = distinct.map((a) => a.low), highs = distinct.map((a) => a.high), pad = 0.05, y = [Math.min(...lows) - pad, Math.max(...highs) + pad];
  const marks = {
    x: distinct.map((a) => a.x), y: distinct.map((a) => a.y), mode: "markers", customdata: distinct.map((a) => [a.p.label, a.allowed, costText(a.x)]),
    marker: { symbol: distinct.map((a) => a.p.marker), size: 9, color: distinct.map((a) => a.p.ink) },
    error_y: { type: "data", symmetric: false, array: distinct.map((a) => a.high - a.y), arrayminus: distinct.map((a) => a.y - a.low), thickness: 1, width: 3, color: "#777" },
    hovertemplate: `<b>%{customdata[0]}</b>, at most %{customdata[1]} documents<br>%{customdata[2]}, ${D.measures[0]} %{y:.3f}<extra></extra>`,
  };
  thinMarkers([marks], $("front"), x, y);
  Plotly.react("front", [{ x: marks.x, y: marks.y, mode: "lines", line: { shape: "hv", color: "#aab2ba", width: 1.5 }, hoverinfo: "skip" }, marks], layout({
    xaxis: x, yaxis: { title: { text: `mean ${D.measures[0]}, ${C().queries.length} queries` }, range: y, gridcolor: GRID, zeroline: false },
  }), CONFIG);
  const labels = (same) => same.map((b) => b.p.label).filter((l, k, all) => all.indexOf(l) === k).join(" = ");
  const names = (a) => held.filter((b) => Math.abs(a.x - b.x) <= 1e-9 && Math.abs(a.y - b.y) <= 1e-9);
  table($("front-table"), ["policy", "budget", unitLabel(), D.measures[0], "interval", "gain for more"], distinct.map((a, i) => {
    const before = distinct[i - 1], same = names(a), who = element("span"), said = labels(same);
    who.append(swatch(a.p), i && said === labels(names(before)) ? " the same" : ` ${said}`);
    return { cells: [who, [...new Set(same.map((b) => b.allowed))].join(", "), costText(a.x), f3(a.y), `[${f3(a.low)}, ${f3(a.high)}]`,
      before ? `${signed(a.y - before.y)} for ${costText(a.x - before.x)}` : "–"] };
  }));
}
