"""The addresses in an INIT message, taken out and replaced by others.

Everything else in it stays as it was written: a launcher may say more than the protocol page
knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the sockets of the data plane are.

    Attributes:
        inputs: of each frontend, by client index.
        outputs: the same.
        coordinator_input: where the coordinator publishes to engines, if there is one.
        coordinator_output: where it takes their notices.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    coordinator_input: str | None = None
    coordinator_output: str | None = None


def addresses_of(body: bytes) -> Addresses | None:
    """Read the addresses of an INIT; ``None``: this is none."""
    found = _unpacked(body)
    if found is None:
        return None
    told = found["addresses"]
    inputs, outputs = told.get("inputs"), told.get("outputs")
    coordinator = (told.get("coordinator_input"), told.get("coordinator_output"))
    if not _are_texts(inputs) or not _are_texts(outputs) or len(inputs) != len(outputs):
        return None
    if not all(one is None or isinstance(one, str) for one in coordinator):
        return None
    if None in coordinator:
        coordinator = (None, None)
    return Addresses(tuple(inputs), tuple(outputs), *coordinator)


def with_addresses(body: bytes, addresses: Addresses) -> bytes:
    """Return the INIT with other addresses.

    Raises:
        ValueError: it is no INIT.
    """
    found = _unpacked(body)
    if found is None:
        msg = "this is no INIT"
        raise ValueError(msg)
    told = dict(found["addresses"])
    told["inputs"], told["outputs"] = list(addresses.inputs), list(addresses.outputs)
    if addresses.coordinator_input is not None:
        told["coordinator_input"] = addresses.coordinator_input
        told["coordinator_output"] = addresses.coordinator_output
    packed: bytes = msgpack.packb({**found, "addresses": told}, use_bin_type=True)
    return packed


def _unpacked(body: bytes) -> dict[Any, Any] | None:
    try:
        found = msgpack.unpackb(body, raw=False, strict_map_key=False)
    except (ValueError, msgpack.UnpackException):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("addresses"), dict):
        return None
    return found


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
