"""`wavecheck explore --resume`: the same result set, whenever a hunt ended before its time."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli.taking_up import InOrder
from harness.generate import kept, shares
from harness.generate.hunt import Found, Tally
from harness.generate.shares import ShareResult, number_of
from harness.generate.trial import Evidence
from harness.results import ExpectationResult, VerdictResult
from harness.scenario.model import Scenario

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke

HUNT = ("explore", "--batches", 15, "--seed", 4, "--schedules", 1, "--shrink", "1s")
MUTANT = ("--mutant", "call-ids-used-again", "--keep-going")
TIMES = ("found_after_s", "shrink_s", "result", "failure_file", "scenario_file")
"""Of what was found, what tells of time, or of where."""


@pytest.fixture
def ends_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Let Ctrl-C come when a share is begun; ``None``: it does not come any more."""
    play = shares.Share.__call__
    at: list[int | None] = [None]

    def interrupted(self: shares.Share, loaded: Any, options: Any) -> ShareResult:
        if number_of(loaded) == at[0]:
            raise KeyboardInterrupt
        return play(self, loaded, options)

    monkeypatch.setattr(shares.Share, "__call__", interrupted)

    def set_to(number: int | None) -> None:
        at[0] = number

    return set_to


def document(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    found["found"] = [{k: v for k, v in one.items() if k not in TIMES} for one in found["found"]]
    return found


@pytest.mark.parametrize("more", [(), MUTANT])
@pytest.mark.parametrize("share", [0, 2])
def test_hunt_that_was_interrupted_is_taken_up_with_the_same_results(
    invoke: Invoke,
    tmp_path: Path,
    ends_at: Callable[[int | None], None],
    share: int,
    more: tuple[str, ...],
) -> None:
    words = [*HUNT, *more, "--out", tmp_path / "out"]
    whole = invoke(*words, "--json", tmp_path / "whole.json")
    assert whole.exit_code == (1 if more else 0), whole.output
    assert not (tmp_path / "out" / kept.FILE_NAME).exists()

    ends_at(share)
    assert invoke(*words).exit_code == 130
    journal = tmp_path / "out" / kept.FILE_NAME
    assert len(journal.read_text().splitlines()) == 1 + share
    ends_at(None)
    again = invoke(*words, "--resume", "--json", tmp_path / "again.json")
    assert again.exit_code == whole.exit_code, again.output
    assert ("of it played before" in again.output) is (share > 0)
    assert document(tmp_path / "again.json") == document(tmp_path / "whole.json")
    assert not journal.exists()


def test_line_that_was_cut_off_is_played_again(
    invoke: Invoke, tmp_path: Path, ends_at: Callable[[int | None], None]
) -> None:
    words = [*HUNT, "--out", tmp_path / "out"]
    invoke(*words, "--json", tmp_path / "whole.json")
    ends_at(2)
    invoke(*words)
    journal = tmp_path / "out" / kept.FILE_NAME
    journal.write_bytes(journal.read_bytes()[:-30])
    ends_at(None)
    again = invoke(*words, "--resume", "--json", tmp_path / "again.json")
    assert "1 part of it played before" in again.output
    assert document(tmp_path / "again.json") == document(tmp_path / "whole.json")


def test_another_hunt_is_not_taken_up(
    invoke: Invoke, tmp_path: Path, ends_at: Callable[[int | None], None]
) -> None:
    ends_at(1)
    invoke(*HUNT, "--out", tmp_path / "out")
    before = (tmp_path / "out" / kept.FILE_NAME).read_bytes()
    result = invoke(*HUNT, "--profile", "0.33.0", "--resume", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "is another one" in result.output
    assert (tmp_path / "out" / kept.FILE_NAME).read_bytes() == before


def test_hunt_goes_on_where_nothing_can_be_kept_and_says_so(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / kept.FILE_NAME).mkdir()
    result = invoke(*HUNT, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "note: what is played is not kept" in result.output
    refused = invoke(*HUNT, "--resume", "--out", tmp_path / "out")
    assert refused.exit_code == 3, refused.output


def share(number: int, *found: Found, hopeless: str = "") -> ShareResult:
    tally = Tally(scenarios=3, held=Counter({"a.b": 2}), errors=Counter({"e": 1}))
    tally.erroneous = {"e": {"title": "t", "weights": {0: 1.5}}}
    return ShareResult(
        scenario=f"share-{number}",
        title="t",
        refs=("vllm#1",),
        profile="",
        mutant=None,
        status="violated" if found else "held",
        found=found,
        tally=tally,
        hopeless=hopeless,
    )


DATA = {"title": "t", "promise": "p", "refs": ["vllm#1"], "steps": [{"fence": True}]}
EVIDENCE = Evidence(
    "0.33.0",
    (VerdictResult("a.b", "must", "violated", witness=(1, 2)),),
    (ExpectationResult(0, "held", "x", "y"),),
    ("#1 x",),
)
FOUND = Found(DATA, Scenario.model_validate(DATA), "a.b", 7, 3, "seen", EVIDENCE, 12.5)


def test_share_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / kept.FILE_NAME
    first = kept.Kept(path, "key", resume=False)
    first.add(share(4, FOUND), began=10.0, now=15.0)
    first.add(dataclasses.replace(share(5), whole=False), began=10.0, now=15.0)
    first.close()
    again = kept.Kept(path, "key", resume=True)
    again.close()
    assert list(again.shares) == [4]
    assert kept.absolute(again.shares[4], 10.0) == share(4, FOUND)
    assert (again.spent_s, again.unreadable) == (5.0, 0)
    with pytest.raises(kept.OtherHuntError):
        kept.Kept(path, "other", resume=True)


def test_shares_from_before_are_told_in_their_place_up_to_the_one_that_ends_the_hunt() -> None:
    told: list[str] = []
    before = {0: share(0), 2: share(2), 4: share(4, FOUND), 6: share(6)}
    order = InOrder(before, 9, lambda one: told.append(one.scenario), lambda one: bool(one.found))
    assert (order.left, order.kept) == ([1, 3], 3)
    order.take(share(1))
    assert told == ["share-0", "share-1"]
    order.take(share(3))
    order.finish()
    assert told == [f"share-{number}" for number in range(5)]


def test_shares_from_before_behind_one_that_ended_the_hunt_do_not_count() -> None:
    told: list[str] = []
    order = InOrder(
        {2: share(2)}, 9, lambda one: told.append(one.scenario), lambda one: bool(one.found)
    )
    order.take(share(0))
    order.take(share(1, FOUND))
    order.finish()
    assert told == ["share-0", "share-1"]
