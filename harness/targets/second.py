"""Two frontends on one set of engines: the one under test, and our client with client index 1.

The second is the reference client on every target, without any mutant. What tells the two apart
in a trace: the client index of ADD, UTILITY and ABORT; the internal request ids of the second,
which have a suffix of their own; and its utility call ids, which begin far above the other's.

Of the second's inside only what concerns both is in the trace: its utility calls, and what it
and the external coordinator tell each other. Registries and health are those of the first.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from client.aio import cancel_and_wait
from client.components import Components, Waiter
from client.config import Bootstrapped, ClientConfig
from client.events import (
    ClientEvent,
    CoordinatorStateApplied,
    FirstRequestQueued,
    Observer,
    UtilityRegistered,
    UtilityReleased,
    UtilityReplyDropped,
    UtilitySettled,
)
from client.protocol.ids import RequestId
from client.protocol.messages import EngineCoreRequest
from client.utility import UtilityRegistry
from harness.broken import Broken
from harness.faults import FaultTransport
from harness.play import FenceFilter, Setting
from harness.scenario.model import CallStep, GrpcStep, HttpStep, UtilityStep
from harness.targets.base import (
    CallResult,
    Frontend,
    Health,
    Metrics,
    NoServer,
    OnOutput,
    ProcessUse,
    RequestResult,
    TargetError,
    UtilityResult,
)
from harness.targets.client_frontend import ClientFrontend
from harness.targets.coordinator_handle import CoordinatorHandle
from harness.trace.events import Snapshot
from mock_engines.cluster import JoinAddresses

CLIENT_INDEX = 1
ID_SUFFIX = "-00000001"
"""Makes an internal id of an external one; eight hexadecimal digits, as a real frontend does."""
FIRST_CALL_ID = 1 << 40
_SHOWN = (
    *(UtilityRegistered, UtilitySettled, UtilityReleased, UtilityReplyDropped),
    *(FirstRequestQueued, CoordinatorStateApplied),
)


class LaterCallIds(UtilityRegistry[Waiter]):
    """Call ids that the first frontend never reaches."""

    def __init__(self) -> None:
        super().__init__(FIRST_CALL_ID)


class SecondClient(ClientFrontend):
    """The reference client with client index 1. Its coordinator is the first frontend's."""

    def __init__(self, setting: Setting) -> None:
        """Set up on the transport of the run's world."""
        super().__init__(
            topology=setting.topology,
            profile=setting.profile,
            transport=setting.world.transport,
            components=Components(utilities=LaterCallIds),
            observer=_shown(FenceFilter(setting.emit)),
            emit=setting.emit,
            wait_gate=setting.gates.wait,
        )
        self._front_address: str | None = None

    async def prepare(self) -> None:
        """Nothing: the coordinator is there already."""

    def beside(self, first: Frontend) -> None:
        """Use the coordinator of the first frontend, which is prepared."""
        coordinator: CoordinatorHandle | None = getattr(first, "coordinator", None)
        self._front_address = None if coordinator is None else coordinator.front_address

    def _config(self) -> ClientConfig:
        config = super()._config()
        assert isinstance(config.mode, Bootstrapped)
        mode = dataclasses.replace(config.mode, coordinator_address=self._front_address)
        return dataclasses.replace(config, client_index=CLIENT_INDEX, mode=mode)

    def _request(self, step: CallStep) -> EngineCoreRequest:
        request = super()._request(step)
        return msgspec.structs.replace(request, request_id=_internal(request.request_id))

    async def abort(self, request_ids: list[str]) -> None:
        """Abort by external id."""
        await self.client.abort([_internal(name) for name in request_ids])


def _internal(external_id: str) -> RequestId:
    return RequestId(external_id + ID_SUFFIX)


def _shown(observer: Observer) -> Observer:
    def pass_on(event: ClientEvent) -> None:
        if isinstance(event, _SHOWN):
            observer(event)

    return pass_on


