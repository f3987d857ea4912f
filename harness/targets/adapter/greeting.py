"""The first exchange with an adapter: which version is spoken, what it can do and show."""

from __future__ import annotations

import asyncio

from client.aio import DeadlineExceeded, resolve, with_deadline
from client.protocol.profiles import RELEASES
from harness.targets.adapter.agreed import VERSIONS
from harness.targets.adapter.lines import Greeting, Hello, Line
from harness.targets.adapter.process import AdapterProcess
from harness.targets.adapter.vocabulary import nearest, problems
from harness.version import tool_version

HELLO_S = 20.0
"""How long an adapter may take from its start to its hello, seconds."""


async def greet(process: AdapterProcess) -> Greeting:
    """Say hello to a process that was just started, in the running loop.

    Raises:
        TargetError: it says nothing, something else, or what cannot be.
    """
    heard: list[Greeting] = []
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(line: Line) -> bool:
        if isinstance(line, Greeting) and not heard:
            heard.append(line)
            resolve(woken)
        else:
            what = type(line).__name__
            process.fail(f"wrote a {what} before its run began; its first line is 'hello'")
        return True

    process.attach(take, lambda _error: resolve(woken))
    try:
        process.send(Hello(harness=f"wavecheck {tool_version()}"))
        await with_deadline(woken, HELLO_S, name="adapter: hello")
    except DeadlineExceeded:
        process.fail(f"did not say hello within {HELLO_S:g} s of its start")
    finally:
        process.detach()
    if process.failure is None and (wrong := faults(heard[0])):
        process.fail(f"says hello with what cannot be: {'; '.join(wrong)}")
    if process.failure is not None:
        raise process.failure
    return heard[0]


def faults(greeting: Greeting) -> list[str]:
    """Return what is wrong with a hello, one line each."""
    found = []
    if greeting.version not in VERSIONS:
        spoken = ", ".join(str(version) for version in VERSIONS)
        found.append(
            f"version {greeting.version} of the line protocol is none of those that were offered "
            f"({spoken})"
        )
    found += problems(greeting.capabilities)
    for release in greeting.releases or ():
        if release not in RELEASES:
            found.append(f"release {release!r} is not known{nearest(release, RELEASES)}")
    if greeting.releases == ():
        found.append("'releases' is empty; null stands for all")
    if greeting.program and (greeting.releases is None or len(greeting.releases) != 1):
        found.append("'program' goes with exactly one release")
    return found
