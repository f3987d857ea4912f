"""Baseline files: what is refused, where, and that changes leave the rest as it is."""

from __future__ import annotations

import datetime as dt
import json

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.baseline.clock import day_or_span, utc_today
from harness.baseline.model import Baseline
from harness.baseline.schema import schema_text
from harness.baseline.writing import CannotEditError, baseline_text, changed, scalar
from harness.reports.diagnostic import plain
from harness.scenario.positions import parse_yaml
from harness.scenario.problems import ScenarioFileError
from tests.harness.baseline.conftest import baseline, file_of, pin, waiver
from tests.meta.test_project import DOCS

HEAD = "format: 1\n"
WAIVER = """\
waivers:
  - scenario: waves/x
    invariant: wave.never-rewinds
    target: vllm-rs
    owner: "@waves"
    reason: why
    expires: 2026-12-31
"""


def refused(text: str) -> str:
    """What is said of a file that is not valid."""
    with pytest.raises(ScenarioFileError) as caught:
        file_of(text)
    return "\n".join(plain(one) for one in caught.value.diagnostics())


@pytest.mark.parametrize("key", ["owner", "reason", "expires", "scenario", "invariant", "target"])
def test_waiver_that_lacks_a_key_is_refused_at_its_line(key):
    lines = (HEAD + WAIVER).splitlines()
    kept = [line for line in lines if f" {key}:" not in line]
    text = "\n".join(kept).replace("    invariant", "  - invariant", key == "scenario")
    said = refused(text)
    assert f"key '{key}' is missing in waivers[0]" in said
    assert "--> baseline.yaml:3:5" in said


@pytest.mark.parametrize("key", ["owner", "reason"])
@pytest.mark.parametrize("value", ['""', '"  "'])
def test_waiver_with_an_empty_owner_or_reason_is_refused(key, value):
    old = '"@waves"' if key == "owner" else "why"
    said = refused((HEAD + WAIVER).replace(f"{key}: {old}", f"{key}: {value}"))
    assert f"invalid value of waivers[0].{key}" in said


@pytest.mark.parametrize(
    "value", ["2026-13-01", "2026-02-30", "20261231", "2026-W01-1", "tomorrow", '"2026-1-1"']
)
def test_day_that_is_none_is_refused_with_its_place(value):
    said = refused((HEAD + WAIVER).replace("2026-12-31", value))
    assert "is no day; a day is written YYYY-MM-DD" in said or "invalid value" in said
    assert "baseline.yaml:8:14" in said


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("format: 1", "format: 2", "has format 2, this version reads format 1"),
        ("format: 1", "format: 0", "it was made by an older wavecheck"),
        ("format: 1", 'format: "1"', "invalid value of format"),
        ("format: 1\n", "", "key 'format' is missing"),
        ("owner:", "ownr:", "did you mean 'owner'?"),
        ("wave.never-rewinds", "wave.never-rewind", "did you mean 'wave.never-rewinds'?"),
        ("vllm-rs", "vllm-sr", "did you mean 'vllm-rs'?"),
        ("    owner:", '    releases: "latest"\n    owner:', "'latest' names no releases"),
    ],
)
def test_wrong_value_is_refused_with_what_would_be_right(old, new, text):
    assert text in refused((HEAD + WAIVER).replace(old, new))


def test_newer_format_is_refused_for_that_alone():
    said = refused("format: 7\nmade_up: true\n")
    assert "it was made by a newer wavecheck" in said
    assert "made_up" not in said.replace("    1 |", "")


def test_same_waiver_twice_and_scenario_twice_in_a_pin_are_refused():
    twice = HEAD + WAIVER + WAIVER.partition("\n")[2]
    assert "is waived twice (first by waivers[0])" in refused(twice)
    pins = HEAD + "pins:\n  - {target: sim, judged: [a], not_judged: [a]}\n"
    assert "scenario 'a' stands twice in one pin" in refused(pins)


def test_empty_file_says_how_one_is_made():
    assert "wavecheck baseline write" in refused("\n")


# --- what is written ------------------------------------------------------------------------

PLAIN = st.text(min_size=1, max_size=30).filter(lambda text: text.strip())


@given(PLAIN)
def test_scalar_is_read_back_whatever_the_text_holds(text):
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        return
    line = scalar(text)
    assert line.isprintable()
    assert parse_yaml(f"key: {line}\n")[0] == {"key": text}


@pytest.mark.parametrize("text", ["null", "true", "1.5", "@me", "a: b", "# x", "- y", "on", "~"])
def test_scalar_that_yaml_would_read_otherwise_is_quoted(text):
    assert parse_yaml(f"key: {scalar(text)}\n")[0] == {"key": text}


