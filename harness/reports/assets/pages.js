// The pages: overview, matrix, one violation.
let resultQuery = "", resultStatus = null;
const results = new VirtualList({
  kind: "results", height: 30, label: "results",
  head: html`<span>status</span><span>scenario</span><span>${report.matrix ? "frontend" : "profile"}</span><span>what</span><span class="right">time</span>`,
  row: result => html`<div class="row" role="option" aria-selected="false"><span>${chip(result.status)}</span>
    <span class="name mono" title=${result.title}>${result.violation === null ? result.scenario
      : html`<a href="#/v/${result.violation}">${result.scenario}</a>`}</span>
    <span class="name">${result.column}</span>
    <span class="detail" title=${result.detail}>${result.mutant && !oneMutant ? `mutant ${result.mutant}: ` : ""}${result.detail || result.title}</span>
    <span class="right">${result.duration_s ? `${result.duration_s.toFixed(2)} s` : ""}</span></div>`,
});
// Red first, since that is what one came for; else the order of the run.
const GRAVITY = ["violated", "regression", "blind", "unstable", "error", "waived", "known"];
const inGravity = report.results.map((result, place) => ({ result, place,
  weight: GRAVITY.includes(result.status) ? GRAVITY.indexOf(result.status) : GRAVITY.length }))
  .sort((a, b) => a.weight - b.weight || a.place - b.place).map(({ result }) => result);
const mutants = new Set(report.results.map(result => result.mutant));
const oneMutant = mutants.size === 1 ? [...mutants][0] : null;
function shownResults() {
  const query = resultQuery.trim().toLowerCase();
  return inGravity.filter(result => (!resultStatus || result.status === resultStatus)
    && (!query || `${result.scenario} ${result.title} ${result.column} ${result.detail}`.toLowerCase().includes(query)));
}
function drawResults() {
  results.show(shownResults());
  const box = document.getElementById("result-count");
  if (box) box.textContent = `${shownResults().length.toLocaleString("en")} of ${count(report.results.length, "result")}`;
}
function tiles() {
  return html`<div class="tiles">${Object.entries(report.counts).map(([status, n]) => html`<button type="button"
    class="tile" aria-pressed=${resultStatus === status} data-status=${status} @click=${() => {
      resultStatus = resultStatus === status ? null : status;
      draw();
    }}><b>${n.toLocaleString("en")}</b>${chip(status)}</button>`)}</div>`;
}
function folded(title, lines) {
  return lines.length ? html`<details><summary>${title} (${lines.length})</summary>
    <ul class="plain">${lines.map(line => html`<li>${line}</li>`)}</ul></details>` : nothing;
}
function overview() {
  return html`<h1>${report.headline}${oneMutant ? `, mutant ${oneMutant}` : ""}</h1>
    <p class="soft">${report.verdict}</p>
    ${tiles()}
    ${report.notes.map(note => html`<p class="note">${note}</p>`)}
    ${folded("not run", report.not_run)}
    ${report.matrix ? folded("flips", report.matrix.flips) : nothing}
    <div class="bar"><input type="search" id="result-search" placeholder="search results  ( / )"
      aria-label="search results" .value=${resultQuery}
      @input=${event => { resultQuery = event.target.value; drawResults(); }}>
      <span class="soft" id="result-count" aria-live="polite"></span></div>
    ${results.template()}`;
}

const cells = !report.matrix ? null : new VirtualList({
  kind: "grid", height: 26, label: "matrix",
  head: html`<span class="name">scenario</span>${report.matrix.columns.map(column =>
    html`<span title=${report.matrix.column_notes[column] ?? column}>${column}</span>`)}`,
  row: row => html`<div class="row" role="option" aria-selected="false"><span class="name" title=${report.matrix.rows[row]}>${report.matrix.rows[row]}</span>
    ${report.matrix.cells[row].map(cell)}</div>`,
});
function cell(place) {
  const { signs } = report.matrix;
  if (place < 0) return html`<span class="cell not_run" title="not run">${signs.not_run}</span>`;
  const result = report.results[place];
  const tip = `${result.column}: ${words(result.status)}${result.detail ? `: ${result.detail}` : ""}`;
  return result.violation === null
    ? html`<span class="cell ${result.status}" title=${tip}>${signs[result.status]}</span>`
    : html`<a class="cell ${result.status}" title=${tip} href="#/v/${result.violation}">${signs[result.status]}</a>`;
}
function matrixPage() {
  const { matrix } = report;
  return html`<h1>${report.headline}</h1><p class="soft">${report.verdict}</p>
    <p class="legend">${Object.entries(matrix.meanings).map(([status, meaning]) =>
      html`<span><span class="cell ${status}">${matrix.signs[status]}</span>${words(status)}: ${meaning}</span>`)}</p>
    ${cells.template()}`;
}

