"""Reads a completion request: JSON in, what the client is asked for out. Pure.

Only token ids and plain text (read as bytes, as the generated model has it) are prompts, and what
is not carried out is refused: nothing is silently ignored that changes an answer.

Source: protocol page, sections 4.4 and 6.4; statuses and texts as measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from client.protocol.profiles import Profile
from client.protocol.strict_json import loads
from harness.reference_frontend.texts import BAD_REQUEST, NOT_FOUND, SERVER_ERROR, Refusal, since

U32_MAX = (1 << 32) - 1
DEFAULT_MAX_TOKENS = 16
_UNCARRIED = ("stop", "suffix", "logprobs", "prompt_logprobs", "echo", "best_of", "logit_bias")
"""Keys that would change the answer, and that this frontend does not carry out."""
_OLD_MODE = "0.29"
"""First release in which ``model`` may be left out."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation, whatever surface asked for it.

    Attributes:
        external_id: as callers know it.
        sampling: the map of the wire.
        rank: explicit data-parallel rank.
        lora: array of the adapter to use.
    """

    external_id: str
    prompt: tuple[int, ...]
    sampling: Mapping[str, Any]
    rank: int | None = None
    priority: int = 0
    lora: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A body of ``/v1/completions`` that is understood.

    Attributes:
        request_id: given in the body, without prefix.
        return_ids: answer with token ids.
        include_usage: close a stream with the usage.
    """

    model: str | None
    prompt: tuple[int, ...]
    max_tokens: int
    stream: bool
    return_ids: bool
    include_usage: bool
    request_id: str | None
    priority: int
    extra: Mapping[str, Any] = field(default_factory=dict)


def read_json(body: bytes, content_type: str) -> dict[str, Any]:
    """Return the JSON object of a body.

    Raises:
        Refusal: another content type, no JSON, or no object.
    """
    if content_type != "application/json":
        text = "Expected request with `Content-Type: application/json`"
        raise Refusal(BAD_REQUEST, text, unreadable=True)
    try:
        decoded = loads(body)
        _refuse_halves(decoded)
    except ValueError as error:
        text = f"Failed to parse the request body as JSON: {error}"
        raise Refusal(BAD_REQUEST, text, unreadable=True) from error
    if not isinstance(decoded, dict):
        msg = "the body is no object"
        raise mistyped(msg)
    return decoded


def _refuse_halves(value: Any) -> None:
    """Raise ``UnicodeEncodeError``, a ``ValueError``, for text that has half of a surrogate pair.

    JSON can spell one; it has no form on the wire.
    """
    json.dumps(value, ensure_ascii=False).encode()


def mistyped(what: str) -> Refusal:
    """Return the refusal of a body whose fields are not those of the route."""
    text = f"Failed to deserialize the JSON body into the target type: {what}"
    return Refusal(BAD_REQUEST, text, unreadable=True)


def field_of(
    body: Mapping[str, Any], name: str, kind: type | tuple[type, ...], default: Any = None
) -> Any:
    """Return a field that has the right type, ``default`` where it is absent or nil.

    Raises:
        Refusal: it has another type.
    """
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        msg = f"{name}: invalid type: {value!r}"
        raise mistyped(msg)
    return value


