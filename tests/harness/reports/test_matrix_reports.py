"""JSON, Markdown, HTML and text of a matrix: the same table, and nothing in it is markup."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from client.protocol.profiles import RELEASES
from harness.cli.catalogue import invariant_doc
from harness.matrix.flips import flips
from harness.matrix.model import Cell, Column, Row, Table
from harness.reports.diagnostic import plain
from harness.reports.json_report import to_text
from harness.reports.matrix_html import SEVERITY, matrix_html
from harness.reports.matrix_json import matrix_document
from harness.reports.matrix_markdown import code, escaped, matrix_markdown
from harness.reports.matrix_text import flip_lines, grid, red_diagnostics, summary
from harness.reports.matrix_view import MEANINGS, MatrixView, trials_note
from harness.verdict import ExitCode
from tests.harness.matrix.conftest import ROW, cell, column

EVIL = "</script><img src=x onerror=alert(1)> | `x` **y** [z](http://w)"
PLAIN = replace(ROW, id="utility/plain", known=())
STATUSES = ("known", "held", "regression", "blind", "unstable", "not_judged", "error")


def view(*cells: Cell, rows: tuple[Row, ...] = (ROW,), code: int = 1, **more: object) -> MatrixView:
    names = tuple(dict.fromkeys(one.frontend for one in cells))
    columns = tuple(column(name) for name in names)
    table = Table(columns, rows, {(one.scenario, one.frontend): one for one in cells})
    table = replace(table, **more)  # type: ignore[arg-type]
    out = Path("out dir")
    return MatrixView(
        table, tuple(flips(table, RELEASES)), ExitCode(code), out, "0.1.0", invariant_doc
    )


@pytest.fixture
def whole() -> MatrixView:
    """Every status once, in one row, and a row that was not run."""
    cells = [cell(release, status) for release, status in zip(RELEASES, STATUSES, strict=False)]
    cells[2] = replace(cells[2], failure_file="failures/f.json", expected="4", seen="5")
    return view(*cells, rows=(ROW, PLAIN))


class Page(HTMLParser):
    """What a browser would make of a page: elements with attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


# --- JSON -------------------------------------------------------------------------------------


def test_document_has_exactly_the_promised_keys(whole: MatrixView) -> None:
    document = json.loads(to_text(matrix_document(whole)))
    assert list(document) == [
        "schema", "tool", "frontends", "scenarios", "cells", "flips", "not_run", "summary",
    ]  # fmt: skip
    assert list(document["cells"][0]) == [
        "scenario", "frontend", "status", "reason", "plays", "known", "regression", "blind",
        "should", "held", "trials", "cut", "message", "expected", "seen", "evidence", "duration_s",
        "failure_file", "replay",
    ]  # fmt: skip
    assert list(document["frontends"][0]) == [
        "id", "release", "sha256", "note", "error", "arguments", "environment", "mutant",
    ]  # fmt: skip
    assert list(document["scenarios"][0]) == [
        "id", "title", "refs", "race", "trials_planned", "known",
    ]  # fmt: skip
    assert document["flips"] == [
        {"scenario": ROW.id, "invariant": ROW.own[0], "from": before, "to": after,
         "direction": direction}
        for before, after, direction in (
            ("0.22.0", "0.22.1", "fixed"), ("0.22.1", "0.23.0", "broken"),
            ("0.23.0", "0.24.0", "fixed"),
        )
    ]  # fmt: skip
    assert document["summary"] == {**dict.fromkeys(STATUSES, 1), "not_run": 7, "exit": 1}


def test_failure_is_named_as_the_caller_would_and_the_command_fits_a_shell(
    whole: MatrixView,
) -> None:
    (one,) = [c for c in matrix_document(whole)["cells"] if c["status"] == "regression"]
    assert one["failure_file"] == "out dir/failures/f.json"
    assert one["replay"] == "wavecheck replay 'out dir/failures/f.json'"


# --- Markdown ---------------------------------------------------------------------------------


