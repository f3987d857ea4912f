"""What each release's binary takes and refuses, we take and refuse, with the same error."""

from __future__ import annotations

from collections import Counter

import pytest

from client.protocol.codec import Codec, DecodeError, ExtValueDecodeError
from client.protocol.messages import RequestBatch, UtilityReply
from client.protocol.profiles import RELEASES, profile_for

# Where we differ on purpose: the binary's verdict, and ours.
DEVIATIONS = {
    # Up to 0.26 the binary's process ends in a panic; nobody can want that.
    "lp zero cols": ("T", "X"),
    # A map key that is an array cannot be a key in Python. No engine sends one.
    "ut val listkey": (".", "D"),
    "listkey tr": (".", "D"),
    # Values deeper than docs/limits.md says: what walks through a message recurses in Python.
    "deep tr 200": (".", "D"),
    "deep tr 900": (".", "D"),
    # A msgpack timestamp of impossible length in a free-form value.
    "timestampext bad": (".", "D"),
}


def verdict(codec, frames):
    try:
        kind = codec.classify(frames)
    except ExtValueDecodeError:
        return "X"
    except DecodeError:
        return "D"
    return "." if isinstance(kind, (RequestBatch, UtilityReply)) else "U"


@pytest.mark.parametrize("release", RELEASES)
def test_output_messages_get_the_verdict_of_the_binary(strictness, release):
    codec = Codec(profile_for(release))
    column = RELEASES.index(release)
    differences, seen = [], Counter()
    for probe in strictness:
        measured = probe["verdicts"][column]
        if measured == "-":
            continue
        seen[measured] += 1
        ours = verdict(codec, [bytes.fromhex(frame) for frame in probe["frames"]])
        if ours != measured and DEVIATIONS.get(probe["what"]) != (measured, ours):
            differences.append((probe["what"], measured, ours))
    assert differences == []
    assert seen["."] > 90
    assert seen["D"] > 100
    assert seen["X"] > 30


def test_deviations_are_all_measured(strictness):
    found = {p["what"] for p in strictness if p["what"] in DEVIATIONS}
    assert found == set(DEVIATIONS)
