"""Small stories: a scenario from a few lines, played once in a world of one's choice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from client.protocol.profiles import NEWEST, profile_for
from harness.play import Played, PlaySpec, play
from harness.runner import make_spec
from harness.scenario.loader import LoadedScenario, parse, parse_model
from harness.scenario.model import Scenario
from harness.sim.choosing import Chooser, Labels
from harness.strategies import make_strategy
from harness.targets.registry import open_target
from harness.targets.request import TargetRequest
from harness.trace.events import Record
from harness.trace.kinds import KIND_OF
from harness.worlds import SimWorld, World, ZmqWorld

HEAD = "title: a story\npromise: none\nrefs: [vllm#1]\n"


class Avoid:
    """A chooser that runs whatever has a word in its label last."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return the first option that has none of the words, else the first."""
        assert labels is not None
        for index, label in enumerate(labels()):
            if not any(word in label for word in self._words):
                return index
        return 0


def load(text: str, name: str = "stories/own") -> LoadedScenario:
    """Check a scenario that has everything but its heading."""
    return parse(HEAD + text, Path("story.yaml"), name=name)


def load_unchecked(text: str, name: str = "stories/own") -> LoadedScenario:
    """As ``load``, for what the checks would refuse: a run that breaks in its middle."""
    path = Path("story.yaml")
    scenario, positions, whole = parse_model(HEAD + text, path, Scenario)
    return LoadedScenario(name, path, scenario, positions, whole)


def unchecked(**parts: Any) -> Scenario:
    """A scenario that only fits the model: what the loader would refuse."""
    heading = {"title": "a story", "promise": "none", "refs": ["vllm#1"]}
    return Scenario.model_validate({**heading, **parts})


def spec_of(
    story: str | Scenario, *, kind: str = "sim", release: str = NEWEST, mutant: str | None = None
) -> PlaySpec:
    """Everything of a run but its choices."""
    scenario = load(story).scenario if isinstance(story, str) else story
    return make_spec(scenario, open_target(TargetRequest(kind)), profile_for(release), mutant)


def sim(chooser: Chooser | None = None, *, labels: bool = False) -> SimWorld:
    """A simulated world; first in, first out by default."""
    decide = make_strategy("fifo", 0, 0) if chooser is None else chooser
    return SimWorld(decide, record_labels=labels or isinstance(chooser, Avoid))


def perform(
    story: str | Scenario,
    world: World | None = None,
    *,
    release: str = NEWEST,
    mutant: str | None = None,
) -> Played:
    """Play a story once; in simulation by default."""
    kind = "zmq" if isinstance(world, ZmqWorld) else "sim"
    chosen = sim() if world is None else world
    return play(spec_of(story, kind=kind, release=release, mutant=mutant), chosen)


WORLDS: dict[str, Callable[[], World]] = {"sim": sim, "zmq": ZmqWorld}


# --- what came of it ------------------------------------------------------------------------


def of(played: Played, cls: type) -> list[Any]:
    """Events of one class, in order."""
    return [record.event for record in played.records if type(record.event) is cls]


def kinds(records: list[Record], *without: str) -> list[str]:
    """Kinds of events, in order."""
    found = [KIND_OF[type(record.event)][0] for record in records]
    return [kind for kind in found if kind not in without]


def statuses(played: Played) -> list[tuple[int, str]]:
    """Step and status of each result."""
    return [(result.step, result.outcome.status) for result in played.story.results]


def outcomes(played: Played) -> dict[str, str]:
    """How each operation ended."""
    return {op.id: op.outcome for op in played.story.ops.values()}


def broken(played: Played) -> list[str]:
    """Ids of the violated ``must`` invariants."""
    return [v.invariant for v in played.verdicts if v.verdict == "violated" and v.level == "must"]
