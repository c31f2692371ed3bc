// Puts the parts together and listens.
function pick(query) {
  if (![...$("query").options].some((o) => o.value === query)) return;
  state.query = query;
  $("query").value = query;
  history.replaceState(null, "", addressOf(query));
  drawQueries();
  drawTrace();
}

function step(by) {
  const options = [...$("query").options], i = options.findIndex((o) => o.value === state.query);
  if (options.length) pick(options[(i + by + options.length) % options.length].value);
}

function drawCosts() {
  drawAdviceCost();
  drawCurves();
  drawTables();
  drawFront();
  drawTrace();
}

function drawAll() {
  if (!units().some((u) => u.name === state.unit)) state.unit = "docs";
  fill($("unit"), units().map((u) => [u.name, u.label]), state.unit);
  for (const key of ["collection", "measure", "policy", "column"]) $(key).value = state[key];
  fillQueries();
  drawQueries();
  drawCosts();
}

function priceInput([name, value]) {
  const label = element("label", `${PRICE_LABELS[name]} `), least = name === "docs_per_unit" ? 1 : 0;
  const input = element("input", null, { type: "number", min: least, step: "any", value, "data-price": name });
  input.addEventListener("input", () => {
    const given = input.valueAsNumber;
    input.setCustomValidity(given >= least ? "" : `a number of at least ${least}`);
    input.reportValidity();
    if (given >= least) { prices[name] = given; drawCosts(); }
  });
  label.append(input);
  return label;
}

// Figures are drawn again at the width of the paper, and of the window afterwards.
function onPaper(width) {
  for (const plot of document.querySelectorAll(".js-plotly-plot")) Plotly.relayout(plot, { width });
}

function follow() {
  const asked = readAddress();
  drawAll();
  if (!asked) return;
  $("one").scrollIntoView();
  $("h-trace").focus({ preventScroll: true });
}

function listen(id, act) {
  $(id).addEventListener("change", (e) => act(e.target.value));
}

function start() {
  const others = P.filter((p) => p.name !== D.reference), ours = others.find((p) => p.kind === "ours") ?? others[0] ?? reference;
  state.policy = D.advice.policy !== D.reference ? D.advice.policy : ours.name;
  state.column = D.columns.includes(D.advice.column) && D.advice.policy !== D.reference ? D.advice.column : D.traced_column;
  state.shown = new Set([D.reference, state.policy]);
  fill($("collection"), D.collections.map((c, i) => [i, c.name]), 0);
  fill($("measure"), D.measures.map((m, i) => [i, m]), 0);
  fill($("policy"), (others.length ? others : P).map((p) => [p.name, p.label]), state.policy);
  fill($("column"), D.columns.map((c) => [c, c]), state.column);
  $("column").parentElement.hidden = !D.columns_are_budgets;
  $("log").checked = D.columns_are_budgets;
  $("prices").replaceChildren(...Object.entries(prices).map(priceInput));
  drawAdvice();
  drawProvenance();
  drawChips();
  follow();
  listen("collection", (value) => { state.collection = Number(value); state.query = null; drawAll(); });
  listen("measure", (value) => { state.measure = Number(value); drawAll(); });
  listen("unit", (value) => { state.unit = value; $("prices-box").open ||= value === "usd" || value === "ms"; drawCosts(); });
  listen("log", drawCosts);
  for (const key of ["policy", "column"]) listen(key, (value) => { state[key] = value; fillQueries(); drawQueries(); drawTrace(); });
  listen("query", pick);
  $("previous").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  $("bars").on("plotly_click", (e) => pick(e.points[0].customdata));
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", () => onPaper(680));
  window.addEventListener("afterprint", () => onPaper(null));
}

start();
