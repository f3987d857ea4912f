// Data, and what every part of the page uses. Text from the data only ever becomes text nodes
// and attribute values, through lit-html.
const { html, svg, render, nothing } = lit;
const report = JSON.parse(document.getElementById("data").textContent);
const app = document.getElementById("app");
const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const words = status => status.replaceAll("_", " ");
const seconds = us => `${(us / 1e6).toFixed(3)} s`;
const chip = status => html`<span class="chip ${status}">${words(status)}</span>`;

// A list of which only the rows in sight, and a few around them, exist. All rows are equally
// high, so that their places are arithmetic and nothing has to be measured.
const OVERSCAN = 8;
class VirtualList {
  // row(item, index): a template; changed(): called where the list wants to be drawn again.
  constructor({ height, label, row, head = nothing, kind, pick = null }) {
    Object.assign(this, { height, label, row, head, kind, pick });
    this.items = [];
    this.start = 0;
    this.waiting = false;
    this.box = null;
  }
  get scroller() { return document.getElementById(`${this.kind}-list`); }
  template() {
    return html`<div id="${this.kind}-list" class="scroller list ${this.kind}" tabindex="0"
        role="listbox" aria-label=${this.label}
        @scroll=${() => this.later()} @keydown=${event => this.key(event)}>
      <div class="inner"><div class="head">${this.head}</div><div class="space"></div>
      <div class="rows"></div></div></div>`;
  }
  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }
  show(items) { this.items = items; this.draw(); }
  draw() {
    const box = this.scroller;
    if (!box) return;
    const inner = box.firstElementChild;
    const [head, space, rows] = inner.children;
    const top = head.offsetHeight;
    space.style.height = `${this.items.length * this.height}px`;
    const fit = Math.ceil(box.clientHeight / this.height);
    const first = Math.floor(box.scrollTop / this.height) - OVERSCAN;
    const start = Math.max(0, Math.min(first, this.items.length - fit - OVERSCAN));
    const stop = Math.min(this.items.length, start + fit + 2 * OVERSCAN);
    rows.style.top = `${top}px`;
    rows.style.transform = `translateY(${start * this.height}px)`;
    const drawn = [];
    for (let i = start; i < stop; i++) drawn.push(this.row(this.items[i], i));
    render(drawn.length ? drawn : html`<p class="empty">Nothing is left by these filters.</p>`, rows);
    for (const row of rows.children) row.style.height = `${this.height}px`;
  }
  reveal(index, { centre = false } = {}) {
    const box = this.scroller;
    if (!box || index < 0) return;
    const head = box.firstElementChild.firstElementChild.offsetHeight;
    const top = index * this.height, room = box.clientHeight - head;
    if (centre) box.scrollTop = top - room / 2;
    else if (top < box.scrollTop) box.scrollTop = top;
    else if (top + this.height > box.scrollTop + room) box.scrollTop = top + this.height - room;
    this.draw();
  }
  key(event) {
    if (this.pick || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.floor(this.scroller.clientHeight / this.height) - 2;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
    if (by) { this.scroller.scrollTop += by * this.height; event.preventDefault(); }
  }
}
