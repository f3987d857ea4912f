"""One run of vLLM's AsyncLLM and DP client, behind ``harness.targets.base.Frontend``."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from client.aio import DeadlineExceeded, resolve, with_deadline
from client.events import HealthFailed
from client.transports.folders import held_folder
from harness.scenario.model import CallStep, Topology, UtilityStep
from harness.targets.base import (
    CallResult,
    Emit,
    Health,
    NoServer,
    OnOutput,
    TargetError,
    UtilityResult,
)
from harness.targets.vllm_py.child import LineChild
from harness.targets.vllm_py.client_api import call_of, error_message, error_name, methods_of
from harness.targets.vllm_py.log_patterns import log_line
from harness.targets.vllm_py.sources import SourceTree
from harness.trace.events import Snapshot
from mock_engines.cluster import JoinAddresses

READY_TIMEOUT_S = 30
_GRACE_S = 10.0
_FENCE_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 5.0
_HANDLER_ENDED = "AsyncLLM's output handler has ended"
_PARTIAL_FENCE_S = 0.5
"""With an engine gone, the round trip cannot end; the others have answered long before."""


class ClientStartError(Exception):
    """vLLM's client ended before it was ready, which a scenario may expect."""


class PythonFrontend(NoServer):
    """A child process with AsyncLLM; its coordinator, if any, is a process of its own."""

    def __init__(self, *, tree: SourceTree, topology: Topology, emit: Emit) -> None:
        """Set up, without touching the system."""
        self._tree = tree
        self._topology = topology
        self._emit = emit
        self._child = LineChild("harness.targets.vllm_py.client_child", self._on_line, self._wake)
        self._scratch: Path | None = None
        self._hold = -1
        self._handshake: str | None = None
        self._started: dict[str, Any] | None = None
        self._proven: set[str] = set()
        self._died: str | None = None
        self._broken: str | None = None
        self._closed = False
        self._failed: str | None = None
        self._numbers = count()
        self._ended: dict[str, dict[str, Any]] = {}
        self._listeners: dict[str, OnOutput] = {}
        self._watchers: list[asyncio.Future[None]] = []

    # --- life ---------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Start the process; its handshake address is known afterwards."""
        self._scratch, self._hold = held_folder()
        given = self._topology.config.ready_timeout_s
        settings = {
            "folder": str(self._tree.folder),
            "checksums": self._tree.checksums,
            "engines": len(self._topology.rank_list),
            "moe": self._topology.coordinator != "none",
            "scratch": str(self._scratch),
            "ready_timeout_s": max(1, round(given or READY_TIMEOUT_S)),
        }
        await self._child.start(settings)
        await self._until(lambda: self._handshake is not None, READY_TIMEOUT_S, "prepare")

    @property
    def addresses(self) -> JoinAddresses:
        """Where the engines say HELLO; vLLM's startup tells them the rest."""
        return JoinAddresses(handshake=self._handshake)

    async def start(self) -> None:
        """Wait until AsyncLLM is constructed: all engines have joined."""
        limit = (self._topology.config.ready_timeout_s or READY_TIMEOUT_S) + _GRACE_S
        await self._until(lambda: self._started is not None, limit, "start")
        assert self._started is not None
        if not self._started["started"]:
            error = self._started["error"]
            kind = type(error, (ClientStartError,), {"__doc__": f"Startup failed: {error}."})
            raise kind(self._started["message"])

    async def shutdown(self, timeout_s: float) -> None:
        """Close AsyncLLM, as the server does when it ends."""
        del timeout_s
        self._child.say(do="close")
        await self._until(lambda: self._closed, _CLOSE_TIMEOUT_S, "shutdown")

    async def stop(self) -> None:
        """End the process and what it started, and remove its socket files."""
        try:
            await self._child.stop()
        finally:
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)
                os.close(self._hold)
                self._scratch = None

    # --- what the child tells -----------------------------------------------------------

    def _on_line(self, line: dict[str, Any]) -> None:
        if "tokens" in line:
            listener = self._listeners.get(line["op"])
            if listener is not None:
                _pass_on(line["tokens"], line["finish"], listener)
        elif "ended" in line:
            self._ended[line["op"]] = line
        elif "log" in line:
            self._emit(log_line(line["log"], line["text"]))
        elif "handshake" in line:
            self._handshake = line["handshake"]
        elif "started" in line:
            self._started = line
        elif "proof" in line:
            self._check_proof(line)
        elif "closed" in line:
            self._closed = True
        elif "handler_ended" in line:
            self._failed = "EngineCoreDead" if line["dead"] else "unknown"
            self._emit(HealthFailed(self._failed, _HANDLER_ENDED, True))
        elif "died" in line:
            self._died = line["died"]
        elif "broken" in line:
            self._broken = line["broken"]
        self._wake()

    def _check_proof(self, line: dict[str, Any]) -> None:
        """The child's word is compared with what we know of the sources."""
        if (fault := self._tree.fault_of(Path(line["file"]), line["sha256"])) is not None:
            self._died = f"{line['proof']} is not vLLM's: {fault}"
            self._child.kill()
        self._proven.add(line["proof"])

    def _wake(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            resolve(watcher)

    async def _until(self, holds: Any, limit_s: float, what: str) -> None:
        try:
            await with_deadline(self._wait(holds, what), limit_s, name=f"vllm-py: {what}")
        except DeadlineExceeded:
            msg = f"vLLM's client did not come to the end of {what} within {limit_s:g} s"
            raise TargetError(msg) from None

    async def _wait(self, holds: Any, what: str) -> None:
        while not holds() or self._broken is not None:
            if self._broken is not None:
                msg = f"the harness cannot run vLLM's client during {what}: {self._broken}"
                raise TargetError(msg)
            if not self._child.running:
                msg = f"vLLM's client ended during {what}: {self._died}\n{self._child.tail}"
                raise TargetError(msg.rstrip())
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(changed)
            await changed

    # --- operations ---------------------------------------------------------------------

    async def _ask(self, do: str, **values: Any) -> dict[str, Any]:
        """Have one operation carried out. Cancelling the task makes its caller leave."""
        op = f"{do}-{next(self._numbers)}"
        on_output = values.pop("on_output", None)
        if on_output is not None:
            self._listeners[op] = on_output
        self._child.say(do=do, op=op, **values)
        try:
            await self._wait(lambda: op in self._ended, do)
        except asyncio.CancelledError:
            self._child.say(do="leave", op=op)
            raise
        finally:
            self._listeners.pop(op, None)
        return self._ended.pop(op)

    def external_id(self, step: CallStep) -> str:
        """AsyncLLM adds no prefix."""
        return step.request_id or step.id

    async def generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        """Read one stream of AsyncLLM to its end."""
        extra = None
        if step.kv_transfer_params is not None:
            extra = {"kv_transfer_params": step.kv_transfer_params}
        end = await self._ask(
            "call",
            id=self.external_id(step),
            prompt=list(step.prompt),
            rank=step.rank,
            max_tokens=step.max_tokens,
            extra_args=extra,
            on_output=on_output,
        )
        if end["ended"] != "finished":
            return CallResult("failed", error=_error(end), message=end.get("message", ""))
        value = end["value"]
        return CallResult("finished", finish=value["finish"], kv_transfer_params=value["kv"])

    async def utility(self, step: UtilityStep) -> UtilityResult:
        """Run one utility call of the DP client."""
        try:
            call = call_of(step, methods_of(self._tree.folder))
        except LookupError as error:
            raise TargetError(str(error)) from error
        end = await self._ask("utility", **call)
        if end["ended"] != "finished":
            message = error_message(end.get("error", ""), end.get("message", ""))
            return UtilityResult("failed", error=_error(end), message=message)
        return UtilityResult("finished", value=end["value"])

    async def abort(self, request_ids: list[str]) -> None:
        """Abort by external id."""
        await self._ask("abort", ids=request_ids)

    async def _look(self) -> dict[str, Any]:
        return dict((await self._ask("look"))["value"])

    async def health(self) -> Health:
        """What AsyncLLM says of itself."""
        seen = await self._look()
        if self._failed is not None:
            return Health(not (seen["dead"] or seen["errored"]), self._failed, _HANDLER_ENDED)
        return Health(not (seen["dead"] or seen["errored"]))

    async def snapshot(self, label: str) -> Snapshot | None:
        """Registries of AsyncLLM and its DP client."""
        seen = await self._look()
        return Snapshot(
            label=label,
            in_flight=tuple(seen["in_flight"]),
            pending_utility=tuple(range(seen["pending_utility"])),
            loads=tuple((rank, load) for rank, load in seen["loads"]),
            wave=seen["wave"],
            running=seen["running"],
        )

    async def server_info(self) -> Mapping[str, Any]:
        """Not shown by this part."""
        msg = "this part shows no sizes"
        raise TargetError(msg)

    async def fence(self, live_ranks: tuple[int, ...]) -> None:
        """Round trip to every live engine, behind everything that was sent before."""
        whole = len(live_ranks) == len(self._topology.rank_list)
        limit = _FENCE_TIMEOUT_S if whole else _PARTIAL_FENCE_S
        op = f"fence-{next(self._numbers)}"
        self._child.say(do="fence", op=op, ranks=list(live_ranks))

        def over() -> bool:
            # A client that failed, before or meanwhile, receives nothing any more.
            return op in self._ended or self._failed is not None

        try:
            await with_deadline(self._wait(over, "fence"), limit, name="vllm-py: fence")
        except DeadlineExceeded:
            if whole:
                msg = f"an engine did not answer vLLM's client within {limit:g} s"
                raise TargetError(msg) from None
            return
        finally:
            self._child.say(do="leave", op=op)
        end = self._ended.pop(op, None)
        if end is not None and end["ended"] == "failed" and self._failed is None:
            msg = f"the round trip to the engines failed: {end['error']}: {end['message']}"
            raise TargetError(msg)


def _error(end: dict[str, Any]) -> str:
    return error_name(end.get("error", "CancelledError"), end.get("message", ""))


def _pass_on(tokens: list[int], finish: str | None, listener: OnOutput) -> None:
    """Hand tokens over one by one: AsyncLLM joins outputs that its caller did not fetch in time."""
    for token in tokens[:-1]:
        listener((token,), None)
    listener(tuple(tokens[-1:]), finish)
