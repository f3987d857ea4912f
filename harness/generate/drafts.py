"""Drafts: everything of a scenario but its names, drawn by Hypothesis.

A story is a list of phrases. A phrase is one step, or a few that belong together: a call, a wait
until it has come so far, its caller who leaves. So what matters in this protocol (someone leaves at
each stage, a wave ends while a request is under way, a send waits) is likely, and any other order
of steps is possible.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from harness.generate.behaving import acts, engines
from harness.generate.fields import Data, Strategy, of_model, one_key, weighted
from harness.generate.refs import Ref
from harness.generate.themes import COORDINATORS, THEMES, VERBS, Theme
from harness.generate.together import LOCKSTEP
from harness.generate.words import HINTS, RANK_TEXTS, SURFACES, hints_with, ref, specifiers
from harness.scenario import model as scenario

PHRASES_MAX = 9
STAGES = ("", "sent", "first", "fence")
"""How far a phrase waits: not at all, until its message is there, until the first answer to it is
there, until nothing more happens."""
ENDS = ("", "cancel", "drop", "abort")
"""How the caller of a phrase leaves, if at all."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """One step, and what belongs to it.

    Attributes:
        step: mapping with one verb.
        stage: one of ``STAGES``.
        end: one of ``ENDS``.
        twice: the step once more at once, which races with itself.
        again: once its caller has left, a call of the same id.
    """

    step: Mapping[str, Data]
    stage: str = ""
    end: str = ""
    twice: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A scenario without names.

    Attributes:
        seed: of the schedules in which it is played.
    """

    topology: Mapping[str, Data]
    engines: tuple[Mapping[str, Data], ...]
    story: tuple[Phrase, ...]
    profiles: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Can:
    """What a target can do, as far as it decides what is drawn.

    Attributes:
        capabilities: see ``harness.targets.capabilities``.
        release: the one release that the target speaks, or ``None`` if it is free.
    """

    capabilities: frozenset[str]
    release: str | None = None


NATIVE = "native"
VERB_NEEDS = {
    "http": "op.http",
    "grpc": "op.grpc",
    "signal": "fault.signal",
    "link": "fault.link",
    "abort": "op.abort",
    "shutdown": "op.shutdown",
    "coordinator": "coordinator.external",
    "cancel": "op.cancel",
    "drop": "op.drop",
}
"""Verbs that are not drawn for a target that lacks this."""
PHRASED = ("call", "utility", "engine")
"""Verbs whose steps come with a stage, and with an end if a caller has one."""


@functools.cache
def drafts(can: Can) -> st.SearchStrategy[Draft]:
    """Drafts for a target, each with a theme."""
    themes = [_drafts(can, theme) for theme in THEMES.values()]
    return st.sampled_from(range(len(themes))).flatmap(lambda number: themes[number])


def _drafts(can: Can, theme: Theme) -> st.SearchStrategy[Draft]:
    kinds = {**COORDINATORS, **theme.coordinators}
    coordinator = weighted([(weight, st.just(kind)) for kind, weight in kinds.items()])
    known = hints_with(scenario.Topology, "coordinator", coordinator)
    topologies = of_model(scenario.Topology, known)
    if theme.together:
        topologies = st.builds(_together, topologies, PACES)
    return st.builds(
        Draft,
        topology=topologies.flatmap(_sized),
        engines=st.lists(engines(theme), max_size=3).map(tuple),
        story=st.lists(_phrase(can, theme), min_size=1, max_size=PHRASES_MAX).map(tuple),
        profiles=st.sampled_from(specifiers(can.release)),
        seed=_SEEDS,
    )


PACES = st.sampled_from(
    [{}, {"tokens": 2}, {"batch": 1}, {"batch": 2, "step_ms": [1, 5]}, {"step_ms": 2}]
)
"""Paces of engines that step together."""


_NOT_TOGETHER = ("frontends", "config", "ranks", "start_rank")


def _together(topology: dict[str, Data], pace: dict[str, Data]) -> dict[str, Data]:
    """One frontend, and engines that step together."""
    left = {key: value for key, value in topology.items() if key not in _NOT_TOGETHER}
    left.setdefault("engines", 2)
    return {**left, "waves": LOCKSTEP, **({"lockstep": pace} if pace else {})}