def test_markdown_has_the_table_the_flips_and_the_red_cells(whole: MatrixView) -> None:
    lines = matrix_markdown(whole).splitlines()
    assert "| `waves/stale` | k | \\+ | **R** | **B** | **U** | · | E |" in lines
    assert "| `utility/plain` | ? | ? | ? | ? | ? | ? | ? |" in lines
    assert "| `waves/stale` | `wave.never-rewinds` | fixed between 0.22.0 \\| 0.22.1 |" in lines
    assert "- **regression** `waves/stale` on `0.23.0`" in lines
    assert "  - replay: `wavecheck replay 'out dir/failures/f.json'`" in lines
    assert "  - expected: 4" in lines
    assert "| 1 | why it is not\\_judged |" in lines
    assert "- `utility/plain` on `0.22.0`" in lines


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head() -> None:
    evil = replace(ROW, id="a|b", title=EVIL)
    found = view(
        cell("0.24.0", "not_judged", scenario="a|b", reason=EVIL),
        cell("0.25.0", "known", scenario="a|b", race=True, trials=2),
        rows=(evil,),
    )
    width = None
    for line in matrix_markdown(found).splitlines():
        if not line.startswith("|"):
            width = None
            continue
        bars = line.replace("\\|", "").count("|")
        width = width or bars
        assert bars == width, line


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("a_b*c", "a\\_b\\*c"),
        ("<b>&amp;", "\\<b\\>\\&amp;"),
        ("# no heading", "\\# no heading"),
        ("two\nlines\x1b[0m", "two lines\\\\x1b\\[0m"),
    ],
)
def test_nothing_is_markup(text: str, markdown: str) -> None:
    assert escaped(text) == markdown


@pytest.mark.parametrize(
    ("text", "markdown"), [("a", "`a`"), ("a`b", "`` a`b ``"), ("``", "``` `` ```")]
)
def test_code_is_fenced_by_more_than_it_holds(text: str, markdown: str) -> None:
    assert code(text) == markdown


# --- HTML -------------------------------------------------------------------------------------


def test_page_loads_nothing(whole: MatrixView) -> None:
    text = matrix_html(whole)
    page = Page(text)
    assert {tag for tag, _ in page.elements} & {"img", "link", "iframe", "object", "form"} == set()
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert not str(attributes.get("href", "#")).startswith(("http", "//"))
    policies = [a["content"] for _, a in page.elements if a.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]
    assert "url(" not in text
    assert "@import" not in text


def test_page_is_readable_in_the_dark_and_in_the_light(whole: MatrixView) -> None:
    text = matrix_html(whole)
    assert "prefers-color-scheme: dark" in text
    assert '<meta name="color-scheme" content="light dark">' in text


def test_page_has_a_cell_for_every_pair_and_its_word(whole: MatrixView) -> None:
    page = Page(matrix_html(whole))
    cells = [a for tag, a in page.elements if tag == "td" and "data-status" in a]
    assert [a["data-status"] for a in cells] == [*STATUSES, *["not_run"] * 7]
    assert [str(a["title"]).split(":")[0] for a in cells[:3]] == ["known", "held", "regression"]


def test_failing_cell_links_to_its_story_and_to_its_file(whole: MatrixView) -> None:
    page = Page(matrix_html(whole))
    targets = {str(a["href"]) for tag, a in page.elements if tag == "a"}
    anchors = {f"#{a['id']}" for tag, a in page.elements if tag == "article"}
    assert "failures/f.json" in targets
    assert anchors == targets - {"failures/f.json"}
    assert "wavecheck replay 'out dir/failures/f.json'" in page.text


def test_text_of_others_is_no_markup_on_the_page() -> None:
    evil = replace(ROW, id=EVIL, title=EVIL)
    cells = [
        cell("0.24.0", "regression", scenario=EVIL, message=EVIL, expected=EVIL, seen=EVIL,
             failure_file=f"failures/{EVIL}.json"),
        cell("0.25.0", "not_judged", scenario=EVIL, reason=EVIL),
    ]  # fmt: skip
    calm = cell("0.24.0", "regression", failure_file="failures/f.json")
    plain_page = Page(matrix_html(view(calm, cell("0.25.0", "not_judged"))))
    page = Page(matrix_html(view(*cells, rows=(evil,))))
    assert EVIL in page.text
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in plain_page.elements}
    scripts = [tag for tag, _ in page.elements if tag == "script"]
    assert len(scripts) == 1
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_frontend_that_could_not_be_had_is_told_on_the_page() -> None:
    column_ = Column("0.24.0", "", True, "", error="pip <failed>")
    found = view(cell("0.24.0", "error"), columns=(column_,))
    assert "0.24.0: pip <failed>" in Page(matrix_html(found)).text


