"""Checks of utility steps: the API has the method, and it takes these arguments.

A method of the API is called with arguments as a program would give them; what a program could
not call is found here. What an engine would make of wrong ones is asked by ``via: raw``.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from client.admin import AdminMethods
from harness.reports.wording import counted
from harness.scenario.checks_values import can_equal, said
from harness.scenario.finding import Finding
from harness.scenario.model import Scenario, UtilityStep
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean, one_of, show

_GENERAL = frozenset({"call_utility", "call_utility_consensus"})
"""What ``via: raw`` and ``via: consensus`` call."""
_ADAPTER = "lora"
"""Arguments that a target with admin routes takes by the adapter's name."""


_REQUEST = "lora_request"
_FORM = "[name, id, path], such as [sql, 1, /loras/sql]"
_PARTS = (str, int, str)
"""Name, id from 1 on, and path; what follows may be left out."""


@cache
def api_methods() -> Mapping[str, Callable[..., Any]]:
    """Methods of the API that ``via: method`` can call, by name."""
    found = inspect.getmembers(AdminMethods, inspect.iscoroutinefunction)
    return {n: method for n, method in found if not n.startswith("_") and n not in _GENERAL}


def check_utilities(scenario: Scenario) -> Iterator[Finding]:
    """Each utility step can be called."""
    for i, step in enumerate(scenario.steps):
        if step.utility is not None:
            yield from _utility(("steps", i, "utility"), step.utility)


def _utility(base: Path, step: UtilityStep) -> Iterator[Finding]:
    if step.via != "method":
        if not step.method:
            yield Finding((*base, "method"), "the method has no name", "a name")
        return
    method = api_methods().get(step.method)
    if method is None:
        yield Finding(
            (*base, "method"),
            f"the API has no method '{step.method}'",
            f"{one_of(api_methods())}; via: raw sends any name",
            did_you_mean(step.method, api_methods()),
        )
        return
    yield from _arguments((*base, "args"), step, method)


def _arguments(path: Path, step: UtilityStep, method: Callable[..., Any]) -> Iterator[Finding]:
    taken = [
        parameter
        for name, parameter in inspect.signature(method).parameters.items()
        if name != "self" and parameter.kind is not parameter.KEYWORD_ONLY
    ]
    least = sum(parameter.default is parameter.empty for parameter in taken)
    given = len(step.args) + step.unencodable  # which is one argument more
    if not least <= given <= len(taken):
        names = ", ".join(parameter.name for parameter in taken) or "no arguments"
        title = f"'{step.method}' does not take {counted(given, 'argument')}"
        few = "" if least == len(taken) else f", of which {least} must be given"
        known = f": {_FORM}" if names == _REQUEST else ""
        yield Finding(path, title, names + known + few)
        return
    hints = typing.get_type_hints(method)
    for i, (parameter, value) in enumerate(zip(taken, step.args, strict=False)):
        if parameter.name == _REQUEST:
            yield from _adapter((*path, i), step, value)
            continue
        named = isinstance(value, str) and parameter.name.startswith(_ADAPTER)
        if not named and not can_equal(value, hints[parameter.name]):
            title = f"argument '{parameter.name}' of '{step.method}' is never {show(value)}"
            wanted = said(hints[parameter.name])
            yield Finding((*path, i), title, f"{wanted}; via: raw sends any value")


def _adapter(path: Path, step: UtilityStep, value: Any) -> Iterator[Finding]:
    """The array that stands for an adapter on the wire; an engine takes no other."""
    parts = value if isinstance(value, list) else []
    wrong = [
        i
        for i, (part, right) in enumerate(zip(parts, _PARTS, strict=False))
        if type(part) is not right or part in ("", 0)
    ]
    if isinstance(value, list) and len(parts) >= len(_PARTS) and not wrong:
        return
    title = f"argument '{_REQUEST}' of '{step.method}' is never {show(value)}"
    where = (*path, wrong[0]) if wrong and isinstance(value, list) else path
    yield Finding(where, title, f"{_FORM}; via: raw sends any value")
