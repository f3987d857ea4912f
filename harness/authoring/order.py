"""What a new scenario is to be, and what follows from the behaviours that were asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.authoring.starting import STARTS, Start
from harness.authoring.words.told import listed
from harness.reports.wording import counted
from harness.scenario.checks_utilities import api_methods
from harness.scenario.problems import did_you_mean, one_of

ENGINES_MAX = 64
FAILURE = "out of memory"
"""What a failing engine says unless the user gives a text."""
METHOD = "add_lora"
"""What is called where nothing says it."""
ARGUMENTS: Mapping[str, list[Any]] = {
    "add_lora": [["sql", 1, "/loras/sql"]],
    "collective_rpc": ["echo"],
    "pin_lora": [1],
    "profile": [True],
    "remove_lora": [1],
    "set_weight_version": ["v2"],
}
"""Arguments of methods of the API that cannot be called without any."""
WIRE: Mapping[str, str] = {
    "is_paused": "is_scheduler_paused",
    "pause": "[pause_scheduler, pause_generation]",
    "resume": "resume_scheduler",
}
"""What engines call a method, where that is another name; in 0.33 some names changed."""
BEFORE: Mapping[str, str] = {"release_kv_cache_memory": "pause"}
"""Method that engines refuse → the one that must have been called before it."""
_ASKED = re.compile(r"([0-9]{1,4}):([A-Za-z_][A-Za-z0-9_]*)(?::(.+))?")


class OrderError(ValueError):
    """What was asked for makes no scenario. ``expected``, ``help``: as in a message."""

    def __init__(self, title: str, *, expected: str = "", help_text: str = "") -> None:
        super().__init__(title)
        self.expected = expected
        self.help = help_text


@dataclass(frozen=True, slots=True)
class Asked:
    """``RANK:WHAT`` of ``--hang``, ``RANK:WHAT:TEXT`` of ``--fail``."""

    rank: int
    what: str
    text: str = ""


def asked(option: str, words: str) -> Asked:
    """Read a behaviour.

    Raises:
        OrderError: it is none.
    """
    found = _ASKED.fullmatch(words)
    if found is None or (found[3] and option == "--hang"):
        form = "RANK:WHAT, such as 1:add_lora"
        if option == "--fail":
            form += ", or RANK:WHAT:TEXT, such as '0:add_lora:no memory'"
        msg = f"{option}: '{words}' is no behaviour"
        raise OrderError(msg, expected=form)
    return Asked(int(found[1]), found[2], found[3] or "")


def inferred(hangs: Sequence[Asked], fails: Sequence[Asked], method: str | None) -> str | None:
    """The template that behaviours ask for; ``None``: they say nothing."""
    if method is not None or fails or any(one.what != "add" for one in hangs):
        return "utility"
    return "request" if hangs else None


@dataclass(frozen=True, slots=True)
class Order:
    """All choices. ``None`` and empty ones are the template's."""

    start: Start
    title: str | None = None
    promise: str | None = None
    refs: tuple[str, ...] = ()
    profiles: str | None = None
    engines: int | None = None
    hangs: tuple[Asked, ...] = ()
    fails: tuple[Asked, ...] = ()
    method: str | None = None
    bare: bool = False

    @property
    def count(self) -> int:
        """How many engines there are: as many as asked for, else as many as the template has."""
        return self.start.engines if self.engines is None else self.engines

    @property
    def called(self) -> str:
        """The method that is called."""
        what = [one.what for one in (*self.hangs, *self.fails)]
        return self.method or next(iter(what), METHOD)


def filled(order: Order) -> Order:
    """Give the behaviours that the template ``fan-out`` has of itself.

    Raises:
        OrderError: what was asked for does not go together.
    """
    _check_engines(order)
    if order.start.name == "fan-out":
        order = _with_both(order)
    _check_behaviours(order)
    return order


