"""What log lines mean: the events that the reference client has."""

from __future__ import annotations

import asyncio

from client.aio import with_deadline
from client.events import CoordinatorStateApplied, FirstRequestQueued, HealthFailed
from harness.targets.vllm_rs.log_events import LogEvents
from harness.targets.vllm_rs.log_patterns import parse_line

HEAD = "(RustFrontend pid=7) DEBUG 11-29 18:10:33 [src/a.rs:1] "


def events_of(*lines):
    seen = []
    log = LogEvents(seen.append)
    for line in lines:
        log.take(parse_line(HEAD + line))
    return seen, log


def test_a_publish_that_was_taken_over_and_a_first_request_become_events():
    seen, _log = events_of(
        "applied external coordinator state update previous_wave=0 wave=5 "
        "previous_engines_running=false engines_running=true",
        "notifying external coordinator about first request while engines were paused wave=5 "
        "exclude_engine_index=1",
        "something else wave=9",
    )
    assert seen == [CoordinatorStateApplied(5, running=True), FirstRequestQueued(1, 5)]


def test_only_the_first_fatal_error_is_the_cause():
    seen, log = events_of(
        "output dispatcher exiting with error error=engine core reported fatal failure",
        "external coordinator service exiting with error error=transport error: x",
    )
    assert seen == [
        HealthFailed("EngineCoreDead", "engine core reported fatal failure", first=True),
        HealthFailed("Transport", "transport error: x", first=False),
    ]
    assert log.fatal == "engine core reported fatal failure"


def test_whoever_waits_for_the_cause_is_woken_by_its_line():
    async def main():
        log = LogEvents(lambda _event: None)
        waiting = asyncio.get_running_loop().create_task(log.failed())
        asyncio.get_running_loop().call_soon(
            log.take, parse_line(HEAD + "output dispatcher exiting with error error=x")
        )
        await with_deadline(waiting, 5)
        await with_deadline(log.failed(), 5)

    asyncio.run(main())
