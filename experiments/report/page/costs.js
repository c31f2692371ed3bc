// Costs, worked out from documents, calls and tokens by the prices that the reader types.
const prices = { ...D.prices };
const PRICE_LABELS = {
  usd_per_unit: "$ per search unit", docs_per_unit: "documents of a search unit (N)", usd_per_call: "$ per call", usd_per_doc: "$ per document",
  usd_per_1k_tokens: "$ per 1000 tokens", ms_per_call: "ms per call", ms_per_doc: "ms per document",
};
const LABELS = {
  docs: "documents", calls: "calls", tokens: "tokens", ms: "milliseconds", usd: "dollars",
  recorded_ms: "milliseconds, as recorded", recorded_usd: "dollars, as recorded",
  flops: "FLOPs", search_units: "search units, as recorded", joules: "joules",
};
const searchUnits = (docs, calls) => Math.max(calls, docs / prices.docs_per_unit);

// What is known of a collection's costs decides which axes there are.
function units() {
  const lines = C().lines[D.reference], known = (part) => C().totals[part] > 0;
  const names = ["docs"];
  if (lines.calls) names.push("calls", ...(known("tokens") ? ["tokens"] : []), "ms", "usd");
  if (lines.calls && known("latency_ms")) names.push("recorded_ms");
  if (lines.calls && known("usd")) names.push("recorded_usd");
  if (lines.calls) names.push(...["flops", "search_units", "joules"].filter(known));
  return names.map((name) => ({ name, label: LABELS[name] }));
}

// The cost in the chosen unit of what was charged, by unit; blocks are search units by the reader's own number.
function costOf(spent) {
  const dollars = spent.blocks * prices.usd_per_unit + spent.calls * prices.usd_per_call + spent.docs * prices.usd_per_doc
    + ((spent.tokens ?? 0) / 1000) * prices.usd_per_1k_tokens;
  const known = { ms: spent.calls * prices.ms_per_call + spent.docs * prices.ms_per_doc, usd: dollars, recorded_ms: spent.latency_ms, recorded_usd: spent.usd };
  return state.unit in known ? known[state.unit] : spent[state.unit];
}

// The mean search units of a cell are those of its queries, as a query with few documents pays for a whole call too.
function cellBlocks(policy, column) {
  const docs = C().charged[policy][column], calls = C().calls[policy][column];
  return docs.reduce((sum, n, q) => sum + Math.max(calls[q], Math.ceil(n / prices.docs_per_unit)), 0) / docs.length;
}

// Mean cost of each point of a policy's line or curve.
function lineCosts(policy, l) {
  return l.docs.map((docs, i) => {
    const calls = l.calls?.[i] ?? 0, column = String(l.allowed[i]);
    const blocks = D.columns.includes(column) ? cellBlocks(policy, column) : searchUnits(docs, calls);
    return costOf({ ...Object.fromEntries(D.units.map((unit) => [unit, l[unit]?.[i]])), docs, calls, blocks });
  });
}

function cellCost(policy, column) {
  const cell = C().cells[policy][column];
  return costOf({ ...Object.fromEntries(D.units.map((unit) => [unit, cell[`${unit}_mean`]])), blocks: cellBlocks(policy, column) });
}

// What the batches so far of one query were charged; `cost` is in the order of D.units.
function stepCost(cost) {
  const spent = Object.fromEntries(D.units.map((unit, i) => [unit, cost[i] ?? 0]));
  return costOf({ ...spent, blocks: searchUnits(spent.docs, spent.calls) });
}

function costText(x) {
  if (x === undefined || x === null) return "–";
  if (state.unit.endsWith("usd")) return `$${x >= 0.1 || x === 0 ? x.toFixed(2) : x.toPrecision(2)}`;
  if (state.unit === "flops") return x.toPrecision(3);
  return x >= 1000 ? Math.round(x).toLocaleString("en") : x.toFixed(state.unit === "tokens" || state.unit.endsWith("ms") ? 0 : 1);
}

// A cost of one query, with its unit: counts are whole.
function spentText(x) {
  if (state.unit.endsWith("usd")) return costText(x);
  return `${Number.isInteger(x) ? x.toLocaleString("en") : costText(x)} ${x === 1 ? unitLabel().replace(/s$/, "") : unitLabel()}`;
}

const unitLabel = () => LABELS[state.unit];
const costAxisTitle = (log) => `${unitLabel()} per query, mean${log ? " (log)" : ""}`;

function costAxis(costs, log) {
  const positive = costs.filter((x) => x > 0), top = Math.max(...positive, 1e-9);
  const axis = { title: { text: costAxisTitle(log) }, gridcolor: GRID, zeroline: false, tickprefix: state.unit.endsWith("usd") ? "$" : "" };
  if (!log) return { ...axis, range: [-0.02 * top, 1.04 * top] };
  const low = Math.log10(Math.min(...positive)), high = Math.log10(top), pad = 0.04 * (high - low) || 0.1;
  const decades = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, i) => Math.floor(low) + i);
  const ticks = decades.flatMap((d) => [1, 2, 3, 5, 7].map((n) => Number(`${n}e${d}`))).filter((v) => v >= 10 ** (low - pad) && v <= 10 ** (high + pad));
  const kept = ticks.length > (narrow() ? 5 : 9) ? ticks.filter((v) => !/^[37]/.test(v.toExponential())) : ticks;
  return { ...axis, type: "log", range: [low - pad, high + pad], tickvals: kept, ticktext: kept.map((v) => `${axis.tickprefix}${v.toLocaleString("en", { maximumSignificantDigits: 2 })}`), tickprefix: "" };
}

// Cheapest cost at which a line reaches a goal, as experiments/evaluate/significance.py has it.
function costToReach(costs, quality, goal, steps) {
  const i = quality.findIndex((v) => v >= goal - 1e-9);
  if (i < 0) return { text: "–" };
  if (i === 0 || steps) return { text: (i === 0 && costs[0] > 0 ? "≤ " : "") + costText(costs[i]) };
  const rise = quality[i] - quality[i - 1], share = rise <= 0 ? 1 : Math.min(1, (goal - quality[i - 1]) / rise);
  return { text: costText(costs[i - 1] + share * (costs[i] - costs[i - 1])) };
}

// Of {x, y} points: those that no other beats, being at most as dear and at least as good.
function front(points) {
  return points.filter((a) => !points.some((b) => b.x <= a.x && b.y >= a.y && (b.x < a.x || b.y > a.y)));
}
