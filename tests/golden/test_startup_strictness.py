"""Handshake and registration bodies: what each release's binary takes and refuses."""

from __future__ import annotations

from collections import Counter

import pytest

from client.protocol.codec import Codec, DecodeError, HandshakeStatusError
from client.protocol.profiles import RELEASES, profile_for

# Where we differ on purpose: the binary's verdict, and ours.
DEVIATIONS = {
    # The Rust decoder takes any struct as an array too. No engine sends one.
    ("handshake", "arr"): (".", "D"),
    # The binary's text is that of an unexpected message, which the client's handshake adds.
    ("registration", "empty"): ("U", "D"),
    # The keys that the binary misses in an empty KV events configuration were not measured.
    ("registration", "kvev {}"): ("D", "."),
}


def verdict(codec, kind, body):
    decode = codec.decode_hello_or_ready if kind == "handshake" else codec.decode_ready_response
    try:
        decode(body)
    except HandshakeStatusError:
        return "U"
    except DecodeError:
        return "D"
    return "."


@pytest.mark.parametrize(
    "release", [r for r in RELEASES if r not in ("0.22.1", "0.25.1", "0.27.1", "0.30.0", "0.32.0")]
)
def test_startup_bodies_get_the_verdict_of_the_binary(startup_strictness, release):
    codec = Codec(profile_for(release))
    column = RELEASES.index(release)
    differences, seen = [], Counter()
    for probe in startup_strictness:
        measured = probe["verdicts"][column]
        assert measured in ".DU"
        seen[measured] += 1
        ours = verdict(codec, probe["kind"], bytes.fromhex(probe["body"]))
        place = (probe["kind"], probe["what"])
        if ours != measured and DEVIATIONS.get(place) != (measured, ours):
            differences.append((*place, measured, ours))
    assert differences == []
    assert min(seen["."], seen["D"]) > 10