def _with_both(order: Order) -> Order:
    """One engine fails while *another* hangs: what is not asked for is added where it is free."""
    what = order.called
    hanging, failing = ({one.rank for one in found} for found in (order.hangs, order.fails))
    ranks = range(order.count)
    hangs, fails = order.hangs, order.fails
    if not hangs:
        free = [rank for rank in ranks if rank not in (failing or {0})]
        hangs = tuple(Asked(rank, what) for rank in free[-1:])
    if not fails:
        free = [rank for rank in ranks if rank not in (hanging or {order.count - 1})]
        fails = tuple(Asked(rank, what) for rank in free[:1])
    if not (hangs and fails):
        option, does = ("--fail", "hangs") if fails else ("--hang", "fails")
        msg = f"{option} names every engine, and the template fan-out wants another that {does}"
        count = order.count + 1
        raise OrderError(
            msg, expected="a rank that is not named", help_text=f"--engines {count} makes one more"
        )
    return replace(order, hangs=hangs, fails=fails)


def _check_engines(order: Order) -> None:
    least, name = order.start.engines_min, order.start.name
    if not least <= order.count <= ENGINES_MAX:
        msg = f"--engines {order.count} does not go with the template {name}"
        raise OrderError(msg, expected=f"a number from {least} to {ENGINES_MAX}")
    for option, found in (("--hang", order.hangs), ("--fail", order.fails)):
        for one in found:
            if one.rank >= order.count:
                raise _no_rank(option, one.rank, order)


def _no_rank(option: str, rank: int, order: Order) -> OrderError:
    """More engines than the template has are made only for who asks for them."""
    has = f"the scenario has {counted(order.count, 'engine')}"
    if order.engines is None:
        has += f", as the template {order.start.name} has by itself"
    enough = f"--engines {rank + 1} makes ranks 0 to {rank}" if rank < ENGINES_MAX else ""
    return OrderError(
        f"{option}: there is no rank {rank}: {has}",
        expected=f"a rank from 0 to {order.count - 1}",
        help_text=enough,
    )


def _check_behaviours(order: Order) -> None:
    start = order.start
    for option, found in (("hang", order.hangs), ("fail", order.fails)):
        if found and option not in start.takes:
            takers = listed((s.name for s in STARTS.values() if option in s.takes), "or")
            msg = f"--{option} does not go with the template {start.name}, which has its own story"
            raise OrderError(msg, expected=f"the template {takers}")
        ranks = [one.rank for one in found]
        if len(set(ranks)) < len(ranks):
            msg = f"--{option} names one rank twice"
            raise OrderError(msg, expected="each rank once; more rules can be added to the file")
    if start.name == "request":
        _check_request(order)
    elif "fail" in start.takes:
        _check_call(order)
    elif order.method is not None:
        msg = f"--method does not go with the template {start.name}"
        raise OrderError(msg, expected="the template utility or fan-out")


def _check_request(order: Order) -> None:
    if order.method is not None:
        msg = "--method does not go with the template request"
        raise OrderError(msg, expected="the template utility or fan-out")
    for one in order.hangs:
        if one.what != "add":
            msg = f"--hang: a request brings no message '{one.what}'"
            raise OrderError(msg, expected="add", help_text="for a call: --template utility")
    if len(order.hangs) > 1:
        msg = "--hang: one request is at one rank"
        raise OrderError(msg, expected="one --hang; more rules can be added to the file")


def _check_call(order: Order) -> None:
    what = {one.what for one in (*order.hangs, *order.fails)} | {order.called}
    if len(what) > 1:
        msg = f"there is one call, and {listed(sorted(what))} are named"
        raise OrderError(
            msg, expected="one method", help_text="more steps can be added to the file"
        )
    if order.called not in api_methods():
        msg = f"the API has no method '{order.called}'"
        hint = did_you_mean(order.called, api_methods())
        raise OrderError(msg, expected=one_of(api_methods()), help_text=hint)
