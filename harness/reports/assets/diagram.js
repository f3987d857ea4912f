// The sequence diagram of one violation: filters, steps, rows.
const ROW = 26;
const LANE_MIN = 46, LANE_MAX = 84, LANES_WIDTH = 560;
const LANE_OF_TEXT = /^(?:engine \d+(?: <-| ->|:)|client:|coordinator:|harness:|frontend:|caller) /;

class View {
  constructor(number) {
    this.violation = number;
    this.told = report.violations[number];
    this.trace = this.told.trace;
    this.witness = new Set(this.told.witness);
    this.picked = null;
    this.query = "";
    this.witnessOnly = false;
    this.withChoices = true;
    this.lanes = new Set(this.trace?.lanes.map(lane => lane.id) ?? []);
    this.kinds = new Set(Object.keys(this.trace?.kinds ?? {}));
    this.all = this.trace ? merged(this.trace) : [];
    this.counts = new Map();
    for (const { event } of this.all) {
      if (event) this.counts.set(event.kind, (this.counts.get(event.kind) ?? 0) + 1);
    }
    this.list = new VirtualList({
      kind: "events", height: ROW, label: "events of the run", pick: true,
      head: nothing, row: (item, index) => eventRow(this, item, index),
    });
    this.filter();
  }
  filter() {
    const query = this.query.trim().toLowerCase();
    this.shown = this.all.filter(item => this.passes(item, query));
    this.at = this.picked ? this.shown.indexOf(this.picked) : -1;
  }
  passes(item, query) {
    if (item.choice) return this.withChoices && !this.witnessOnly && !query;
    const { event } = item;
    if (this.witnessOnly && !this.witness.has(event.seq)) return false;
    if (!this.lanes.has(event.source) || !this.lanes.has(event.target)) return false;
    if (!this.kinds.has(event.kind)) return false;
    if (!query) return true;
    item.text ??= `#${event.seq} ${event.kind} ${event.text} ${
      event.fields ? JSON.stringify(event.fields) : ""}`.toLowerCase();
    return item.text.includes(query);
  }
  refilter() {
    this.filter();
    drawToolbar();
    this.list.show(this.shown);
    this.list.reveal(this.at, { centre: true });
  }
  pick(item, options) {
    this.picked = item;
    this.at = this.shown.indexOf(item);
    marked = null;
    this.list.reveal(this.at, options);
    drawDetails();
    drawToolbar();
    const place = item?.event ? `/${item.event.seq}` : "";
    history.replaceState(null, "", `#/v/${this.violation}${place}`);
  }
  step(by) {
    if (!this.shown.length) return;
    let next = this.at + by;
    if (this.at < 0) next = by > 0 ? this.after(this.picked) : this.after(this.picked) - 1;
    this.pick(this.shown[Math.max(0, Math.min(next, this.shown.length - 1))]);
  }
  // Where a row that the filters took away would stand.
  after(item) {
    if (!item) return 0;
    const found = this.shown.findIndex(other => other.order > item.order);
    return found < 0 ? this.shown.length : found;
  }
  stepWitness(by) {
    const order = this.picked ? this.picked.order : by > 0 ? -1 : Infinity;
    const events = this.shown.filter(item => item.event && this.witness.has(item.event.seq));
    const found = by > 0 ? events.find(item => item.order > order)
      : events.findLast(item => item.order < order);
    if (found) this.pick(found, { centre: true });
  }
  // The first event of the witness, else the last event of all: where the story ends.
  openAt(seq) {
    const has = item => item.event && (seq === null ? this.witness.has(item.event.seq)
      : item.event.seq === seq);
    const found = this.all.find(has) ?? this.all.findLast(item => item.event);
    if (found) this.pick(found, { centre: true });
  }
}

