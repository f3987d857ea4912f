"""The command that looks for flaky tests: what it notes, takes up again and calls red."""

from __future__ import annotations

import itertools
import signal

import pytest
from click.testing import CliRunner

from tests.conftest import LONG
from tests.flakes import __main__ as flakes
from tests.flakes.ledger import Ledger, Round, tree_digest

GREEN = Round("unit", 1, 0, 1.0, "3 passed")
RED = Round("zmq", 1, 1, 1.0, "1 failed, 2 passed", ("tests/a.py::test_x",), "why")


def test_a_ledger_of_the_same_tree_is_taken_up(tmp_path):
    path = tmp_path / "state.jsonl"
    Ledger(path, "tree").add(GREEN)
    again = Ledger(path, "tree")
    assert again.rounds == [GREEN]
    assert again.left("unit", 3) == [2, 3]
    assert again.left("zmq", 1) == [1]


def test_a_ledger_of_another_tree_begins_anew(tmp_path):
    path = tmp_path / "state.jsonl"
    Ledger(path, "tree").add(GREEN)
    assert Ledger(path, "other").rounds == []


def test_a_torn_line_is_run_again(tmp_path):
    path = tmp_path / "state.jsonl"
    ledger = Ledger(path, "tree")
    ledger.add(GREEN)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"group": "unit", "numb')
    assert Ledger(path, "tree").left("unit", 2) == [2]


def test_a_digest_changes_with_a_file_that_tests_read(tmp_path):
    (tmp_path / "client").mkdir()
    file = tmp_path / "client" / "a.py"
    file.write_text("1", encoding="utf-8")
    before = tree_digest(tmp_path, ["client"])
    file.write_text("2", encoding="utf-8")
    assert tree_digest(tmp_path, ["client"]) != before


def test_each_test_is_in_one_group():
    """But for those in a browser."""
    marks = ("zmq", "long", "vllm_rs")
    for chosen in itertools.product((False, True), repeat=len(marks)):
        has = dict(zip(marks, chosen, strict=True)) | {"browser": False}
        groups = [name for name, words in flakes.GROUPS.items() if eval(words, {}, dict(has))]
        assert len(groups) == 1, has


def test_what_is_listed_as_long_is_there():
    assert [path for path in LONG if not (flakes.ROOT / path).exists()] == []


def test_groups_take_turns(tmp_path):
    ledger = Ledger(tmp_path / "state.jsonl", "tree")
    ledger.add(GREEN)
    found = list(flakes.in_turns(ledger, {"unit": 3, "zmq": 2}))
    assert found == [("unit", 2), ("zmq", 1), ("unit", 3), ("zmq", 2)]


def run(tmp_path, monkeypatch, rounds, *words):
    """The command, with rounds that somebody else made up."""
    monkeypatch.setattr(flakes, "tree_digest", lambda _root: "tree")
    monkeypatch.setattr(flakes, "play", lambda group, number, *_: rounds[group, number])
    state = tmp_path / "state.jsonl"
    return CliRunner().invoke(
        flakes.main, ["--times", "1", "--real", "0", "--long", "0", "--state", str(state), *words]
    )


def test_a_red_round_fails_and_names_the_test(tmp_path, monkeypatch):
    came = run(tmp_path, monkeypatch, {("unit", 1): GREEN, ("zmq", 1): RED})
    assert came.exit_code == 1
    assert "  red 1 times: tests/a.py::test_x" in came.output
    printed = tmp_path / "state.zmq-1.txt"
    assert f"  what it printed: {printed}" in came.output
    assert printed.read_text(encoding="utf-8") == "why"
    assert "why" not in (tmp_path / "state.jsonl").read_text(encoding="utf-8")


def test_all_rounds_green_are_fine(tmp_path, monkeypatch):
    came = run(tmp_path, monkeypatch, {("unit", 1): GREEN}, "--only", "unit")
    assert (came.exit_code, came.output.splitlines()[-1]) == (0, "unit: 1 of 1 rounds, 1 green")


def test_rounds_that_are_missing_are_not_fine(tmp_path, monkeypatch):
    monkeypatch.setattr(flakes, "in_turns", lambda *_: iter(()))
    came = run(tmp_path, monkeypatch, {}, "--only", "unit")
    assert came.exit_code == 3


@pytest.mark.slow
def test_a_real_round_tells_green_from_red(tmp_path, monkeypatch):
    monkeypatch.setattr(flakes, "ROOT", tmp_path)
    (tmp_path / "conftest.py").write_text(
        "def pytest_configure(config):\n"
        "    for name in ('zmq', 'vllm_rs', 'browser', 'long'):\n"
        "        config.addinivalue_line('markers', name)\n",
        encoding="utf-8",
    )
    file = tmp_path / "test_it.py"
    file.write_text(
        "import signal\n\ndef test_fine():\n"
        "    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL\n",
        encoding="utf-8",
    )
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert flakes.play("unit", 1, (), 60).green
    finally:
        signal.signal(signal.SIGHUP, before)
    file.write_text("def test_bad():\n    assert 0\n", encoding="utf-8")
    red = flakes.play("unit", 2, (), 60)
    assert (red.green, red.red) == (False, ("test_it.py::test_bad",))
    assert "assert 0" in red.printed
    assert not flakes.play("zmq", 1, (), 60).green  # no test at all
