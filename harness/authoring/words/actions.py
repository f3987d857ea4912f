"""Words for what engines do: one phrase for each action, in the third person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.authoring.words.told import (
    OneOf,
    Told,
    by_word,
    code,
    shown,
    times,
    yes,
)
from mock_engines.behaviours.model import (
    Action,
    Flood,
    Notice,
    Output,
    Raw,
    ReplyWith,
    Stats,
    Stream,
)

PATHS = {
    "main": "on its output socket",
    "coordinator": "on its coordinator socket",
    "input": "on its input socket",
    "handshake": "on its handshake socket",
}
DEATHS = {
    "sentinel": "dies with the last word ENGINE_CORE_DEAD",
    "close": "dies and closes its sockets",
    "vanish": "vanishes without a word",
}
ENDS = {
    "abort": "is told to end its process at once, whatever runs",
    "drain": "is told to end its process once its requests have ended",
}


def _finish(reason: str | None) -> str:
    return "without an end" if reason is None else f"finish reason {code(reason)}"


def _tokens(count: int | None) -> str:
    return "as many tokens as were asked for" if count is None else f"{count} tokens"


STREAM = Told(
    Stream,
    lambda _: "streams tokens",
    clauses={
        "tokens": _tokens,
        "chunk": lambda n: f"{n} in each output",
        "finish": _finish,
        "stop_reason": lambda value: f"stop reason {shown(value)}",
        "pause_at": lambda n: f"pausing once {n} of them left",
        "gate": lambda gate: f"until gate {code(gate)} opens",
        "kv_transfer_params": lambda value: f"kv_transfer_params {shown(value)}",
        "error": lambda value: f"error {shown(value)}",
    },
    nulls=frozenset({"tokens", "finish"}),
)
OUTPUT = Told(
    Output,
    lambda _: "sends an output row",
    clauses={
        "request": lambda name: f"for request {code(name)}",
        "tokens": lambda ids: f"tokens {shown(ids)}",
        "logprobs": lambda n: f"with {n} candidates beside each token",
        "prompt_logprobs": lambda ids: f"with logprobs of the prompt's tokens {shown(ids)}",
        "finish": _finish,
        "stop_reason": lambda value: f"stop reason {shown(value)}",
        "kv_transfer_params": lambda value: f"kv_transfer_params {shown(value)}",
        "engine_index": lambda n: f"stamped with engine index {n}",
        "rows": lambda n: f"{n} equal rows in one message",
        "finished": lambda n: f"named {times(n)} in finished_requests",
        "times": lambda n: f"the message {times(n)}",
    },
)
REPLY_WITH = Told(
    ReplyWith,
    lambda _: "answers the call in an unusual way",
    clauses={
        "value": lambda value: f"value {shown(value)}",
        "failure": lambda text: f"failure “{text}”",
        "call_id": lambda n: f"call id {n} instead of the right one",
        "add_to_call_id": lambda n: f"call id shifted by {n}",
        "engine_index": lambda n: f"stamped with engine index {n}",
        "list_of": lambda n: f"as a list of {n} of them",
        "times": times,
    },
    nulls=frozenset({"value"}),
)
STATS = Told(
    Stats,
    lambda _: "reports its load",
    clauses={
        "running": lambda n: f"{n} running",
        "waiting": lambda n: f"{n} waiting",
        "engine_index": lambda n: f"stamped with engine index {n}",
        "path": by_word(PATHS),
        "step": lambda n: f"step {n} of its wave",
    },
)
RAW = Told(
    Raw,
    lambda raw: f"sends scripted frames {shown(raw.frames)}",
    of_head=("frames",),
    clauses={"path": by_word(PATHS), "times": times},
)
NOTICE = Told(
    Notice,
    lambda notice: "of its own wave" if notice.wave is None else f"of wave {notice.wave}",
    of_head=("wave",),
    clauses={"engine_index": lambda n: f"stamped with engine index {n}"},
)
FLOOD = Told(
    Flood,
    lambda flood: f"sends {flood.count} wave_complete in a row, from wave {flood.start} on",
    of_head=("count", "start"),
    clauses={
        "count_real": lambda n: f"{n} of them where the frontend is a real one",
        "start_wave_every": lambda n: f"a start_wave behind every {n} of them",
        "stale_probes": yes("a start_wave of the wave that has just ended behind each"),
    },
)


def _notice(name: str, value: int | Notice) -> str:
    wave = f"of wave {value}" if isinstance(value, int) else NOTICE.say(value)
    return f"sends {name} {wave}"


def _hang(gate: Any) -> str:
    return "waits for ever" if gate is True else f"waits until gate {code(gate)} opens"


ACTION = OneOf(
    Action,
    {
        "default": lambda _: "does what a well-behaved engine does with it",
        "apply": lambda _: "lets the call take effect, without an answer",
        "reply": lambda value: f"answers the call with {shown(value)}",
        "reply_with": REPLY_WITH.say,
        "fail": lambda text: f"answers the call with failure “{text}”",
        "hang": _hang,
        "stall": lambda gate: f"stops reading and sending altogether until gate {code(gate)} opens",
        "delay_ms": lambda n: f"lets {n} ms of its loop's clock pass",
        "drop": lambda _: "ignores the message",
        "stream": STREAM.say,
        "output": OUTPUT.say,
        "finish_only": lambda _: "names the request as finished, without a last output",
        "stats": STATS.say,
        "raw": RAW.say,
        "die": by_word(DEATHS),
        "wave_complete": lambda value: _notice("wave_complete", value),
        "start_wave": lambda value: _notice("start_wave", value),
        "flood": FLOOD.say,
        "open": lambda gate: f"opens gate {code(gate)}",
        "shut_down": by_word(ENDS),
    },
)
TELLERS = (ACTION, STREAM, OUTPUT, REPLY_WITH, STATS, RAW, NOTICE, FLOOD)


def actions_text(actions: Sequence[Action]) -> str:
    """Actions in their order."""
    return ", then ".join(ACTION.say(action) for action in actions)
