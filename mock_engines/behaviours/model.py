"""The data model of behaviours, shared by scenario files and ``wavecheck engine --behaviour``.

A *rule* says what an engine does when a message of a kind arrives; its ``do`` is a list of
*actions*, carried out in order. The first rule that matches wins; without one the engine
behaves well: it streams the tokens that were asked for, answers utilities with the right type
(and applies their effect), and stops what is aborted.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from mock_engines.lockstep.scheduler import BATCH_MAX


class Strict(BaseModel):
    """Base of all file models: unknown keys are errors, values are not coerced or infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def as_list(value: Any) -> Any:
    """Let a single item stand for a list of one."""
    return value if isinstance(value, list) else [value]


TIMES_MAX = 10_000
"""How often one action may repeat what it sends."""
TOKENS_MAX = 100_000
LOGPROBS_MAX = 100
FLOOD_MAX = 1_000_000
DELAY_MS_MAX = 3_600_000
"""An hour."""
JOIN_TIMES_MAX = 1_000
"""How often one message of the startup may be sent."""

FinishName = Literal["stop", "length", "abort", "error", "repetition"]


class Stream(Strict):
    """Stream tokens for the request that matched (ADD rules only).

    ``tokens: null`` = as many as ``max_tokens`` asks for. ``pause_at`` waits for ``gate`` once
    that many tokens left.
    """

    tokens: int | None = Field(default=None, ge=0, le=TOKENS_MAX)
    chunk: int = Field(default=1, ge=1)
    finish: FinishName | None = "length"
    stop_reason: int | str | None = None
    pause_at: int | None = Field(default=None, ge=0)
    gate: str | None = None
    kv_transfer_params: dict[str, Any] | None = None
    error: dict[str, Any] | None = Field(
        default=None, description="{code, message, retryable}, only with finish: error (≥ 0.33)"
    )


class Output(Strict):
    """Send one output row. ``request`` defaults to the request that matched.

    ``rows``: so many equal rows in one message, whose ``finished_requests`` names the request
    ``finished`` times. ``times`` sends the message again.
    """

    request: str | None = None
    tokens: list[int] = Field(default_factory=list)
    logprobs: int | None = Field(default=None, ge=0, le=LOGPROBS_MAX)
    prompt_logprobs: list[int] | None = None
    finish: FinishName | None = None
    stop_reason: int | str | None = None
    kv_transfer_params: dict[str, Any] | None = None
    engine_index: int | None = None
    rows: int = Field(default=1, ge=1, le=TIMES_MAX)
    finished: int = Field(default=0, ge=0, le=TIMES_MAX)
    times: int = Field(default=1, ge=1, le=TIMES_MAX)


class ReplyWith(Strict):
    """Answer a utility in an unusual way.

    ``call_id`` replaces the right one; ``add_to_call_id`` shifts it; ``times`` repeats it.
    ``list_of``: the value is a list of so many of ``value``.
    """

    value: Any = None
    failure: str | None = None
    call_id: int | None = None
    add_to_call_id: int = 0
    engine_index: int | None = None
    list_of: int | None = Field(default=None, ge=0, le=TOKENS_MAX)
    times: int = Field(default=1, ge=1, le=TIMES_MAX)


class Stats(Strict):
    """Send scheduler stats. ``engine_index`` is stamped as given, even beyond two bytes.

    ``step``: the engine's step counter in its wave.
    """

    running: int = 0
    waiting: int = 0
    engine_index: int | None = None
    path: Literal["main", "coordinator"] = "main"
    step: int = 0


class Raw(Strict):
    """Send scripted frames, each in hexadecimal, as ``text:…``, or a msgpack value as ``json:…``.

    In ``json:`` a string ``@name`` is the id on the wire of request ``name`` at this engine.
    """

    frames: list[str]
    path: Literal["main", "coordinator", "input", "handshake"] = "main"
    times: int = Field(default=1, ge=1, le=TIMES_MAX)


class Notice(Strict):
    """Send a wave notice on the coordinator socket. ``wave: null`` = the engine's own wave."""

    wave: int | None = None
    engine_index: int | None = None


class Flood(Strict):
    """Send ``count`` wave_complete notices, waves rising from ``start`` by one.

    Every ``start_wave_every``-th is followed by a start_wave of the next wave, whose
    re-broadcast witnesses how far the coordinator has come. ``stale_probes`` follows every
    wave_complete with a start_wave of that same wave, which only a coordinator that went back
    passes on. ``count_real`` is used instead of ``count`` when the peer is a black box on real
    sockets.
    """

    start: int = 0
    count: int = Field(default=40, ge=1, le=FLOOD_MAX)
    count_real: int | None = Field(default=None, ge=1, le=FLOOD_MAX)
    start_wave_every: int = Field(default=10, ge=1)
    stale_probes: bool = False


