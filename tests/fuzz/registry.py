"""The families by name, made when they are asked for: some need optional libraries."""

from __future__ import annotations

import importlib

from tests.fuzz.model import Family

PURE = ("outputs", "requests", "utility", "tensors")
"""Decoders alone: a million inputs each are due for these, 50,000 for each other one."""
_PLACES = {
    "outputs": "decoders:Outputs",
    "requests": "decoders:Requests",
    "utility": "decoders:Utility",
    "tensors": "decoders:Tensors",
    "handshake": "startup:Handshake",
    "registration": "startup:Registrations",
    "coordinator": "paths:Coordinator",
    "publishes": "paths:Publishes",
    "scenario": "files:Scenarios",
    "failure": "files:Failures",
    "adapter": "adapter:AdapterLines",
    "http": "fronts:Http",
    "grpc": "fronts:Grpc",
}
FAMILIES = tuple(_PLACES)
"""All names."""


def family(name: str) -> Family:
    """Make a family.

    Raises:
        KeyError: there is none of this name.
    """
    module, _, cls = _PLACES[name].partition(":")
    found: Family = getattr(importlib.import_module(f"tests.fuzz.families.{module}"), cls)()
    return found


def due(name: str) -> int:
    """How many inputs a full campaign has."""
    return 1_000_000 if name in PURE else 50_000
