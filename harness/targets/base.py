"""The seam between the driver of a scenario and whatever is under test.

A *world* owns the loop and the transport that the mock engines use; a *frontend* is what is
judged. ``sim`` and ``zmq`` share one frontend (the reference client) in two worlds;
``vllm-rs`` is another frontend in the ``zmq`` world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import msgspec

from harness.scenario.model import CallStep, GrpcStep, HttpStep, ScaleStep, Surface, UtilityStep
from harness.trace.events import Event, Snapshot
from mock_engines.cluster import JoinAddresses


class TargetError(Exception):
    """The target or the harness failed: the run cannot be judged (exit code 3)."""


class StartFailed(TargetError):  # noqa: N818 - a kind of the error above
    """The frontend never got ready, and the scenario is not about that.

    The first line of the text says how; starts of one frontend that fail alike have the same.
    """


class DisturbedFromOutside(TargetError):  # noqa: N818 - a kind of the error above
    """Somebody else killed or stopped a process of the run; what was seen may come of that."""

    def __init__(self, who: str, *, killed: bool, seen: object = None) -> None:
        """``who``: was killed, or stopped; ``seen``: what failed, as the target told it."""
        how = (
            "was killed (SIGKILL), and not by this run: by the system, for want of memory, or by "
            "somebody"
            if killed
            else "stands still (SIGSTOP), and this run did not stop it"
        )
        told = f"{who} {how}; so nothing that was seen counts, and it is to be played again"
        super().__init__(told if seen in (None, "") else f"{told}\n  what failed: {seen}")


class CallResult(msgspec.Struct, frozen=True):
    """How a generation ended: ``outcome`` finished or failed (a cancelled one raises).

    ``body``: the answer, decoded; the last event of a stream; ``None`` without a server.
    """

    outcome: str
    finish: str | None = None
    error: str | None = None
    message: str = ""
    kv_transfer_params: Mapping[str, Any] | None = None
    status: int | str | None = None
    text: str = ""
    body: Any = None


@dataclass(frozen=True, slots=True)
class UtilityResult:
    """How a utility call ended; ``value`` is the aggregated or per-engine result."""

    outcome: str
    value: Any = None
    error: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """How a change of the number of engines ended: ``finished`` or ``failed``."""

    outcome: str
    error: str | None = None
    message: str = ""


class Launcher(Protocol):
    """Who starts the engines of a run while it goes on, and cleans up behind them."""

    async def start(self, ranks: Sequence[int], size: int) -> None:
        """Start engines of a deployment of ``size``; return once they have joined."""

    async def stop(self, ranks: Sequence[int]) -> None:
        """Release engines that have ended."""


@dataclass(frozen=True, slots=True)
class RequestResult:
    """How an ``http`` or ``grpc`` step ended.

    Attributes:
        outcome: ``finished`` (there was an answer) or ``failed`` (the connection was lost).
        status: HTTP status or name of the gRPC code.
        body: decoded JSON or message; ``None`` if it is neither.
        text: the body as it came.
        error: what became of the connection, where there is no answer.
    """

    outcome: str
    status: int | str | None = None
    body: Any = None
    text: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a frontend's metrics show at one moment.

    Attributes:
        samples: name with labels → value.
        families: names of all families that it declares, with or without samples.
    """

    samples: Mapping[str, float]
    families: frozenset[str]


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What a process uses: resident bytes, open descriptors, threads."""

    rss_bytes: int
    descriptors: int
    threads: int


class Health(msgspec.Struct, frozen=True):
    """The frontend's health; ``error`` is a class name where it can be told."""

    healthy: bool
    error: str | None = None
    message: str = ""


class OnOutput(Protocol):
    """Called for each piece that the caller receives."""

    def __call__(self, tokens: tuple[int, ...], finish: str | None, text: str = "") -> None:
        """Take tokens, finish reason and text, as far as the surface shows them."""


WHEN_OFF: ContextVar[Callable[[], None] | None] = ContextVar("when_off", default=None)
"""Set in the context of a call by who wants to know when its request has left."""


def request_is_off() -> None:
    """Say that the request of the call that runs has left; see ``NoServer.tells_when_off``."""
    callback = WHEN_OFF.get()
    if callback is not None:
        callback()


_HTTP, _GRPC, _SIGNAL, _SCALE = "op.http", "op.grpc", "fault.signal", "op.scale"
_TWO = "topology.two-frontends"
_HASTE = "surface that hurries"


_INSTANTS = 12
_STRIDE = 7


def instant(number: int, spread_s: float) -> float:
    """Return when caller ``number`` of a crowd leaves, in seconds after its request.

    There are twelve instants, evenly over the spread; neighbours are far apart.
    """
    return spread_s * (number * _STRIDE % _INSTANTS) / _INSTANTS


class AbortLine(Protocol):
    """One connection for aborts, one after the other: no time is lost once one is due."""

    def send(self, request_ids: list[str]) -> None:
        """Ask for an abort by external ids. The request has left when this returns."""

    async def answered(self) -> None:
        """Wait for the answer."""

    def close(self) -> None:
        """Close the connection."""