_DIGITS = st.integers(0, 99)
_SEEDS = st.tuples(_DIGITS, _DIGITS).map(lambda two: 100 * two[0] + two[1])
"""Seeds of schedules; 0 is the simplest. Drawn in two parts: among larger numbers Hypothesis mixes
constants of whatever modules are imported, and the same seed of a hunt would not mean the same."""
_SIZES = weighted([(2, st.just(1)), (6, st.just(2)), (4, st.just(3)), (1, st.just(4))])


def _sized(topology: dict[str, Data]) -> Strategy:
    """Two engines are the rule; a list of ranks says itself how many there are."""
    if "ranks" in topology:
        return st.just({k: v for k, v in topology.items() if k != "start_rank"})
    return _SIZES.map(lambda size: {**topology, "engines": size})


def _phrase(can: Can, theme: Theme) -> Strategy:
    weights = {
        verb: {**VERBS, **theme.verbs}.get(verb, 1)
        for verb in scenario.Step.model_fields
        if HINTS.has(scenario.Step, verb)
        and VERB_NEEDS.get(verb, "op.generate") in can.capabilities
    }
    calls = _surfaced(of_model(scenario.CallStep, HINTS), can)
    known = hints_with(scenario.EngineStep, "do", acts(theme))
    told_engines = of_model(scenario.EngineStep, known)
    plain = {verb: weight for verb, weight in weights.items() if verb not in PHRASED}
    return weighted(
        [
            (weights["call"], _phrased("call", calls, ENDS)),
            (
                weights["utility"],
                _phrased("utility", of_model(scenario.UtilityStep, HINTS), ("", "", "cancel")),
            ),
            (weights["engine"], _phrased("engine", told_engines, ("",))),
            (sum(plain.values()), _fault(one_key(scenario.Step, HINTS, plain))),
        ]
    )


def _phrased(verb: str, steps: Strategy, ends: tuple[str, ...]) -> Strategy:
    return st.builds(
        Phrase,
        step=steps.map(lambda payload: {verb: payload}),
        stage=st.sampled_from(STAGES),
        end=st.sampled_from(ends),
        twice=st.sampled_from([False, False, False, True]),
        again=st.sampled_from([False, False, verb == "call"]),
    )


def _fault(steps: Strategy) -> Strategy:
    return steps.map(lambda step: Phrase(_one_fault(step)))


_FAULTS = ("hold_after", "fail", "clear", "hold")


def _one_fault(step: dict[str, Any]) -> dict[str, Any]:
    """A link step names one fault; which of them is drawn with the step."""
    link = step.get("link")
    if link is None:
        return step
    kept = {key: value for key, value in link.items() if key not in _FAULTS}
    given = next((key for key in _FAULTS if key in link), "hold")
    value = link.get(given, Ref("new-gate", 0))
    return {"link": {**kept, given: True if given == "clear" else value}}


def _surfaced(calls: Strategy, can: Can) -> Strategy:
    """Calls over a surface that the target serves; now and then with the rank as text."""
    served = [
        name
        for name in typing.get_args(scenario.Surface)
        if f"{SURFACES}{name}" in can.capabilities and name != NATIVE
    ]
    plain = st.sampled_from(["auto"] * (1 + 3 * len(served)) + served)
    by_text = st.tuples(st.sampled_from(RANK_TEXTS), st.sampled_from(served or ["auto"]))
    texts = by_text.map(lambda pair: {"rank_text": pair[0], "surface": pair[1]})
    surfaces = plain.map(lambda name: {} if name == "auto" else {"surface": name})
    kinds = [(6, surfaces)]
    if served and "op.rank-text" in can.capabilities:
        kinds.append((1, texts))
    ids = weighted([(8, st.just({})), (1, _AGAIN)])
    return st.tuples(calls, weighted(kinds), ids).map(lambda three: _over(*three))


_AGAIN = ref("call-id", 1).map(lambda earlier: {"request_id": earlier})
"""The id of an earlier call once more."""


def _over(
    call: dict[str, Data], surface: dict[str, Data], again: dict[str, Data]
) -> dict[str, Data]:
    """A call over a surface; a rank is given as a number or as a text."""
    both = {**call, **surface, **again}
    if "rank_text" in surface:
        both.pop("rank", None)
    elif "rank" in both:
        both.pop("rank_text", None)
    return both
