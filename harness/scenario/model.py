"""The data model of a scenario file; ``scenarios/schema.json`` is generated from it.

A scenario is data: topology, behaviours, steps, expectations. It knows no target. Steps wait
for observable events or open named gates; there are no sleeps.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from mock_engines.behaviours.model import (
    Action,
    EngineSpec,
    FinishName,
    Pace,
    Strict,
    as_list,
)

REPEAT_MAX = 50_000_000
"""How often the text of an HTTP request may be repeated."""
CONNECTIONS_MAX = 10_000
LOAD_CLIENTS_MAX = 1_000
LOAD_REQUESTS_MAX = 100_000
U32_MAX = 2**32 - 1
"""Most that a number of tokens on the wire can be."""
EXIT_CODE_MAX = 255
SIGNAL_MAX = 64
SHUTDOWN_S_MAX = 3_600
Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Id of an operation, a gate or a sample: one line of text."""
Surface = Literal[
    "auto",
    "http",
    "http-stream",
    "grpc",
    "grpc-stream",
    "chat",
    "chat-stream",
    "chat-batch",
    "responses",
    "responses-stream",
    "messages",
    "messages-stream",
    "generate",
    "generate-stream",
]
"""Which API carries a generation; ``docs/scenarios.md`` has the table of routes."""


class ClientConfigSpec(Strict):
    """Client settings that differ from what the topology implies (configuration errors …)."""

    engine_count: int | None = Field(default=None, ge=0)
    engine_start_index: int | None = Field(default=None, ge=0)
    data_parallel_size: int | None = Field(default=None, ge=0)
    ready_timeout_s: float | None = Field(default=None, gt=0)
    utility_timeout_s: float | None = Field(default=None, gt=0)


class Topology(Strict):
    """Who takes part.

    ``ranks`` defaults to ``start_rank … start_rank + engines - 1``. ``waves: auto`` lets the
    engines complete a wave when all are idle and start it as their release does; ``script``
    leaves every notice to actions; with ``lockstep`` each engine runs the loop of its release,
    steps with its peers and may wait for them for ever (``lockstep`` says how fast). A frontend has an in-process coordinator only when the
    model is MoE, so ``coordinator: in-process`` implies that. ``frontends: 2`` adds a second
    frontend on the same engines: the reference client with client index 1 (``bootstrapped``
    only). ``frontend_args`` and ``frontend_env`` are given to the process of a real frontend;
    with ``starved`` that process gets one CPU, which it shares with the engines and the callers,
    and the lowest priority there. ``later``: so many more engines, ranks behind the others, which
    ``scale`` steps start.
    """

    engines: int = Field(default=2, ge=1, le=64)
    start_rank: int = Field(default=0, ge=0)
    ranks: list[int] | None = None
    later: int = Field(default=0, ge=0, le=63, description="engines that `scale` steps start")
    data_parallel_size: int | None = Field(default=None, ge=0)
    coordinator: Literal["none", "in-process", "external"] = "none"
    transport: Literal["handshake-owner", "bootstrapped"] = "handshake-owner"
    waves: Literal["auto", "script", "lockstep"] = "auto"
    lockstep: Pace = Pace()
    engine_release: str | None = Field(
        default=None, description="release of the engines, where it is not the frontend's"
    )
    config: ClientConfigSpec = ClientConfigSpec()
    frontends: int = Field(default=1, ge=1, le=2)
    frontend_args: list[str] = Field(default_factory=list)
    frontend_env: dict[str, str] = Field(default_factory=dict)
    starved: bool = False

    @property
    def rank_list(self) -> list[int]:
        """Global ranks that are there from the start, in index order."""
        if self.ranks is not None:
            return list(self.ranks)
        return [self.start_rank + i for i in range(self.engines)]

    @property
    def later_list(self) -> list[int]:
        """Global ranks of engines that ``scale`` steps may start."""
        first = self.rank_list
        return [max(first) + 1 + i for i in range(self.later)] if first else []


class Measured(Strict):
    """One row behind a ``known`` entry."""

    release: str
    trials: int = Field(ge=1)
    violations: int = Field(ge=0)


class Known(Strict):
    """A fault that releases have.

    Affected: ``introduced_in ≤ release < fixed_in``; an absent bound is open.
    ``target``: whose releases; the same promise may be kept by one and broken by the other.
    ``protocol``: the rules of the release lead to it, whoever follows them; so every target has
    it, ours as well.
    """

    target: Literal["vllm-rs", "vllm-py", "protocol"] = "vllm-rs"
    invariant: str = Field(description="invariant id, or 'expectation' for a failed expectation")
    introduced_in: str | None = None
    fixed_in: str | None = None
    reason: str
    link: str
    measured: list[Measured] = Field(default_factory=list)


