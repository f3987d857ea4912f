"""The line protocol between the harness and an adapter, version 1: every line as a model.

One JSON object is one line (UTF-8, ended by a newline), each way. The harness writes *commands*
to the adapter's standard input, told apart by ``do``; the adapter writes lines told apart by
``say`` to its standard output, and whatever it likes to standard error. ``docs/adapter.md`` says
what each line means and when it may come; the JSON Schema is made from these classes.

Commands may gain keys within a version, so that adapters ignore those they do not know. What an
adapter writes is checked to the letter.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, create_model

from client.events import ClientEvent
from client.protocol.ids import FENCE_METHOD
from harness.targets.adapter.agreed import VERSIONS
from harness.trace.events import ClientReleased
from harness.trace.kinds import KIND_OF

Scheme = Literal["ipc", "tcp"]
Mode = Literal["handshake-owner", "bootstrapped"]
Coordinator = Literal["none", "in-process", "external"]
Outcome = Literal["finished", "failed", "cancelled"]


class Line(BaseModel):
    """Base of all lines and their parts."""

    model_config = ConfigDict(extra="forbid", frozen=True, val_json_bytes="hex")


class Endpoints(Line):
    """ZMQ addresses; ``null`` = there is no such socket.

    Attributes:
        handshake: ROUTER of the frontend, to which engines say HELLO.
        input: ROUTER of the frontend, from which engines receive.
        output: PULL of the frontend, to which engines send.
        coordinator_input: XPUB of a coordinator, from which engines receive.
        coordinator_output: PULL of a coordinator, to which engines send.
    """

    handshake: str | None = None
    input: str | None = None
    output: str | None = None
    coordinator_input: str | None = None
    coordinator_output: str | None = None


# --- harness to adapter -----------------------------------------------------------------------


class Command(Line):
    """Base of what the harness writes; all keys are there."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Hello(Command):
    """The first line: which versions of this protocol the harness speaks."""

    do: Literal["hello"] = "hello"
    versions: tuple[int, ...] = VERSIONS
    harness: str = Field(description="name and version of the harness, for logs")


class Start(Command):
    """Begin a run: be ready to connect, and say where engines join.

    ``engine_count``, ``engine_start_index`` and ``data_parallel_size`` are what the client is to be
    told, which in a scenario about wrong configurations is not what ``ranks`` says.
    """

    do: Literal["start"] = "start"
    id: int
    release: str = Field(description="vLLM release whose protocol is spoken")
    mutant: str | None = Field(description="known bug to carry; null = none")
    mode: Mode
    ranks: tuple[int, ...] = Field(description="global ranks of the engines, in index order")
    engine_count: int
    engine_start_index: int
    data_parallel_size: int
    coordinator: Coordinator
    coordinator_address: str | None = Field(
        description="front address of the external coordinator, which the harness runs"
    )
    ready_timeout_s: float = Field(description="limit of each receive of the startup, seconds")
    utility_timeout_s: float | None = Field(
        description="overall limit of each utility call, seconds; null = none"
    )
    endpoints: Endpoints = Field(description="addresses to use, made for this run")


class Connect(Command):
    """Connect to the engines; answered when the client is ready, or with how that failed."""

    do: Literal["connect"] = "connect"
    id: int


class Call(Command):
    """Begin a generation; ``output`` lines and one ``ended`` line follow."""

    do: Literal["call"] = "call"
    op: str = Field(description="names the operation; used once in a run")
    request_id: str = Field(description="the caller's request id")
    prompt: tuple[int, ...] = Field(description="token ids")
    max_tokens: int
    rank: int | None = Field(default=None, description="explicit data-parallel rank")
    rank_text: tuple[str, ...] | None = Field(
        default=None, description="raw values of the rank header or metadata key"
    )
    surface: str = Field(default="auto", description="API that carries it; auto = the native one")
    kv_transfer_params: dict[str, JsonValue] | None = None
    aux: tuple[str, ...] = Field(default=(), description="aux tensor frames, hex")
    unencodable: bool = Field(default=False, description="add a value that no codec can encode")
    stop: tuple[str, ...] = Field(default=(), description="stop strings")
    body: dict[str, JsonValue] = Field(default_factory=dict, description="further parameters")
    headers: dict[str, str] = Field(default_factory=dict)
    read: str | None = Field(default=None, description="gate before which no answer is read")


