"""The rank that a caller asked for, as its surface reads it."""

from __future__ import annotations

import typing

import pytest

from harness.invariants._ranks import ANY, HTTP_SURFACES, Asked, asked
from harness.scenario.model import Surface
from harness.trace.events import CallStarted

NAMED = [name for name in typing.get_args(Surface) if name != "auto"]


def started(surface, *text, rank=None):
    return CallStarted("a", "a", rank, text, surface)


def test_every_surface_but_grpc_is_http():
    assert {name for name in NAMED if not name.startswith("grpc")} == HTTP_SURFACES


@pytest.mark.parametrize("surface", NAMED)
def test_a_text_that_is_no_rank_is_ignored_over_http_and_refused_over_grpc(surface):
    expected = Asked(refused=True) if surface.startswith("grpc") else ANY
    assert asked(started(surface, "one")) == expected
    assert asked(started(surface, "4294967296")) == expected
    assert asked(started(surface, " 1 ", "2")) == Asked(1)
    assert asked(started(surface, rank=3)) == Asked(3)
