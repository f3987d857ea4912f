"""Releases at which the real frontend changed, seen by this target: the last bad, the first good.

Sources: vllm#43429, vllm#51178, vllm#52671; the last one was found by this harness.
"""

from __future__ import annotations

import asyncio

import pytest

from harness.scenario.model import CallStep, UtilityStep
from harness.trace.events import LogLine
from mock_engines.events import AbortSeen, AddSeen, UtilityReplySent, UtilitySeen

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]

SLEEP = UtilityStep(id="u", method="sleep", args=[1, "abort"])


def on_sleep(*actions):
    return [{"on": "utility", "method": "sleep", "do": list(actions)}]


@pytest.mark.parametrize(("release", "seen"), [("0.22.0", False), ("0.23.0", None)])
def test_is_sleeping_with_engines_that_disagree(play, release, seen):
    """≤ 0.22.1 shows the first engine's answer (#43429)."""
    engines = [
        {"engine": 1, "rules": [{"on": "utility", "method": "is_sleeping", "do": {"reply": True}}]}
    ]

    async def story(lab):
        return await lab.frontend.utility(UtilityStep(id="u", method="is_sleeping"))

    result = play(release, story, engines=engines)
    assert result.value is seen
    assert result.error == (None if seen is False else "InconsistentUtilityResults")


@pytest.mark.parametrize(("release", "early"), [("0.28.0", True), ("0.29.0", False)])
def test_a_failing_engine_beside_a_hanging_one(play, release, early):
    """≤ 0.28 answers while an engine still works (#52671)."""
    engines = [
        {"engine": 0, "rules": on_sleep({"hang": "rest"}, {"default": True})},
        {"engine": 1, "rules": on_sleep({"fail": "one"})},
    ]

    async def story(lab):
        call = lab.spawn(lab.frontend.utility(SLEEP))
        await lab.until(UtilitySeen, 2)
        await lab.until(UtilityReplySent)
        await lab.fence()
        done = call.done()
        lab.gates.open("rest")
        return done, await call

    done, result = play(release, story, engines=engines)
    assert done is early
    assert result.error == "UtilityCallFailed"


@pytest.mark.parametrize(("release", "warnings"), [("0.28.0", 0), ("0.29.0", 2)])
def test_late_replies_after_a_cancelled_call(play, release, warnings):
    """≤ 0.28 keeps the waiters, which swallow the late replies (#52671)."""
    engines = [{"rules": on_sleep({"hang": "rest"}, {"default": True})}]

    async def story(lab):
        call = lab.spawn(lab.frontend.utility(SLEEP))
        await lab.until(UtilitySeen, 2)
        call.cancel()
        await _ended(call)
        await lab.fence()
        lab.gates.open("rest")
        await lab.until(UtilityReplySent, 2)
        await lab.fence()
        return [line for line in lab.seen(LogLine) if line.pattern == "utility-dropped"]

    assert len(play(release, story, engines=engines)) == warnings


async def _ended(task):
    try:
        await task
    except asyncio.CancelledError:
        return


@pytest.mark.parametrize("surface", ["grpc", "grpc-stream"])
@pytest.mark.parametrize(("release", "rank"), [("0.27.1", 0), ("0.28.0", 1)])
def test_an_explicit_rank_over_grpc(play, release, rank, surface):
    """≤ 0.27.1 ignores the metadata (#51178)."""

    async def story(lab):
        step = CallStep(id="a", rank=1, surface=surface)
        await lab.frontend.generate(step, lambda *_: None)
        return [add.engine for add in lab.seen(AddSeen)]

    assert play(release, story) == [rank]


@pytest.mark.parametrize(("release", "aborted"), [("0.31.0", False), ("0.32.0", True)])
def test_a_cancelled_grpc_stream_whose_engine_is_silent(play, release, aborted):
    """≤ 0.31 does not notice: the request goes on until its engine sends something."""
    engines = [{"rules": [{"on": "add", "do": {"stream": {"pause_at": 1, "gate": "rest"}}}]}]

    async def story(lab):
        got = asyncio.get_running_loop().create_future()
        step = CallStep(id="a", surface="grpc-stream")
        call = lab.spawn(lab.frontend.generate(step, lambda *_: got.done() or got.set_result(None)))
        await got
        call.cancel()
        await _ended(call)
        if aborted:
            await lab.until(AbortSeen)
        await lab.fence()
        early = len(lab.seen(AbortSeen))
        lab.gates.open("rest")
        await lab.fence()
        return early

    assert play(release, story, engines=engines) == (1 if aborted else 0)
