// What one event says: its payload, its bytes, and what the bytes mean.
const BYTES_A_LINE = 8; // as many as the pane is wide
let marked = null; // {message, frame, offset, length}: bytes that a row of the table names

function bytesOf(hex) {
  return hex.match(/../g) ?? [];
}
function printable(byte) {
  const code = parseInt(byte, 16);
  return code >= 32 && code < 127 ? String.fromCharCode(code) : "·";
}
// One line, cut where the marked bytes begin and end.
function cut(parts, from, low, high, glue) {
  const a = Math.min(Math.max(low - from, 0), parts.length);
  const b = Math.min(Math.max(high - from, 0), parts.length);
  const text = (x, y) => parts.slice(x, y).join(glue);
  if (a >= b) return html`<span>${text(0, parts.length)}</span>`;
  const gap = x => (x > 0 && x < parts.length ? glue : "");
  return html`<span>${text(0, a)}${a ? gap(a) : ""}<mark>${text(a, b)}</mark>${gap(b)}${text(b)}</span>`;
}
function hexDump(message, place, number, hex) {
  const bytes = bytesOf(hex);
  const on = marked && marked.message === message && marked.frame === number ? marked : null;
  const low = on ? on.offset : -1, high = on ? on.offset + on.length : -1;
  const lines = [];
  for (let at = 0; at < bytes.length; at += BYTES_A_LINE) {
    const part = bytes.slice(at, at + BYTES_A_LINE);
    const pad = "   ".repeat(BYTES_A_LINE - part.length);
    lines.push(html`<span class="at">${at.toString(16).padStart(4, "0")}</span>  ${
      cut(part, at, low, high, " ")}${pad}  ${cut(part.map(printable), at, low, high, "")}\n`);
  }
  const size = report.violations[view.violation].trace.messages[message].sizes[number];
  const more = size - bytes.length;
  return html`<p class="soft">frame ${number}: ${count(size, "byte")}${
    more > 0 ? `, of which the first ${bytes.length.toLocaleString("en")} are kept` : ""}</p>
    <pre class="hex">${lines.length ? lines : "(empty)"}</pre>`;
}
function value(item) {
  return typeof item === "string" ? item : JSON.stringify(item);
}
function messageView(trace, number) {
  const told = trace.messages[number];
  const mark = ([, , , , frame, offset, length]) => {
    marked = { message: number, frame, offset, length };
    drawDetails();
  };
  const chosen = row => marked && marked.message === number && marked.frame === row[4]
    && marked.offset === row[5] && marked.length === row[6];
  const way = told.direction === "to-engine" ? "to" : "from";
  return html`<h3>${told.title}: ${way} engine ${told.engine}, ${told.socket}</h3>
    ${told.note ? html`<p class="note">${told.note}</p>` : nothing}
    ${told.rows.length ? html`<table class="decoded">
      <caption class="visually-hidden">decoded message</caption>
      ${told.rows.map(row => html`<tr class=${chosen(row) ? "picked" : ""} @click=${() => mark(row)}>
        <td>${row[5]}</td><td>${"  ".repeat(Math.max(0, row[0] - 1))}<button type="button"
          title="show its bytes">${row[1]}</button></td><td>${row[2]}</td><td>${row[3]}</td></tr>`)}
      </table>` : nothing}
    ${told.nil ? html`<p class="soft">${count(told.nil, "further field")} nil; names of ${told.named_by}</p>`
      : nothing}
    ${told.frames.map((hex, frame) => hexDump(number, told, frame, hex))}`;
}
function eventView(trace, event) {
  const way = event.source === event.target ? laneTitle(trace, event.source)
    : `${laneTitle(trace, event.source)} → ${laneTitle(trace, event.target)}`;
  const fields = Object.entries(event.fields ?? {});
  return html`<h2>#${event.seq} ${event.kind}</h2>
    <p class="soft">${trace.kinds[event.kind] ?? ""}</p>
    <p>${way}, at ${(event.time_us / 1e6).toFixed(6)} s
      ${view.witness.has(event.seq) ? html`<span class="chip known">witness</span>` : nothing}</p>
    ${fields.length ? html`<h3>Payload</h3><table>
      ${fields.map(([name, item]) => html`<tr><th scope="row">${name}</th><td>${value(item)}</td></tr>`)}
      </table>` : html`<p class="mono">${event.text}</p>`}
    ${event.messages.map(number => messageView(trace, number))}
    ${event.messages.length ? nothing : html`<p class="soft">${noBytes(trace, event)}</p>`}`;
}
function noBytes(trace, event) {
  if (trace.origin === "recorded") return "Only this line of the event was recorded: no payload, no bytes.";
  return event.source === event.target ? "Nothing was sent: there are no bytes."
    : "No bytes at an engine's socket belong to this event.";
}
function choiceView(choice) {
  return html`<h2>choice ${choice.number} of the tape</h2>
    <p>In FIFO order <code>${choice.options[0]}</code> would have run here; this schedule ran
      <code>${choice.ran}</code>.</p>
    <h3>What could have run, in FIFO order</h3>
    <ol>${choice.options.map(name => html`<li class="mono">${name}${
      name === choice.ran ? html` <span class="chip known">ran</span>` : nothing}</li>`)}</ol>`;
}
function laneTitle(trace, id) {
  return trace.lanes.find(lane => lane.id === id)?.title ?? id;
}
function drawDetails() {
  const box = document.getElementById("details");
  if (!box || !view.trace) return;
  const item = view.picked;
  if (!item) {
    render(html`<p class="empty">Choose an event to see its payload and its bytes.</p>`, box);
  } else if (item.choice) render(choiceView(item.choice), box);
  else render(eventView(view.trace, item.event), box);
}