class NoServer:
    """What a frontend without a server and a process of its own cannot do.

    Capabilities keep scenarios away from these methods; who gets here all the same is told.

    Attributes:
        tells_when_off: ``generate`` calls ``request_is_off`` once its request has left.
    """

    tells_when_off: ClassVar[bool] = False

    async def http(self, step: HttpStep) -> RequestResult:
        """Send any HTTP request."""
        raise _lacking(_HTTP, step.id)

    async def grpc(self, step: GrpcStep) -> RequestResult:
        """Make any gRPC call."""
        raise _lacking(_GRPC, step.id)

    async def scale(self, step: ScaleStep, launcher: Launcher) -> ScaleResult:
        """Change the number of engines."""
        del launcher
        raise _lacking(_SCALE, step.id)

    def hurries(self, surface: Surface) -> bool:
        """Whether ``hurry`` can be used for calls of this surface."""
        del surface
        return False

    async def hurry(self, calls: Sequence[CallStep], at_once: int, spread_s: float) -> None:
        """Send the requests of callers, and hang up each at its ``instant``; nothing else.

        ``at_once`` callers at a time, as fast as it can be done.
        """
        del at_once, spread_s
        raise _lacking(_HASTE, calls[0].id)

    async def abort_line(self) -> AbortLine | None:
        """A connection that asks for aborts at once; ``None`` where ``abort`` is as fast."""
        return None

    async def signal(self, name: str) -> None:
        """Send a signal to the frontend's process."""
        raise _lacking(_SIGNAL, name)

    async def process_use(self) -> ProcessUse | None:
        """What the frontend's process uses, or ``None`` where that cannot be seen."""
        return None

    async def metrics(self) -> Metrics | None:
        """All its metrics; ``None`` without any."""
        return None

    async def exit_code(self) -> int | None:
        """Wait for the end of a process that is ending; its exit code, ``None`` if it runs."""
        return None

    def further(self, number: int) -> Frontend:
        """The frontend with client index ``number`` on the same engines."""
        raise _lacking(_TWO, f"frontend {number}")


def _lacking(capability: str, what: str) -> TargetError:
    return TargetError(f"this target has no {capability}, which {what!r} asks for")


class Frontend(Protocol):
    """One running frontend. Every method may be cancelled; ``stop`` always works."""

    async def start(self) -> None:
        """Start, and return once it is ready to serve.

        Raises:
            client.errors.ClientError or a target's own start error: startup failed in a way
                that a scenario may expect (``connect_fails``).
            TargetError: it could not even be tried.
        """

    def external_id(self, step: CallStep) -> str:
        """The external request id that ADD will carry for this call."""

    async def generate(self, step: CallStep, on_output: OnOutput) -> CallResult:
        """Run one generation to its end. Cancelling the task = the caller leaves."""

    async def utility(self, step: UtilityStep) -> UtilityResult:
        """Run one utility call to its end."""

    async def scale(self, step: ScaleStep, launcher: Launcher) -> ScaleResult:
        """Change the number of engines, started and released by ``launcher``."""

    async def http(self, step: HttpStep) -> RequestResult:
        """Send any HTTP request. Cancelling the task closes its connection."""

    async def grpc(self, step: GrpcStep) -> RequestResult:
        """Make any gRPC call. Cancelling the task cancels it."""

    async def signal(self, name: str) -> None:
        """Send signal ``SIG<name>`` to the frontend's process."""

    async def process_use(self) -> ProcessUse | None:
        """What the frontend's process uses, or ``None`` where that cannot be seen."""

    async def metrics(self) -> Metrics | None:
        """All its metrics; ``None`` without any."""

    async def exit_code(self) -> int | None:
        """Wait for the end of a process that is ending; its exit code, ``None`` if it runs."""

    def further(self, number: int) -> Frontend:
        """The frontend with client index ``number`` on the same engines."""

    async def abort(self, request_ids: list[str]) -> None:
        """Abort by external request id."""

    async def health(self) -> Health | None:
        """Sample the health; ``None`` where it cannot be seen."""

    async def snapshot(self, label: str) -> Snapshot | None:
        """Registries, or ``None`` where they cannot be seen."""

    async def server_info(self) -> Mapping[str, Any]:
        """Sizes and versions of the deployment."""

    async def prepare(self) -> None:
        """Start what must be there before engines join; after it ``addresses`` is final."""

    @property
    def addresses(self) -> JoinAddresses:
        """Where the engines join."""

    async def fence(self, live_ranks: tuple[int, ...]) -> None:
        """Return once everything sent before, in both directions, has been acted on.

        ``live_ranks``: engines that can answer (joined and not dead).
        """

    async def shutdown(self, timeout_s: float) -> None:
        """Orderly shutdown, as a step of the scenario."""

    async def stop(self) -> None:
        """Release everything, whatever the state; never raises for a broken frontend."""


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What a report says of a target."""

    kind: str
    version: str
    capabilities: frozenset[str]
    title: str = ""
    notes: tuple[str, ...] = field(default=())


Emit = Callable[[Event], None]
