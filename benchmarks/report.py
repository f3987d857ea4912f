"""The page of a report in a real Chromium: how soon it is there, and how it scrolls."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from pathlib import Path

from click.testing import CliRunner

from harness.cli.main import cli

OPEN_S = 2.0
"""A trace of ``EVENTS`` events is to be there by then."""
TASK_MS = 200
"""No task of the page is to take longer while it scrolls."""
EVENTS = 5_000
ROUNDS = 5
CALLERS = 600
FRAMES = 240
"""Frames of one way through the whole list."""

# Runs before the page does: when its rows are on the screen, and which tasks took long.
WATCH = """
window.tasks = [];
new PerformanceObserver(list => { for (const task of list.getEntries())
  window.tasks.push([task.startTime, task.duration]); }).observe({type: "longtask", buffered: true});
window.there = new Promise(resolve => {
  const look = () => document.querySelector("#events-list .rows .row")
    ? requestAnimationFrame(() => resolve(performance.now())) : requestAnimationFrame(look);
  addEventListener("DOMContentLoaded", look);
});
"""
SCROLL = """
const done = arguments[1], frames = arguments[0];
const box = document.getElementById("events-list");
const whole = box.scrollHeight - box.clientHeight, begun = performance.now();
let n = 0, most = 0, last = begun, slowest = 0;
const step = () => {
  const now = performance.now();
  slowest = Math.max(slowest, now - last); last = now;
  most = Math.max(most, document.querySelectorAll("#events-list .rows .row").length);
  if (n++ < frames) { box.scrollTop = whole * n / frames; requestAnimationFrame(step); }
  else setTimeout(() => done({most, slowest, tasks: window.tasks.filter(([at]) => at >= begun)
    .map(([, long]) => long)}), 100);
};
requestAnimationFrame(step);
"""


def table() -> bool:
    """Measure and print; whether the targets are met."""
    with tempfile.TemporaryDirectory() as folder:
        page, events = make_page(Path(folder))
        found = [measure(page) for _ in range(ROUNDS)]
        size = page.stat().st_size
    if events < EVENTS:
        print(f"the run has {events} events, fewer than {EVENTS}")
        return False
    opened = [one["open_s"] for one in found]
    longest = [max(one["tasks"], default=0.0) for one in found]
    slowest = [one["slowest"] for one in found]
    rows = max(one["most"] for one in found)
    print(
        f"{events:,} events, page of {size / 1e6:.1f} MB, {ROUNDS} times, {FRAMES} frames of scrolling"
    )
    print(
        f"opens in            {statistics.median(opened):.2f} s   ({spread(opened)}; target {OPEN_S} s)"
    )
    print(
        f"longest task        {statistics.median(longest):.0f} ms   ({spread(longest)}; target {TASK_MS} ms; 0: none above 50)"
    )
    print(f"longest frame       {statistics.median(slowest):.0f} ms   ({spread(slowest)})")
    print(f"rows at most        {rows}")
    return statistics.median(opened) < OPEN_S and statistics.median(longest) < TASK_MS


def spread(values: list[float]) -> str:
    """Smallest to largest."""
    return f"{min(values):.2f} to {max(values):.2f}"


def make_page(folder: Path) -> tuple[Path, int]:
    """A page on a run with many events, and how many."""
    scenario = folder / "crowd.yaml"
    document = {
        "title": "A crowd, and an expectation that nobody meets",
        "promise": "A report of a long run stays fluid.",
        "refs": ["vllm#46833"],
        "topology": {"engines": 4, "coordinator": "in-process"},
        "steps": [
            {"crowd": {"id": "c", "callers": CALLERS, "at_once": 8, "leave": "no"}},
            {"fence": True},
            {"expect": {"count": {"event": "add", "equals": 1}}},
        ],
    }
    scenario.write_text(json.dumps(document))
    words = ["--strategy", "random", "--no-shrink", "--json", str(folder / "run.json")]
    CliRunner().invoke(cli, ["run", str(scenario), "--out", str(folder), *words])
    page, told = folder / "page.html", folder / "report.json"
    for place in (page, told):
        done = CliRunner().invoke(cli, ["report", str(folder / "run.json"), "-o", str(place)])
        assert done.exit_code == 0, done.output
    (violation,) = json.loads(told.read_text())["violations"]
    return page, violation["trace"]["total"]


def measure(page: Path) -> dict[str, object]:
    """One visit in a browser of its own."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"):
        options.add_argument(flag)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_script_timeout(60)
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        driver.get(page.as_uri())
        there = driver.execute_async_script("window.there.then(arguments[0])")
        return {"open_s": there / 1000, **driver.execute_async_script(SCROLL, FRAMES)}
    finally:
        driver.quit()
