"""Words for the steps of the story."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.authoring.words.actions import actions_text
from harness.authoring.words.expecting import EXPECT
from harness.authoring.words.matching import WAIT
from harness.authoring.words.told import (
    OneOf,
    Told,
    by_word,
    code,
    codes,
    fields,
    listed,
    shown,
    times,
    who,
    yes,
)
from harness.reports.wording import counted
from harness.scenario.model import (
    CallStep,
    CoordinatorStep,
    CrowdStep,
    EngineStep,
    GrpcStep,
    HttpStep,
    LinkStep,
    LoadStep,
    SampleStep,
    ScaleStep,
    ShutdownStep,
    Step,
    UtilityStep,
)

SURFACES = {
    "auto": "over the target's native API",
    "http": "over HTTP as one answer",
    "http-stream": "over HTTP as a stream",
    "grpc": "over gRPC as one answer",
    "grpc-stream": "over gRPC as a stream",
    "chat": "over chat completions as one answer",
    "chat-stream": "over chat completions as a stream",
    "chat-batch": "over the batch route of chat completions",
    "responses": "over the responses API as one answer",
    "responses-stream": "over the responses API as a stream",
    "messages": "over the messages API as one answer",
    "messages-stream": "over the messages API as a stream",
    "generate": "over the raw generate route as one answer",
    "generate-stream": "over the raw generate route as a stream",
}
SENDS = {
    "whole": "sent whole",
    "half": "of whose body only half is sent",
    "head": "without the body that its head promises",
    "nothing": "as a connection on which nothing is said",
}
LEAVES = {
    "no": "each reads its answer to the end",
    "at-once": "each hangs up as soon as its request is off",
    "after-add": "each hangs up once its ADD is at an engine",
    "after-output": "each hangs up after its first tokens",
    "abort-after-add": "each asks for its abort once its ADD is at an engine, and hangs up if it "
    "has not ended when all that was sent before has been acted on",
}
VIAS = {
    "method": "through the API's method of that name",
    "raw": "as a raw call with one result per engine",
    "consensus": "as a raw call on whose result all engines must agree",
}
FRAMES = {"any": "any message", "add": "ADD", "abort": "ABORT", "utility": "a utility call"}
SIGNALS = {
    "STOP": "is stopped (SIGSTOP)",
    "CONT": "goes on (SIGCONT)",
    "TERM": "is asked to end (SIGTERM)",
    "INT": "is interrupted (SIGINT)",
    "HUP": "is told that its terminal is gone (SIGHUP)",
    "KILL": "is killed (SIGKILL)",
}


def _tokens_max(n: int) -> str:
    return f"for at most {counted(n, 'token')}"


def _prompt(ids: Sequence[int]) -> str:
    return f"with the prompt {shown(list(ids))}"


def _frontend(index: int) -> str:
    return "at the second frontend" if index else "at the first frontend"


CALL = Told(
    CallStep,
    lambda call: f"a caller starts request {code(call.id)}",
    of_head=("id",),
    clauses={
        "rank": lambda rank: f"for rank {rank}",
        "rank_text": lambda texts: f"with the rank given as {listed(map(shown, texts))}",
        "surface": by_word(SURFACES),
        "frontend": _frontend,
        "request_id": lambda name: f"under the request id {code(name)}",
        "prompt": _prompt,
        "max_tokens": _tokens_max,
        "kv_transfer_params": lambda value: f"with kv_transfer_params {shown(value)}",
        "stop": lambda texts: f"with stop strings {shown(texts)}" if texts else "",
        "body": lambda body: f"with {fields(body)} in the request" if body else "",
        "headers": lambda heads: f"with headers {fields(heads)}" if heads else "",
        "read": lambda gate: f"and reads nothing of its answer before gate {code(gate)} opens",
        "aux": lambda frames: f"with tensor frames {shown(frames)}" if frames else "",
        "unencodable": yes("with a value that no codec can encode"),
    },
)
UTILITY = Told(
    UtilityStep,
    lambda call: f"an admin starts call {code(call.id)} of {code(call.method)}",
    of_head=("id", "method"),
    clauses={
        "args": lambda args: f"with arguments {shown(args)}" if args else "",
        "via": by_word(VIAS),
        "result": lambda kind: f"asking for a result of type {code(kind)}",
        "timeout_s": lambda s: f"for at most {s:g} s",
        "unencodable": yes("with a value that no codec can encode"),
        "frontend": _frontend,
    },
)
SCALE = Told(
    ScaleStep,
    lambda s: f"an admin starts change {code(s.id)} of the number of engines to {s.to}",
    of_head=("id", "to"),
)
HTTP = Told(
    HttpStep,
    lambda r: f"somebody starts HTTP request {code(r.id)}, {r.verb} {code(r.path)}",
    of_head=("id", "path", "verb"),
    clauses={
        "query": lambda query: f"with parameters {fields(query)}" if query else "",
        "headers": lambda heads: f"with headers {fields(heads)}" if heads else "",
        "body": lambda body: f"with the JSON {shown(body)}",
        "text": lambda text: f"with the text {shown(text)}",
        "repeat": lambda n: f"which is repeated {times(n)}",
        "send": by_word(SENDS),
        "connections": lambda n: f"on {counted(n, 'connection')}, of which the first is read",
        "behind": lambda text: f"with {shown(text)} right behind it",
        "again": yes("and the rest of the body and the whole request once more, once answered"),
        "read": lambda gate: f"and reads nothing of the answer before gate {code(gate)} opens",
    },
    nulls=frozenset({"body"}),
)
GRPC = Told(
    GrpcStep,
    lambda call: f"somebody starts gRPC call {code(call.id)} of {code(call.method)}",
    of_head=("id", "method"),
    clauses={
        "request": lambda request: f"with {fields(request)}" if request else "",
        "wire": lambda text: f"with the bytes {code(text)} as its request",
        "metadata": lambda data: f"with metadata {fields(data)}" if data else "",
    },
)
CROWD = Told(
    CrowdStep,
    lambda crowd: (
        f"crowd {code(crowd.id)} of {crowd.callers} callers comes, "
        f"{crowd.at_once} at a time, until all are gone"
    ),
    of_head=("id", "callers", "at_once"),
    clauses={
        "leave": by_word(LEAVES),
        "spread_ms": lambda ms: f"within {ms:g} ms after its request",
        "surface": by_word(SURFACES),
        "rank": lambda rank: f"for rank {rank}",
        "prompt": _prompt,
        "max_tokens": _tokens_max,
        "simulated": lambda callers: f"in simulation {callers} callers only",
    },
)
SAMPLE = Told(
    SampleStep,
    lambda step: f"what the frontend's process uses is noted as {code(step.id)}",
    of_head=("id",),
)


def _engine(step: Any) -> str:
    parts = []
    if step.do:
        parts.append(actions_text(step.do))
    if step.rejoin:
        parts.append("comes back after its death, with its rank")
    subject = who(step.engine)
    return f"{subject} {', '.join(parts)}"


ENGINE = Told(
    EngineStep,
    _engine,
    of_head=("engine", "do", "rejoin"),
    clauses={"background": yes("while the story goes on")},
)


def _link(link: Any) -> str:
    to = "on coordinator sockets" if link.engine == "coordinator" else f"to {who(link.engine)}"
    if link.clear:
        return f"the faults of what the client sends {to} are taken away"
    return f"from now on, what the client sends {to} ({FRAMES[link.frames]})"


LINK = Told(
    LinkStep,
    _link,
    of_head=("engine", "frames", "clear"),
    behind_head=" ",
    clauses={
        "hold": lambda gate: f"waits, before anything left, until gate {code(gate)} opens",
        "hold_after": lambda gate: (
            f"leaves, but the send returns only when gate {code(gate)} opens"
        ),
        "fail": lambda text: f"fails with “{text}”",
    },
)
COORDINATOR = Told(
    CoordinatorStep,
    lambda _: "the external coordinator",
    behind_head=" ",
    clauses={
        "stop": yes("is stopped"),
        "start": yes("is started"),
        "publish": lambda value: f"publishes counts, wave and running flag {shown(value)}",
        "publish_raw": lambda frames: f"publishes the frames {shown(frames)}",
    },
)
LOAD = Told(
    LoadStep,
    lambda load: (
        f"{counted(load.clients, 'caller')} {'makes' if load.clients == 1 else 'make'} "
        f"{counted(load.requests, 'short request')} "
        "each, one after the other"
    ),
    of_head=("clients", "requests"),
    clauses={"until_quiet": yes("and go on until the engine steps in the background have ended")},
)
SHUTDOWN = Told(
    ShutdownStep,
    lambda step: f"the frontend is shut down, with {step.timeout_s:g} s to drain",
    of_head=("timeout_s",),
)
STEP = OneOf(
    Step,
    {
        "connect": lambda _: "wait until startup has ended",
        "call": CALL.say,
        "utility": UTILITY.say,
        "scale": SCALE.say,
        "http": HTTP.say,
        "grpc": GRPC.say,
        "crowd": CROWD.say,
        "sample": SAMPLE.say,
        "signal": lambda name: f"the frontend's process {SIGNALS[name]}",
        "cancel": lambda op: f"the caller of {code(op)} leaves",
        "drop": lambda op: f"the reader of stream {code(op)} leaves",
        "abort": lambda ops: f"an abort of {codes(ops)} is asked for",
        "finish": lambda ops: (
            f"wait until {codes(ops)} {'has' if len(ops) == 1 else 'have'} ended, however"
        ),
        "wait": WAIT.say,
        "open": lambda gate: f"gate {code(gate)} opens",
        "engine": ENGINE.say,
        "link": LINK.say,
        "coordinator": COORDINATOR.say,
        "load": LOAD.say,
        "fence": lambda _: "wait until all that was sent has arrived and been acted on",
        "shutdown": SHUTDOWN.say,
        "expect": lambda expect: f"must be true now: {EXPECT.say(expect)}",
    },
)
TELLERS = (
    *(STEP, CALL, UTILITY, SCALE, HTTP, GRPC, CROWD, SAMPLE, ENGINE, LINK, COORDINATOR, LOAD),
    SHUTDOWN,
)
