"""Questions to single classes of vLLM that no scenario can ask: chosen time, chosen state.

``ask(tree, name)`` runs one in a process of its own and returns its answer. Each probe takes the
loaded modules and returns plain values.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.targets.vllm_py import given, question
from harness.targets.vllm_py.configuration import make_config
from harness.targets.vllm_py.loader import Loaded
from harness.targets.vllm_py.members import (
    ASYNC_LLM,
    COORDINATOR,
    CORE_CLIENT,
    ENGINE,
    SAMPLING_PARAMS,
)
from harness.targets.vllm_py.sources import SourceTree
from harness.targets.vllm_py.stand_ins import JUDGED, prepare

_MODULE = "harness.targets.vllm_py.probes"
TIMEOUT_S = 60.0


def ask(tree: SourceTree, name: str) -> Any:
    """Run a probe in a child process and return its answer.

    Raises:
        KeyError: there is no such probe.
        TargetError: the child failed, or said of no class that it is vLLM's.
    """
    if name not in PROBES:
        raise KeyError(name)
    said = question.ask(
        _MODULE,
        tree,
        {"probe": name},
        what=f"the probe {name} of {tree.release}",
        timeout_s=TIMEOUT_S,
    )
    return said["answer"]


# --- routing --------------------------------------------------------------------------------


def ties(loaded: Loaded) -> list[int]:
    """Ranks that four requests get when every snapshot says that two ranks are equally idle."""
    client_class = loaded.get(CORE_CLIENT, "DPLBAsyncMPClient")
    request_class = loaded.get(ENGINE, "EngineCoreRequest")
    client = client_class.__new__(client_class)
    client.__dict__.update(
        client_count=1,
        client_index=0,
        eng_start_index=0,
        core_engines=[b"\0\0", b"\1\0"],
        reqs_in_flight={},
        streaming_reqs=set(),
        engine_inflight=Counter(),
    )
    # Rows as the release's own client makes them: two numbers, from 0.27 on three.
    source = (loaded.folder / "vllm/v1/engine/core_client.py").read_text(encoding="utf-8")
    row = [0, 0, 0.0] if "kv_cache_usage" in source else [0, 0]
    loaded.module(CORE_CLIENT).get_late_interaction_engine_index = lambda *_args: None  # type: ignore[attr-defined]
    picks = []
    for number in range(4):
        # Each snapshot of the coordinator replaces the counts, and no request is open any more.
        client.lb_engines = [list(row), list(row)]
        client.engine_inflight.clear()
        request = request_class(
            request_id=f"r{number}", prompt_token_ids=[1], mm_features=None,
            sampling_params=None, pooling_params=None, arrival_time=0.0, lora_request=None,
            cache_salt=None, data_parallel_rank=None,
        )  # fmt: skip
        picks.append(int.from_bytes(client.get_core_engine_for_request(request), "little"))
    return picks


# --- coordinator ----------------------------------------------------------------------------


class _OverError(Exception):
    """The scripted time is over."""


class _ScriptedSocket:
    """A socket of the coordinator: gives what is scripted, counts what is sent."""

    def __init__(self, messages: list[bytes]) -> None:
        self._messages = messages
        self.sent: list[bytes] = []

    def recv(self) -> bytes:
        return self._messages.pop(0)

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def send_multipart(self, frames: list[bytes]) -> None:
        self.sent.append(b"".join(frames))


def starved(loaded: Loaded) -> dict[str, int]:
    """Publishes in 400 ms in which some stats can be read at every look; once with pauses.

    Clock, poller and sockets are scripted: a message every 10 ms for ``busy``, a pause of 60 ms
    behind every fifth for ``relaxed``.
    """
    return {
        "busy": _publishes(loaded, pause_ms=0),
        "relaxed": _publishes(loaded, pause_ms=60),
    }


def _publishes(loaded: Loaded, *, pause_ms: int) -> int:
    module = loaded.module(COORDINATOR)
    clock = SimpleNamespace(ms=1_000_000)
    stats = _stats_message(loaded)
    front, back = _ScriptedSocket([]), _ScriptedSocket([stats] * 1000)
    subscriptions = _ScriptedSocket([b"\x01", b"\x01"])
    opened = iter([front, back, subscriptions])
    end = clock.ms + 400

    class Poller:
        def __init__(self) -> None:
            self._seen = 0

        def register(self, _socket: Any, _events: int) -> None:
            pass

        def poll(self, timeout: float) -> list[tuple[Any, int]]:
            if clock.ms >= end:
                raise _OverError
            self._seen += 1
            wait = 10 + (pause_ms if self._seen % 5 == 0 else 0)
            if timeout < wait:
                clock.ms += max(1, int(timeout))
                return []
            clock.ms += wait
            return [(back, 1)]

    @contextmanager
    def make_socket(**_options: Any) -> Iterator[Any]:
        yield next(opened)

    module.make_zmq_socket = make_socket  # type: ignore[attr-defined]
    module.time = SimpleNamespace(time=lambda: clock.ms / 1000)  # type: ignore[attr-defined]
    module.zmq = SimpleNamespace(  # type: ignore[attr-defined]
        Context=lambda: None, Poller=Poller, XPUB=1, PULL=2, POLLIN=1
    )
    coordinator = loaded.get(COORDINATOR, "DPCoordinatorProc")(engine_count=2)
    with suppress(_OverError):
        coordinator.process_input_socket("front", "back", "subscriptions")
    return len(front.sent)


def _stats_message(loaded: Loaded) -> bytes:
    engine = loaded.module(ENGINE)
    stats = loaded.module("vllm.v1.metrics.stats").SchedulerStats(num_running_reqs=1)
    encoder = loaded.module("vllm.v1.serial_utils").MsgpackEncoder()
    return bytes(encoder.encode(engine.EngineCoreOutputs(scheduler_stats=stats))[0])


# --- AsyncLLM -------------------------------------------------------------------------------


class _Core:
    """A DP client whose hand-over fails, or never ends."""

    resources = SimpleNamespace(engine_dead=False)
    engine_ranks_managed = (0,)

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails
        self.waiting = asyncio.Event()

    async def add_request_async(self, _request: Any) -> None:
        if self._fails:
            msg = "the hand-over failed"
            raise ConnectionError(msg)
        self.waiting.set()
        await asyncio.get_running_loop().create_future()

    async def get_output_async(self) -> Any:
        await asyncio.get_running_loop().create_future()

    async def abort_requests_async(self, _ids: Any) -> None:
        pass

    def shutdown(self, timeout: float | None = None) -> None:
        pass


def rollback(loaded: Loaded) -> dict[str, int]:
    """Requests left in AsyncLLM's table after a hand-over that failed, and one that was left."""
    return {
        "failed": asyncio.run(_left_behind(loaded, fails=True)),
        "cancelled": asyncio.run(_left_behind(loaded, fails=False)),
    }


