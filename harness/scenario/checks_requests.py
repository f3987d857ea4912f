"""Checks of what callers send: HTTP requests, gRPC calls, headers, metadata, ids.

What no library could send is found here, so that it does not end a run in its middle. A broken
thing that is sent on purpose has keys that take bytes as they are: ``text`` and ``behind`` of an
``http`` step, ``wire`` of a ``grpc`` step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.scenario.finding import Finding
from harness.scenario.model import CallStep, CrowdStep, GrpcStep, HttpStep, Scenario
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean
from harness.targets.vllm_rs import grpc_json, http_words
from harness.targets.vllm_rs.grpc_messages import METHODS, VLLM, method_named, short_name

TEXT_BYTES_MAX = 256 << 20
"""Bytes of one request: ``text`` so many times as ``repeat`` says."""
_GENERATE = f"{VLLM}.GenerateRequest"
_GRPC = "grpc"


def check_requests(scenario: Scenario) -> Iterator[Finding]:
    """Everything that a step sends can be sent."""
    for i, step in enumerate(scenario.steps):
        base: Path = ("steps", i, step.verb)
        if step.http is not None:
            yield from _http(base, step.http)
        if step.grpc is not None:
            yield from _grpc(base, step.grpc)
        if step.call is not None:
            yield from _call(base, step.call)
        if step.crowd is not None:
            yield from _crowd(base, step.crowd)


def _found(path: Path, flaw: http_words.Flaw | None, *, on_key: bool = False) -> Iterator[Finding]:
    if flaw is not None:
        title, expected = flaw
        yield Finding(path, title, expected, on_key=on_key)


# --- HTTP -----------------------------------------------------------------------------------


def _http(base: Path, step: HttpStep) -> Iterator[Finding]:
    yield from _found((*base, "path"), http_words.path_flaw(step.path, step.verb))
    body = step.body is not None or step.text is not None
    for name, value in step.headers.items():
        path: Path = (*base, "headers", name)
        wrong = list(_found(path, http_words.header_flaw(name, value)))
        yield from wrong
        if not wrong:
            headless = step.send == "head" and not step.again
            flaw = http_words.framing_flaw(name, value, has_body=body, headless=headless)
            yield from _found(path, flaw, on_key=True)
    yield from _http_body(base, step)
    yield from _http_order(base, step, has_body=body)


def _http_body(base: Path, step: HttpStep) -> Iterator[Finding]:
    if step.body is not None and step.text is not None:
        yield Finding((*base, "text"), "body and text exclude each other")
    if step.repeat > 1 and not step.text:
        yield Finding((*base, "repeat"), "there is no text to repeat")
    size = len((step.text or "").encode()) * step.repeat
    if size > TEXT_BYTES_MAX:
        yield Finding(
            (*base, "repeat"), f"the text has {size} bytes in all", f"at most {TEXT_BYTES_MAX}"
        )


def _http_order(base: Path, step: HttpStep, *, has_body: bool) -> Iterator[Finding]:
    """``send``, ``behind`` and ``again`` go with the rest."""
    where: Path = (*base, "send")
    if step.send == "half" and (not has_body or step.text == ""):
        yield Finding(where, "there is no body to send half of", "key 'body' or 'text'")
    framed = {"content-length", "transfer-encoding"} & {name.lower() for name in step.headers}
    if step.send == "head" and not framed and (not has_body or step.text == ""):
        title = "the head is the whole request, since there is no body behind it"
        yield Finding(where, title, "key 'body' or 'text', or send: whole")
    if step.send == "nothing":
        for key in ("query", "headers", "body", "text", "again"):
            if key in step.model_fields_set:
                title = f"send: nothing says nothing, and '{key}' is for what is said"
                yield Finding((*base, key), title, f"no '{key}', or another send")
    if step.behind is not None and step.send != "whole":
        yield Finding((*base, "behind"), "nothing can be behind a request that is not whole")
    if step.behind == "":
        yield Finding((*base, "behind"), "behind is empty", "what follows the request")
    if step.behind and step.again:
        title = "behind and again exclude each other: each is the next on the connection"
        yield Finding((*base, "again"), title)


# --- gRPC -----------------------------------------------------------------------------------


def _grpc(base: Path, step: GrpcStep) -> Iterator[Finding]:
    for name, value in step.metadata.items():
        flaw = http_words.metadata_flaw(name, value)
        yield from _found((*base, "metadata", name), flaw, on_key=True)
    if step.wire is not None and step.request:
        yield Finding((*base, "wire"), "request and wire exclude each other")
        return
    wrong = list(_found((*base, "method"), http_words.method_flaw(step.method)))
    yield from wrong
    if wrong or step.wire is not None:
        return  # bytes may be sent to any method
    method = method_named(step.method)
    if method is None:
        yield Finding(
            (*base, "method"),
            f"no release has a gRPC method '{step.method}'",
            "a method of the table in docs/scenarios.md, or wire: '' to ask for one that is not there",
            did_you_mean(step.method, [short_name(name) for name in METHODS]),
        )
        return
    yield from _message((*base, "request"), method.request, step.request)


def _message(base: Path, kind: str, value: dict[str, object]) -> Iterator[Finding]:
    for flaw in grpc_json.flaws(kind, value):
        help_text = did_you_mean(flaw.word, flaw.choices) if flaw.word else ""
        path: Path = (*base, *flaw.path)
        yield Finding(path, flaw.title, flaw.expected, help_text, on_key=flaw.on_key)


# --- generations ----------------------------------------------------------------------------


def _call(base: Path, call: CallStep) -> Iterator[Finding]:
    yield from _prompt(base, call.prompt)
    if call.surface.startswith(_GRPC):
        for name, value in call.headers.items():
            flaw = http_words.metadata_flaw(name.lower(), value)
            yield from _found((*base, "headers", name), flaw, on_key=True)
        yield from _message((*base, "body"), _GENERATE, call.body)
        return
    key = "id" if call.request_id is None else "request_id"
    # It travels as a header on the APIs over HTTP, of which `auto` may be one.
    given = call.request_id or call.id
    yield from _found((*base, key), http_words.header_value_flaw(given, f"key '{key}'"))
    for name, value in call.headers.items():
        flaw = http_words.header_flaw(name, value)
        if flaw is None:
            flaw = http_words.framing_flaw(name, value, has_body=True, headless=False)
        yield from _found((*base, "headers", name), flaw, on_key=True)


def _crowd(base: Path, crowd: CrowdStep) -> Iterator[Finding]:
    yield from _prompt(base, crowd.prompt)
    yield from _found((*base, "id"), http_words.header_value_flaw(crowd.id, "key 'id'"))
    if crowd.spread_ms and crowd.leave != "at-once":
        yield Finding(
            (*base, "spread_ms"), "only callers who leave at once spread", "leave: at-once"
        )


def _prompt(base: Path, prompt: Iterable[int]) -> Iterator[Finding]:
    for i, token in enumerate(prompt):
        if not 0 <= token < 2**32:
            yield Finding(
                (*base, "prompt", i),
                f"{token} is no token id",
                f"0 to {2**32 - 1}; other numbers can be sent by key 'body'",
            )
