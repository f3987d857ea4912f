"""What of a call, a crowd or a gRPC step a release cannot carry or show, by surface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.scenario.model import CallStep, CrowdStep, Expect, GrpcStep, Surface
from harness.targets.vllm_rs.grpc_messages import METHODS, full_name
from harness.targets.vllm_rs.http_surfaces import HTTP_SURFACES, STREAM
from harness.targets.vllm_rs.model_folder import END_TOKEN_ID, VOCABULARY
from harness.targets.vllm_rs.releases import at_least
from harness.targets.vllm_rs.surfaces import GRPC, http_surface, served, surface_of

_PRINTABLE = range(0x20, 0x7F)
_NO_WORD = {
    GRPC: frozenset({"repetition"}),
    "messages": frozenset({"abort", "repetition"}),
    "responses": frozenset({"repetition"}),
}
"""Finish reasons that an API has no word for."""


def surfaces(release: str) -> frozenset[str]:
    """Return the capabilities ``surface.*`` of a release."""
    found = {f"surface.{GRPC}", f"surface.{GRPC}{STREAM}"}
    for name in HTTP_SURFACES:
        for suffix in ("", STREAM):
            since = served(name, stream=bool(suffix))
            if since is not None and at_least(release, since):
                found.add(f"surface.{name}{suffix}")
    return frozenset(found)


def of_call(call: CallStep) -> Iterator[str]:
    """Yield why a call cannot be made."""
    yield from _prompt(call.prompt, surface_of(call))
    api = http_surface(surface_of(call))
    if call.stop and api is not None and not api.shows_text:
        yield f"{api.path} has no text, so no stop strings"
    for text in call.rank_text or ():
        if any(ord(character) not in _PRINTABLE and character != "\t" for character in text):
            yield f"rank text {text!r} is no header value"


def of_crowd(crowd: CrowdStep) -> Iterator[str]:
    """Yield why the calls of a crowd cannot be made."""
    yield from _prompt(crowd.prompt, crowd.surface)


def _prompt(prompt: list[int], surface: Surface | str) -> Iterator[str]:
    if any(token >= VOCABULARY for token in prompt):
        yield f"the generated model has {VOCABULARY} tokens"
    api = http_surface(surface)
    if api is not None and api.takes_text and not _is_text(prompt):
        yield f"{api.path} takes text, and the prompt is none"


def _is_text(prompt: list[int]) -> bool:
    if any(token >= END_TOKEN_ID for token in prompt):
        return False
    try:
        bytes(prompt).decode()
    except ValueError:
        return False
    return True


def of_grpc(step: GrpcStep, release: str) -> Iterator[str]:
    """Yield why a gRPC step cannot be made. A method that no release has can be asked for."""
    name = full_name(step.method)
    method = METHODS.get(name)
    if method is not None and not at_least(release, method.since):
        yield f"{name} exists since {method.since}"


def of_expect(expect: Expect, calls: Mapping[str, CallStep]) -> Iterator[str]:
    """Yield what the answer to a call does not show."""
    call = calls.get(expect.op or "")
    if call is None:
        return
    surface = surface_of(call)
    name = surface.removesuffix(STREAM)
    api = http_surface(surface)
    if expect.finish in _NO_WORD.get(name, ()):
        yield f"{name} has no word for finish reason {expect.finish}"
    if expect.kv_transfer_params is not None and api is not None and surface.endswith(STREAM):
        yield f"a stream of {api.path} does not carry kv_transfer_params"
    if api is not None and expect.text and not api.shows_text:
        yield f"{api.path} shows no text"
    if api is not None and expect.tokens and not api.shows_tokens:
        yield f"{api.path} shows no tokens"
