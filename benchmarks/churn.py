"""Callers, an admin and faulty engines on one deployment that lives long, in memory that does not grow.

Nothing is recorded: events are counted, each answer is checked when it comes and then forgotten. One body
for all targets; only the loop's clock tells virtual time from real.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from client.aio import all_done, pause, resolve, with_deadline
from client.protocol.profiles import Profile
from harness.play import Setting
from harness.runner import make_spec
from harness.scenario.model import CallStep, Scenario, UtilityStep
from harness.targets.target import Target
from harness.worlds import World
from mock_engines.behaviours.model import Action
from mock_engines.cluster import Cluster
from mock_engines.gates import Gates

ENGINES = 3
TOKENS = (1, 16)
ROUND_S = 120.0
"""A round that takes longer hangs. A safety net: seconds on the loop's clock, beside its thinking."""
LEAVING, ABORTING = 0.2, 0.1
"""Shares of callers who hang up, or ask for their abort, once their answer has begun."""
WRONG_MAX = 20
"""Wrong answers that are kept as text; all are counted."""
LATE_MS = 30
STORY: dict[str, Any] = {
    "title": "a deployment that lives long",
    "promise": "what comes goes, and nothing is left of it",
    "refs": ["vllm#1"],
    "topology": {
        "engines": ENGINES,
        "coordinator": "in-process",
        "waves": "lockstep",
        "lockstep": {"batch": 16, "tokens": 2, "step_ms": [0, 3]},
    },
    "engines": [
        {
            "engine": 1,
            "rules": [
                {"on": "utility", "method": "reset_mm_cache", "do": {"fail": "no such luck"}}
            ],
        },
        {
            "engine": 2,
            "rules": [
                {
                    "on": "utility",
                    "method": "reset_encoder_cache",
                    "do": [{"delay_ms": LATE_MS}, {"reply_with": {"value": None, "times": 2}}],
                }
            ],
        },
    ],
    "steps": [{"fence": True}],
}
FAULTS = ({"stats": {"running": 0, "waiting": 0}}, {"start_wave": 0})
"""What an engine says now and then of its own accord."""


