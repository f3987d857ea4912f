"""Token values that say which request they belong to.

A mock engine has no model, so its tokens may as well carry evidence: each is a function of the
caller's request id and of its place in the stream. An output that crosses to another stream, is
lost, doubled or out of order then shows in the values, on every target. All are ASCII letters,
so that the byte-level tokenizer of a real frontend gives them back as text.
"""

from __future__ import annotations

import re
import zlib

TOKEN_MIN = ord("a")
TOKEN_MAX = ord("z")
_LETTERS = TOKEN_MAX - TOKEN_MIN + 1
_STEPS = (1, 3, 5, 7, 9, 11, 15, 17, 19, 21, 23, 25)
API_PREFIXES = ("chatcmpl-", "cmpl-")
"""What an HTTP route puts before the caller's id (vLLM ``entrypoints/openai``)."""
_RANDOM_SUFFIX = re.compile(r"-[0-9a-f]{8}$")


def caller_id(request_id: str) -> str:
    """Return the id that the caller gave: without the route's prefix and the random suffix.

    Works on external and internal ids alike.

    Source: Rust frontend, request id randomisation (``<id>-<8 hex digits>``).
    """
    for prefix in API_PREFIXES:
        if request_id.startswith(prefix):
            request_id = request_id[len(prefix) :]
            break
    return _RANDOM_SUFFIX.sub("", request_id)


def token_for(external_id: str, index: int) -> int:
    """Return token number ``index`` (from 0) of the stream of a request, 97..122.

    A stream walks the alphabet from a start, and with a step, that depend on the request. The
    step shares no factor with 26, so 26 tokens in a row are all different: a token that is
    lost, doubled or out of place always shows.
    """
    digest = zlib.crc32(caller_id(external_id).encode("utf-8", "surrogatepass"))
    step = _STEPS[digest % len(_STEPS)]
    return TOKEN_MIN + (digest // len(_STEPS) + index * step) % _LETTERS


def tokens_for(external_id: str, *, start: int, count: int) -> tuple[int, ...]:
    """Return ``count`` tokens of the stream, from number ``start`` on."""
    return tuple(token_for(external_id, start + offset) for offset in range(count))
