"""What a hunt came to, kept while it goes on, so that one that was ended is taken up again.

A share is a function of the seed and its number, so the shares that are kept and those that are played
later come to what a hunt that nobody ended would have come to. A share that the end of the time cut
short is not kept: it is played again, as a whole. What a hunt that came to its end has kept is removed.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from harness.generate.hunt import Found, Tally
from harness.generate.shares import ShareResult, number_of_id
from harness.generate.trial import Evidence
from harness.journal import Journal
from harness.scenario.model import Scenario
from harness.verdict import HELD, VIOLATED

FILE_NAME = "explore.jsonl"
_COUNTED = ("impossible", "held", "errors")


class OtherHuntError(Exception):
    """What is kept is of other flags, of another target, or of another version of the tool."""


class Kept:
    """The shares of one hunt. ``close`` when done, or ``remove``.

    Attributes:
        shares: by number.
        spent_s: how long was looked, when the last of them was kept.
        unreadable: lines that hold no share.
    """

    def __init__(self, path: Path, key: str, *, resume: bool) -> None:
        """Begin, or take up what is there.

        Args:
            path: of the file; its folder is there.
            key: what the shares depend on, beside their number.
            resume: keep what is there.

        Raises:
            OtherHuntError: it is of another hunt.
            JournalBusyError: another hunt writes into it.
            OSError: it cannot be written.
        """
        self._journal = Journal(path, fresh=not resume)
        self.shares: dict[int, ShareResult] = {}
        self.spent_s = 0.0
        self.unreadable = self._journal.unreadable
        lines = self._journal.lines
        if lines and lines[0].get("hunt") != key:
            self._journal.close()
            raise OtherHuntError
        if not lines:
            self._journal.add({"hunt": key})
        for line in lines[1:]:
            self._take(line)

    def _take(self, line: dict[str, Any]) -> None:
        try:
            share = share_of(line)
            self.shares[number_of_id(share.scenario)] = share
            self.spent_s = max(self.spent_s, float(line["spent_s"]))
        except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
            self.unreadable += 1

    def add(self, share: ShareResult, began: float, now: float) -> None:
        """Keep a share; one that would not come back as it is is left out, and played again.

        Args:
            share: a whole one.
            began: when the hunt began, on the clock that its finds have …
            now: … and what it shows now.

        Raises:
            OSError: it cannot be written.
        """
        line = line_of(share, began)
        back = share_of(json.loads(json.dumps(line)))
        if share.whole and back == relative(share, began):
            self._journal.add({**line, "spent_s": round(now - began, 3)})

    def close(self) -> None:
        """Let go of the file."""
        self._journal.close()

    def remove(self) -> None:
        """Remove the file, and let go of it."""
        with contextlib.suppress(OSError):
            self._journal.path.unlink()
        self.close()


def relative(share: ShareResult, began: float) -> ShareResult:
    """The same with the times of its finds since the hunt began."""
    found = tuple(
        one if one.found_s is None else replace(one, found_s=round(one.found_s - began, 3))
        for one in share.found
    )
    return replace(share, found=found)


def absolute(share: ShareResult, began: float) -> ShareResult:
    """The same with the times of its finds on the clock of a hunt that began then."""
    found = tuple(
        one if one.found_s is None else replace(one, found_s=one.found_s + began)
        for one in share.found
    )
    return replace(share, found=found)


def line_of(share: ShareResult, began: float) -> dict[str, Any]:
    """A share as plain data."""
    # Not ``asdict``, which makes counters of pairs out of counters.
    tally = {one.name: getattr(share.tally, one.name) for one in fields(Tally)}
    tally["erroneous"] = {error: _text(data) for error, data in tally["erroneous"].items()}
    return {
        "share": share.scenario,
        "title": share.title,
        "refs": list(share.refs),
        "profile": share.profile,
        "mutant": share.mutant,
        "hopeless": share.hopeless,
        "tally": tally,
        "found": [_found(one) for one in relative(share, began).found],
    }


def share_of(line: dict[str, Any]) -> ShareResult:
    """The share of a line; times count from the beginning of the hunt."""
    tally = dict(line["tally"])
    for name in _COUNTED:
        tally[name] = Counter(tally[name])
    tally["erroneous"] = {e: yaml.safe_load(text) for e, text in tally["erroneous"].items()}
    found = tuple(_found_of(one) for one in line["found"])
    return ShareResult(
        scenario=line["share"],
        title=line["title"],
        refs=tuple(line["refs"]),
        profile=line["profile"],
        mutant=line["mutant"],
        status=VIOLATED if found else HELD,
        found=found,
        tally=Tally(**tally),
        hopeless=line["hopeless"],
    )


def _found(found: Found) -> dict[str, Any]:
    evidence = found.evidence
    return {
        "scenario": _text(found.data),
        "violated": found.violated,
        "seed": found.seed,
        "batch": found.batch,
        "seen": found.seen,
        "evidence": None if evidence is None else msgspec.to_builtins(evidence),
        "found_s": found.found_s,
    }


def _found_of(line: dict[str, Any]) -> Found:
    data = yaml.safe_load(line["scenario"])
    evidence = line["evidence"]
    return Found(
        data=data,
        scenario=Scenario.model_validate(data),
        violated=line["violated"],
        seed=line["seed"],
        batch=line["batch"],
        seen=line["seen"],
        evidence=None if evidence is None else msgspec.convert(evidence, Evidence),
        found_s=line["found_s"],
    )


def _text(data: dict[str, Any]) -> str:
    """As in a file: JSON would make texts of numbers that are keys."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=False)
