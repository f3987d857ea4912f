"""Reads JSON, and only JSON: what others hand us as JSON is read here.

The standard library takes more than the standard has: ``NaN``, ``Infinity``, numbers so large that they
become that, and objects in which a key stands twice, of which it silently drops all but the last. What nests too deep for it raises
``RecursionError``, which nobody who reads a file expects, and what has more digits than it reads a ``ValueError`` about its own settings.

Source: RFC 8259, sections 4 and 6.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any, NoReturn

NESTING_TEXT = "arrays and objects nest too deep"


class _RefusedError(ValueError):
    """Refused by a rule of ours."""


def loads(text: str | bytes, *, lenient: bool = False) -> Any:
    """Read one JSON text.

    Args:
        text: UTF-8 if it is bytes.
        lenient: take what the standard library takes, but for what nests too deep: for answers
            of a frontend, whose form is judged elsewhere.

    Raises:
        ValueError: it is no JSON; a ``json.JSONDecodeError`` where the library says so.
    """
    try:
        if lenient:
            return json.loads(text)
        return json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_finite
        )
    except RecursionError as error:
        raise ValueError(NESTING_TEXT) from error
    except (_RefusedError, json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError as error:
        # What is left is Python's own bound on the digits of a whole number.
        msg = f"a whole number has more than {sys.get_int_max_str_digits():,} digits"
        raise ValueError(msg) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        msg = f"key {twice[:40]!r} stands twice in one object"
        raise _RefusedError(msg)
    return found


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        msg = f"{digits[:40]} is larger than any number here"
        raise _RefusedError(msg)
    return value


def _constant(word: str) -> NoReturn:
    msg = f"{word} is no JSON number"
    raise _RefusedError(msg)
