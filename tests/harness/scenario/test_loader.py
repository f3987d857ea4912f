"""Scenario files that are wrong get one clear message each: the whole text is compared."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from harness.reports.diagnostic import plain
from harness.scenario.checks import Vocabulary
from harness.scenario.loader import (
    FILE_BYTES_MAX,
    builtin_dir,
    load,
    parse,
    scenario_id,
)
from harness.scenario.model import Step
from harness.scenario.problems import ScenarioFileError

GOOD = """\
title: a request ends
promise: every accepted request ends
refs: [vllm#46833]
invariants: [request.ends]
steps:
  - call: {id: a}
  - finish: a
  - expect: {op: a, outcome: finished}
"""
VOCABULARY = Vocabulary(frozenset({"request.ends", "wave.never-rewinds"}))


def messages(text: str | bytes, folder: Path) -> str:
    """All messages of a file, without colour; its folder is left out of their paths."""
    path = folder / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScenarioFileError) as caught:
        load(path, vocabulary=VOCABULARY)
    shown = "\n\n".join(plain(diagnostic) for diagnostic in caught.value.diagnostics())
    return shown.replace(f"{folder}{os.sep}", "")


def test_good_file_is_loaded_with_id_text_and_positions(tmp_path: Path) -> None:
    path = tmp_path / "scenarios" / "requests" / "ends.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(GOOD)
    loaded = load(path, vocabulary=VOCABULARY)
    assert (loaded.id, loaded.path, loaded.text) == ("requests/ends", path, GOOD)
    assert loaded.scenario.steps[1].finish == ["a"]
    assert loaded.positions.find(("steps", 1)).line == 7


def test_loaded_scenario_survives_pickling() -> None:
    loaded = parse(GOOD, Path("x.yaml"), name="x", vocabulary=VOCABULARY)
    assert pickle.loads(pickle.dumps(loaded)) == loaded


def test_error_survives_pickling(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError) as caught:
        load(tmp_path / "none.yaml")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.path, copy.problems) == (caught.value.path, caught.value.problems)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_byte_order_mark_makes_no_difference(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(mark + GOOD.encode())
    assert load(path, vocabulary=VOCABULARY).text == GOOD


def test_misspelt_key_suggests_the_nearest(tmp_path: Path) -> None:
    assert messages(
        GOOD.replace("  - call: {id: a}", "  - call: {id: a, max_token: 2}"), tmp_path
    ) == (
        "error: unknown key 'max_token' in steps[0].call\n"
        "  --> x.yaml:6:19\n"
        "    6 |   - call: {id: a, max_token: 2}\n"
        "      |                   ^\n"
        "  expected:  one of aux, body, frontend, headers, id, kv_transfer_params, max_tokens, prompt,"
        " rank, rank_text, read, request_id, stop, surface, unencodable\n"
        "  help:      did you mean 'max_tokens'?"
    )


def test_misspelt_required_key_is_reported_once(tmp_path: Path) -> None:
    text = GOOD.replace("promise:", "promis:")
    assert messages(text, tmp_path) == (
        "error: unknown key 'promis'\n"
        "  --> x.yaml:2:1\n"
        "    2 | promis: every accepted request ends\n"
        "      | ^\n"
        "  expected:  one of connect_fails, engines, explore, format, invariants, known, needs, "
        "open_at_end, profiles, promise, refs, steps, title, topology, trials\n"
        "  help:      did you mean 'promise'?"
    )


def test_missing_key_is_named(tmp_path: Path) -> None:
    assert messages(GOOD.replace("title: a request ends\n", ""), tmp_path) == (
        "error: key 'title' is missing\n"
        "  --> x.yaml:1:1\n"
        "    1 | promise: every accepted request ends\n"
        "      | ^"
    )


def test_wrong_type_shows_expected_beside_seen(tmp_path: Path) -> None:
    assert messages(GOOD + "topology: {engines: two}\n", tmp_path) == (
        "error: invalid value of topology.engines\n"
        "  --> x.yaml:9:21\n"
        "    9 | topology: {engines: two}\n"
        "      |                     ^\n"
        "  expected:  a whole number\n"
        "  seen:      text 'two'"
    )


def test_alternatives_of_one_value_are_one_message(tmp_path: Path) -> None:
    assert messages(GOOD + "engines:\n  - engine: {}\n", tmp_path) == (
        "error: invalid value of engines[0].engine\n"
        "  --> x.yaml:10:13\n"
        "   10 |   - engine: {}\n"
        "      |             ^\n"
        "  expected:  one of a whole number, a list, all\n"
        "  seen:      a mapping with no keys"
    )


def test_unknown_word_suggests_the_nearest(tmp_path: Path) -> None:
    assert messages(GOOD + "topology: {coordinator: inprocess}\n", tmp_path) == (
        "error: invalid value of topology.coordinator\n"
        "  --> x.yaml:9:25\n"
        "    9 | topology: {coordinator: inprocess}\n"
        "      |                         ^\n"
        "  expected:  one of none, in-process, external\n"
        "  seen:      text 'inprocess'\n"
        "  help:      did you mean 'in-process'?"
    )


def test_number_out_of_bounds_names_the_bound(tmp_path: Path) -> None:
    assert messages(GOOD + "topology: {engines: 65}\n", tmp_path) == (
        "error: invalid value of topology.engines\n"
        "  --> x.yaml:9:21\n"
        "    9 | topology: {engines: 65}\n"
        "      |                     ^\n"
        "  expected:  at most 64\n"
        "  seen:      the number 65"
    )


def test_step_with_two_verbs_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("  - finish: a\n", "  - finish: a\n    open: g\n")
    assert messages(text, tmp_path) == (
        "error: a step has exactly one verb, this one has finish, open\n"
        "  --> x.yaml:7:5\n"
        "    7 |   - finish: a\n"
        "      |     ^"
    )


@pytest.mark.parametrize("verb", Step.model_fields)
def test_step_with_nothing_behind_its_verb_is_refused(tmp_path: Path, verb: str) -> None:
    told = messages(GOOD.replace("  - finish: a\n", f"  - {verb}:\n"), tmp_path)
    assert told.startswith(
        f"error: {verb!r} needs a value\n  --> x.yaml:7:5\n    7 |   - {verb}:\n"
    )


def test_misspelt_verb_suggests_the_nearest(tmp_path: Path) -> None:
    assert messages(GOOD.replace("  - finish: a", "  - finsh: a"), tmp_path) == (
        "error: unknown key 'finsh' in steps[1]\n"
        "  --> x.yaml:7:5\n"
        "    7 |   - finsh: a\n"
        "      |     ^\n"
        f"  expected:  one of {', '.join(sorted(Step.model_fields))}\n"
        "  help:      did you mean 'finish'?"
    )


def test_unknown_engine_names_those_there_are(tmp_path: Path) -> None:
    text = GOOD + "topology: {engines: 2, start_rank: 4}\nengines:\n  - engine: [4, 1]\n"
    assert messages(text, tmp_path) == (
        "error: engine 1 does not exist\n"
        "  --> x.yaml:11:17\n"
        "   11 |   - engine: [4, 1]\n"
        "      |                 ^\n"
        "  expected:  one of 4, 5 (the global ranks of this topology)\n"
        "  seen:      the number 1"
    )


def test_broken_yaml_is_one_message(tmp_path: Path) -> None:
    assert messages("title: [a\npromise: b\n", tmp_path) == (
        "error: invalid YAML: expected ',' or ']', but got ':' (while parsing a flow sequence)\n"
        "  --> x.yaml:2:8\n"
        "    2 | promise: b\n"
        "      |        ^"
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n"])
def test_empty_file_is_one_message(tmp_path: Path, text: str) -> None:
    assert messages(text, tmp_path) == (
        "error: the file is empty\n  --> x.yaml\n  expected:  a mapping; see docs/scenarios.md"
    )


def test_list_instead_of_a_mapping_is_one_message(tmp_path: Path) -> None:
    assert messages("- a\n- b\n", tmp_path) == (
        "error: invalid value\n"
        "  --> x.yaml:1:1\n"
        "    1 | - a\n"
        "      | ^\n"
        "  expected:  a mapping\n"
        "  seen:      a list of 2"
    )


def test_file_over_one_mebibyte_is_not_parsed(tmp_path: Path) -> None:
    assert messages(b"#" * (FILE_BYTES_MAX + 1), tmp_path) == (
        "error: the file is too large\n  --> x.yaml\n  expected:  at most 1048576 bytes (1 MiB)"
    )


def test_file_that_is_no_utf_8_names_the_byte(tmp_path: Path) -> None:
    assert messages(b"title: a\npromise: caf\xe9\n", tmp_path) == (
        "error: the file is not UTF-8 text\n"
        "  --> x.yaml:2:13\n"
        "  seen:      byte 0xe9\n"
        "  help:      save the file as UTF-8"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_file_without_permission_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(ScenarioFileError, match="cannot read the file: Permission denied"):
        load(path)


def test_read_error_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(GOOD)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as changed:
        changed.setattr(os, "open", refuse)
        with pytest.raises(ScenarioFileError) as caught:
            load(path)
    assert [plain(d) for d in caught.value.diagnostics()] == [
        f"error: cannot read the file: Permission denied\n  --> {path}"
    ]


def test_missing_file_folder_and_pipe_are_told_apart(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.yaml"
    os.mkfifo(fifo)
    titles = []
    for path in (tmp_path / "none.yaml", tmp_path, fifo):
        with pytest.raises(ScenarioFileError) as caught:
            load(path)
        titles.append(caught.value.problems[0].title)
    assert titles == ["no such file", "this is a folder", "this is not a regular file"]


def test_duplicate_key_names_both_lines(tmp_path: Path) -> None:
    assert messages("title: a\ntitle: b\n", tmp_path) == (
        "error: key 'title' stands twice in one mapping (first in line 1)\n"
        "  --> x.yaml:2:1\n"
        "    2 | title: b\n"
        "      | ^"
    )


def test_many_problems_show_the_first_few_in_order_of_the_file(tmp_path: Path) -> None:
    text = "".join(f"k{n}: 1\n" for n in range(8)) + GOOD
    shown = messages(text, tmp_path)
    lines = [line for line in shown.splitlines() if line.startswith("  -->")]
    assert lines == [f"  --> x.yaml:{n}:1" for n in range(1, 6)] + ["  --> x.yaml"]
    assert shown.endswith("note: 3 more problems in this file\n  --> x.yaml")


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    shown = messages(GOOD + '"a\\e[31mb": 1\n', tmp_path)
    assert "\x1b" not in shown
    assert "unknown key 'a\\x1b[31mb'" in shown


def test_long_line_is_cut_round_the_caret(tmp_path: Path) -> None:
    shown = messages(GOOD + f"topology: {{waves: auto,{' ' * 300}engines: two}}\n", tmp_path)
    line, caret = shown.splitlines()[2:4]
    assert len(line) < 120
    assert line[caret.index("^") :].startswith("two")


def test_id_is_the_path_below_a_folder_called_scenarios() -> None:
    assert scenario_id(Path("/x/scenarios/waves/a.yaml")) == "waves/a"
    assert scenario_id(Path("/x/other/a.yaml")) == "a"
    assert scenario_id(Path("/x/other/b/a.yaml"), Path("/x/other")) == "b/a"
    assert scenario_id(builtin_dir() / "waves" / "a.yaml") == "waves/a"


def test_symlink_loop_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.symlink_to(path)
    with pytest.raises(ScenarioFileError) as caught:
        load(path)
    assert caught.value.problems[0].title.startswith("cannot read the file: Too many levels of")
