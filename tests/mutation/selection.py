"""Which tests concern a module: the nearest first, so that most mutants die within a second."""

from __future__ import annotations

PURE = "tests/client/test_pure.py"
VALUES = "tests/client/test_values.py"
EDGES = "tests/client/test_edges.py"
CODEC = (
    "tests/client/protocol/test_codec_outputs.py",
    "tests/client/protocol/test_codec_requests.py",
    "tests/client/protocol/test_codec_tensors.py",
    "tests/client/protocol/test_codec_startup.py",
    "tests/client/protocol/test_codec_values.py",
    "tests/client/protocol/test_codec_roundtrip.py",
)
KEPT = "tests/client/protocol/test_codec_kept.py"

NEAREST: dict[str, tuple[str, ...]] = {
    "client/aggregation.py": (PURE, "tests/client/test_utility_calls.py"),
    "client/config.py": ("tests/client/test_config.py",),
    "client/coordinator.py": (PURE, "tests/client/test_coordinators.py"),
    "client/errors.py": (
        "tests/client/test_config.py",
        PURE,
        "tests/client/test_call.py",
        "tests/client/test_lifecycle.py",
    ),
    "client/events.py": (PURE, "tests/client/test_call.py", "tests/client/test_lifecycle.py"),
    "client/external_coordinator.py": (PURE, "tests/client/test_coordinators.py"),
    "client/handshake.py": ("tests/client/test_handshake.py",),
    "client/rank_metadata.py": ("tests/client/test_config.py",),
    "client/requests.py": (PURE, "tests/client/test_call.py", "tests/client/test_lifecycle.py"),
    "client/routing.py": (PURE, "tests/client/test_call.py"),
    "client/streams.py": (PURE, "tests/client/test_call.py"),
    "client/utility.py": (PURE, "tests/client/test_utility_calls.py"),
    "client/protocol/codec_kept.py": (KEPT, *CODEC),
    "client/protocol/codec_requests.py": (CODEC[1], KEPT, CODEC[5]),
    "client/protocol/codec_startup.py": (CODEC[3], "tests/client/test_handshake.py"),
    "client/protocol/codec_tensors.py": (CODEC[2], CODEC[0]),
    "client/protocol/ids.py": (PURE, CODEC[4], "tests/client/test_call.py"),
    "client/protocol/messages.py": (PURE, *CODEC),
    "client/protocol/profiles.py": ("tests/client/protocol/test_profiles.py", PURE),
    "client/protocol/transport.py": (PURE, "tests/client/test_lifecycle.py"),
    "mock_engines/waves.py": ("tests/mock_engines/test_waves.py",),
}
"""First tests of a module; a codec module that is not named here has those of the whole codec."""

REST = ("tests/client", "tests/mock_engines", "tests/properties", "tests/golden")
"""All fast tests: for what the nearest ones let live. No sockets, no binaries."""

MARKS = "not zmq and not vllm_rs"


def nearest(file: str) -> tuple[str, ...]:
    """Tests to try first for a module."""
    return (*NEAREST.get(file, CODEC), EDGES, VALUES)
