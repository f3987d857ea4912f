"""Which rule a message meets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from client.protocol.messages import StartDpWave, UtilityCall
from mock_engines import events
from mock_engines.behaviours.model import Action, Rule
from mock_engines.requests import MockRequest
from mock_engines.tokens import caller_id

Kind = Literal["add", "abort", "utility", "start_wave", "act"]
"""What made an engine act: a message of this kind, or ``act``: the script, out of the blue."""


class Message(msgspec.Struct, frozen=True):
    """What the actions of one plan refer to.

    The field of its kind is set; that of an ADD only once the request is accepted.
    """

    kind: Kind
    request: MockRequest | None = None
    request_ids: tuple[str, ...] = ()
    call: UtilityCall | None = None
    start: StartDpWave | None = None


class Plan(msgspec.Struct, frozen=True):
    """What an engine is going to do. ``rule``: number of the rule, ``None`` = behaves well."""

    message: Message
    actions: tuple[Action, ...]
    rule: int | None = None

    @property
    def ignores(self) -> bool:
        """Whether the message is dropped before it can change anything."""
        return self.actions[0].verb == "drop" if self.actions else False


WELL_BEHAVED = (Action(default=True),)


def names_of(request_id: str, external_id: str | None) -> tuple[str, ...]:
    """Return every name under which a script may speak of a request, without repeats."""
    names = [request_id, caller_id(request_id)]
    if external_id is not None:
        names += [external_id, caller_id(external_id)]
    return tuple(dict.fromkeys(names))


class RuleBook:
    """The rules of one engine, with the number of messages that each has met.

    The first rule that matches wins, so a rule counts only messages that no earlier rule took.
    """

    def __init__(self, rules: Sequence[Rule], met: Sequence[int] = ()) -> None:
        self._rules = tuple(rules)
        self._met = list(met) if met else [0] * len(self._rules)

    @property
    def met(self) -> tuple[int, ...]:
        """How many messages each rule has met so far."""
        return tuple(self._met)

    def plan(
        self, message: Message, names: Iterable[str] = (), seen: events.MockEvent | None = None
    ) -> Plan:
        """Choose what to do.

        Args:
            message: what arrived.
            names: names of the requests that it is about.
            seen: the event that it makes, whose fields rules may ask for.
        """
        names = tuple(names)
        for number, rule in enumerate(self._rules):
            if not _fits(rule, message, names, seen):
                continue
            self._met[number] += 1
            met = self._met[number]
            if rule.nth is not None and met != rule.nth:
                continue
            if rule.times is not None and met > rule.times:
                continue
            return Plan(message, tuple(rule.do), number)
        return Plan(message, WELL_BEHAVED)


EVENT_OF: Mapping[Kind, type[events.MockEvent]] = {
    "add": events.AddSeen,
    "abort": events.AbortSeen,
    "utility": events.UtilitySeen,
    "start_wave": events.StartWaveSeen,
}
"""The event that a message of each kind makes; ``where`` of a rule names its fields."""


def _fits(
    rule: Rule, message: Message, names: Sequence[str], seen: events.MockEvent | None
) -> bool:
    if rule.on != message.kind:
        return False
    for field, wanted in rule.where.items():
        if _plain(getattr(seen, field, None)) != _plain(wanted):
            return False
    if rule.method is not None:
        if message.call is None:
            return False
        if not any(fnmatchcase(message.call.method, wanted) for wanted in rule.method):
            return False
    if rule.request is not None:
        return any(fnmatchcase(name, rule.request) for name in names)
    return True


def _plain(value: Any) -> Any:
    """Lists of a script are tuples in events."""
    return tuple(_plain(item) for item in value) if isinstance(value, list | tuple) else value
