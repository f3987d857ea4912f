"""Numbers that no scenario needs are refused: a run must come to an end."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mock_engines.behaviours.model import Action, Join

LARGEST: list[tuple[dict[str, Any], tuple[str, ...], int]] = [
    ({"reply_with": {"value": True}}, ("reply_with", "times"), 10_000),
    ({"reply_with": {"value": True}}, ("reply_with", "list_of"), 100_000),
    ({"output": {}}, ("output", "times"), 10_000),
    ({"output": {}}, ("output", "rows"), 10_000),
    ({"output": {}}, ("output", "finished"), 10_000),
    ({"raw": {"frames": ["00"]}}, ("raw", "times"), 10_000),
    ({"stream": {}}, ("stream", "tokens"), 100_000),
    ({"flood": {}}, ("flood", "count"), 1_000_000),
    ({"flood": {}}, ("flood", "count_real"), 1_000_000),
    ({}, ("delay_ms",), 3_600_000),
]


def action(base: dict[str, Any], path: tuple[str, ...], value: int) -> dict[str, Any]:
    *parents, name = path
    if not parents:
        return {name: value}
    return {parents[0]: {**base[parents[0]], name: value}}


@pytest.mark.parametrize(("base", "path", "largest"), LARGEST)
def test_number_is_bounded_above(base: dict[str, Any], path: tuple[str, ...], largest: int) -> None:
    Action.model_validate(action(base, path, largest))
    with pytest.raises(ValidationError, match=f"less than or equal to {largest}"):
        Action.model_validate(action(base, path, largest + 1))


@pytest.mark.parametrize("name", ["hello_times", "register_times", "subscribe_times"])
def test_startup_messages_are_bounded(name: str) -> None:
    Join.model_validate({name: 1_000})
    with pytest.raises(ValidationError, match="less than or equal to 1000"):
        Join.model_validate({name: 1_001})