// Events and choices in one order: a choice stands before the event that it led to.
function merged(trace) {
  const choices = [...(trace.choices ?? [])];
  const items = [];
  let next = 0;
  for (const event of trace.events) {
    while (next < choices.length && choices[next].before <= event.seq) {
      items.push({ choice: choices[next++], order: items.length });
    }
    items.push({ event, order: items.length });
  }
  while (next < choices.length) items.push({ choice: choices[next++], order: items.length });
  return items;
}
function shownLanes() {
  return view.trace.lanes.filter(lane => view.lanes.has(lane.id));
}
function laneWidth() {
  const lanes = shownLanes().length || 1;
  // Even, so that the middle of a lane is the middle of a pixel column.
  return 2 * Math.floor(Math.max(LANE_MIN, Math.min(LANE_MAX, LANES_WIDTH / lanes)) / 2);
}
function laneHead() {
  const lanes = shownLanes(), width = laneWidth();
  return html`<span class="num">#</span><span class="time">time</span>
    <svg class="lanes" width=${lanes.length * width} height="26" role="img"
      aria-label=${`lanes: ${lanes.map(lane => lane.title).join(", ")}`}>
      ${lanes.map((lane, i) => svg`<text x=${(i + 0.5) * width} y="17">${
        width < 80 ? lane.title.replace("engine ", "e").replace("coordinator", "coord.") : lane.title
      }</text>`)}</svg><span>event</span>`;
}
// What is drawn on the lanes of a row: a mark, an arrow, or (for a choice) nothing. It is always
// the same three shapes, so that a row that scrolls in only takes other numbers.
const NOTHING = { r: 0, from: 0, to: 0, tip: "" };
function shapeOf(lanes, width, event) {
  const x = id => (lanes.findIndex(lane => lane.id === id) + 0.5) * width;
  const from = x(event.source), to = x(event.target), y = ROW / 2;
  if (event.source === event.target) return { r: 4, from, to: from, tip: "" };
  const base = to + (to > from ? -7 : 7);
  return { r: 2.5, from, to: base, tip: `${to},${y} ${base},${y - 4.5} ${base},${y + 4.5}` };
}
function highlighted(text) {
  const query = view.query.trim().toLowerCase();
  const at = query ? text.toLowerCase().indexOf(query) : -1;
  if (at < 0) return text;
  const end = at + query.length;
  return html`${text.slice(0, at)}<mark>${text.slice(at, end)}</mark>${text.slice(end)}`;
}
function eventRow(of, item, index) {
  const lanes = shownLanes(), width = laneWidth();
  const { choice, event } = item;
  const shows = event && of.witness.has(event.seq);
  const shape = event ? shapeOf(lanes, width, event) : NOTHING;
  const title = event ? event.text : `choice ${choice.number}: ${choice.ran} ran before ${choice.options[0]}`;
  const picked = item === of.picked;
  const kind = `${shows ? "witness" : ""} ${choice ? "choice" : ""} ${picked ? "picked" : ""}`;
  return html`<div class="row ${kind}" role="option" id=${`row-${item.order}`} aria-selected=${picked}
      aria-posinset=${index + 1} aria-setsize=${of.shown.length} @click=${() => of.pick(item)}>
    <span class="num">${choice ? "⤳" : `${shows ? "★ " : ""}${event.seq}`}</span>
    <span class="time">${event ? seconds(event.time_us) : ""}</span>
    <svg class="lanes" width=${lanes.length * width} height=${ROW} aria-hidden="true">
      <g class=${event ? event.source : ""}><circle cx=${shape.from} cy=${ROW / 2} r=${shape.r}></circle>
      <line class="arrow" x1=${shape.from} y1=${ROW / 2} x2=${shape.to} y2=${ROW / 2}></line>
      <polygon points=${shape.tip}></polygon></g></svg>
    <span class="what" title=${title}>${highlighted(event ? title.replace(LANE_OF_TEXT, "") : title)}</span></div>`;
}
function toggle(name, on, act, title = "", kind = "") {
  return html`<button type="button" class="toggle ${kind}" aria-pressed=${on} title=${title}
    @click=${act}>${name}</button>`;
}
function flip(set, name) {
  if (set.has(name)) set.delete(name); else set.add(name);
  view.refilter();
  drawHead();
}
function kindMenu() {
  const kinds = Object.keys(view.trace.kinds);
  const set = names => { view.kinds = new Set(names); view.refilter(); };
  return html`<details class="menu" id="kinds"><summary>kinds: ${view.kinds.size} of ${kinds.length}</summary><div>
    <div class="group bar"><button type="button" @click=${() => set(kinds)}>all</button>
      <button type="button" @click=${() => set([])}>none</button></div>
    ${kinds.map(kind => html`<label><input type="checkbox" data-kind=${kind} .checked=${view.kinds.has(kind)}
      @change=${() => flip(view.kinds, kind)}> <b>${kind || "(other)"}</b> <span class="soft"
      title=${view.trace.kinds[kind]}>${view.trace.kinds[kind]}</span> ${view.counts.get(kind)}</label>`)}
    </div></details>`;
}
function toolbar() {
  const { trace } = view;
  const choices = trace.choices?.length ?? 0;
  return html`<div class="group">
      <button type="button" id="back" title="step back (↑ or k)" @click=${() => view.step(-1)}>‹ back</button>
      <button type="button" id="forward" title="step forward (↓ or j)" @click=${() => view.step(1)}>forward ›</button>
      <button type="button" id="to-witness" title="next event of the witness (n; p: the one before)"
        ?disabled=${!view.witness.size} @click=${() => view.stepWitness(1)}>★ next</button></div>
    <input type="search" id="search" placeholder="search events  ( / )" aria-label="search events"
      .value=${view.query} @input=${event => { view.query = event.target.value; view.refilter(); }}>
    <div class="group" id="lane-filter" role="group" aria-label="lanes">${trace.lanes.map(lane =>
      toggle(lane.title, view.lanes.has(lane.id), () => flip(view.lanes, lane.id), "show this lane", "lane-toggle"))}</div>
    ${kindMenu()}
    ${toggle(`witness only`, view.witnessOnly, () => { view.witnessOnly = !view.witnessOnly; view.refilter(); })}
    ${choices ? toggle(count(choices, "departure"), view.withChoices,
      () => { view.withChoices = !view.withChoices; view.refilter(); },
      "choices of the tape that left FIFO order") : nothing}
    <span class="soft" id="shown" aria-live="polite">${view.at < 0 ? "" : `${(view.at + 1).toLocaleString("en")} / `}${
      view.shown.length.toLocaleString("en")} of ${count(view.all.length, "row")}</span>`;
}
function drawToolbar() {
  const box = document.getElementById("toolbar");
  if (box) render(toolbar(), box);
  const scroller = view.list.scroller;
  if (!scroller) return;
  if (view.at >= 0) scroller.setAttribute("aria-activedescendant", `row-${view.picked.order}`);
  else scroller.removeAttribute("aria-activedescendant");
}
function drawHead() {
  const head = view.list.scroller?.querySelector(".head");
  if (!head) return;
  view.list.scroller.style.setProperty("--lanes", `${shownLanes().length * laneWidth()}px`);
  view.list.scroller.style.setProperty("--lane", `${laneWidth()}px`);
  render(laneHead(), head);
  view.list.draw();
}