class TwoFrontends(NoServer):
    """The frontend under test, and the second beside it. All but their life is the first's."""

    def __init__(self, first: Frontend, second: SecondClient) -> None:
        """``first``: not prepared yet."""
        self._first = first
        self._second = second

    def further(self, number: int) -> Frontend:
        """Return the frontend with this client index."""
        return self._second if number == CLIENT_INDEX else self._first

    # --- life of both -------------------------------------------------------------------

    @property
    def killed(self) -> bool:
        """Whether somebody else killed the process of the first; the second has none."""
        return bool(getattr(self._first, "killed", False))

    @property
    def stands_still(self) -> bool:
        """Whether somebody else stopped the process of the first."""
        return bool(getattr(self._first, "stands_still", False))

    async def prepare(self) -> None:
        """Prepare the first; the second uses its coordinator."""
        await self._first.prepare()
        self._second.beside(self._first)

    @property
    def addresses(self) -> JoinAddresses:
        """Where engines join: both."""
        second = self._second.addresses
        if second.input is None or second.output is None:
            msg = "the second frontend has no addresses"
            raise TargetError(msg)
        pair = (second.input, second.output)
        return dataclasses.replace(self._first.addresses, further=(pair,))

    async def start(self) -> None:
        """Start both; the first one's failure is the run's."""
        second = asyncio.get_running_loop().create_task(self._second.start(), name="second")
        try:
            await self._first.start()
        except BaseException:
            await cancel_and_wait([second])
            raise
        await second

    async def fence(self, live_ranks: tuple[int, ...]) -> None:
        """Fence both."""
        await self._first.fence(live_ranks)
        await self._second.fence(live_ranks)

    async def shutdown(self, timeout_s: float) -> None:
        """Shut the first one down."""
        await self._first.shutdown(timeout_s)

    async def stop(self) -> None:
        """Release both. The coordinator ends with the first."""
        try:
            await self._second.stop()
        finally:
            await self._first.stop()

    # --- the first ----------------------------------------------------------------------

    @property
    def coordinator(self) -> CoordinatorHandle | None:
        """The external coordinator of both."""
        return getattr(self._first, "coordinator", None)

    @property
    def broken(self) -> Broken | None:
        """Whether the way to the first one broke, if it can."""
        return getattr(self._first, "broken", None)

    @property
    def catch_up(self) -> Callable[[], None] | None:
        """Take over what the first one said until now, if it is a process of its own."""
        return getattr(self._first, "catch_up", None)

    @property
    def faults(self) -> FaultTransport | None:
        """Sends of the first one that can be faulted."""
        return getattr(self._first, "faults", None)

    def external_id(self, step: CallStep) -> str:
        """As the first one."""
        return self._first.external_id(step)

    async def generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        """As the first one."""
        return await self._first.generate(step, on_output)

    async def utility(self, step: UtilityStep) -> UtilityResult:
        """As the first one."""
        return await self._first.utility(step)

    async def http(self, step: HttpStep) -> RequestResult:
        """As the first one."""
        return await self._first.http(step)

    async def grpc(self, step: GrpcStep) -> RequestResult:
        """As the first one."""
        return await self._first.grpc(step)

    async def signal(self, name: str) -> None:
        """As the first one."""
        await self._first.signal(name)

    async def process_use(self) -> ProcessUse | None:
        """As the first one."""
        return await self._first.process_use()

    async def metrics(self) -> Metrics | None:
        """As the first one."""
        return await self._first.metrics()

    async def exit_code(self) -> int | None:
        """As the first one."""
        return await self._first.exit_code()

    async def abort(self, request_ids: list[str]) -> None:
        """As the first one."""
        await self._first.abort(request_ids)

    async def health(self) -> Health | None:
        """As the first one."""
        return await self._first.health()

    async def snapshot(self, label: str) -> Snapshot | None:
        """As the first one."""
        return await self._first.snapshot(label)

    async def server_info(self) -> Mapping[str, Any]:
        """As the first one."""
        return await self._first.server_info()


def with_second(setting: Setting, first: Frontend) -> Frontend:
    """Put the second frontend beside the first where the topology has one."""
    return first if setting.topology.frontends == 1 else TwoFrontends(first, SecondClient(setting))