class Trials(Strict):
    """For a race on a real target: repeat until a miss is less likely than 1 in 1,000.

    ``miss`` is the measured chance that one trial misses the fault where it is present.
    """

    miss: float = Field(gt=0, lt=1)
    max: int = Field(default=20, ge=1)


# --- steps ----------------------------------------------------------------------------------


class CallStep(Strict):
    """Start a generation in the background. ``id`` names it, and is its external request id.

    ``rank_text`` is sent as the raw header or metadata value; a list repeats the key.
    ``surface``: which API carries it (targets with several); ``auto`` = the native one.
    ``request_id`` makes several calls share one id. ``frontend``: 0, or 1 for the second one.
    ``stop`` are stop strings; ``body`` and ``headers`` are added to the request (HTTP: JSON
    keys and headers; gRPC: fields and metadata). The caller reads its answer only once gate
    ``read`` is open.
    """

    id: Name
    rank: int | None = None
    rank_text: Annotated[list[str], BeforeValidator(as_list)] | None = None
    surface: Surface = "auto"
    frontend: int = Field(default=0, ge=0, le=1)
    request_id: str | None = None
    prompt: list[int] = Field(default_factory=lambda: [104, 105])
    max_tokens: int = Field(default=3, ge=1, le=U32_MAX)
    kv_transfer_params: dict[str, Any] | None = None
    stop: Annotated[list[str], BeforeValidator(as_list)] = Field(default_factory=list)
    body: dict[str, Any] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    read: str | None = Field(default=None, description="gate before which the answer is not read")
    aux: list[str] = Field(default_factory=list, description="aux tensor frames, hex")
    unencodable: bool = Field(default=False, description="carries a value no codec can encode")


class UtilityStep(Strict):
    """Start a utility call in the background.

    ``via: method`` uses the named method of the API (with its aggregation rule); ``raw`` is
    ``call_utility`` with one result per engine; ``consensus`` is ``call_utility_consensus``.
    ``result`` is the type asked for by ``raw`` and ``consensus``.
    """

    id: Name
    method: str
    args: list[Any] = Field(default_factory=list)
    via: Literal["method", "raw", "consensus"] = "method"
    result: Literal["bool", "none", "int", "str", "list", "any"] = "any"
    timeout_s: float | None = Field(default=None, gt=0)
    unencodable: bool = False
    frontend: int = Field(default=0, ge=0, le=1)


class ScaleStep(Strict):
    """Start to change the number of engines, in the background: ranks 0 to ``to`` - 1 remain."""

    id: Name
    to: int = Field(ge=1, le=64)


class HttpStep(Strict):
    """Start any HTTP request in the background.

    Every answer is an outcome ``finished``, whatever its status; ``failed`` means that the
    connection was refused or lost. ``body`` is sent as JSON, ``text`` as it is. ``send: half``
    sends the head and half of the body and then waits; ``head`` sends no body. ``behind`` is sent
    right behind a whole request, on the same connection. ``read`` is a gate before which nothing
    of the answer is read. ``repeat``: ``text`` is sent so many times in a row. ``send: nothing``
    connects and says nothing; ``connections`` opens so many alike, of which the first is read.
    ``again``: once answered, what was left of the body follows and then the whole request once
    more, on the same connection; that answer is the outcome. A connection whose end the first
    answer announces is left at that.
    """

    id: Name
    path: str
    verb: str = Field(
        default="GET",
        pattern=r"^[A-Z][A-Z0-9-]{0,31}$",
        description="a method in capital letters, such as GET",
    )
    query: dict[str, str | list[str]] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    text: str | None = None
    repeat: int = Field(default=1, ge=1, le=REPEAT_MAX)
    send: Literal["whole", "half", "head", "nothing"] = "whole"
    connections: int = Field(default=1, ge=1, le=CONNECTIONS_MAX)
    behind: str | None = None
    again: bool = False
    read: str | None = None


class GrpcStep(Strict):
    """Start any unary gRPC call in the background.

    ``method`` is ``Service/Method``; the package is ``vllm`` unless named in full, such as
    ``grpc.health.v1.Health/Check``. Its status is the name of the gRPC code. ``wire``: the bytes
    of the request in hexadecimal, whatever they are.
    """

    id: Name
    method: str
    request: dict[str, Any] = Field(default_factory=dict)
    wire: str | None = Field(
        default=None,
        pattern=r"^([0-9a-fA-F]{2})*$",
        description="bytes in hexadecimal, such as '0a01'",
    )
    metadata: dict[str, str] = Field(default_factory=dict)