# --- text -------------------------------------------------------------------------------------


def test_grid_shows_telling_rows_and_counts_the_others(whole: MatrixView) -> None:
    lines = [line.plain for line in grid(whole)]
    assert "waves/stale   k  +  R  B  U  ·  E" in lines
    assert lines[-1] == "and 1 scenario that is held or not judged everywhere"


def test_summary_counts_and_says_why(whole: MatrixView) -> None:
    assert summary(whole).plain == (
        "1 held, 1 known, 1 regression, 1 blind, 1 unstable, 1 not judged, 1 error, 7 not run; "
        "exit 1: 1 regression, 1 blind, 1 unstable"
    )


def test_red_cells_and_errors_have_a_message_each(whole: MatrixView) -> None:
    messages = red_diagnostics(whole)
    assert [message.level for message in messages] == ["regression", "blind", "unstable", "error"]
    lines = plain(messages[0]).splitlines()
    assert lines[:2] == ["regression[wave.never-rewinds]: went back", "  --> waves/stale on 0.23.0"]
    heads = [line.split(":")[0].strip() for line in lines[2:]]
    assert heads == ["statement", "expected", "seen", "why", "source", "help"]
    assert lines[-1] == "  help:      wavecheck replay 'out dir/failures/f.json'"


def test_many_red_cells_are_cut(whole: MatrixView) -> None:
    rows = tuple(replace(ROW, id=f"a/{number:02}") for number in range(30))
    found = view(*(cell("0.24.0", "regression", scenario=row.id) for row in rows), rows=rows)
    messages = red_diagnostics(found)
    assert len(messages) == 21
    assert messages[-1].title == f"and 10 more, in {Path('out dir') / 'matrix.md'}"


def test_flips_are_lines(whole: MatrixView) -> None:
    assert flip_lines(whole)[0] == (
        "fixed between 0.22.0 | 0.22.1: wave.never-rewinds  waves/stale"
    )


@pytest.mark.parametrize(
    ("status", "more", "note"),
    [
        ("held", {"trials": 7}, "not seen in 7 trials"),
        ("held", {"trials": 1}, "not seen in 1 trial"),
        ("held", {"trials": 3, "cut": True}, "not seen in 3 of 7 (budget spent) trials"),
        ("known", {"trials": 2}, "seen at trial 2"),
        ("unstable", {"trials": 15, "plays": ("held", "known"), "known": ("a",)},
         "seen in 15 trials"),
        ("not_judged", {"trials": 0}, ""),
    ],
)  # fmt: skip
def test_race_says_how_much_was_played(status: str, more: dict[str, object], note: str) -> None:
    assert trials_note(cell("0.24.0", status, race=True, **more), 7) == note
    assert trials_note(cell("0.24.0", status, race=False, **more), 7) == ""


# --- why a cell is red ------------------------------------------------------------------------


def test_red_cell_says_promise_reason_source_and_events_everywhere() -> None:
    red = replace(
        cell(RELEASES[2], "regression"),
        evidence=("#4 fan-out: returns", "#7 rank 1: has <settled>"),
    )
    page_view = view(red)
    doc = invariant_doc(red.regression[0])
    (told,) = red_diagnostics(page_view)
    text = plain(told)
    page = Page(matrix_html(page_view)).text
    marked = matrix_markdown(page_view)
    for said in (doc["statement"], doc["reason"], doc["source"]):
        assert " ".join(said.split()) in " ".join(text.split())
        assert " ".join(said.split()) in " ".join(page.split())
        assert escaped(said) in marked
    for line in red.evidence:
        assert line in text
        assert line in page
        assert code(line) in marked
    assert matrix_document(page_view)["cells"][0]["evidence"] == list(red.evidence)


def test_known_cell_names_the_fault_and_its_link() -> None:
    page = Page(matrix_html(view(cell(RELEASES[0], "known"), code=0))).text
    (entry,) = (one for one in ROW.known if one.invariant in cell(RELEASES[0], "known").known)
    assert f"known: {entry.reason} ({entry.link})" in page


def test_page_sorts_by_severity_and_knows_every_status() -> None:
    assert sorted(SEVERITY) == sorted(MEANINGS)
    text = matrix_html(view(cell(RELEASES[0], "held"), code=0))
    assert 'const severity = ["regression", "blind", "unstable", "error"' in text