async def _left_behind(loaded: Loaded, *, fails: bool) -> int:
    core = _Core(fails=fails)
    llm_class = prepare(loaded, _Nobody())
    loaded.module(ASYNC_LLM).EngineCoreClient = SimpleNamespace(  # type: ignore[attr-defined]
        make_async_mp_client=lambda **_options: core
    )
    llm = llm_class(
        vllm_config=make_config(engines=1, moe=False),
        executor_class=SimpleNamespace,
        log_stats=False,
        log_requests=False,
    )
    params = loaded.module(SAMPLING_PARAMS).SamplingParams(max_tokens=1, detokenize=False)
    request = loaded.module(ENGINE).EngineCoreRequest(
        request_id="r", prompt_token_ids=[1], mm_features=None, sampling_params=params,
        pooling_params=None, arrival_time=0.0, lora_request=None, cache_salt=None,
        data_parallel_rank=None,
    )  # fmt: skip

    async def read() -> None:
        async for _output in llm.generate(request, params, "r"):
            pass

    caller = asyncio.get_running_loop().create_task(read())
    if not fails:
        await core.waiting.wait()
        caller.cancel()
    try:
        await caller
    except asyncio.CancelledError:
        pass
    except Exception as error:
        if error.__cause__ is None or "hand-over failed" not in str(error.__cause__):
            raise
    left = len(llm.output_processor.request_states)
    llm.output_handler.cancel()
    return left


class _Nobody:
    """A pipe on which nobody listens."""

    def say(self, **values: Any) -> None:
        pass


PROBES: Mapping[str, Callable[[Loaded], Any]] = {
    "ties": ties,
    "starved": starved,
    "rollback": rollback,
}


def main() -> int:
    """Entry of the child process."""
    settings = json.load(sys.stdin)
    given.send_logs_to(lambda _level, _name, _text: None)
    try:
        loaded = Loaded(Path(settings["folder"]), settings["checksums"])
        proofs = [asdict(loaded.prove(loaded.get(*judged))) for judged in JUDGED]
        answer = PROBES[settings["probe"]](loaded)
    except Exception:  # noqa: BLE001 - the parent is told
        sys.stderr.write(traceback.format_exc())
        return 1
    json.dump({"proofs": proofs, "answer": answer}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