class Utility(Command):
    """Begin a utility call; one ``ended`` line follows."""

    do: Literal["utility"] = "utility"
    op: str
    method: str
    args: tuple[JsonValue, ...] = Field(default=(), description="values as in ``values.py``")
    via: Literal["method", "raw", "consensus"] = "method"
    result: Literal["bool", "none", "int", "str", "list", "any"] = "any"
    timeout_s: float | None = Field(default=None, description="overall limit, seconds")
    unencodable: bool = False


class Cancel(Command):
    """The caller of an operation leaves: cancel its task, close its connection."""

    do: Literal["cancel"] = "cancel"
    op: str


class Drop(Command):
    """The reader of an operation drops its stream."""

    do: Literal["drop"] = "drop"
    op: str


class Abort(Command):
    """Abort requests by the ids that their callers know."""

    do: Literal["abort"] = "abort"
    id: int
    request_ids: tuple[str, ...]


class TakeSnapshot(Command):
    """Count the registries."""

    do: Literal["snapshot"] = "snapshot"
    id: int


class AskHealth(Command):
    """Say how the frontend is."""

    do: Literal["health"] = "health"
    id: int


class AskServerInfo(Command):
    """Say the sizes of the deployment."""

    do: Literal["server_info"] = "server_info"
    id: int


class Link(Command):
    """Fault single sends of the client, or take faults away (``clear``)."""

    do: Literal["link"] = "link"
    id: int
    engine: int | Literal["all", "coordinator"] = "all"
    frames: Literal["any", "add", "abort", "utility"] = "any"
    hold: str | None = Field(default=None, description="gate; nothing leaves before it opens")
    hold_after: str | None = Field(default=None, description="gate; sent, but does not return")
    fail: str | None = Field(default=None, description="the send fails with this text")
    clear: bool = False


class Open(Command):
    """A gate was opened; ``*`` = every gate, those included that come later. No answer."""

    do: Literal["open"] = "open"
    gate: str


class Fence(Command):
    """Answer once all that was sent before, either way, was acted on. A new one replaces it."""

    do: Literal["fence"] = "fence"
    id: int
    ranks: tuple[int, ...] = Field(description="engines that can answer")
    method: str = Field(
        default=FENCE_METHOD, description="utility method that engines answer at once"
    )


class Ping(Command):
    """Answer at once: the harness has heard nothing for a while."""

    do: Literal["ping"] = "ping"
    id: int


class Shutdown(Command):
    """Shut the frontend down in order; ``timeout_s`` is the drain time."""

    do: Literal["shutdown"] = "shutdown"
    id: int
    timeout_s: float


class Stop(Command):
    """End the run: release client and sockets. Nothing may be written after the answer."""

    do: Literal["stop"] = "stop"
    id: int


COMMANDS: tuple[type[Command], ...] = (
    *(Hello, Start, Connect, Call, Utility, Cancel, Drop, Abort, TakeSnapshot, AskHealth),
    *(AskServerInfo, Link, Open, Fence, Ping, Shutdown, Stop),
)
"""Every command, in the order of ``docs/adapter.md``."""


# --- adapter to harness -----------------------------------------------------------------------


class Greeting(Line):
    """The adapter's first line, in answer to ``hello``."""

    say: Literal["hello"]
    version: int = Field(description="version of the protocol that both will speak")
    name: str = Field(min_length=1, max_length=80, description="of what is judged, for reports")
    adapter_version: str = Field(default="", max_length=80)
    capabilities: tuple[str, ...] = Field(description="what it can do and show")
    releases: tuple[str, ...] | None = Field(
        default=None, description="vLLM releases that it speaks; null = all that the harness knows"
    )
    program: Literal["vllm-rs", "vllm-py"] | None = Field(
        default=None,
        description="the code is vLLM's own: the faults known of its release are expected",
    )
    mutants: tuple[str, ...] = Field(default=(), description="known bugs that it can carry")
    reusable: bool = Field(default=False, description="one process can serve many runs in a row")
    schemes: tuple[Scheme, ...] = Field(
        default=("ipc", "tcp"), min_length=1, description="ZMQ transports, best first"
    )
    id_prefix: Literal["", "cmpl-", "chatcmpl-", "resp_", "msg_"] = Field(
        default="", description="what the API puts before a caller's request id"
    )


class Failure(Line):
    """An error of the client: the name of its class or kind, and its text."""

    name: str
    message: str = ""


class Reply(Line):
    """The answer to the command with this ``id``: ``result``, which may be absent, or ``error``.

    ``error`` is what the *client* answered; a fault of the adapter itself is a ``broken`` line.
    """

    say: Literal["reply"]
    id: int
    result: dict[str, JsonValue] | None = None
    error: Failure | None = None


