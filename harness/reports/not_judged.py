"""What could not be judged, told together: by reason, with how many. Pure but for its style."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from harness.reports.wording import counted
from harness.results import ScenarioResult
from harness.targets.capabilities import CAPABILITIES
from harness.verdict import NOT_JUDGED, why_not_judged

LACKS = "target lacks "
APPLIES = " (applies to "
NAMED_MAX = 3
"""Scenarios of one reason that are named; of more the first only would be arbitrary."""
GROUPS_MAX = 15
"""Reasons that are told one by one."""
REASON_MAX = 100
"""Characters of a reason."""


@dataclass(frozen=True, slots=True)
class Group:
    """Results that could not be judged for one reason.

    Attributes:
        reason: in words.
        scenarios: their ids, once for each result.
    """

    reason: str
    scenarios: tuple[str, ...]


def groups(results: Sequence[ScenarioResult]) -> list[Group]:
    """Every result that was not judged, in one group each; the largest group first.

    What lacks several capabilities stands where most of the others are, so numbers add up.
    """
    open_ = [result for result in results if result.status == NOT_JUDGED]
    lacking = [(result.scenario, _lacks(result)) for result in open_]
    found = _by_capability([(name, lacks) for name, lacks in lacking if lacks])
    others: dict[str, list[str]] = {}
    for result, (name, lacks) in zip(open_, lacking, strict=True):
        if not lacks:
            others.setdefault(_reason(result), []).append(name)
    found += [Group(reason, tuple(names)) for reason, names in others.items()]
    return sorted(found, key=lambda group: -len(group.scenarios))


def _lacks(result: ScenarioResult) -> tuple[str, ...]:
    why = why_not_judged(result)
    return tuple(why.removeprefix(LACKS).split(", ")) if why.startswith(LACKS) else ()


def _reason(result: ScenarioResult) -> str:
    """Without what differs between scenarios that do not apply to one release."""
    why = why_not_judged(result).partition(APPLIES)[0]
    return why if len(why) <= REASON_MAX else f"{why[: REASON_MAX - 1]}…"


def _by_capability(lacking: list[tuple[str, tuple[str, ...]]]) -> list[Group]:
    found: list[Group] = []
    while lacking:
        numbers = Counter(name for _, lacks in lacking for name in lacks)
        most = min(numbers, key=lambda name: (-numbers[name], name))
        meaning = CAPABILITIES.get(most, "")
        reason = LACKS + most + (f" ({meaning})" if meaning else "")
        found.append(Group(reason, tuple(name for name, lacks in lacking if most in lacks)))
        lacking = [(name, lacks) for name, lacks in lacking if most not in lacks]
    return found


def not_judged_text(results: Sequence[ScenarioResult]) -> Text | None:
    """The groups as lines; ``None``: all was judged."""
    found = groups(results)
    if not found:
        return None
    total = sum(len(group.scenarios) for group in found)
    out = Text()
    out.append("not judged", "yellow")
    out.append(
        f" {total}, by reason (each by name: -v, or --json; where one can be played: "
        "wavecheck explain ID):"
    )
    for group in found[:GROUPS_MAX]:
        out.append(f"\n{len(group.scenarios):>10} {group.reason}{_names(group)}")
    if rest := found[GROUPS_MAX:]:
        left = sum(len(group.scenarios) for group in rest)
        out.append(f"\n{left:>10} for {counted(len(rest), 'other reason')}")
    return out


def _names(group: Group) -> str:
    names = dict.fromkeys(group.scenarios)
    return f": {', '.join(names)}" if len(names) <= NAMED_MAX else ""
