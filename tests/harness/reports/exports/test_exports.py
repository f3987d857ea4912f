"""Each form of a report, read by a real reader of that form."""

from __future__ import annotations

import hashlib
import json
import re

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Failure, JUnitXml, Skipped
from markdown_it import MarkdownIt
from msgspec.structs import replace

from harness.cli.catalogue import invariant_doc
from harness.reports.exports.formats import FORMS, CannotTellError, form_of
from harness.reports.exports.html import LIBRARY, as_data, asset, page
from harness.reports.exports.junit import report_junit
from harness.reports.exports.markdown import BYTES_MAX, LISTED_MAX, TOLD_MAX, markdown
from harness.reports.exports.mermaid import TEXT_MAX, chosen, escaped, mermaid
from harness.reports.exports.perfetto import STEP_US, perfetto, times
from harness.reports.inputs.failures import Tracing
from harness.reports.inputs.report import make_report
from harness.reports.schema import FORMS as SCHEMAS
from harness.reports.schema import schema_of
from harness.reports.told.model import Event, Grid, Report, Result, Violation
from harness.reports.visible import visible
from tests.support.failures import HOSTILE, as_recorded, failing_run, failure_file, wavecheck

LIT_HTML_3_3_3 = "b878e7f95dec8a9b6e9b217faca6b6a11bad82ebc44c0caa77419ed83edd81f2"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return failing_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def made(run):
    return make_report(run, invariant_doc, Tracing())


VIOLATION = Violation(
    scenario="waves/stale",
    title="a | title",
    level="violated",
    code="wave.never-rewinds",
    message=f"hostile {HOSTILE} | `x`",
    settings=["target sim"],
    expected="*bold* | <b>",
    seen="seen",
    evidence=["#1  t=0.000s  client: closed sockets=0"],
    witness=[1],
    replay="wavecheck replay f.json",
)


def small(*violations, **changes):
    results = [
        Result(v.scenario, v.title, "0.33.0", "violated", detail=v.message, violation=n)
        for n, v in enumerate(violations)
    ]
    report = Report(
        "run", "0.1.0", "run.json", "a run", "it failed", {"violated": len(results)}, results,
        list(violations),
    )  # fmt: skip
    return replace(report, **changes)


# --- JUnit ------------------------------------------------------------------------------------


def test_junit_of_a_run_is_what_the_run_itself_writes(run, made, tmp_path):
    own = tmp_path / "own.xml"
    wavecheck("run", "waves/stale-first-request", "--mutant", "coordinator-rewinds", "--out",
              run.parent, "--junit", own)  # fmt: skip
    told = JUnitXml.fromstring(FORMS["junit"].text(made, invariant_doc).encode())
    expected = JUnitXml.fromfile(str(own))
    (one,), (other,) = [[case for suite in xml for case in suite] for xml in (told, expected)]
    assert (one.name, one.classname) == (other.name, other.classname)
    assert isinstance(one.result[0], Failure)
    assert one.result[0].message == other.result[0].message
    assert one.result[0].text == other.result[0].text


def test_junit_of_a_matrix_has_a_suite_for_each_frontend():
    results = [
        Result("a/x", "x", "0.24.0", "known", detail="as predicted"),
        Result("a/x", "x", "0.33.0", "regression", detail="new", violation=0),
        Result("a/y", "y", "0.24.0", "held"),
        Result("a/y", "y", "0.33.0", "error", detail="no start"),
    ]
    grid = Grid(["0.24.0", "0.33.0"], {}, ["a/x", "a/y"], [[0, 1], [2, 3]], [], {}, {})
    report = small(VIOLATION, results=results, matrix=grid)
    read = JUnitXml.fromstring(report_junit(report).tostring())
    found = {
        suite.name: [type(case.result[0]) if case.result else None for case in suite]
        for suite in read
    }
    assert list(found) == ["wavecheck 0.24.0", "wavecheck 0.33.0"]
    assert found["wavecheck 0.24.0"] == [Skipped, None]
    assert [cls.__name__ for cls in found["wavecheck 0.33.0"]] == ["Failure", "Error"]
    assert (read.failures, read.errors, read.skipped, read.tests) == (1, 1, 1, 4)


def test_junit_holds_no_sign_that_xml_lacks():
    report = small(replace(VIOLATION, message="bell \x07 and \ud800"))
    (suite,) = JUnitXml.fromstring(report_junit(report).tostring())
    (case,) = suite
    assert case.result[0].message == "bell \ufffd and \ufffd"