class Churn:
    """One life of one deployment: ``rounds`` of requests, then the death of an engine.

    Attributes:
        requests, utilities, events: how many there were.
        ends: how often callers of a kind ended in a way.
        wrong: answers that should not have come.
    """

    def __init__(
        self,
        target: Target,
        world: World,
        profile: Profile,
        random: Random,
        mutant: str | None = None,
    ) -> None:
        self._world = world
        self._random = random
        self.requests = self.utilities = self.events = self.wrongs = 0
        self.ends: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self._gates = Gates()
        scenario = Scenario.model_validate(STORY)
        spec = make_spec(scenario, target, profile, mutant)
        setting = Setting(
            topology=scenario.topology,
            profile=profile,
            world=world,
            gates=self._gates,
            emit=self._count,
            components=spec.components,
        )
        self.frontend = spec.make_frontend(setting)
        self._make_cluster: Callable[[], Cluster] = lambda: Cluster(
            transport=world.transport,
            profile=profile,
            ranks=scenario.topology.rank_list,
            specs=scenario.engines,
            addresses=self.frontend.addresses,
            waves=scenario.topology.waves,
            pace=scenario.topology.lockstep,
            gates=self._gates,
            observer=self._count,
            real_peer=spec.black_box,
        )
        self._cluster: Cluster | None = None
        self._mode = ""
        self._closed = False
        self._closings = 0

    def _count(self, _event: object) -> None:
        self.events += 1

    @property
    def cluster(self) -> Cluster:
        """The engines, inside ``running``."""
        assert self._cluster is not None
        return self._cluster

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start engines and frontend; stop both, whatever happens."""
        try:
            await self.frontend.prepare()
            self._cluster = self._make_cluster()
            self._cluster.start()
            await with_deadline(self.frontend.start(), ROUND_S)
            await with_deadline(self._cluster.joined(), ROUND_S)
            yield
        finally:
            await self.frontend.stop()
            if self._cluster is not None:
                await self._cluster.stop()
                self._cluster.let_go()
                self._cluster = None

    # --- a round --------------------------------------------------------------------------------

    async def round(self, callers: int, each: int, think_s: float) -> None:
        """``callers`` at once, ``each`` with so many requests; ends at rest."""
        loop = asyncio.get_running_loop()
        self._mode = self._random.choice(("keep", "wait", "abort"))
        seeds = [Random(self._random.random()) for _ in range(callers)]
        work = [loop.create_task(self._caller(each, think_s, seed)) for seed in seeds]
        work.append(loop.create_task(self._admin(think_s)))
        await with_deadline(all_done(work), ROUND_S + 4 * each * think_s)
        for task in work:
            task.result()
        await with_deadline(self._rest(), ROUND_S)

    async def _rest(self) -> None:
        for _ in range(2):
            await self.cluster.idle()
            await self.frontend.fence(self.cluster.ranks)
            await self._world.settle()
        shot = await self.frontend.snapshot("rest")
        if shot is not None:
            left = (*shot.in_flight, *shot.departing, *shot.pending_utility)
            loads = [load for _, load in shot.loads if load]
            self._expect(not left and not loads, f"at rest there are {left}, loads {shot.loads}")

    async def _caller(self, requests: int, think_s: float, random: Random) -> None:
        for _ in range(requests):
            await pause(random.uniform(0, 2 * think_s))
            await self._call(random)

    async def _call(self, random: Random) -> None:
        self.requests += 1
        rank = random.randrange(ENGINES) if random.random() < 0.1 else None
        tokens = random.randint(*TOKENS)
        step = CallStep(id=f"r{self.requests}", rank=rank, max_tokens=tokens)
        drawn = random.random()
        kind = "leaves" if drawn < LEAVING else "aborts" if drawn < LEAVING + ABORTING else "stays"
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        got, closings, closed = 0, self._closings, self._closed

        def on_output(new: tuple[int, ...], _finish: str | None, text: str = "") -> None:
            nonlocal got
            got += len(new)
            if new or text:
                resolve(begun)

        task = loop.create_task(self.frontend.generate(step, on_output))
        task.add_done_callback(lambda _task: resolve(begun))
        if kind != "stays":
            await begun
            if kind == "leaves":
                task.cancel()
            elif not task.done():
                await self.frontend.abort([self.frontend.external_id(step)])
        await all_done([task])
        if task.cancelled():
            self.ends[kind, "cancelled"] += 1
            self._expect(kind == "leaves", f"{step.id} was cancelled, and {kind}")
            return
        result = task.result()
        end = result.finish or result.error or "?"
        self.ends[kind, end] += 1
        whole = end == "length" and got in (tokens, 0)  # 0: a surface that shows text alone
        cut = end == "abort" and (kind == "aborts" or self._mode == "abort")
        refused = end == "error" and not got and (closed or closings != self._closings)
        right = whole or cut or refused
        self._expect(
            right, f"{step.id}, who {kind}: {end}, {got} of {tokens} tokens, {result.message}"
        )

    async def _admin(self, think_s: float) -> None:
        """One admin: pauses and resumes, sleeps and wakes; asks; is failed; leaves early."""
        random, think = self._random, lambda: pause(random.uniform(0, 2 * think_s))
        await think()
        await self._utility("is_sleeping")
        self._close()
        await self._utility("pause", self._mode, random.random() < 0.5)
        await think()
        await self._utility("resume")
        self._closed = False
        await self._utility("reset_mm_cache", fails=True)
        await think()
        await self._utility("reset_encoder_cache", leaves=random.random() < 0.5)
        for rank in self.cluster.ranks:
            fault = Action.model_validate(random.choice(FAULTS))
            await self.cluster.act(rank, [fault])
        self._close()
        await self._utility("sleep", 1, "wait")
        await think()
        await self._utility("wake_up")
        self._closed = False
        await self._utility("collective_rpc", "echo")

    def _close(self) -> None:
        """From here to the resumption engines refuse what comes, unless they keep it."""
        self._closed = True
        self._closings += 1

    async def _utility(
        self, method: str, *args: Any, fails: bool = False, leaves: bool = False
    ) -> None:
        self.utilities += 1
        step = UtilityStep(id=f"u{self.utilities}", method=method, args=list(args))
        if leaves:
            task = asyncio.get_running_loop().create_task(self.frontend.utility(step))
            await pause(LATE_MS / 2_000)
            task.cancel()
            await all_done([task])
            self._expect(task.cancelled(), f"{method}, whose caller left, was answered at once")
            return
        result = await self.frontend.utility(step)
        wanted = "failed" if fails else "finished"
        self._expect(
            result.outcome == wanted, f"{method} {args}: {result.outcome}, {result.message}"
        )

    def _expect(self, right: bool, text: str) -> None:
        if right:
            return
        self.wrongs += 1
        if len(self.wrong) < WRONG_MAX:
            self.wrong.append(text)

    # --- the end --------------------------------------------------------------------------------

    async def die(self, open_calls: int) -> None:
        """An engine says its last word while requests are open: all fail, and so is the health."""
        loop = asyncio.get_running_loop()
        begun: list[asyncio.Future[None]] = [loop.create_future() for _ in range(open_calls)]

        def heard(future: asyncio.Future[None]) -> Callable[..., None]:
            return lambda *_args, **_more: resolve(future)

        steps = [CallStep(id=f"last{n}", rank=1, max_tokens=50_000) for n in range(open_calls)]
        tasks = [
            loop.create_task(self.frontend.generate(step, heard(future)))
            for step, future in zip(steps, begun, strict=True)
        ]
        for task, future in zip(tasks, begun, strict=True):
            # One that ends too early must not be waited for: what it came to is looked at below.
            task.add_done_callback(heard(future))
            await with_deadline(future, ROUND_S)
        await self.cluster.kill(0, "sentinel")
        await with_deadline(all_done(tasks), ROUND_S)
        for task in tasks:
            result = task.result()
            self.ends["open at the death", result.error or result.outcome] += 1
            self._expect(result.outcome == "failed", f"open at an engine's death: {result.outcome}")
        health = await self.frontend.health()
        self._expect(health is None or not health.healthy, "healthy after an engine's death")