class CrowdStep(Strict):
    """Many short-lived callers, ``at_once`` of them at a time, until all are gone.

    ``leave``: when each one hangs up: ``no`` (it reads its answer), ``at-once`` (as soon as the
    request is off), ``after-add`` (when its ADD is at an engine), ``after-output`` (after the
    first tokens). ``abort-after-add``: it asks for its abort when its ADD is at an engine, and
    hangs up if it has not ended when everything sent before has been acted on. ``spread_ms``:
    those who leave at once do so at instants within so many milliseconds after their request.
    Their ids are ``<id>-0``, ``<id>-1`` and so on.

    ``simulated``: callers where the order is chosen (``sim``), if not as many: there another
    schedule tries what another caller tries elsewhere.
    """

    id: Name
    callers: int = Field(default=100, ge=1, le=100_000)
    simulated: int | None = Field(default=None, ge=1, le=100_000)
    at_once: int = Field(default=16, ge=1, le=1_000)
    leave: Literal["no", "at-once", "after-add", "after-output", "abort-after-add"] = "no"
    spread_ms: float = Field(default=0, ge=0, le=1_000)
    surface: Surface = "auto"
    rank: int | None = None
    prompt: list[int] = Field(default_factory=lambda: [104, 105])
    max_tokens: int = Field(default=1, ge=1, le=U32_MAX)


class SampleStep(Strict):
    """Note what the process of the frontend uses now, for a later ``expect: {process: …}``."""

    id: Name


class EventMatch(Strict):
    """Selects trace events by kind and fields.

    ``event`` is a kind (``add``, ``abort``, ``utility``, ``start_wave`` …, see
    docs/scenarios.md); the rest narrows by field.
    """

    event: str
    engine: int | None = None
    method: str | None = None
    request: str | None = Field(default=None, description="id of a call step")
    where: dict[str, Any] = Field(default_factory=dict, description="field: exact value")


class WaitStep(EventMatch):
    """Wait until ``count`` matching events are in the trace."""

    count: int = Field(default=1, ge=1)


class EngineStep(Strict):
    """Tell engines to act now, outside any rule; or kill / restart / stall them."""

    engine: int | list[int] | Literal["all"] = "all"
    do: Annotated[list[Action], BeforeValidator(as_list)] = Field(default_factory=list)
    rejoin: bool = False
    background: bool = Field(default=False, description="do not wait until the actions end")


class LinkStep(Strict):
    """Fault on the client's sends to an engine (``frames`` = which messages, by type).

    ``hold``: sends wait, before anything left, until the gate opens. ``hold_after``: the
    message left, but the send does not return until the gate opens. ``fail``: sends raise.
    ``clear``: remove the faults of this engine.
    """

    engine: int | Literal["all", "coordinator"] = "all"
    frames: Literal["any", "add", "abort", "utility"] = "any"
    hold: str | None = None
    hold_after: str | None = None
    fail: str | None = None
    clear: bool = False


class CoordinatorStep(Strict):
    """Act on the external coordinator process: stop, start, or publish scripted frames."""

    stop: bool = False
    start: bool = False
    publish: list[Any] | None = Field(default=None, description="[counts, wave, running]")
    publish_raw: list[str] | None = Field(default=None, description="frames in hex")


class LoadStep(Strict):
    """Short requests from ``clients`` callers, each one after the other, until all are served."""

    clients: int = Field(default=2, ge=1, le=LOAD_CLIENTS_MAX)
    requests: int = Field(
        default=3, ge=1, le=LOAD_REQUESTS_MAX, description="requests per client, at least"
    )
    until_quiet: bool = Field(
        default=False, description="go on until the background engine steps have ended"
    )


class ShutdownStep(Strict):
    """Shut the frontend down; ``timeout_s`` is the drain time."""

    timeout_s: float = Field(default=0, ge=0, le=SHUTDOWN_S_MAX)


class ProcessExpect(Strict):
    """What the process of the frontend may use more than at an earlier ``sample``."""

    since: str
    rss_mb_at_most: float | None = Field(default=None, ge=0, description="growth, MiB")
    descriptors_at_most: int | None = Field(default=None, ge=0, description="growth")


class CountExpect(EventMatch):
    """How often a matching event is in the trace."""

    equals: int | None = Field(default=None, ge=0)
    at_least: int | None = Field(default=None, ge=1)
    at_most: int | None = Field(default=None, ge=0)


