"""The page of a report, opened from a file in a real browser."""

from __future__ import annotations

import json

import pytest

from tests.browser.conftest import written
from tests.support.failures import HOSTILE, as_recorded, failure_file

pytestmark = pytest.mark.browser

ROWS_MAX = 80
"""Rows of a list that may exist at once, whatever its length."""
ROWS = "#events-list .rows .row"


def rows(window):
    return window.js(f"return document.querySelectorAll('{ROWS}').length")


def shown(window):
    """How many rows the filters leave, as the page says."""
    text = window.text("#shown").rpartition("/ ")[2]
    return int(text.split(" of ")[0].replace(",", ""))


def picked(window):
    """The chosen row."""
    return window.js(f"return document.querySelector('{ROWS}.picked .num')?.textContent ?? null")


# --- it opens ---------------------------------------------------------------------------------


def test_page_opens_from_a_file_without_a_word_in_the_console(window, page):
    window.open(page)
    assert window.text("h1") == "the coordinator went from wave 2 back to 1"
    assert rows(window) > 10
    assert window.console() == []


def test_page_loads_nothing(window, page):
    window.open(page)
    assert window.js("return performance.getEntriesByType('resource').length") == 0


def test_own_policy_stops_scripts_that_are_not_of_the_page(window, page):
    window.open(page)
    window.js(
        "const s = document.createElement('script');"
        "try { s.textContent = 'window.owned = 1'; } catch { return; } document.body.append(s);"
    )
    assert window.js("return window.owned ?? null") is None


def test_page_of_a_run_shows_all_results_and_leads_to_the_violation(window, page):
    window.open(page, "#/overview")
    assert window.text("#result-count") == "1 of 1 result"
    window.one("#results-list a").click()
    window.drawn()
    assert window.js("return location.hash").startswith("#/v/0")
    assert window.text("#replay").startswith("wavecheck replay ")


# --- an event ---------------------------------------------------------------------------------


def test_page_opens_at_the_witness(window, page):
    window.open(page)
    assert picked(window) == "★ 46"
    assert "request_wave" in window.text("#details")


def test_click_on_an_event_shows_its_payload_its_bytes_and_what_they_mean(window, page, run):
    events = json.loads(failure_file(run).read_text())["events"]
    number = next(n for n, line in enumerate(events) if "<- ADD" in line)
    window.open(page, f"#/v/0/{number}")
    details = window.text("#details")
    assert f"#{number} add" in details
    assert "external_id" in details
    assert "sampling_params" in details
    assert "frame 1:" in details
    window.js(
        "[...document.querySelectorAll('.decoded tr')].find(r => r.cells[1].innerText.trim() === "
        "'request_id').querySelector('button').click()"
    )
    marked = window.js("return document.querySelector('.hex mark').textContent")
    assert bytes.fromhex(marked) in (b"\xa1a", b"\xa1b")


def test_click_on_a_row_chooses_it(window, page):
    window.open(page)
    row = f"[...document.querySelectorAll('{ROWS}')].find(r => r.getBoundingClientRect().top > 600)"
    number = window.js(f"return {row}.querySelector('.num').textContent")
    window.js(f"{row}.click()")
    assert picked(window) == number
    assert window.text("#details h2").startswith(f"#{number} ")


# --- filters ----------------------------------------------------------------------------------


def test_lane_that_is_switched_off_takes_its_events_and_its_line_along(window, page):
    window.open(page)
    before = shown(window)
    heads = len(window.all("#events-list .head text"))
    lane = next(b for b in window.all("#lane-filter button") if b.text == "engine 1")
    lane.click()
    window.drawn()
    assert shown(window) < before
    assert len(window.all("#events-list .head text")) == heads - 1
    assert lane.get_attribute("aria-pressed") == "false"
    lane.click()
    window.drawn()
    assert shown(window) == before


def test_kinds_can_be_left_out(window, page):
    window.open(page)
    before = shown(window)
    window.one("#kinds summary").click()
    window.one("#kinds input[data-kind=step]").click()
    window.drawn()
    assert before - shown(window) == 18
    buttons = window.all("#kinds button")
    buttons[1].click()
    window.drawn()
    assert shown(window) == 0
    assert "Nothing is left" in window.text("#events-list .rows")
    buttons[0].click()
    window.drawn()
    assert shown(window) == before


def test_search_finds_what_is_in_a_payload_and_marks_what_is_in_the_line(window, page):
    window.open(page)
    window.keys("/")
    window.keys("start_dp_wave")
    found = shown(window)
    assert 0 < found < 20
    assert rows(window) == found
    assert window.js(f"return document.querySelector('{ROWS} mark').textContent") == "START_DP_WAVE"
    from selenium.webdriver.common.keys import Keys

    window.keys(Keys.ESCAPE)
    assert shown(window) > found


