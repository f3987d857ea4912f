"""The frontend's log: kinds of lines and their fields, from lines of real releases."""

from __future__ import annotations

import pytest

from harness.targets.vllm_rs.log_patterns import PATTERNS, field, parse_line, patterns_of
from harness.targets.vllm_rs.releases import NEWEST, RELEASES

HEAD = "(RustFrontend pid=7) DEBUG 11-29 18:10:33 [src/engine-core-client/src/client.rs:487] "
SPAN = 'completions{request_id=cmpl-a engine_request_id="cmpl-a-3f6fbc95"}: '


def test_a_registered_request_names_its_internal_id_and_rank_behind_its_span():
    line = parse_line(
        HEAD + SPAN + "registered request to engine "
        'request_id="cmpl-a-3f6fbc95" engine_id=EngineId(0100)\n'
    )
    assert line.level == "DEBUG"
    assert line.pattern == "request-registered"
    assert line.fields == (
        ("engine", "1"),
        ("identity", "0100"),
        ("request_id", "cmpl-a-3f6fbc95"),
    )


def test_colours_are_stripped_and_a_warning_has_its_short_name():
    line = parse_line(
        "\x1b[0;36m(RustFrontend pid=7433)\x1b[0m \x1b[33mWARNING\x1b[0m "
        "\x1b[90m11-29 18:08:23\x1b[0m \x1b[90m[src/a.rs:1]\x1b[0m "
        "dropping output for unexpected utility call \x1b[3mcall_id\x1b[0m\x1b[2m=\x1b[0m3"
    )
    assert (line.level, line.pattern, line.fields) == (
        "WARN",
        "utility-dropped",
        (("call_id", "3"),),
    )


def test_a_field_of_the_stream_object_is_found_by_its_plain_name():
    line = parse_line(
        HEAD + SPAN + 'request completed via final output self.request_id="cmpl-a-3f6fbc95"'
    )
    assert field(line, "request_id") == "cmpl-a-3f6fbc95"


def test_an_error_field_keeps_all_of_its_words():
    line = parse_line(
        "(RustFrontend pid=1) WARNING 11-29 18:10:34 [src/imp.rs:536] output dispatcher exiting "
        "with error error=engine core reported fatal failure"
    )
    assert line.pattern == "dispatcher-failed"
    assert field(line, "error") == "engine core reported fatal failure"


def test_nothing_that_changes_from_run_to_run_is_kept_of_the_head():
    first = parse_line("(RustFrontend pid=1) INFO 11-29 18:10:34 [src/a.rs:1] hello there")
    second = parse_line("(RustFrontend pid=2) INFO 12-01 08:00:00 [src/a.rs:9] hello there")
    assert first == second
    assert (first.pattern, first.text) == ("other", "hello there")


@pytest.mark.parametrize("line", ["", "thread 'main' panicked at src/x.rs:1:1:", "{a: {b"])
def test_a_line_without_the_usual_head_is_other_and_keeps_its_text(line):
    parsed = parse_line(line)
    assert (parsed.level, parsed.pattern, parsed.fields, parsed.text) == ("", "other", (), line)


def test_a_dump_with_braces_and_quotes_is_not_taken_for_a_span():
    line = parse_line(HEAD + 'strange value{ "x": {1} dropping output for inactive request')
    assert line.pattern == "other"


def test_a_very_long_line_is_cut():
    assert len(parse_line(HEAD + "x" * 100_000).text) == 2000


@pytest.mark.parametrize("release", RELEASES)
def test_ids_and_beginnings_of_a_release_are_unique_and_none_hides_another(release):
    table = patterns_of(release)
    ids = [pattern.id for pattern in table]
    assert len(set(ids)) == len(ids)
    for index, earlier in enumerate(table):
        for later in table[index + 1 :]:
            assert not later.begins.startswith(earlier.begins)


def test_every_pattern_is_in_the_table_of_some_release_and_its_bounds_are_releases():
    used = {pattern for release in RELEASES for pattern in patterns_of(release)}
    assert used == set(PATTERNS)
    for pattern in PATTERNS:
        assert pattern.since in RELEASES
        assert pattern.until is None or pattern.until in RELEASES


def test_a_text_of_another_release_is_kept_as_text():
    line = HEAD + "failed to auto-abort request streams error=x"
    assert parse_line(line, patterns_of("0.23.0")).pattern == "auto-abort-failed"
    old = parse_line(line, patterns_of("0.22.1"))
    assert (old.pattern, old.text) == ("other", "failed to auto-abort request streams error=x")


def test_a_later_release_has_the_table_of_the_newest_known_one():
    assert patterns_of("99.0") == patterns_of(NEWEST)


def test_an_external_coordinator_s_update_keeps_wave_and_running():
    line = parse_line(
        HEAD + "applied external coordinator state update previous_wave=0 wave=7 "
        "previous_engines_running=true engines_running=false"
    )
    assert line.pattern == "external-update"
    assert line.fields == (("engines_running", "false"), ("wave", "7"))
