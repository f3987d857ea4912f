"""Events survive the way through a pipe."""

import json
import typing

import pytest

from mock_engines import events
from mock_engines.event_json import event_from_json, event_to_json

SAMPLES = {
    "int": 3,
    "str": "é\ud800'",
    "bytes": b"\x01\x00",
    "bool": True,
    "str | None": None,
    "int | None": 7,
    "tuple[int, ...]": (1, 2),
    "tuple[str, ...]": ("a", "b"),
    "tuple[tuple[int, str], ...]": ((1, "a"), (2, "b")),
    "tuple[tuple[int, int], ...]": ((0, 3),),
    "tuple[tuple[int, int, int], ...]": ((0, 1, 2), (3, 4, 5)),
    "tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]": ((0, ("dummy",), ("ADD r",)),),
    "tuple[tuple[int, str, str], ...]": ((0, "device", "forward"), (1, "host", "sync")),
}


@pytest.mark.parametrize("cls", typing.get_args(events.MockEvent), ids=lambda cls: cls.__name__)
def test_every_event_survives_the_round_trip(cls):
    event = cls(**{name: SAMPLES[hint] for name, hint in cls.__annotations__.items()})
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