def unsigned(body: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    """Return an unsigned 32-bit field. Raises ``Refusal``."""
    value = field_of(body, name, int, default)
    if value is not None and not 0 <= value <= U32_MAX:
        msg = f"{name}: invalid value: integer `{value}`, expected u32"
        raise mistyped(msg)
    return value  # type: ignore[no-any-return]


def signed(body: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    """Return a signed 64-bit field. Raises ``Refusal``."""
    value = field_of(body, name, int, default)
    if value is not None and not -(1 << 63) <= value < 1 << 63:
        msg = f"{name}: invalid value: expected i64"
        raise mistyped(msg)
    return value  # type: ignore[no-any-return]


def number(body: Mapping[str, Any], name: str) -> float | None:
    """Return a field that is a number a float can be. Raises ``Refusal``."""
    value = field_of(body, name, (int, float))
    try:
        return None if value is None else float(value)
    except OverflowError as error:
        msg = f"{name}: number out of range"
        raise mistyped(msg) from error


def read_completion(body: Mapping[str, Any], profile: Profile) -> CompletionRequest:
    """Read a body of ``/v1/completions``.

    Raises:
        Refusal: a field is missing, has a wrong type, or asks for what is not carried out.
    """
    model = field_of(body, "model", str)
    if model is None and not since(profile, _OLD_MODE):
        msg = "missing field `model`"
        raise mistyped(msg)
    if body.get("prompt") is None:
        msg = "missing field `prompt`"
        raise mistyped(msg)
    prompt = _prompt(body["prompt"])
    max_tokens = unsigned(body, "max_tokens", DEFAULT_MAX_TOKENS)
    options = field_of(body, "stream_options", dict, {})
    request = CompletionRequest(
        model=model,
        prompt=prompt,
        max_tokens=DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens,
        stream=field_of(body, "stream", bool, False),
        return_ids=field_of(body, "return_token_ids", bool, False),
        include_usage=field_of(options, "include_usage", bool, False),
        request_id=field_of(body, "request_id", str),
        priority=signed(body, "priority", 0) or 0,
        extra=_sampling_fields(body),
    )
    if unsigned(body, "n", 1) != 1:
        raise Refusal(BAD_REQUEST, "Only n=1 is supported.", "n")
    for name in _UNCARRIED:
        if body.get(name) not in (None, False, [], {}):
            text = f"The reference frontend does not carry out `{name}`."
            raise Refusal(BAD_REQUEST, text, name)
    if request.max_tokens == 0:
        text = (
            "max_tokens=0 is only supported when echo=true."
            if since(profile, "0.24")
            else "max_tokens must be greater than 0."
        )
        raise Refusal(BAD_REQUEST, text, "max_tokens")
    return request


def _prompt(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        return tuple(value.encode())
    if isinstance(value, list) and all(
        type(each) is int and 0 <= each <= U32_MAX for each in value
    ):
        return tuple(value)
    msg = "prompt: data did not match any variant of untagged enum Prompt"
    raise mistyped(msg)


def _sampling_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return those sampling fields that a body sets."""
    numbers = (
        *("temperature", "top_p", "min_p"),
        *("frequency_penalty", "presence_penalty", "repetition_penalty"),
    )
    found: dict[str, Any] = {name: number(body, name) for name in numbers}
    found["seed"] = signed(body, "seed")
    found["ignore_eos"] = field_of(body, "ignore_eos", bool)
    found["kv_transfer_params"] = field_of(body, "kv_transfer_params", dict)
    found |= {name: unsigned(body, name) for name in ("top_k", "min_tokens")}
    found["stop_token_ids"] = stops = field_of(body, "stop_token_ids", list)
    if any(type(each) is not int or not 0 <= each <= U32_MAX for each in stops or ()):
        msg = "stop_token_ids: invalid value, expected u32"
        raise mistyped(msg)
    return {name: value for name, value in found.items() if value is not None}


def sampling_params(
    profile: Profile, *, max_tokens: int, temperature: float, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the sampling map of the wire: the keys that are always there, and those given.

    Args:
        profile: later releases have more keys.
        max_tokens: limit of new tokens.
        temperature: where none is given.
        given: fields that the caller set, ``kv_transfer_params`` among them.
    """
    stops = list(given.get("stop_token_ids", ()))
    params: dict[str, Any] = {
        "temperature": float(given.get("temperature", temperature)),
        "top_p": float(given.get("top_p", 1.0)),
        "top_k": given.get("top_k", 0),
        "max_tokens": max_tokens,
        "min_tokens": given.get("min_tokens", 0),
        "min_p": float(given.get("min_p", 0.0)),
        "frequency_penalty": float(given.get("frequency_penalty", 0.0)),
        "presence_penalty": float(given.get("presence_penalty", 0.0)),
        "repetition_penalty": float(given.get("repetition_penalty", 1.0)),
        "stop_token_ids": stops,
        "_all_stop_token_ids": sorted(stops),
    }
    if since(profile, "0.29"):
        params["routed_experts_prompt_start"] = 0
    if since(profile, "0.30"):
        params["watermarking"] = True
    if "seed" in given:
        params["seed"] = given["seed"]
    if "kv_transfer_params" in given:
        params["extra_args"] = {"kv_transfer_params": given["kv_transfer_params"]}
    return params


def check_prompt(
    prompt: Sequence[int], request_id: str, vocabulary: int | None, profile: Profile
) -> None:
    """Check a prompt against the model.

    Raises:
        Refusal: it is empty, or a token is beyond the vocabulary.
    """
    if not prompt:
        text = f"text request `{request_id}` must contain at least one prompt token ID"
        if since(profile, "0.24"):
            raise Refusal(BAD_REQUEST, text)
        raise Refusal(SERVER_ERROR, f"failed to submit completion request: {text}")
    beyond = [] if vocabulary is None else [token for token in prompt if token >= vocabulary]
    if beyond:
        text = (
            f"token_id(s) {beyond} in prompt are out of vocabulary. Vocabulary size: {vocabulary}"
        )
        raise Refusal(BAD_REQUEST, text)


def unknown_model(model: str) -> Refusal:
    """Return the refusal of a model that is not served."""
    return Refusal(NOT_FOUND, f"The model `{model}` does not exist.", "model")