class Pace(Strict):
    """How engines that step together schedule (``waves: lockstep``).

    ``batch``: requests that run together; ``tokens``: how many each of them gets in a step;
    ``step_ms``: how long a forward pass takes, or [least, most], drawn evenly for each.
    ``mended``: open faults of the engines that these have not, by the scenarios of chapter
    ``lockstep`` that show them: ``resumed-twice`` (vllm#55229), ``paused-twice``.
    """

    batch: int = Field(default=BATCH_MAX, ge=1, le=4096)
    tokens: int = Field(default=1, ge=1, le=1024)
    step_ms: Annotated[list[int], BeforeValidator(as_list)] = Field(
        default_factory=lambda: [0], min_length=1, max_length=2
    )
    mended: list[Literal["resumed-twice", "paused-twice"]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _range(self) -> Pace:
        low, high = self.step_range
        if not 0 <= low <= high <= DELAY_MS_MAX:
            msg = f"step_ms is a time, or [least, most], from 0 to {DELAY_MS_MAX}"
            raise ValueError(msg)
        return self

    @property
    def step_range(self) -> tuple[int, int]:
        """Least and most milliseconds of a forward pass."""
        return self.step_ms[0], self.step_ms[-1]


MEAN_SOMETHING_ALONE = frozenset(
    {
        *("reply", "reply_with"),  # the value ``null``
        *("stream", "output", "stats", "flood"),  # with all that they have by default
        *("wave_complete", "start_wave"),  # of the engine's own wave
    }
)
"""Actions that may have ``null`` behind them, or nothing; of all others it is a slip."""


class Action(Strict):
    """One thing to do: a mapping with exactly one of these keys."""

    default: Literal[True] | None = None
    apply: Literal[True] | None = None
    reply: Any = None
    reply_with: ReplyWith | None = None
    fail: str | None = None
    hang: str | Literal[True] | None = None
    stall: str | None = Field(
        default=None, description="the whole engine stops reading and sending until the gate opens"
    )
    delay_ms: int | None = Field(default=None, ge=0, le=DELAY_MS_MAX)
    drop: Literal[True] | None = None
    stream: Stream | None = None
    output: Output | None = None
    finish_only: Literal[True] | None = None
    stats: Stats | None = None
    raw: Raw | None = None
    die: Literal["sentinel", "close", "vanish"] | None = None
    wave_complete: int | Notice | None = None
    start_wave: int | Notice | None = None
    flood: Flood | None = None
    open: str | None = None
    shut_down: Literal["abort", "drain"] | None = Field(
        default=None,
        description="tell the process of an engine that steps with others to end: at once, or"
        " once its requests have ended",
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Action:
        if len(self.model_fields_set) != 1:
            named = ", ".join(sorted(self.model_fields_set)) or "nothing"
            msg = f"an action has exactly one key, this one has {named}"
            raise ValueError(msg)
        if self.verb not in MEAN_SOMETHING_ALONE and getattr(self, self.verb) is None:
            msg = f"{self.verb!r} needs a value"
            raise ValueError(msg)
        return self

    @cached_property
    def verb(self) -> str:
        """The one key that is set (``reply: null`` counts as set)."""
        return next(iter(self.model_fields_set))


class Rule(Strict):
    """What to do when a message arrives.

    ``method`` (utility) and ``request`` (add, abort: external or internal id), both with ``*``
    allowed, and ``where`` (fields of the event that the message makes) narrow the match;
    ``nth`` takes the n-th matching message only, ``times`` the first n.
    """

    on: Literal["add", "abort", "utility", "start_wave"]
    method: Annotated[list[str], BeforeValidator(as_list)] | None = None
    request: str | None = None
    where: dict[str, Any] = Field(default_factory=dict, description="field: exact value")
    nth: int | None = Field(default=None, ge=1)
    times: int | None = Field(default=None, ge=1)
    do: Annotated[list[Action], BeforeValidator(as_list)]


class Join(Strict):
    """How the engine joins the frontend.

    ``gate``: joins when it opens. ``never``: does not register (stays away altogether).
    ``hello_times`` / ``register_times`` / ``subscribe_times``: messages sent twice or more.
    ``skip``: startup messages left out. ``identity``: hex, announced instead of the rank's.
    ``ready``: keys that replace or extend the ready response; ``ready_without``: keys left out;
    ``ready_raw``: hex of a body sent instead. ``hello_raw`` / ``subscribe_raw``: frames sent
    instead of HELLO / of the subscription, as in ``raw``.
    """

    gate: str | None = None
    never: Literal[True] | None = None
    hello_times: int = Field(default=1, ge=0, le=JOIN_TIMES_MAX)
    register_times: int = Field(default=1, ge=0, le=JOIN_TIMES_MAX)
    subscribe_times: int = Field(default=1, ge=0, le=JOIN_TIMES_MAX)
    skip: list[Literal["hello", "subscribe", "register", "ready"]] = Field(default_factory=list)
    ready_before_gate: bool = False
    identity: str | None = None
    ready: dict[str, Any] = Field(default_factory=dict)
    ready_without: list[str] = Field(default_factory=list)
    ready_raw: str | None = None
    hello_raw: list[str] | None = None
    subscribe_raw: list[str] | None = None


class EngineSpec(Strict):
    """Behaviour of one engine, of several, or of ``all``; more specific entries come first."""

    engine: int | list[int] | Literal["all"] = "all"
    join: Join = Join()
    rules: list[Rule] = Field(default_factory=list)
    process: bool | None = Field(
        default=None,
        description="run as a child process; null = when it vanishes or stalls, real sockets",
    )
