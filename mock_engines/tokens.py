"""Token values that say which request they belong to.

A mock engine has no model, so its tokens may as well carry evidence: each is a function of the
caller's request id and of its place in the stream. An output that crosses to another stream, is
lost, doubled or out of order then shows in the values, on every target. All are ASCII letters,
so that the byte-level tokenizer of a real frontend gives them back as text.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

TOKEN_MIN = ord("a")
TOKEN_MAX = ord("z")
_MULTIPLIER = 1664525
_INCREMENT = 1013904223
API_PREFIXES = ("chatcmpl-", "cmpl-")
"""What an HTTP route puts before the caller's id (vLLM ``entrypoints/openai``)."""
_RANDOM_SUFFIX = re.compile(r"-[0-9a-f]{8}$")


@lru_cache(maxsize=1024)
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


@lru_cache(maxsize=1024)
def _alphabet(caller: str) -> tuple[int, ...]:
    """Shuffle the letters by the caller's id (Fisher and Yates, with a small generator)."""
    letters = list(range(TOKEN_MIN, TOKEN_MAX + 1))
    state = zlib.crc32(caller.encode("utf-8", "surrogatepass"))
    for last in range(len(letters) - 1, 0, -1):
        state = (state * _MULTIPLIER + _INCREMENT) % 2**32
        # The upper bits: the lower ones of such a generator have short periods.
        other = (state >> 8) % (last + 1)
        letters[last], letters[other] = letters[other], letters[last]
    return tuple(letters)


def token_for(external_id: str, index: int) -> int:
    """Return token number ``index`` (from 0) of the stream of a request, 97..122.

    A stream repeats an order of the alphabet that depends on the request. So 26 tokens in a row
    are all different: a token that is lost, doubled or out of place always shows.
    """
    letters = _alphabet(caller_id(external_id))
    return letters[index % len(letters)]


def tokens_for(external_id: str, *, start: int, count: int) -> tuple[int, ...]:
    """Return ``count`` tokens of the stream, from number ``start`` on."""
    return tuple(token_for(external_id, start + offset) for offset in range(count))
