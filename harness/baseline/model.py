"""What a baseline file holds; ``docs/baseline.schema.json`` is generated from it.

*Pins* say which scenarios a target judged, so that a run which judges less is seen. *Waivers* say
which violations are accepted, by whom, why, and until when. Neither knows line numbers, digests or
messages: those change with every release of the harness.
"""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from mock_engines.behaviours.model import Strict

FORMAT: Literal[1] = 1
"""Version of the file format."""
Target = Literal["sim", "zmq", "vllm-rs", "vllm-py", "adapter"]
TARGETS: tuple[str, ...] = get_args(Target)
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
_DAY_FORM = r"^\d{4}-\d{2}-\d{2}$"


def parse_day(value: Any) -> Any:
    """Read ``YYYY-MM-DD``, and nothing else that Python takes for a date.

    Raises:
        ValueError: it is text, and no day.
    """
    if not isinstance(value, str):
        return value
    try:
        day = dt.date.fromisoformat(value)
    except ValueError:
        day = None
    if day is None or day.isoformat() != value:
        msg = f"'{value}' is no day; a day is written YYYY-MM-DD, such as 2026-12-31"
        raise ValueError(msg)
    return day


def _releases(value: Any) -> Any:
    if isinstance(value, str):
        try:
            SpecifierSet(value)
        except InvalidSpecifier as error:
            msg = f"'{value}' names no releases; write such as '==0.33.0' or '>=0.32,<0.34'"
            raise ValueError(msg) from error
    return value


Day = Annotated[
    dt.date,
    BeforeValidator(parse_day),
    PlainSerializer(lambda day: day.isoformat()),
    WithJsonSchema({"type": "string", "format": "date", "pattern": _DAY_FORM}),
]
Releases = Annotated[str, BeforeValidator(_releases)]


class _Window(Strict):
    """A target, and some of its releases."""

    target: Target = Field(description="kind of target: sim, zmq, vllm-rs, vllm-py or adapter")
    releases: Releases = Field(
        default="", description="PEP 440 specifier of the releases that it is about; empty: all"
    )

    @cached_property
    def _specifier(self) -> SpecifierSet:
        return SpecifierSet(self.releases)

    def covers(self, target: str, release: str) -> bool:
        """Whether it is about a release of a target."""
        if target != self.target:
            return False
        try:
            return self._specifier.contains(Version(release), prereleases=True)
        except InvalidVersion:
            return not self.releases


class Pin(_Window):
    """Scenarios by what a target came to.

    ``judged``: it held, or its violations are waived. ``not_judged``: it could not be judged, and
    that is accepted.
    """

    judged: list[Text] = Field(
        default_factory=list, description="ids of scenarios that have to be judged"
    )
    not_judged: list[Text] = Field(
        default_factory=list, description="ids of scenarios that need not be"
    )


class Waiver(_Window):
    """One accepted violation. It is valid up to and including the day ``expires``, in UTC."""

    scenario: Text = Field(description="id of the scenario")
    invariant: Text = Field(
        description="invariant id, or 'expectation' for an expectation of the scenario itself"
    )
    owner: Text = Field(description="who answers for it: a name, a team, an address")
    reason: Text = Field(description="why it is accepted for now")
    expires: Day = Field(description="the last day on which it is valid, YYYY-MM-DD, in UTC")

    def days_left(self, today: dt.date) -> int:
        """Days after ``today`` on which it is still valid; negative: it has expired."""
        return (self.expires - today).days

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What no two waivers share."""
        return self.scenario, self.invariant, self.target, self.releases


class Baseline(Strict):
    """One baseline file."""

    format: Literal[1] = Field(description="version of the file format: 1")
    pins: list[Pin] = Field(
        default_factory=list, description="what was judged on which target and releases"
    )
    waivers: list[Waiver] = Field(default_factory=list, description="accepted violations")