def test_witness_alone_can_be_shown(window, page):
    window.open(page)
    next(b for b in window.all("#toolbar button") if b.text == "witness only").click()
    window.drawn()
    assert shown(window) == rows(window) == 1


# --- steps, by buttons and keys ---------------------------------------------------------------


def test_buttons_step_forward_and_back(window, page):
    window.open(page)
    window.one("#forward").click()
    assert picked(window) == "47"
    window.one("#back").click()
    window.one("#back").click()
    assert picked(window) == "45"
    window.one("#to-witness").click()
    assert picked(window) == "★ 46"


def test_keys_step_and_leave_the_chosen_row_in_sight(window, page):
    from selenium.webdriver.common.keys import Keys

    window.open(page)
    window.keys(Keys.ARROW_DOWN, "j")
    assert picked(window) == "48"
    window.keys(Keys.HOME)
    assert picked(window) == "0"
    window.keys("n")
    assert picked(window) == "★ 46"
    window.keys(Keys.END)
    last = picked(window)
    assert last is not None
    assert int(last) == 81
    window.keys("p")
    assert picked(window) == "★ 46"
    active = window.js(
        "return document.getElementById('events-list').getAttribute('aria-activedescendant')"
    )
    assert window.one(f"#{active}").get_attribute("aria-selected") == "true"


def test_every_control_is_reached_by_tab(window, page):
    from selenium.webdriver.common.keys import Keys

    window.open(page)
    wanted = {"theme", "back", "forward", "to-witness", "search", "events-list", "details"}
    reached = set()
    for _ in range(40):
        window.keys(Keys.TAB)
        reached.add(window.js("return document.activeElement.id"))
    assert wanted <= reached


# --- a long run -------------------------------------------------------------------------------


def test_rows_in_the_page_are_few_however_long_the_run_and_wherever_one_is(window, long_page):
    window.open(long_page)
    assert shown(window) > 5_000
    height = window.js("const b = document.getElementById('events-list'); return b.scrollHeight")
    for share in (0, 0.25, 0.5, 1):
        window.js("document.getElementById('events-list').scrollTop = arguments[0]", height * share)
        window.drawn()
        assert 10 < rows(window) <= ROWS_MAX
    last = window.js(f"return [...document.querySelectorAll('{ROWS} .num')].at(-1).textContent")
    assert last.isdigit()
    assert window.console() == []


def test_rows_in_sight_fill_the_list_at_every_place(window, long_page):
    window.open(long_page)
    for top in (0, 12_345, 100_000):
        window.js("document.getElementById('events-list').scrollTop = arguments[0]", top)
        window.drawn()
        gap = window.js(
            "const box = document.getElementById('events-list').getBoundingClientRect();"
            f"const all = [...document.querySelectorAll('{ROWS}')].map(r => r.getBoundingClientRect());"
            "const head = document.querySelector('#events-list .head').getBoundingClientRect();"
            "return [all[0].top - head.bottom, box.bottom - all.at(-1).bottom]"
        )
        assert gap[0] <= 1
        assert gap[1] <= 1


def test_request_id_that_looks_like_a_script_stays_text(window, long_page):
    window.open(long_page)
    window.keys("/")
    window.keys("owned")
    assert shown(window) > 1
    assert window.js(f"return document.querySelector('{ROWS} .what').title").count("<script>") == 1
    window.js(f"document.querySelector('{ROWS}').click()")
    window.drawn()
    assert HOSTILE in window.text("#details")
    assert window.js("return [document.title.includes('owned'), document.images.length]") == [
        False,
        0,
    ]
    assert window.js("return document.scripts.length") == 2
    assert window.console() == []


def test_departures_of_the_tape_stand_between_the_events(window, long_page):
    window.open(long_page)
    total = shown(window)
    window.js("document.getElementById('events-list').scrollTop = 0")
    window.drawn()
    choice = window.all(f"{ROWS}.choice")[0]
    assert " ran before " in choice.text
    choice.click()
    window.drawn()
    assert "In FIFO order" in window.text("#details")
    toggle = next(b for b in window.all("#toolbar button") if "departure" in b.text)
    many = int(toggle.text.split()[0].replace(",", ""))
    toggle.click()
    window.drawn()
    assert shown(window) == total - many
    assert window.all(f"{ROWS}.choice") == []


# --- other reports ----------------------------------------------------------------------------