def full() -> Baseline:
    return baseline(
        pins=[pin(releases="==0.24.0", not_judged=["grpc/x"])],
        waivers=[waiver(), waiver(invariant="expectation", owner="a: b")],
    )


def test_written_file_is_read_back_by_us_and_by_another_reader():
    text = baseline_text(full())
    assert file_of(text).baseline == full()
    other = yaml.load(text, Loader=yaml.BaseLoader)
    assert other["waivers"][1]["owner"] == "a: b"
    assert file_of(baseline_text(baseline())).baseline == baseline()


def test_schema_takes_what_is_written_and_refuses_what_the_model_refuses():
    schema = json.loads(schema_text())
    document, _ = parse_yaml(baseline_text(full()))
    jsonschema.validate(document, schema)
    del document["waivers"][0]["owner"]
    with pytest.raises(jsonschema.ValidationError, match="'owner' is a required property"):
        jsonschema.validate(document, schema)


def test_published_schema_is_current():
    published = (DOCS / "baseline.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "run: python -m harness.baseline.schema"


COMMENTED = """\
# ours
format: 1   # keep
# what is judged
pins:
  - target: vllm-rs
    judged: [waves/a]
# what we live with
waivers:
  # the first
  - scenario: waves/a
    invariant: wave.never-rewinds
    target: vllm-rs
    owner: "@a"
    reason: first
    expires: 2026-12-31
  # the second,
  # in two lines
  - scenario: waves/b
    invariant: expectation
    target: vllm-rs
    owner: "@b"
    reason: second
    expires: 2026-12-31
# the end
"""


def test_removed_waiver_takes_its_comment_along_and_nothing_else():
    file = file_of(COMMENTED)
    wanted = baseline(pins=file.baseline.pins, waivers=file.baseline.waivers[:1])
    text = changed(file, wanted, dropped=frozenset({1}))
    first = COMMENTED.index("  # the second")
    assert text == COMMENTED[:first] + "# the end\n"


def test_first_waiver_can_go_and_a_new_one_comes_behind_the_last():
    file = file_of(COMMENTED)
    new = waiver(scenario="waves/c")
    wanted = baseline(pins=file.baseline.pins, waivers=[file.baseline.waivers[1], new])
    text = changed(file, wanted, dropped=frozenset({0}))
    assert file_of(text).baseline == wanted
    assert "the first" not in text
    assert text.index("# in two lines") < text.index("waves/c") < text.index("# the end")


def test_pins_change_and_comments_of_the_waivers_stay():
    file = file_of(COMMENTED)
    wanted = baseline(pins=[pin(judged=["waves/z"])], waivers=file.baseline.waivers)
    text = changed(file, wanted)
    assert "      - waves/z" in text
    for comment in ("# ours", "# keep", "# what is judged", "# what we live with", "# the end"):
        assert comment in text


def test_all_waivers_can_go():
    file = file_of(COMMENTED)
    text = changed(file, baseline(pins=file.baseline.pins), dropped=frozenset({0, 1}))
    assert "waivers: []" in text


def test_form_that_cannot_be_changed_in_place_is_refused_and_not_spoilt():
    flow = (
        HEAD
        + "waivers: [{scenario: a, invariant: expectation, target: sim, owner: o, reason: r, expires: 2026-12-31}, {scenario: b, invariant: expectation, target: sim, owner: o, reason: r, expires: 2026-12-31}]\n"
    )
    file = file_of(flow)
    with pytest.raises(CannotEditError):
        changed(file, baseline(waivers=file.baseline.waivers[1:]), dropped=frozenset({0}))


# --- days -----------------------------------------------------------------------------------


def test_day_is_that_of_utc_wherever_the_moment_was_read():
    west = dt.timezone(dt.timedelta(hours=-8))
    evening = dt.datetime(2026, 12, 31, 17, 0, tzinfo=west)
    assert utc_today(evening) == dt.date(2027, 1, 1)
    assert utc_today(dt.datetime(2026, 12, 31, 15, 59, 59, tzinfo=west)) == dt.date(2026, 12, 31)


@pytest.mark.parametrize(
    ("text", "day"), [("90d", "2027-03-01"), ("0d", "2026-12-01"), ("2027-01-02", "2027-01-02")]
)
def test_expiry_is_a_day_or_a_number_of_days(text, day):
    assert day_or_span(text, dt.date(2026, 12, 1)).isoformat() == day


@pytest.mark.parametrize("text", ["", "d", "-1d", "9999999d", "99999d9", "soon", "3000-1-1"])
def test_expiry_that_is_neither_is_refused(text):
    with pytest.raises(ValueError, match="is no day"):
        day_or_span(text, dt.date(2026, 12, 1))
