"""All that is to be said of one scenario, as data: see ``telling`` for its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.protocol.profiles import RELEASES
from harness.authoring.judging import Bench, Place, bench_at, killed, may_kill, places, profile_of
from harness.authoring.words.behaving import behaviours
from harness.authoring.words.head import further, known_text
from harness.authoring.words.stepping import STEP
from harness.authoring.words.taking_part import topology_sentences
from harness.authoring.words.told import capital, who
from harness.invariants import discover as discover_invariants
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Scenario
from harness.verdict import predicted

PROGRAMS = {"sim": "", "vllm-rs": "vllm-rs", "vllm-py": "vllm-py"}
"""Kinds of targets whose known faults are told → how ``predicted`` names them."""
HEALING = (
    "Then the harness opens every gate, takes away every fault of a link, waits until all that was "
    "started has ended, and stops the frontend. Only then is judged what must happen in the end."
)


@dataclass(frozen=True, slots=True)
class Told:
    """A step. ``line``: where it stands in the file, from 1."""

    number: int
    line: int
    verb: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """One scenario in words.

    Attributes:
        applying, not_applying: releases, oldest first.
        release: the one for which invariants and targets are told.
        behaviours: subject and phrases, one for each entry under ``engines``.
        startup: how many steps at the beginning run during startup.
        further: what else the head of the file says.
        known: known faults, a phrase each; ``predicted``: invariants that they say are violated
            in the release that is told, by kind of target.
        statements: of the invariants that the file is about, by id.
        benches: by kind of target, where the scenario can be played in the release.
        kills: mutants that it is known to kill, ``may_kill``: others that may show in it.
    """

    id: str
    path: Path
    scenario: Scenario
    applying: tuple[str, ...]
    not_applying: tuple[str, ...]
    release: str
    topology: tuple[str, ...]
    behaviours: tuple[tuple[str, tuple[str, ...]], ...]
    startup: int
    steps: tuple[Told, ...]
    further: tuple[str, ...]
    known: tuple[str, ...]
    predicted: Mapping[str, tuple[str, ...]]
    statements: Mapping[str, str]
    places: tuple[Place, ...]
    benches: Mapping[str, Bench]
    kills: tuple[str, ...]
    may_kill: tuple[str, ...]

    @property
    def name(self) -> str:
        """What a command takes for it."""
        return self.id if selection.is_builtin(self.path) else str(self.path)

    @property
    def place(self) -> str:
        """Where the file is, from here if it is below this folder."""
        full, here = self.path.absolute(), Path.cwd()
        return str(full.relative_to(here)) if full.is_relative_to(here) else str(self.path)

    @property
    def applies(self) -> bool:
        """Whether the scenario is about the release that is told."""
        return self.release in self.applying


def explain(loaded: LoadedScenario, release: str | None = None) -> Explanation:
    """Explain a scenario, for one release: by default the newest to which it applies.

    Raises:
        ValueError: there is no such release.
    """
    scenario = loaded.scenario
    applying = tuple(selection.releases_of(scenario, RELEASES))
    told = profile_of(release, applying)
    found = tuple(places(scenario, applying, told.release))
    certain = tuple(mutant.id for mutant in killed(loaded))
    possible = tuple(m.id for m in may_kill(scenario) if m.id not in certain)
    return Explanation(
        id=loaded.id,
        path=loaded.path,
        scenario=scenario,
        applying=applying,
        not_applying=tuple(one for one in RELEASES if one not in applying),
        release=told.release,
        topology=tuple(topology_sentences(scenario.topology)),
        behaviours=tuple(
            (capital(who(spec.engine)), tuple(behaviours(spec))) for spec in scenario.engines
        ),
        startup=_during_startup(scenario),
        steps=_steps(loaded),
        further=tuple(further(scenario)),
        known=tuple(known_text(scenario.known)),
        predicted={
            program: names
            for program, target in PROGRAMS.items()
            if any(p.kind == program and p.here for p in found)
            and (names := predicted(scenario.known, told.version, target=target))
        },
        statements=_statements(scenario),
        places=found,
        benches={p.kind: bench_at(p, scenario, told.release) for p in found if p.here},
        kills=certain,
        may_kill=possible,
    )


def _during_startup(scenario: Scenario) -> int:
    verbs = [step.verb for step in scenario.steps]
    return verbs.index("connect") if "connect" in verbs else 0


def _steps(loaded: LoadedScenario) -> tuple[Told, ...]:
    return tuple(
        Told(
            index + 1,
            loaded.positions.find(("steps", index)).line,
            step.verb,
            f"{capital(STEP.say(step))}.",
        )
        for index, step in enumerate(loaded.scenario.steps)
    )


def _statements(scenario: Scenario) -> dict[str, str]:
    docs = {cls.id: cls.doc().get("statement", "") for cls in discover_invariants()}
    return {name: docs[name].replace("``", "`") for name in scenario.invariants}


def document(told: Explanation) -> dict[str, Any]:
    """The same for programs."""
    scenario = told.scenario
    return {
        "id": told.id,
        "path": str(told.path),
        "title": scenario.title,
        "promise": scenario.promise,
        "refs": list(scenario.refs),
        "releases": {
            "applies": list(told.applying),
            "does_not_apply": list(told.not_applying),
            "told_for": told.release,
        },
        "topology": list(told.topology),
        "engines": [{"who": name, "does": list(does)} for name, does in told.behaviours],
        "steps": [
            {"step": s.number, "line": s.line, "verb": s.verb, "text": s.text} for s in told.steps
        ],
        "further": list(told.further),
        "known": list(told.known),
        "predicted": {program: list(names) for program, names in told.predicted.items()},
        "about": [{"invariant": name, "statement": s} for name, s in told.statements.items()],
        "targets": [_place(told, place) for place in told.places],
        "mutants": {"killed": list(told.kills), "may_show": list(told.may_kill)},
    }


def _place(told: Explanation, place: Place) -> dict[str, Any]:
    bench = told.benches.get(place.kind)
    return {
        "target": place.kind,
        "releases": list(place.releases),
        "lacks": list(place.lacking),
        "judging": None if bench is None else list(bench.judging),
        "not_judging": None if bench is None else dict(bench.skipped),
        "steps_not_judged": None
        if bench is None
        else {str(number): list(names) for number, names in bench.unseen.items()},
    }