def test_recorded_failure_says_that_there_are_no_bytes(window, run, tmp_path):
    given = as_recorded(failure_file(run), tmp_path / "f.json")
    window.open(written(given, tmp_path / "f.html"))
    assert "no payload, no bytes" in window.text("#details")
    assert picked(window) == "★ 46"


def test_violations_of_a_folder_are_walked_through(window, run, tmp_path):
    for name in "abc":
        as_recorded(failure_file(run), tmp_path / f"{name}.json")
    window.open(written(tmp_path, tmp_path / "page.html"))
    assert window.text("#result-count") == "3 of 3 results"
    window.all("#results-list a")[1].click()
    window.drawn()
    window.keys("]")
    assert window.js("return location.hash").startswith("#/v/2")
    assert window.one("#next").get_attribute("disabled") == "true"
    window.keys("[", "[")
    assert window.js("return location.hash").startswith("#/v/0")


def test_matrix_is_a_grid_whose_broken_cells_lead_to_their_violation(window, run, tmp_path):
    window.open(written(matrix_file(tmp_path, failure_file(run)), tmp_path / "m.html"), "#/matrix")
    assert window.js("return document.querySelectorAll('#grid-list .rows .row').length") <= ROWS_MAX
    assert [cell.text for cell in window.all("#grid-list .rows .row:first-child .cell")] == [
        "k",
        "+",
    ]
    window.one("#grid-list a.known").click()
    window.drawn()
    assert window.text("h1") == "the first is broken"
    assert picked(window) == "★ 46"
    assert window.console() == []


def matrix_file(folder, failure):
    def cell(n, release, status):
        return {
            "scenario": f"waves/s{n}", "frontend": release, "status": status, "reason": None,
            "plays": [status], "known": ["wave.never-rewinds"] if status == "known" else [],
            "regression": [], "blind": [], "should": [], "held": [], "trials": 1, "cut": False,
            "message": "the first is broken" if status == "known" else None, "expected": None,
            "seen": None, "evidence": [], "duration_s": 0.1,
            "failure_file": failure.name if status == "known" else None, "replay": None,
        }  # fmt: skip

    as_recorded(failure, folder / failure.name, target="vllm-rs", frontend="0.24.0", mutant=None)
    document = {
        "schema": 1, "tool": {"version": "0.1.0"},
        "frontends": [
            {"id": v, "release": v, "sha256": None, "note": None, "error": None, "arguments": [],
             "environment": {}, "mutant": None}
            for v in ("0.24.0", "0.25.0")
        ],
        "scenarios": [
            {"id": f"waves/s{n}", "title": "t", "refs": [], "race": False, "trials_planned": 1,
             "known": []}
            for n in range(300)
        ],
        "cells": [
            cell(n, v, "known" if n == 0 and v == "0.24.0" else "held")
            for n in range(300) for v in ("0.24.0", "0.25.0")
        ],
        "flips": [], "not_run": [], "summary": {"held": 599, "known": 1, "exit": 0},
    }  # fmt: skip
    path = folder / "matrix.json"
    path.write_text(json.dumps(document))
    return path


# --- dark and light ---------------------------------------------------------------------------


def contrast(window, selector):
    """Contrast of a text and what it stands on, as WCAG 2 computes it."""
    return window.js(
        """
        const rgb = text => text.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92
          : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const el = document.querySelector(arguments[0]);
        let below = el;
        while (below && /rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(below).backgroundColor)) {
          below = below.parentElement;
        }
        const a = light(rgb(getComputedStyle(el).color));
        const b = light(rgb(below ? getComputedStyle(below).backgroundColor : "rgb(255,255,255)"));
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        """,
        selector,
    )


TEXTS = (
    "h1",
    ".soft",
    ".chip",
    "#replay",
    ".row .what",
    ".row .num",
    ".row.witness .num",
    "#details td",
    "#details th",
    "#theme",
)


def background(window):
    return window.js("return getComputedStyle(document.body).backgroundColor")


def test_page_follows_the_wish_of_the_person_and_stays_readable(window, dark_window, page):
    found = {}
    for name, each in (("light", window), ("dark", dark_window)):
        each.open(page)
        found[name] = background(each)
        for selector in TEXTS:
            assert contrast(each, selector) >= 4.5, (name, selector)
    assert found == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}


def test_theme_is_switched_by_its_button_and_by_its_key(window, page):
    window.open(page)
    window.one("#theme").click()
    window.keys("t")
    assert window.text("#theme") == "theme: dark"
    assert background(window) == "rgb(13, 17, 23)"
    window.open(page)
    assert background(window) == "rgb(13, 17, 23)"
    window.keys("t")
    assert (window.text("#theme"), background(window)) == ("theme: auto", "rgb(255, 255, 255)")
