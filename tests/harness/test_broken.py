"""A way that breaks ends whoever waits, and nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client.aio import turn
from harness.broken import Broken, guarded
from harness.links_step import links_confirmed
from harness.targets.base import TargetError


class Breakable:
    def __init__(self) -> None:
        self.broken = Broken()


async def for_ever(seen: list[str]) -> None:
    seen.append("begun")
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        seen.append("given up")


async def value(result: Any) -> Any:
    return result


def test_work_that_ends_is_passed_on_with_its_result() -> None:
    assert asyncio.run(guarded(Breakable(), lambda: value(7))) == 7
    assert asyncio.run(guarded(object(), lambda: value(7))) == 7


def test_work_that_raises_is_passed_on_with_its_error() -> None:
    async def failing() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(guarded(Breakable(), failing))


@pytest.mark.parametrize("before", [True, False])
def test_work_is_given_up_when_the_way_breaks_or_is_broken(before: bool) -> None:
    seen: list[str] = []

    async def main() -> None:
        frontend = Breakable()
        if before:
            frontend.broken.set(TargetError("gone"))
        else:
            asyncio.get_running_loop().call_soon(frontend.broken.set, TargetError("gone"))
        await guarded(frontend, lambda: for_ever(seen))

    with pytest.raises(TargetError, match=r"^gone$"):
        asyncio.run(main())
    # Broken before, the work never began.
    assert seen == ([] if before else ["begun", "given up"])


def test_first_reason_stays() -> None:
    broken = Broken()
    assert broken.error is None
    broken.check()
    broken.set(TargetError("first"))
    broken.set(TargetError("second"))
    with pytest.raises(TargetError, match=r"^first$"):
        broken.check()


def test_cancelled_guard_ends_its_work() -> None:
    seen: list[str] = []

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(guarded(Breakable(), lambda: for_ever(seen)))
        while not seen:
            await turn()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert seen == ["begun", "given up"]


def test_links_of_our_own_need_no_confirmation() -> None:
    asyncio.run(links_confirmed(object()))  # type: ignore[arg-type]
