"""The life of one frontend: begun by us, or by somebody else; what is seen of its process.

``ProcessLife`` starts the binary in either mode, watches its log and ends it.
``harness.targets.vllm_rs.attached`` has the life of a frontend that is not ours.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from typing import Protocol

from client.aio import DeadlineExceeded, with_deadline
from client.protocol.profiles import Profile
from client.protocol.transport import Transport
from harness.targets.base import Emit, ProcessUse, StartFailed, TargetError
from harness.targets.coordinator_handle import CoordinatorHandle
from harness.targets.external import make_coordinator
from harness.targets.vllm_rs.bootstrapped import BootstrapLaunch
from harness.targets.vllm_rs.bounded import pause
from harness.targets.vllm_rs.command import LogLevel, current_environment, process_environment
from harness.targets.vllm_rs.http_api import HttpApi
from harness.targets.vllm_rs.launch import Launch, LaunchSpec, ServeLaunch, not_prepared
from harness.targets.vllm_rs.log_events import LogEvents
from harness.targets.vllm_rs.model_folder import LORA_FOLDER
from harness.targets.vllm_rs.process import TERM_TIMEOUT_S, FrontendProcess
from harness.targets.vllm_rs.process_use import use_of
from harness.targets.vllm_rs.start_error import said, shown_command, start_error
from harness.targets.vllm_rs.starving import LAST, OneCpu
from mock_engines.cluster import JoinAddresses

_POLL_S = 0.005
_READY_TIMEOUT_S = 30.0
_READY_GRACE_S = 10.0
"""Beyond its own ready timeout the frontend must have given up."""
_END_TIMEOUT_S = 10.0
"""How long a process that was told to end may take before ``exit_code`` says that it runs."""
_FALL_TIMEOUT_S = 1.0
"""How long one that nobody told to end may take from its last answer to its end."""
_ENDING = frozenset({"TERM", "INT", "HUP", "KILL"})


class Life(Protocol):
    """How a frontend comes to be, is reached, and ends."""

    coordinator: CoordinatorHandle | None
    log: LogEvents

    @property
    def model(self) -> str:
        """Name of the model in requests."""

    @property
    def lora_folder(self) -> Path:
        """Folder that adapters may be loaded from."""

    @property
    def http(self) -> str:
        """Address of its HTTP server."""

    @property
    def grpc(self) -> str | None:
        """Address of its gRPC server, if it has one."""

    @property
    def addresses(self) -> JoinAddresses:
        """Where engines join; final after ``prepare``."""

    @property
    def running(self) -> bool:
        """Whether it was started and is not known to have ended."""

    @property
    def ended(self) -> int | None:
        """Its exit code; ``None`` while it runs, or if that cannot be seen."""

    @property
    def killed(self) -> bool:
        """Whether somebody else killed it, as far as that can be told."""

    @property
    def stands_still(self) -> bool:
        """Whether somebody else stopped it, as far as that can be told."""

    async def prepare(self) -> None:
        """Do what must be done before engines join."""

    async def start(self, http: HttpApi) -> None:
        """Return once it serves. Raises as ``Frontend.start`` does."""

    async def shutdown(self, timeout_s: float) -> None:
        """Let it end in order."""

    async def signal(self, name: str) -> None:
        """Send ``SIG<name>``."""

    def use(self) -> ProcessUse | None:
        """What its process uses now, ``None`` where that cannot be seen."""

    async def exit_code(self) -> int | None:
        """Its exit code, once it has ended; ``None`` if nothing lets it end."""

    async def stop(self) -> None:
        """Release everything."""


class ProcessLife:
    """A process of our own.

    Args:
        spec: what is started.
        profile: of the release, for the external coordinator.
        emit: receives log lines, what they mean, and the exit.
        transport: for what is ours besides the engines; needed by a bootstrapped frontend.
        environment: added to that of the process.
        log_level: ``all`` for the in-process coordinator's lines too, ``info`` for runs with very
            many requests.
    """

    def __init__(
        self,
        spec: LaunchSpec,
        *,
        profile: Profile,
        emit: Emit,
        transport: Transport | None = None,
        environment: Mapping[str, str] | None = None,
        log_level: LogLevel = "debug",
    ) -> None:
        self._spec = spec
        self._profile = profile
        self._emit = emit
        self._transport = transport
        self._environment = dict(environment or {})
        self._log_level = log_level
        self.log = LogEvents(emit)
        self.coordinator: CoordinatorHandle | None = None
        self._launch: Launch | None = None
        self._process = FrontendProcess(emit, self.log.take, spec.release)
        self._told_to_end = False
        self._one_cpu = OneCpu()

    # --- how it is reached ------------------------------------------------------------------

    @property
    def _launched(self) -> Launch:
        if self._launch is None:
            raise not_prepared()
        return self._launch

    @property
    def model(self) -> str:
        """The model's folder is its name."""
        return str(self._launched.model)

    @property
    def lora_folder(self) -> Path:
        """In the model's folder."""
        return self._launched.model / LORA_FOLDER

    @property
    def http(self) -> str:
        """As launched."""
        return self._launched.http

    @property
    def grpc(self) -> str | None:
        """As launched."""
        return self._launched.grpc

    @property
    def addresses(self) -> JoinAddresses:
        """As launched."""
        return self._launched.addresses

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process.running

    @property
    def ended(self) -> int | None:
        """Exit code, negative for a signal."""
        return self._process.exit_code

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it, and we sent none."""
        return self._process.killed_from_outside

    @property
    def stands_still(self) -> bool:
        """Whether somebody else stopped it."""
        return self._process.stands_still

    # --- begin and end ----------------------------------------------------------------------

    async def prepare(self) -> None:
        """Make what must be there first: the coordinator, sockets or ports, the model folder."""
        topology = self._spec.topology
        if topology.transport == "handshake-owner":
            self._launch = ServeLaunch(self._spec)
            return
        if self._transport is None:
            msg = "a bootstrapped frontend needs a transport"
            raise TargetError(msg)
        front, engine_side = None, None
        if topology.coordinator == "external":
            self.coordinator = make_coordinator(
                topology, self._profile, self._transport, self._emit
            )
            await self.coordinator.start()
            front = self.coordinator.front_address
            engine_side = (
                self.coordinator.back_input_address,
                self.coordinator.back_output_address,
            )
        self._launch = BootstrapLaunch(
            self._spec, self._transport, coordinator=front, engine_side=engine_side
        )

    async def start(self, http: HttpApi) -> None:
        """Start the process and wait until it serves; engines must join meanwhile.

        Raises:
            FrontendStartError: it ended before that, by something that it said itself.
            StartFailed: it cannot be executed, ended without a word, or neither served nor ended.
        """
        launch = self._launched
        environment = process_environment(launch.model, current_environment(), self._log_level)
        starved = self._spec.topology.starved
        if starved:
            self._one_cpu.begin()
        await self._process.start(
            launch.command,
            {**environment, **self._environment},
            launch.inherited,
            nice=LAST if starved else 0,
        )
        launch.started()
        given = self._spec.topology.config.ready_timeout_s
        limit = (given or _READY_TIMEOUT_S) + _READY_GRACE_S
        try:
            await with_deadline(self._serving(http), limit, name="frontend: start")
        except DeadlineExceeded:
            msg = (
                f"the frontend neither served nor ended within {limit:g} s"
                f"{said(self._process.tail)}\ncommand: {shown_command(launch.command)}"
            )
            raise StartFailed(msg) from None

    async def _serving(self, http: HttpApi) -> None:
        while True:
            if (code := self._process.exit_code) is not None:
                self._raise_start_error(code)
            if (await http.probe("/health")).status:
                return
            await pause(_POLL_S)

    def _raise_start_error(self, code: int) -> None:
        process = self._process
        error = start_error(code, process.tail, self._launched.command, process.lines)
        if "in use" in str(error):
            msg = f"another program took a port that was just free: {error}"
            raise StartFailed(msg) from error
        raise error

    async def shutdown(self, timeout_s: float) -> None:
        """SIGTERM, and wait for the end. The drain time was given at the start."""
        limit = max(timeout_s, self._spec.shutdown_timeout_s) + TERM_TIMEOUT_S
        self._told_to_end = True
        code = await self._process.terminate(limit)
        if code is None or code == -SIGKILL:
            msg = f"the frontend did not end within {limit:g} s of SIGTERM"
            raise TargetError(msg)
        if code < 0:
            msg = (
                f"SIGTERM killed {self._spec.binary.name} instead of shutting it down; a script "
                "that starts the frontend must do so with `exec`"
            )
            raise TargetError(msg)

    async def stop(self) -> None:
        """End process and coordinator, release sockets and ports, whatever the state."""
        try:
            await self._process.terminate()
        finally:
            # Cancelled in mid-wait, the process must not stay.
            self._process.kill()
            self._one_cpu.end()
            if self._launch is not None:
                self._launch.release()
            if self.coordinator is not None:
                await self.coordinator.stop()

    # --- from outside -----------------------------------------------------------------------

    async def signal(self, name: str) -> None:
        """Send a signal to the whole group of the process.

        Raises:
            TargetError: it was not started.
        """
        if self._process.pid is None:
            raise not_prepared()
        self._told_to_end = self._told_to_end or name in _ENDING
        self._process.signal(getattr(signal, f"SIG{name}"))

    def use(self) -> ProcessUse | None:
        """Resident memory, descriptors and threads of the process and what it started."""
        pid = self._process.pid
        return use_of(pid) if pid is not None and self._process.running else None

    async def exit_code(self) -> int | None:
        """Wait for a process that was told to end, or is ending by itself."""
        if self._process.pid is None:
            return None
        if self._process.running:
            limit = _END_TIMEOUT_S if self._told_to_end else _FALL_TIMEOUT_S
            with suppress(DeadlineExceeded):
                return await with_deadline(self._process.exited(), limit, name="frontend: end")
        return self._process.exit_code