class Expect(Strict):
    """What must be true now, about exactly one subject.

    Subjects: ``op``, ``count``, ``order``, registries (``in_flight``,
    ``pending_utility_calls``), health (``healthy``, ``health_error``), ``state`` of an
    ``engine``, ``server_info``, ``connect``, the coordinator's wave and running flag,
    ``metrics`` (sample name with labels: value), ``process`` and ``exit_code``.

    Subject ``op`` (a call or utility id): ``outcome`` is one of ``finished``, ``failed``,
    ``cancelled``, ``pending``; ``value`` is the utility's result; ``error`` an error class name;
    ``message`` a fragment of its text; ``tokens`` how many were seen; ``finish`` the reason;
    ``text`` what was generated; ``status`` of the answer (a number, or the name of a gRPC
    code); ``body`` keys of its JSON; ``body_text`` a fragment of it.
    ``when`` limits the expectation to releases (a PEP 440 specifier such as ``>=0.28``).
    """

    op: str | None = None
    outcome: Literal["finished", "failed", "cancelled", "pending"] | None = None
    value: Any = None
    error: str | None = None
    message: str | None = None
    tokens: int | None = Field(default=None, ge=0)
    finish: FinishName | None = None
    kv_transfer_params: dict[str, Any] | None = None
    engine: int | None = Field(default=None, description="rank that served op / whose state")
    state: dict[str, Any] | None = Field(default=None, description="engine state, by key")
    count: CountExpect | None = None
    order: list[EventMatch] | None = Field(default=None, description="first matches, in order")
    pending_utility_calls: int | None = Field(default=None, ge=0)
    in_flight: int | None = Field(default=None, ge=0)
    healthy: bool | None = None
    health_error: str | None = None
    coordinator_wave: int | None = Field(default=None, ge=0)
    coordinator_running: bool | None = None
    server_info: dict[str, Any] | None = None
    connect: Literal["ok", "failed"] | None = None
    status: int | str | None = None
    text: str | None = None
    body: Any = None
    body_text: str | None = None
    metrics: dict[str, float] | None = None
    process: ProcessExpect | None = None
    exit_code: int | None = Field(
        default=None,
        ge=-SIGNAL_MAX,
        le=EXIT_CODE_MAX,
        description="of the frontend's process; below 0: the number of the signal that ended it",
    )
    when: str | None = None


class Step(Strict):
    """One line of the story: a mapping with exactly one verb."""

    connect: Literal[True] | None = Field(
        default=None,
        description="wait until startup has ended; with this step, the steps before it run during "
        "startup (without it, all steps run after startup)",
    )
    call: CallStep | None = None
    utility: UtilityStep | None = None
    scale: ScaleStep | None = None
    http: HttpStep | None = None
    grpc: GrpcStep | None = None
    crowd: CrowdStep | None = None
    sample: SampleStep | None = None
    signal: Literal["STOP", "CONT", "TERM", "INT", "HUP", "KILL"] | None = Field(
        default=None, description="send a signal to the process of the frontend"
    )
    cancel: str | None = None
    drop: str | None = None
    abort: Annotated[list[str], BeforeValidator(as_list)] | None = None
    finish: Annotated[list[str], BeforeValidator(as_list)] | None = Field(
        default=None, description="wait until these calls ended, whatever the outcome"
    )
    wait: WaitStep | None = None
    open: str | None = None
    engine: EngineStep | None = None
    link: LinkStep | None = None
    coordinator: CoordinatorStep | None = None
    load: LoadStep | None = None
    fence: Literal[True] | None = Field(
        default=None, description="all that was sent before has arrived and been acted on"
    )
    shutdown: ShutdownStep | None = None
    expect: Expect | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Step:
        if len(self.model_fields_set) != 1:
            named = ", ".join(sorted(self.model_fields_set)) or "nothing"
            msg = f"a step has exactly one verb, this one has {named}"
            raise ValueError(msg)
        if getattr(self, self.verb) is None:
            msg = f"{self.verb!r} needs a value"
            raise ValueError(msg)
        return self

    @cached_property
    def verb(self) -> str:
        """The one verb that is set."""
        return next(iter(self.model_fields_set))


class Scenario(Strict):
    """One scenario file.

    ``profiles`` is a PEP 440 specifier of releases to which it applies. ``connect_fails: true``
    says that startup is the story: the steps run although ``connect`` failed. ``needs`` adds
    capabilities to those that the content implies; ``invariants`` names those that this file
    is about (all are judged); ``open_at_end`` lists ids and gates that stay open on purpose,
    so that liveness is not judged for them. ``explore`` names the tasks and messages whose order
    is explored in simulation, by their labels, with ``*`` and ``?``; everything else then runs as
    soon as it can. Without it every order counts. ``format`` is the version of the file format; a
    file without it is of format 1.
    """

    format: Literal[1] = 1
    title: str
    promise: str
    refs: list[str] = Field(min_length=1)
    profiles: str = ""
    known: list[Known] = Field(default_factory=list)
    needs: list[str] = Field(default_factory=list)
    invariants: list[str] = Field(default_factory=list)
    trials: Trials | None = None
    topology: Topology = Topology()
    engines: list[EngineSpec] = Field(default_factory=list)
    connect_fails: bool = False
    steps: list[Step] = Field(min_length=1)
    open_at_end: list[str] = Field(default_factory=list)
    explore: list[str] = Field(default_factory=list)

    @property
    def elastic(self) -> bool:
        """Whether the number of engines changes."""
        return any(step.scale is not None for step in self.steps)
