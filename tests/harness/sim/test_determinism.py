"""The same seed gives the same choices in another process, hash seed and Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio, json, sys
from client.protocol.transport import SocketKind as K, SocketOptions
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy
from harness.tape import Recorder

async def engine(transport, address, output, rank):
    dealer = await transport.connect(K.DEALER, address, SocketOptions(identity=bytes([rank, 0])))
    push = await transport.connect(K.PUSH, output)
    await dealer.send([b"registration"])
    loop = asyncio.get_running_loop()
    while (message := await dealer.recv()) != [b"stop"]:
        later = loop.create_future()
        loop.call_later(0.001 * rank, later.set_result, None)
        await later
        await push.send([bytes([rank]), *message])

async def main(transport, log):
    loop = asyncio.get_running_loop()
    address, output = transport.endpoint("input"), transport.endpoint("output")
    router = await transport.bind(K.ROUTER, address)
    pull = await transport.bind(K.PULL, output)
    tasks = [loop.create_task(engine(transport, address, output, r)) for r in range(4)]
    peers = {(await router.recv())[0] for _ in tasks}
    for n in range(5):
        for peer in sorted(peers):
            await router.send([peer, b"%d" % n])
        for _ in peers:
            log.append((await pull.recv())[0][0])
    for peer in sorted(peers):
        await router.send([peer, b"stop"])
    for task in tasks:
        await task

log = []
recorder = Recorder(make_strategy("random", 7, 3))
loop = SimLoop(recorder, record_labels=True)
loop.run(main(SimTransport(loop), log))
print(json.dumps({"tape": recorder.tape.to_json(), "log": log, "time": loop.time()}))
"""


def trace(python: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def other_python() -> str:
    """An interpreter of another supported version that has our dependencies, or skip."""
    mine = sys.version_info[:2]
    others = [f"python3.{minor}" for minor in (11, 12, 13) if (3, minor) != mine]
    candidates = [os.environ.get("WAVECHECK_OTHER_PYTHON", ""), *others]
    for name in candidates:
        path = shutil.which(name) if name else None
        if path is None:
            continue
        probe = [path, "-c", "import sys, simpy, pydantic; print(sys.version_info[1])"]
        done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0 and int(done.stdout) != mine[1]:
            return path
    pytest.skip(
        f"no other Python with the dependencies among {', '.join(others)}; "
        "WAVECHECK_OTHER_PYTHON can name one"
    )


@pytest.mark.slow
def test_choices_do_not_depend_on_process_or_hash_seed():
    first = trace(sys.executable, "0")
    assert first == trace(sys.executable, "1")
    assert "deliver engine 3>input" in first


@pytest.mark.slow
def test_choices_do_not_depend_on_the_python_version():
    assert trace(other_python(), "2") == trace(sys.executable, "0")
