"""A frontend that somebody else started: reached and read, never ended.

One start of a frontend serves one run: its engines join once, at the beginning, and those of the
run are gone when it is over. So a run begins by looking that the frontend still waits; whoever
wants several scenarios, or several trials, starts it anew each time (a loop round the command that
starts it, and something that ends it, will do), and has ``FRESH_S`` for that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from client.aio import DeadlineExceeded, cancel_and_wait, with_deadline
from client.coordinator_process import ExternalCoordinator
from client.protocol.profiles import Profile
from client.protocol.transport import Transport, TransportError
from harness.reading import regular_descriptor
from harness.scenario.model import Topology
from harness.targets.base import Emit, ProcessUse, StartFailed, TargetError
from harness.targets.coordinator_handle import CoordinatorHandle
from harness.targets.external import make_coordinator
from harness.targets.vllm_rs.attach import Attachment
from harness.targets.vllm_rs.bounded import pause
from harness.targets.vllm_rs.http_api import HttpApi
from harness.targets.vllm_rs.log_events import LogEvents
from harness.targets.vllm_rs.log_patterns import Pattern, parse_line, patterns_of
from harness.targets.vllm_rs.model_folder import LORA_FOLDER
from mock_engines.cluster import JoinAddresses

FRESH_S = 10.0
"""How long a frontend that serves already may take to be replaced by one that waits."""
READY_S = 30.0
_SCHEME = "ipc://"
_POLL_S = 0.005
_LOOK_S = 0.3
"""A frontend that waits for engines refuses connections, or takes one and does not answer."""


class AttachedLife:
    """Implements ``Life``; ``log`` stays empty unless the address names a log file."""

    running = True
    ended: int | None = None

    def __init__(
        self,
        attachment: Attachment,
        *,
        topology: Topology,
        profile: Profile,
        emit: Emit,
        transport: Transport,
    ) -> None:
        """``transport``: for the external coordinator, which is ours here too."""
        self._at = attachment
        self._topology = topology
        self._profile = profile
        self._emit = emit
        self._transport = transport
        self.log = LogEvents(emit)
        self.coordinator: CoordinatorHandle | None = None
        self._tail: asyncio.Task[None] | None = None

    @property
    def model(self) -> str:
        """As given."""
        return self._at.model

    @property
    def lora_folder(self) -> Path:
        """In the model's folder, if it is one."""
        return Path(self._at.model) / LORA_FOLDER

    @property
    def http(self) -> str:
        """As given."""
        return self._at.http

    @property
    def grpc(self) -> str | None:
        """As given."""
        return self._at.grpc

    @property
    def addresses(self) -> JoinAddresses:
        """As given, with our coordinator's."""
        back: CoordinatorHandle | None = self.coordinator
        return JoinAddresses(
            handshake=self._at.handshake,
            input=self._at.input,
            output=self._at.output,
            coordinator_input=None if back is None else back.back_input_address,
            coordinator_output=None if back is None else back.back_output_address,
        )

    @property
    def killed(self) -> bool:
        """Never known: it is somebody else's process."""
        return False

    @property
    def stands_still(self) -> bool:
        """Not known either."""
        return False

    async def prepare(self) -> None:
        """See that the frontend waits for engines; start the coordinator and the log's reader.

        Raises:
            StartFailed: it serves already.
            TargetError: the log cannot be read.
        """
        http = HttpApi(self._at.http, self._at.model)
        try:
            await with_deadline(self._waiting(http), FRESH_S, name="attach: fresh")
        except DeadlineExceeded:
            msg = (
                f"the frontend at {self._at.http} serves already, so its engines have joined; a run "
                "needs one that still waits for them. Start it anew: one start serves one scenario "
                "and one trial"
            )
            raise StartFailed(msg) from None
        if self._at.log is not None:
            self._follow(self._at.log)
        if self._at.coordinator is not None:
            await self._coordinate(self._at.coordinator)

    async def _waiting(self, http: HttpApi) -> None:
        while True:
            try:
                answer = await with_deadline(http.probe("/health"), _LOOK_S, name="attach: look")
            except DeadlineExceeded:
                return
            if not answer.status:
                return
            await pause(_LOOK_S)

    async def _coordinate(self, address: str) -> None:
        made: ExternalCoordinator = make_coordinator(
            self._topology, self._profile, self._transport, self._emit
        )
        made.front_address = address
        try:
            await made.start()
        except TransportError as error:
            msg = f"cannot serve as external coordinator at {address}: {error}"
            raise TargetError(msg) from error
        self.coordinator = made

    async def start(self, http: HttpApi) -> None:
        """Wait until it serves, which it does once the engines of the run have joined."""
        try:
            await with_deadline(self._serving(http), READY_S, name="attach: start")
        except DeadlineExceeded:
            count = len(self._topology.rank_list)
            where = self._at.handshake or f"{self._at.input} and {self._at.output}"
            msg = (
                f"the frontend at {self._at.http} did not serve within {READY_S:g} s, though {count} "
                f"engines were to join at {where}. Does it run, wait there, and for {count} engines "
                f"from rank {self._topology.rank_list[0]} on?"
            )
            raise StartFailed(msg) from None

    async def _serving(self, http: HttpApi) -> None:
        while not (await http.probe("/health")).status:
            await pause(_POLL_S)

    async def shutdown(self, timeout_s: float) -> None:
        """Nobody may end it but its owner. Raises ``TargetError``."""
        del timeout_s
        raise _not_ours()

    async def signal(self, name: str) -> None:
        """Signals are its owner's. Raises ``TargetError``."""
        del name
        raise _not_ours()

    def use(self) -> ProcessUse | None:
        """Its process is not known."""
        return None

    async def exit_code(self) -> int | None:
        """Its process is not known."""
        return None

    async def stop(self) -> None:
        """Release what is ours; the frontend goes on."""
        try:
            if self._tail is not None:
                await cancel_and_wait([self._tail])
        finally:
            if self.coordinator is not None:
                await self.coordinator.stop()
                _remove_file_of(self.coordinator.front_address)

    # --- its log ----------------------------------------------------------------------------

    def _follow(self, path: str) -> None:
        """Read what is written to the log from now on."""
        try:
            descriptor = regular_descriptor(path)
        except OSError as error:
            msg = f"cannot read the log {path}: {error.strerror}"
            raise TargetError(msg) from error
        os.lseek(descriptor, 0, os.SEEK_END)
        loop = asyncio.get_running_loop()
        self._tail = loop.create_task(self._read(descriptor), name="attach: log")
        # Not the reader's to close: one that is cancelled before its first step closes nothing.
        self._tail.add_done_callback(lambda _: os.close(descriptor))

    async def _read(self, descriptor: int) -> None:
        patterns = patterns_of(self._profile.release)
        rest = b""
        while True:
            block = os.read(descriptor, 1 << 16)
            *lines, rest = (rest + block).split(b"\n")
            self._take(lines, patterns)
            if not block:
                await pause(_POLL_S)

    def _take(self, lines: Sequence[bytes], patterns: Sequence[Pattern]) -> None:
        for raw in lines:
            line = parse_line(raw.decode("utf-8", "replace"), patterns)
            self._emit(line)
            self.log.take(line)


def _remove_file_of(address: str) -> None:
    """Remove the socket file that our coordinator bound; it is in no folder of ours."""
    if address.startswith(_SCHEME):
        Path(address.removeprefix(_SCHEME)).unlink(missing_ok=True)


def _not_ours() -> TargetError:
    return TargetError("the attached frontend is not ours: only who started it may end it")
