"""From an order to the text of a scenario file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import jinja2
from packaging.specifiers import SpecifierSet

from client.protocol.profiles import RELEASES, profile_for
from harness.authoring.order import ARGUMENTS, BEFORE, FAILURE, WIRE, Order
from harness.authoring.words.told import listed
from harness.mutants import find_mutant
from harness.reports.visible import printable
from harness.scenario.writing import one_line, scenario_text

MODELINE = "# yaml-language-server: $schema="
GATE = "release"
"""Gate at which engines hang in a call."""
FAIL_FAST = "fail-fast-fan-out"
LAST_ENGINE = "last-engine-not-awaited"


@cache
def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.authoring", "starts"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["one_line"] = one_line
    return found


def text_of(order: Order, schema: str | None, name: str = "FILE") -> str:
    """Write the file.

    Args:
        order: what is wanted, with ``filled`` behaviours.
        schema: where the schema is, from the file; ``None``: no line names it.
        name: the file, as it stands in the command of a comment.
    """
    call = _call_words(order) if "fail" in order.start.takes else {}
    template = "utility" if order.start.name == "fan-out" else order.start.name
    about = {**_about(order), **call}
    text = (
        _templates()
        .get_template(f"{template}.yaml.j2")
        .render(
            **about,
            schema=schema or "",
            to_see=to_see(order, name),
            engines=order.count,
            hangs=[one.rank for one in order.hangs],
            rank=order.hangs[0].rank if order.hangs else order.count - 1,
        )
    )
    first, _, rest = text.partition("\n")
    lines = rest.splitlines()
    if order.bare:
        lines = [line for line in lines if not line.lstrip().startswith("#")]
    return "\n".join([*([first] if schema is not None else []), *lines]) + "\n"


def mutant_of(order: Order) -> str:
    """A known bug that the scenario shows; ``""``: none is known."""
    return str(_about(order)["mutant"])


def to_see(order: Order, name: str) -> str:
    """The command that shows the scenario violated; ``""``: no known bug is known to."""
    mutant = mutant_of(order)
    if not mutant:
        return ""
    applying = SpecifierSet(str(_profiles(order)))
    releases = [release for release in RELEASES if release in applying]
    seen = [
        r
        for r in releases
        if not find_mutant(mutant).unseen_because(profile_for(r), black_box=False)
    ]
    if not seen:
        return ""
    profile = "" if seen[-1] == releases[-1] else f" --profile {seen[-1]}"
    return f"wavecheck run {name} --mutant {mutant}{profile}"


def _profiles(order: Order) -> str:
    return order.start.profiles if order.profiles is None else order.profiles


def _about(order: Order) -> dict[str, Any]:
    """The head of the file, and what it is about."""
    start = order.start
    title, promise = start.title, start.promise
    invariants, mutant = list(start.invariants), start.mutant
    if "fail" in start.takes:
        title, promise, invariants, mutant = _call_head(order)
    elif order.hangs:
        title = f"A request waits while engine {order.hangs[0].rank} hangs"
        promise = "It does not end before its engine has served it, and then gets every token."
        mutant = ""
    profiles = _profiles(order)
    head = {
        "title": title if order.title is None else order.title,
        "promise": promise if order.promise is None else order.promise,
        "refs": list(order.refs) or [start.ref],
        "profiles": profiles,
    }
    lines = {key: scenario_text({key: value}).rstrip("\n") for key, value in head.items()}
    return {
        "head": {**lines, "profiles": lines["profiles"] if profiles else ""},
        "invariants": invariants,
        "mutant": mutant,
    }


def _call_head(order: Order) -> tuple[str, str, list[str], str]:
    """Title, promise, invariants and mutant of a call, by what engines make of it."""
    method = order.called
    hangs, fails = _engines(order.hangs), _engines(order.fails)
    if hangs and fails:
        return (
            f"{hangs} hangs in {method} while {fails[0].lower()}{fails[1:]} fails",
            "The call shows no error before every engine has settled.",
            [],
            FAIL_FAST if _fails_at_once(order) else "",
        )
    if hangs:
        # The mutant waits for the first engine at least.
        last = order.count > 1 and order.count - 1 in {one.rank for one in order.hangs}
        return (
            f"{hangs} hangs in {method}",
            "The call does not end before every engine has answered.",
            [],
            LAST_ENGINE if last else "",
        )
    if fails:
        return (
            f"{fails} fails in {method}",
            "The caller is told, whatever the other engines answered.",
            [],
            "failures-left-out" if len(order.fails) < order.count else "",
        )
    return (
        f"{method} reaches every engine",
        "The call ends once every engine has answered.",
        [],
        "",
    )


def _fails_at_once(order: Order) -> bool:
    """Whether an engine fails that does not hang before."""
    return bool({one.rank for one in order.fails} - {one.rank for one in order.hangs})


def _engines(found: Iterable[Any]) -> str:
    """``Engine 1``, ``Each of engines 0 and 1``; ``""`` for none."""
    ranks = sorted(one.rank for one in found)
    if not ranks:
        return ""
    return f"Engine {ranks[0]}" if len(ranks) == 1 else f"Each of engines {listed(ranks)}"


def _call_words(order: Order) -> Mapping[str, Any]:
    """What the templates of a call need."""
    method = order.called
    arguments = ARGUMENTS.get(method, [])
    call = f"{{id: call, method: {method}"
    call += f", args: {_flow(arguments)}}}" if arguments else "}"
    hanging = {one.rank for one in order.hangs}
    failing = {one.rank: one.text or FAILURE for one in order.fails}
    rules = []
    for rank in sorted(hanging | failing.keys()):
        end = f"{{fail: {_flow(failing[rank])}}}" if rank in failing else "{default: true}"
        rules.append((rank, f"[{{hang: {GATE}}}, {end}]" if rank in hanging else end))
    return {
        "call": call,
        "before": BEFORE.get(method, ""),
        "wire": WIRE.get(method, method),
        "rules": rules,
        "failure": _flow(failing[min(failing)]) if failing else "",
    }


def _flow(value: Any) -> str:
    """A value as it stands in a line of the file."""
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, str):
        line = scenario_text({"steps": value}).removeprefix("steps: ").rstrip("\n")
        # What is no plain word there may mean something else between brackets.
        plain = line == value and not set(value) & set(",[]{}:#&*!|>'\"%@`")
        # What JSON lets pass and YAML forbids or folds has the same escapes in both.
        return value if plain else printable(json.dumps(value, ensure_ascii=False))
    return json.dumps(value)
