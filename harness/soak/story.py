"""A long story from a seed: load on engines that step together, with everything that an admin does.

Theory of operation. A story is a row of *rounds*, each with some tens of callers, until all requests
are spent. In most rounds something happens to the engines while they have work. A round ends at rest
(or what it did would decide what the next one means), with each caller served, gone or refused, and
every few rounds a fence asks whether all has come to rest indeed.

A pause is answered before anybody resumes: the engines refuse to resume while a pause is in flight,
and say so. Two that pause, or resume, at once are another matter: open faults of the engines, and only
in stories that ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random  # noqa: TID251 - a seed makes a story; orders are drawn from the tape
from typing import Any

Step = dict[str, Any]
CALLERS_MAX = 60
"""Callers of one round."""
TOKENS_MAX = 24
FENCE_EVERY = 4
"""Rounds from one fence to the next."""
MENDED = ("resumed-twice", "paused-twice")
PACE = {"batch": 8, "tokens": 2, "step_ms": [0, 3]}
MODES = ("abort", "wait", "keep")
LEAVING = 0.2
"""Share of callers who hang up before their answer is complete."""
ABORTING = 0.1
"""Share of callers who ask for their abort."""
JUDGED = (
    "request.accepted-ends",
    "request.every-add-ends",
    "lockstep.no-rank-waits-alone",
    "lockstep.comes-to-rest",
    "lockstep.agrees-at-rest",
)
"""What such a story is about; everything else is judged, too."""
REFERENCE = "https://docs.vllm.ai/en/latest/serving/data_parallel_deployment.html"


@dataclass(frozen=True, slots=True)
class Size:
    """How large a story is.

    Attributes:
        engines: ranks that step together.
        requests: callers in all; a last round may have up to three more.
        coordinator: ``in-process`` or ``external``.
        overlaps: whether two admins sometimes pause, or resume, at the same time.
        mended: whether the engines survive that, as no release does.
        early: whether callers leave at any time. If not, none leaves before its request is at an
            engine: a real frontend may send the abort first (docs/findings.md).
    """

    engines: int = 4
    requests: int = 1_000
    coordinator: str = "in-process"
    overlaps: bool = False
    mended: bool = False
    early: bool = True


def soak(seed: int, size: Size = Size()) -> dict[str, Any]:
    """Write the story of a seed, as plain data of a scenario file."""
    return {
        "title": f"A long run of load, pauses and sleep, number {seed}",
        "promise": "Whatever callers and admins do, every request ends and the engines come to rest.",
        "refs": [REFERENCE],
        "invariants": list(JUDGED),
        "topology": {
            "engines": size.engines,
            "coordinator": size.coordinator,
            "transport": (
                "handshake-owner" if size.coordinator == "in-process" else "bootstrapped"
            ),
            "waves": "lockstep",
            "lockstep": {**PACE, **({"mended": list(MENDED)} if size.mended else {})},
        },
        "steps": list(_Story(Random(seed), size).steps()),
    }


class _Story:
    def __init__(self, random: Random, size: Size) -> None:
        self._random = random
        self._size = size
        self._left = size.requests
        self._round = self._begun = self._calls = self._sleeps = 0
        self._kinds: list[Callable[[], Iterator[Step]]] = [
            self._load,
            self._pause,
            self._pause,
            self._sleep,
            self._left_alone,
        ]
        if size.overlaps:
            self._kinds += [self._pause_twice, self._resumes_at_once]

    def steps(self) -> Iterator[Step]:
        while self._left > 0:
            self._round += 1
            open_: dict[str, None] = {}
            for step in self._random.choice(self._kinds)():
                yield step
                if _begins(step):
                    open_[_id(step)] = None
                elif "cancel" in step:
                    del open_[step["cancel"]]
            yield {"finish": list(open_)}
            if self._round % FENCE_EVERY == 0:
                yield {"fence": True}
        yield {"fence": True}

    # --- rounds -----------------------------------------------------------------------------

    def _load(self) -> Iterator[Step]:
        """Load and nothing else."""
        yield from self._callers()
        yield from self._callers()

    def _pause(self) -> Iterator[Step]:
        """A pause during load, more load that has to wait or is refused, and on."""
        yield from self._callers()
        yield from self._answered("pause", self._mode(), self._random.random() < 0.5)
        yield from self._callers()
        yield self._call("resume")

    def _sleep(self) -> Iterator[Step]:
        """To sleep during load, more load, and awake."""
        yield from self._callers()
        yield from self._answered("sleep", self._random.choice((0, 1, 1, 2)), self._mode())
        yield from self._callers()
        yield self._call("wake_up")

    def _left_alone(self) -> Iterator[Step]:
        """Whoever puts the engines to sleep leaves before that is answered; it happens all the same.

        Not before each engine has heard it: some that sleep and some that do not spin for ever.
        """
        yield from self._callers()
        yield (sleep := self._call("sleep", 0, self._mode()))
        heard = self._sleeps * self._size.engines
        yield {"wait": {"event": "utility", "method": "sleep", "count": heard}}
        yield {"cancel": _id(sleep)}
        yield {"fence": True}
        yield self._call("wake_up")

    def _pause_twice(self) -> Iterator[Step]:
        """Two pauses at once, in modes of their own."""
        yield from self._callers()
        yield (first := self._call("pause", self._mode(), True))
        yield (second := self._call("pause", self._mode(), True))
        yield {"finish": [_id(first), _id(second)]}
        yield self._call("resume")

    def _resumes_at_once(self) -> Iterator[Step]:
        """Several who resume at once, while a first request wakes the ranks."""
        yield from self._answered("pause", "keep", True)
        yield from self._answered("resume")
        yield from self._callers(1)
        yield self._call("resume")
        yield from self._callers(1)
        yield self._call("resume")

    # --- what they are made of --------------------------------------------------------------

    def _callers(self, exactly: int | None = None) -> Iterator[Step]:
        """Some callers; a few of them hang up, or ask for their abort."""
        random = self._random
        some = exactly or random.randint(CALLERS_MAX // 6, CALLERS_MAX // 2)
        # Not less than one, although all may be spent: a round has callers.
        many = max(1, min(self._left, some))
        self._left -= many
        leaving: list[Step] = []
        for _ in range(many):
            self._begun += 1
            name = f"r{self._begun}"
            yield {"call": {"id": name, "max_tokens": random.randint(1, TOKENS_MAX)}}
            drawn = random.random()
            if drawn < LEAVING:
                leaving.append({"cancel": name})
            elif drawn < LEAVING + ABORTING:
                leaving.append({"abort": [name]})
            if leaving and random.random() < 0.5:
                yield from self._leave(leaving.pop(random.randrange(len(leaving))))
        for step in leaving:
            yield from self._leave(step)

    def _leave(self, step: Step) -> Iterator[Step]:
        if not self._size.early:
            name = step["cancel"] if "cancel" in step else step["abort"][0]
            yield {"wait": {"event": "add", "request": name}}
        yield step

    def _answered(self, method: str, *args: Any) -> Iterator[Step]:
        """Ask the engines, and wait for the answer."""
        yield (step := self._call(method, *args))
        yield {"finish": [_id(step)]}

    def _mode(self) -> str:
        return self._random.choice(MODES)

    def _call(self, method: str, *args: Any) -> Step:
        self._calls += 1
        self._sleeps += method == "sleep"
        step: Step = {"id": f"{method.replace('_', '-')}-{self._calls}", "method": method}
        return {"utility": {**step, "args": list(args)} if args else step}


def _id(step: Step) -> str:
    """What a step's operation is called."""
    return str(next(iter(step.values()))["id"])


def _begins(step: Step) -> bool:
    """Whether a step begins an operation that has an end."""
    return "call" in step or "utility" in step