function promise(told) {
  return html`<section class="promise ${told.level}" aria-label="promise">
    <p>${chip(told.level)} <code>${told.code}</code> <span class="soft">in</span> <code>${told.scenario}</code>
      <span class="soft">(${told.settings.join(", ")})</span></p>
    <h1>${told.message}</h1>
    ${told.title && told.title !== told.scenario ? html`<p class="soft">${told.title}</p>` : nothing}
    ${told.statement ? html`<p>${told.statement}</p>` : nothing}
    ${told.expected || told.seen ? html`<div class="versus">
      <div class="expected"><b>expected</b>${told.expected}</div>
      <div class="seen"><b>seen</b>${told.seen}</div></div>` : nothing}
    <details><summary>why it matters, order, consequences</summary>
      ${told.why ? html`<p>${told.why}</p>` : nothing}
      ${told.source ? html`<p class="soft">${told.source}</p>` : nothing}
      ${told.order ? html`<h3>Order of events</h3><ul class="plain">${told.order.map(line => html`<li>${line}</li>`)}</ul>` : nothing}
      ${told.also.length ? html`<h3>Also</h3><ul class="plain">${told.also.map(line => html`<li>${line}</li>`)}</ul>` : nothing}
      ${told.evidence.length ? html`<h3>Witness</h3><pre class="hex">${told.evidence.join("\n")}</pre>` : nothing}
    </details>
    ${told.replay ? html`<div class="command"><code id="replay">${told.replay}</code>
      <button type="button" @click=${copy}>copy</button></div>` : nothing}</section>`;
}
function copy(event) {
  const button = event.target, code = document.getElementById("replay");
  const done = word => { button.textContent = word; setTimeout(() => { button.textContent = "copy"; }, 1500); };
  const select = () => { getSelection().selectAllChildren(code); done("selected"); };
  // A page from a file may have no clipboard; then the text is selected for the person.
  if (!navigator.clipboard) select();
  else navigator.clipboard.writeText(code.textContent).then(() => done("copied"), select);
}
function violationPage() {
  const { told, trace } = view;
  const cutShort = trace && trace.total > trace.events.length
    ? `${count(trace.total, "event")} in all; the ${trace.events.length.toLocaleString("en")} round the witness are here.` : "";
  return html`${promise(told)}
    ${!trace ? html`<p class="note">No events: ${told.trace_missing || "none were asked for"}.</p>
      ${told.evidence.length ? html`<pre class="hex">${told.evidence.join("\n")}</pre>` : nothing}` : html`
    ${trace.note ? html`<p class="note">${trace.origin === "recorded" ? "Events as recorded in the failure file: " : ""}${trace.note}.</p>` : nothing}
    ${cutShort ? html`<p class="note">${cutShort}</p>` : nothing}
    <div class="bar" id="toolbar" role="toolbar" aria-label="events"></div>
    <div class="work">${view.list.template()}
      <section class="details" id="details" aria-label="chosen event" aria-live="polite" tabindex="0"></section></div>
    <p class="keys"><kbd>↑</kbd> <kbd>↓</kbd> step, <kbd>n</kbd> <kbd>p</kbd> next and previous of the witness,
      <kbd>Home</kbd> <kbd>End</kbd> first and last, <kbd>/</kbd> search, <kbd>Esc</kbd> clear filters,
      <kbd>[</kbd> <kbd>]</kbd> previous and next violation, <kbd>t</kbd> theme</p>`}`;
}