# --- JSON -------------------------------------------------------------------------------------


def test_json_follows_its_published_schema(made):
    document = json.loads(FORMS["json"].text(made, invariant_doc))
    jsonschema.validate(document, schema_of("report.schema.json"))
    del document["violations"][0]["trace"]["events"][0]["seq"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema_of("report.schema.json"))


def test_run_follows_its_published_schema_which_names_every_key(run):
    schema = schema_of("run.schema.json")
    document = json.loads(run.read_text())
    jsonschema.validate(document, schema)
    named = {name: set(found["properties"]) for name, found in schema["$defs"].items()}
    assert set(document) == named["RunDocument"]
    assert set(document["results"][0]) == named["ResultObject"]
    assert set(document["results"][0]["verdicts"][0]) == named["VerdictObject"]
    assert set(document["summary"]) == named["SummaryObject"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_valid_and_names_its_dialect(name):
    jsonschema.Draft202012Validator.check_schema(schema_of(name))


def test_json_of_a_report_makes_the_same_report_again(made, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(FORMS["json"].text(made, invariant_doc))
    assert make_report(path, invariant_doc, Tracing()).report == made.report


# --- Markdown ---------------------------------------------------------------------------------


def markdown_tokens(text):
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def test_markdown_has_counts_sides_diagram_and_command(made):
    tokens = markdown_tokens(markdown(made.report))
    headings = [tokens[n + 1].content for n, t in enumerate(tokens) if t.type == "heading_open"]
    assert headings[0] == "wavecheck: 1 scenario on sim 0.1.0"
    assert headings[1].startswith("violated: wave.never-rewinds: the coordinator went")
    (fence,) = [token for token in tokens if token.type == "fence"]
    assert fence.info == "mermaid"
    assert fence.content.startswith("sequenceDiagram\n")
    cells = [t.content for t in tokens if t.type == "inline"]
    assert "current wave \\>= 2" in cells
    codes = [c.content for t in tokens for c in t.children or [] if c.type == "code_inline"]
    assert made.report.violations[0].replay in codes


def test_markdown_takes_nothing_of_a_name_for_markup():
    tokens = markdown_tokens(markdown(small(VIOLATION)))
    kinds = {c.type for t in tokens for c in t.children or []} | {t.type for t in tokens}
    assert not {"html_inline", "html_block", "link_open", "image", "em_open", "strong_open"} & kinds
    text = "".join(c.content for t in tokens for c in t.children or [])
    assert HOSTILE in text
    assert "*bold* | <b>" in text


def test_markdown_of_many_violations_lists_those_that_it_does_not_tell():
    text = markdown(small(*[VIOLATION] * (LISTED_MAX + TOLD_MAX + 5)))
    assert text.count("```mermaid") == TOLD_MAX
    assert f"## {LISTED_MAX + 5} further violations" in text
    assert "And 5 more" in text


def test_markdown_stays_below_what_a_code_host_takes():
    text = markdown(small(*[replace(VIOLATION, statement="x" * 200_000)] * 10))
    assert len(text.encode()) < BYTES_MAX + 10_000
    assert text.count("```mermaid") == 4


# --- Mermaid (drawn by the real one in tests/browser) -------------------------------------------


def test_mermaid_shows_lanes_messages_and_the_witness(made):
    lines = mermaid(made.report.violations[0]).splitlines()
    assert lines[0] == "sequenceDiagram"
    names = [line.split(" as ")[1] for line in lines if "participant" in line]
    assert names == ["callers", "client", "coordinator", "engine 0", "engine 1", "harness"]
    rect = lines.index("    rect rgb(255, 221, 128)")
    assert "#35;46 first-request" in lines[rect + 1]
    assert lines[rect + 2] == "    end"


def test_mermaid_of_a_recorded_failure_shows_its_witness(run, tmp_path):
    path = as_recorded(failure_file(run), tmp_path / "f.json")
    report = make_report(path, invariant_doc, Tracing(wanted=False)).report
    text = mermaid(report.violations[0])
    assert "first-request" in text
    assert "READY" not in text


@given(st.text())
def test_mermaid_text_holds_only_plain_signs_and_numbers_of_others(text):
    assert re.fullmatch(r"(?:[A-Za-z0-9 _.,=/()-]|#\d+;)*", escaped(text))


def test_mermaid_text_is_cut():
    assert len(escaped("a" * 500)) < TEXT_MAX + 10


def test_long_run_is_shown_round_its_witness_and_without_one_at_its_end():
    events = [Event(n, 0, "idle", "client", "client", f"client: idle {n}") for n in range(500)]
    assert chosen(events, [100, 300], 120) == [*range(88, 105), *range(288, 305)]
    assert chosen(events, [100, 300], 20) == list(range(288, 305))
    assert chosen(events, [], 20) == list(range(480, 500))
    assert chosen(events[:20], [3], 20) == list(range(20))


def test_mermaid_needs_one_violation(made):
    many = replace(made.report, violations=made.report.violations * 2)
    with pytest.raises(CannotTellError, match="shows one violation, and this report has 2: choose"):
        FORMS["mermaid"].text(type(made)(many), invariant_doc)


# --- Perfetto (read by a real viewer in tests/browser) ------------------------------------------


def test_perfetto_names_lanes_and_has_a_slice_for_every_end_of_every_event(made):
    document = json.loads(perfetto(made.report))
    entries = document["traceEvents"]
    trace = made.report.violations[0].trace
    names = [e["args"]["name"] for e in entries if e["ph"] == "M" and e["name"] == "thread_name"]
    assert names == [lane.title for lane in trace.lanes]
    slices = [e for e in entries if e["ph"] == "X"]
    assert len(slices) == sum(1 + (e.source != e.target) for e in trace.events)
    assert {e["args"]["seq"] for e in slices} == {event.seq for event in trace.events}
    assert all(e["dur"] > 0 and e["ts"] >= 0 for e in slices)


def test_perfetto_flows_begin_and_end_in_slices_of_their_lanes(made):
    entries = json.loads(perfetto(made.report))["traceEvents"]
    slices = {(e["tid"], e["ts"]) for e in entries if e["ph"] == "X"}
    begins = {e["id"]: e for e in entries if e["ph"] == "s"}
    ends = {e["id"]: e for e in entries if e["ph"] == "f"}
    assert begins
    assert begins.keys() == ends.keys()
    for entry in [*begins.values(), *ends.values()]:
        assert (entry["tid"], entry["ts"]) in slices
    assert all(begins[key]["tid"] != ends[key]["tid"] for key in begins)


def test_perfetto_spans_of_callers_end_where_they_began(made):
    entries = json.loads(perfetto(made.report))["traceEvents"]
    begun = [e["id"] for e in entries if e["ph"] == "b"]
    ended = [e["id"] for e in entries if e["ph"] == "e"]
    assert begun
    assert sorted(begun) == sorted(ended)


def test_perfetto_keeps_the_order_of_events_at_one_moment():
    at = [0, 0, 0, 5, 5, 100]
    events = [Event(n, t, "idle", "client", "client", "") for n, t in enumerate(at)]
    assert times(events) == [0, STEP_US, 2 * STEP_US, 3 * STEP_US, 4 * STEP_US, 100]


def test_perfetto_needs_events():
    with pytest.raises(CannotTellError, match="needs the events of a violation"):
        FORMS["perfetto"].text(type("Made", (), {"report": small(VIOLATION)})(), invariant_doc)


# --- HTML (opened in a real browser in tests/browser) -------------------------------------------


def test_page_loads_nothing_and_its_data_cannot_end_its_script(made):
    text = page(small(VIOLATION))
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", text) == []
    assert "default-src &#39;none&#39;" in text
    assert HOSTILE not in text
    assert text.count("</script>") == 2
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert json.loads(data[1])["violations"][0]["message"] == VIOLATION.message


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_data_of_a_page_is_ascii_without_markup_and_reads_back(text):
    data = as_data(small(replace(VIOLATION, message=text)))
    assert data.isascii()
    assert not set(data) & set("<>&")
    assert json.loads(data)["violations"][0]["message"] == visible(text)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.html", "html"), ("a.HTM", "html"), ("a.xml", "junit"), ("a.json", "json"),
        ("a.md", "markdown"), ("a.mmd", "mermaid"), ("a.perfetto.json", "perfetto"), ("a", None),
    ],
)  # fmt: skip
def test_ending_of_a_file_tells_the_form(name, form):
    assert form_of(name) == form


def test_library_of_the_page_is_the_published_one_with_its_licence():
    digest = hashlib.sha256(asset(LIBRARY).encode()).hexdigest()
    assert digest == LIT_HTML_3_3_3
    assert "Redistribution and use in source and binary forms" in asset("vendor/lit-html.LICENSE")
