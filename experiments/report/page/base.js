"use strict";
// The data of the study, what is chosen at the moment, and small helpers of all parts.
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const P = D.policies;
const byName = Object.fromEntries(P.map((p) => [p.name, p]));
const reference = byName[D.reference];
const CONFIG = { displaylogo: false, displayModeBar: false, responsive: true };
const FONT = { family: "system-ui, DejaVu Sans, sans-serif", size: 13, color: "#1b1f24" };
const GRID = "#e8ecef";
const state = { collection: 0, measure: 0, unit: "docs", policy: null, column: null, query: null, shown: new Set(), sort: ["difference", -1] };
const C = () => D.collections[state.collection];
const measure = () => D.measures[state.measure];
const f3 = (x) => (x === null || x === undefined ? "–" : x.toFixed(3));
const signed = (x) => (x > 0 ? "+" : x < 0 ? "−" : "±") + Math.abs(x).toFixed(3);
const pValue = (p) => (p === null ? "–" : p < 0.001 ? "< .001" : p.toFixed(3).replace(/^0/, ""));
const columnName = (c) => (D.columns_are_budgets ? `at most ${c} documents` : "as it ended");
const narrow = () => window.innerWidth < 560;

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

// A cell of a table is a text, a node, or {text, below, title, class}; a row is {cells, kind} or {step: node}.
function tableCell(given, isText) {
  if (given instanceof Node) given = { node: given };
  const value = typeof given === "object" && given !== null ? given : { text: given };
  const td = element("td", value.text, value.title ? { title: value.title } : {});
  if (value.node) td.append(value.node);
  if (isText) td.classList.add("left");
  if (value.below) td.append(value.below);
  if (value.class) td.classList.add(...value.class.split(" "));
  return td;
}

function tableRow(row, columns, textColumns) {
  const tr = element("tr", null, row.kind ? { class: row.kind } : {});
  if (row.step) {
    const td = element("td", null, { colspan: columns });
    td.append(row.step);
    tr.append(td);
  } else tr.append(...row.cells.map((cell, i) => tableCell(cell, textColumns.has(i))));
  return tr;
}

function table(node, head, rows, textColumns = new Set()) {
  const top = element("tr"), thead = element("thead"), tbody = element("tbody");
  head.forEach((given, i) => {
    const th = element("th", given instanceof Node ? null : given, { scope: "col", ...(textColumns.has(i) ? { class: "left" } : {}) });
    if (given instanceof Node) th.append(given);
    top.append(th);
  });
  thead.append(top);
  tbody.append(...rows.map((row) => tableRow(row, head.length, textColumns)));
  node.replaceChildren(thead, tbody);
}

function layout(extra) {
  return {
    font: narrow() ? { ...FONT, size: 12 } : FONT, margin: narrow() ? { l: 52, r: 8, t: 12, b: 50 } : { l: 66, r: 16, t: 14, b: 54 },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", hoverlabel: { align: "left" }, showlegend: false, hovermode: "closest", ...extra,
  };
}

// Of points in order of importance: those whose marker would cover no other's. Scales are in pixels.
function apart(points, pixels = 11) {
  const kept = [];
  for (const point of points) {
    point.free = kept.every((other) => Math.hypot(point.px - other.px, point.py - other.py) >= pixels);
    if (point.free) kept.push(point);
  }
}

// What is chosen is in the address, so that a link leads to the same query in the same light.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1)), names = D.collections.map((c) => c.name);
  const chosen = [["collection", names.indexOf(given.get("collection"))], ["measure", D.measures.indexOf(given.get("measure"))]];
  for (const [key, i] of chosen) if (i >= 0) state[key] = i;
  if (P.some((p) => p.name === given.get("policy"))) state.policy = given.get("policy");
  if (D.columns.includes(given.get("column"))) state.column = given.get("column");
  if (units().some((u) => u.name === given.get("unit"))) state.unit = given.get("unit");
  if (C().queries.includes(given.get("query"))) state.query = given.get("query");
  return given.has("query") && state.query === given.get("query");
}

function addressOf(query) {
  const parts = { collection: C().name, query, policy: state.policy, column: state.column, measure: measure(), unit: state.unit };
  return `#${new URLSearchParams(parts)}`;
}