class OutputLine(Line):
    """A caller received a piece: tokens, text, and the finish reason with the last one."""

    say: Literal["output"]
    op: str
    tokens: tuple[int, ...] = ()
    finish: str | None = None
    text: str = ""


class Ended(Line):
    """An operation ended for its caller."""

    say: Literal["ended"]
    op: str
    outcome: Outcome
    finish: str | None = Field(default=None, description="finish reason of a generation")
    error: str | None = Field(default=None, description="class or kind of a failure")
    message: str = ""
    kv_transfer_params: dict[str, JsonValue] | None = None
    value: JsonValue = Field(default=None, description="result of a utility call")
    status: int | str | None = Field(default=None, description="HTTP status or gRPC code")
    text: str = ""


class Waiting(Line):
    """A held send came to a gate (``change`` 1) or left it (-1)."""

    say: Literal["waiting"]
    gate: str
    change: Literal[-1, 1]


class BrokenLine(Line):
    """The adapter itself cannot go on: its fault, not the client's."""

    say: Literal["broken"]
    message: str


EVENT_CLASSES: dict[str, type[msgspec.Struct]] = {
    KIND_OF[cls][0]: cls for cls in (*get_args(ClientEvent), ClientReleased)
}
"""Kind → class of the events that an adapter may send."""


class EventLine(Line):
    """Something happened inside the client; there is a model for each kind."""

    say: Literal["event"]
    kind: str
    fields: Any


def _checked(cls: type[msgspec.Struct]) -> Any:
    """An event class as pydantic can check it: a dataclass of the same fields, made an event."""
    hints = get_type_hints(cls)
    fields: list[Any] = [
        (field.name, hints[field.name])
        if field.default is msgspec.NODEFAULT
        else (field.name, hints[field.name], dataclasses.field(default=field.default))
        for field in msgspec.structs.fields(cls)
    ]
    twin = dataclasses.make_dataclass(cls.__name__, fields, namespace={"__doc__": cls.__doc__})
    twin.__module__ = cls.__module__
    return Annotated[twin, AfterValidator(lambda checked: cls(**vars(checked)))]


def _event_line(kind: str, cls: type[msgspec.Struct]) -> type[EventLine]:
    """A model for one kind, so that its fields are checked, and stand in the schema."""
    fields: dict[str, Any] = {"kind": (Literal[kind], ...), "fields": (_checked(cls), ...)}
    text = f"Event ``{kind}``: {KIND_OF[cls][1]}."
    return create_model(f"{cls.__name__}Line", __base__=EventLine, __doc__=text, **fields)


EVENT_LINES: dict[str, type[EventLine]] = {
    kind: _event_line(kind, cls) for kind, cls in EVENT_CLASSES.items()
}
PLAIN_LINES: dict[str, type[Line]] = {
    "hello": Greeting,
    "reply": Reply,
    "output": OutputLine,
    "ended": Ended,
    "waiting": Waiting,
    "broken": BrokenLine,
}
"""``say`` → line, but for events."""


class StartResult(Line):
    """``result`` of ``start``: where engines join, or ``null`` for the addresses given."""

    addresses: Endpoints | None = None


class Nothing(Line):
    """``result`` of a command that has nothing to tell."""


class SnapshotResult(Line):
    """``result`` of ``snapshot``.

    Attributes:
        in_flight: internal request ids.
        pending_utility: call ids that wait for a reply.
        loads: pairs of a rank and its requests in flight.
        wave: current wave of the client's view; ``null`` without a coordinator.
        running: whether the client takes the engines to be running.
        departing: ids of requests that are over, but whose ABORT is still to be sent.
    """

    in_flight: tuple[str, ...]
    pending_utility: tuple[int, ...]
    loads: tuple[tuple[int, int], ...] = ()
    wave: int | None = None
    running: bool | None = None
    departing: tuple[str, ...] = ()


class HealthResult(Line):
    """``result`` of ``health``; ``error`` and ``message`` are those of the sticky error."""

    healthy: bool
    error: str | None = None
    message: str = ""


class ServerInfoResult(Line):
    """``result`` of ``server_info``: names and values as the frontend shows them."""

    info: dict[str, JsonValue]


RESULTS: dict[type[Command], type[Line]] = {
    Start: StartResult,
    TakeSnapshot: SnapshotResult,
    AskHealth: HealthResult,
    AskServerInfo: ServerInfoResult,
}
"""Model of ``Reply.result`` where it is more than ``Nothing``."""
