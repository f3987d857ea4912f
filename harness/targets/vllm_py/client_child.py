"""Child process: vLLM's AsyncLLM over its DP client, driven by lines.

The classes and the startup (addresses, coordinator process, handshake with the engines) are
vLLM's. Ours are: the engine manager, which starts no engine but tells the harness where engines
join; the renderer and the input processor, since prompts come as token ids; and this driver.

Commands: ``call``, ``utility``, ``leave``, ``abort``, ``look``, ``fence``, ``close``.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Coroutine
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from client.protocol.ids import FENCE_METHOD
from harness.targets.vllm_py import given
from harness.targets.vllm_py.configuration import MissingSettingError, make_config
from harness.targets.vllm_py.loader import Loaded
from harness.targets.vllm_py.members import ENGINE, SAMPLING_PARAMS
from harness.targets.vllm_py.pipe import Pipe
from harness.targets.vllm_py.stand_ins import prepare
from harness.targets.vllm_py.stubs import StubUsedError, tell_uses_to

_PR_SET_PDEATHSIG = 1
_FENCE_IDS = 1 << 61
"""Call ids of the harness begin here; vLLM's are made of the time."""


class Host:
    """Carries out commands, each in a task of its own, and tells how they end."""

    def __init__(self, loaded: Loaded, pipe: Pipe, llm: Any) -> None:
        self._loaded = loaded
        self._pipe = pipe
        self._llm = llm
        self._core = llm.engine_core
        self._fence_ids = count(_FENCE_IDS)
        self._own_ids: set[int] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        """Obey until ``close``, or until the parent is gone."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pipe.fd, self._read)
        self._llm.output_handler.add_done_callback(lambda _task: self._handler_ended())
        try:
            self._drain()
            await self._over
        finally:
            loop.remove_reader(self._pipe.fd)
            for task in self._tasks.values():
                task.cancel()

    def _handler_ended(self) -> None:
        """AsyncLLM's task that takes outputs has ended: it has failed, and knows it."""
        if not self._over.done():
            self._pipe.say(handler_ended=True, dead=bool(self._core.resources.engine_dead))

    def _read(self) -> None:
        try:
            self._pipe.fill()
        except SystemExit:
            os._exit(0)
        self._drain()

    def _drain(self) -> None:
        while self._pipe.waiting:
            self._obey(self._pipe.hear())

    def _obey(self, command: dict[str, Any]) -> None:
        match command["do"]:
            case "call":
                self._spawn(command, self._call(command))
            case "utility":
                self._spawn(command, self._utility(command))
            case "abort":
                self._spawn(command, self._llm.abort(command["ids"]))
            case "fence":
                self._spawn(command, self._fence(command["ranks"]))
            case "leave":
                task = self._tasks.get(command["op"])
                if task is not None:
                    task.cancel()
            case "look":
                self._pipe.say(op=command["op"], ended="finished", value=self._look())
            case "close":
                if not self._over.done():
                    self._over.set_result(None)

    def _spawn(self, command: dict[str, Any], work: Coroutine[Any, Any, Any]) -> None:
        name = command["op"]
        task = asyncio.get_running_loop().create_task(self._run(name, work), name=f"op {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda _task: self._tasks.pop(name, None))

    async def _run(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Tell the end of one operation: value, error or that its caller left."""
        try:
            value = await work
        except asyncio.CancelledError:
            self._pipe.say(op=name, ended="left")
            raise
        except Exception as error:  # noqa: BLE001 - whatever vLLM raises is an outcome
            if (gap := gap_in(error)) is not None:
                self._pipe.say(broken=gap)
            self._pipe.say(
                op=name, ended="failed", error=type(error).__name__, message=describe(error)
            )
        else:
            self._pipe.say(op=name, ended="finished", value=plain(value))

    async def _call(self, command: dict[str, Any]) -> Any:
        params = self._params(command)
        request = self._loaded.module(ENGINE).EngineCoreRequest(
            request_id=command["id"],
            prompt_token_ids=command["prompt"],
            mm_features=None,
            sampling_params=params,
            pooling_params=None,
            arrival_time=time.time(),  # noqa: TID251 - a real process
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=command["rank"],
        )
        finish, kv = None, None
        stream = self._llm.generate(request, params, command["id"])
        try:
            async for output in stream:
                completion = output.outputs[0]
                finish = completion.finish_reason
                kv = getattr(output, "kv_transfer_params", None) or kv
                self._pipe.say(op=command["op"], tokens=list(completion.token_ids), finish=finish)
        finally:
            await stream.aclose()
        return {"finish": finish, "kv": kv}

    def _params(self, command: dict[str, Any]) -> Any:
        module = self._loaded.module(SAMPLING_PARAMS)
        return module.SamplingParams(
            max_tokens=command["max_tokens"],
            output_kind=module.RequestOutputKind.DELTA,
            detokenize=False,
            extra_args=command["extra_args"],
        )

    async def _utility(self, command: dict[str, Any]) -> Any:
        method = getattr(self._core, command["method"])
        if command["plain"] is not None:
            return await method(command["plain"], *command["args"])
        return await method(*command["args"])

    async def _fence(self, ranks: list[int]) -> None:
        """A utility call of the harness's own, which leaves no waiter behind whatever happens."""
        core, kind = self._core, self._loaded.module(ENGINE).EngineCoreRequestType.UTILITY
        for rank in ranks:
            call_id = next(self._fence_ids)
            self._own_ids.add(call_id)
            reply = asyncio.get_running_loop().create_future()
            core.utility_results[call_id] = reply
            body = core.encoder.encode((core.client_index, call_id, FENCE_METHOD, ()))
            try:
                await core.input_socket.send_multipart(
                    (rank.to_bytes(2, "little"), kind.value, *body)
                )
                await reply
            finally:
                core.utility_results.pop(call_id, None)
                self._own_ids.discard(call_id)

    def _look(self) -> dict[str, Any]:
        core = self._core
        loads: dict[int, int] = {}
        for engine in getattr(core, "reqs_in_flight", {}).values():
            rank = int.from_bytes(engine, "little")
            loads[rank] = loads.get(rank, 0) + 1
        return {
            "in_flight": sorted(self._llm.output_processor.request_states),
            "pending_utility": len(core.utility_results.keys() - self._own_ids),
            "loads": sorted(loads.items()),
            "wave": getattr(core, "current_wave", None),
            "running": getattr(core, "engines_running", None),
            "dead": bool(core.resources.engine_dead),
            "errored": bool(self._llm.errored),
        }


def gap_in(error: BaseException | None) -> str | None:
    """Whether an error comes of something that the harness lacks; then it is no fault of vLLM's."""
    while error is not None:
        if isinstance(error, MissingSettingError | StubUsedError):
            return str(error)
        error = error.__cause__ or error.__context__
    return None


def describe(error: BaseException) -> str:
    """Text of an error and of what caused it."""
    text = str(error)
    if error.__cause__ is not None:
        text += f" (caused by {type(error.__cause__).__name__}: {error.__cause__})"
    return text


def plain(value: Any) -> Any:
    """Make a result fit for JSON."""
    if isinstance(value, set | frozenset | tuple):
        return sorted(value) if isinstance(value, set | frozenset) else list(value)
    return value


async def serve(settings: dict[str, Any], pipe: Pipe) -> None:
    """Load, start, serve."""
    given.send_logs_to(lambda level, name, text: pipe.say(log=level, name=name, text=text))
    tell_uses_to(lambda what: pipe.say(broken=what))
    loaded = Loaded(Path(settings["folder"]), settings["checksums"])
    llm_class = prepare(loaded, pipe)
    config = make_config(engines=settings["engines"], moe=settings["moe"])
    try:
        llm = llm_class(
            vllm_config=config, executor_class=SimpleNamespace, log_stats=False, log_requests=False
        )
    except Exception as error:
        if (gap := gap_in(error)) is not None:
            pipe.say(broken=gap)
        pipe.say(started=False, error=type(error).__name__, message=describe(error))
        raise
    pipe.say(started=True, client=type(llm.engine_core).__name__)
    try:
        await Host(loaded, pipe, llm).serve()
    finally:
        llm.shutdown()
    pipe.say(closed=True)


def _die_with_parent() -> None:
    """Have the kernel end a process that we forked when we end; Linux only."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> int:
    """Entry."""
    # vLLM's startup forks its coordinator from here, and it must not outlive us.
    os.register_at_fork(after_in_child=_die_with_parent)
    pipe = Pipe()
    settings = pipe.hear()
    os.environ["VLLM_RPC_BASE_PATH"] = settings["scratch"]
    os.environ["VLLM_ENGINE_READY_TIMEOUT_S"] = str(settings["ready_timeout_s"])
    try:
        asyncio.run(serve(settings, pipe))
    except Exception as error:  # noqa: BLE001 - the parent is told
        pipe.say(died=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
