// Where one is (the hash), which theme, and the keys.
let view = null;
const THEMES = ["auto", "light", "dark"];
let theme = "auto";
try {
  theme = localStorage.getItem("wavecheck-theme") ?? "auto";
} catch {
  // A browser may keep no storage for files: then the theme is that of this visit.
}
function setTheme(name) {
  theme = THEMES.includes(name) ? name : "auto";
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("wavecheck-theme", theme);
  } catch {
    // As above.
  }
}
function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  draw();
}
function route() {
  const [, page, number, seq] = location.hash.split("/");
  const violations = report.violations.length;
  if (page === "v" && /^\d+$/.test(number ?? "") && Number(number) < violations) {
    return { page, number: Number(number), seq: /^\d+$/.test(seq ?? "") ? Number(seq) : null };
  }
  if (page === "matrix" && report.matrix) return { page };
  if (page === undefined && violations === 1 && report.results.length === 1) {
    return { page: "v", number: 0, seq: null };
  }
  return { page: "overview" };
}
function top(at) {
  const link = (name, href, on) => html`<a href=${href} aria-current=${on ? "page" : nothing}>${name}</a>`;
  const { violations } = report;
  return html`<header class="top"><strong>wavecheck</strong>
    <nav aria-label="pages">${link("Overview", "#/overview", at.page === "overview")}
      ${report.matrix ? link("Matrix", "#/matrix", at.page === "matrix") : nothing}
      ${violations.length ? link(violations.length === 1 ? "Violation" : `Violations`, `#/v/${at.number ?? 0}`, at.page === "v") : nothing}</nav>
    ${at.page === "v" && violations.length > 1 ? html`<span class="bar"><button type="button" id="previous"
        ?disabled=${at.number === 0} @click=${() => go(at.number - 1)} aria-label="previous violation">‹</button>
      <span>${at.number + 1} of ${violations.length.toLocaleString("en")}</span><button type="button" id="next"
        ?disabled=${at.number === violations.length - 1} @click=${() => go(at.number + 1)} aria-label="next violation">›</button></span>` : nothing}
    <span class="grow"></span><span class="soft">${report.source}</span>
    <button type="button" id="theme" title="theme (t)" @click=${nextTheme}>theme: ${theme}</button></header>`;
}
function go(number) {
  if (number >= 0 && number < report.violations.length) location.hash = `#/v/${number}`;
}
let shownPage = "";
function draw() {
  const at = route();
  if (at.page === "v" && view?.violation !== at.number) view = new View(at.number);
  const pages = { overview, matrix: matrixPage, v: violationPage };
  render(html`${top(at)}<main>${pages[at.page]()}</main>`, app);
  if (at.page === "overview") drawResults();
  if (at.page === "matrix") {
    cells.scroller.style.setProperty("--columns", report.matrix.columns.length);
    cells.show(report.matrix.rows.map((_, row) => row));
  }
  if (at.page === "v" && view.trace) {
    const fresh = shownPage !== `v${at.number}`;
    drawToolbar();
    drawHead();
    view.list.show(view.shown);
    if (fresh && !view.picked) view.openAt(at.seq);
    else if (at.seq !== null && view.picked?.event?.seq !== at.seq) view.openAt(at.seq);
    drawDetails();
  }
  shownPage = at.page === "v" ? `v${at.number}` : at.page;
}
function clearFilters() {
  view.query = "";
  view.witnessOnly = false;
  view.lanes = new Set(view.trace.lanes.map(lane => lane.id));
  view.kinds = new Set(Object.keys(view.trace.kinds));
  view.refilter();
  drawHead();
  view.list.scroller.focus();
}
const KEYS = {
  ArrowDown: () => view.step(1), j: () => view.step(1),
  ArrowUp: () => view.step(-1), k: () => view.step(-1),
  PageDown: () => view.step(20), PageUp: () => view.step(-20),
  Home: () => view.pick(view.shown[0] ?? view.picked),
  End: () => view.pick(view.shown.at(-1) ?? view.picked),
  n: () => view.stepWitness(1), p: () => view.stepWitness(-1),
  Escape: clearFilters,
};
addEventListener("keydown", event => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const at = route();
  const typing = event.target.matches?.("input, select, textarea");
  if (typing && event.key !== "Escape" && !(event.key.startsWith("Arrow") && event.target.id === "search")) return;
  let act = null;
  if (at.page === "v" && view?.trace) {
    // Elsewhere on the page these keys scroll, as anywhere.
    const inDetails = event.target.closest?.("#details, #kinds");
    if (!inDetails || event.key.length === 1 || event.key === "Escape") act = KEYS[event.key];
  }
  if (!typing) {
    if (event.key === "/") act = () => document.querySelector("input[type=search]")?.focus();
    if (event.key === "t") act = nextTheme;
    if (event.key === "[") act = () => at.page === "v" && go(at.number - 1);
    if (event.key === "]") act = () => at.page === "v" && go(at.number + 1);
  }
  if (!act) return;
  event.preventDefault();
  act();
});
addEventListener("hashchange", draw);
addEventListener("resize", () => { results.later(); cells?.later(); view?.list.later(); });
addEventListener("click", event => {
  const menu = document.getElementById("kinds");
  if (menu?.open && !menu.contains(event.target)) menu.open = false;
});
setTheme(theme);
draw();
