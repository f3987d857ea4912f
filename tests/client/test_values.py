"""What is passed between parts is a value: nobody changes it, and it has no room for more."""

from __future__ import annotations

import enum
import inspect
from types import ModuleType

import pytest

from client import config, coordinator, events, external_coordinator, handshake, routing, streams
from client.protocol import messages, profiles, transport
from mock_engines import waves

MODULES = (
    config, coordinator, events, external_coordinator, handshake, messages, profiles, routing,
    streams, transport, waves,
)  # fmt: skip
"""Modules that hold values, and no class with a life beside those of ``STATES``."""

STATES = {
    "AutoWaves", "CoordinatorState", "ExternalCoordinatorState", "ExternalView", "HandshakeState",
    "RankWave", "Routing", "Socket", "StreamState", "Transport",
}  # fmt: skip
"""Objects that change: each belongs to one owner."""


def values(module: ModuleType) -> list[type]:
    return [
        each
        for each in vars(module).values()
        if inspect.isclass(each)
        and each.__module__ == module.__name__
        and not issubclass(each, (enum.Enum, Exception))
        and each.__name__ not in STATES
    ]


VALUES = [pytest.param(each, id=each.__name__) for module in MODULES for each in values(module)]


def fields(kind: type) -> list[str]:
    """Names of a value's fields, whichever library made the class."""
    return list(inspect.signature(kind).parameters)


def made(kind: type) -> object:
    return kind(**dict.fromkeys(fields(kind), 0))


@pytest.mark.parametrize("kind", VALUES)
def test_value_cannot_be_changed(kind):
    value = made(kind)
    for name in fields(kind):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)
        assert getattr(value, name) == 0


@pytest.mark.parametrize("kind", VALUES)
def test_value_is_equal_to_another_of_its_fields_and_may_stand_in_a_set(kind):
    assert {made(kind)} == {made(kind)}
    for name in fields(kind):
        assert kind(**dict.fromkeys(fields(kind), 0) | {name: 1}) != made(kind)


@pytest.mark.parametrize("kind", [*VALUES, pytest.param(waves.RankWave, id="RankWave")])
def test_value_has_room_for_its_fields_only(kind):
    assert not hasattr(made(kind), "__dict__")
