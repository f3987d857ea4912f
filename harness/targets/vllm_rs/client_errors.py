"""Names the frontend's errors: from the text that reaches the outside to the variant.

All errors of the engine-core client are one Rust type, whose variants have fixed texts. The
names are those of ``client.errors``. What has no fixed text keeps the name of its status, so
that a report never claims more than was seen.

Source: protocol page, section 17 (error catalogue), with the texts of the released binaries.
"""

from __future__ import annotations

import re

# In order: a utility failure ends with the engine's own words, which may look like any other
# text, so the utility patterns come first; `Shared` errors keep the text of the first error.
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("UtilityCallFailed", r"utility call `[^`]*` failed \(call_id=-?\d+\)"),
    ("UtilityResultDecode", r"utility call `[^`]*` returned an invalid result \(call_id="),
    ("UtilityCallClosed", r"closed unexpectedly \(call_id="),
    ("InconsistentUtilityResults", r"inconsistent results across engines"),
    ("InvalidDataParallelRank", r"data parallel rank \d+ is (?:out of range|not connected)"),
    ("InvalidDataParallelRank", r"connected ranks: \["),
    ("InvalidRankMetadata", r"metadata must be an unsigned 32-bit integer"),
    ("RequestStreamClosed", r"output stream for .* closed unexpectedly"),
    ("DuplicateRequestId", r"is already in flight"),
    ("EngineCoreDead", r"engine core reported fatal failure"),
    ("InputRegistrationTimeout", r"input registration timed out after"),
    ("HandshakeTimeout", r"timed out while waiting for .* after"),
    ("UnexpectedHandshakeMessage", r"unexpected startup handshake message"),
    ("InvalidClientConfig", r"invalid engine-core client configuration"),
    # 0.28 says the same without a name.
    ("InvalidClientConfig", r"connected engine range \[\d+, \d+\) exceeds data parallel size"),
    ("InvalidClientConfig", r"data parallel size \(\d+\) exceeds the two-byte engine identity"),
    ("UnexpectedCoordinatorOutput", r"unexpected non-control output on coordinator path"),
    ("UnexpectedDispatcherOutput", r"unexpected output on main dispatcher path"),
    ("UnsupportedCoordinatorEngineId", r"two-byte engine id, got"),
    ("UnsupportedExternalCoordinator", r"external coordinator mode"),
    ("UnsupportedField", r"unsupported field `"),
    ("ControlClosed", r"control channel closed"),
    ("DispatcherClosed", r"output dispatcher closed"),
    ("ClientClosed", r"client is closed"),
    ("ExtValueDecode", r"messagepack ext value decode failed"),
    # Of a body that is no MessagePack the text also tells why it cannot be shown as a value.
    ("Decode", r"messagepack decode failed.*value fallback: <value decode failed"),
    ("ValueDecode", r"messagepack value decode failed"),
    ("Decode", r"messagepack decode failed"),
    ("Encode", r"messagepack encode failed"),
    ("Transport", r"ZMQ runtime task failed|transport error"),
    ("Io", r"\bio error\b"),
)
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in _PATTERNS)
_REJECTED = re.compile(r"engine rejected the adapter|engine ranks rejected LoRA adapter")
ENGINE_ERROR_TEXT = "Internal server error"
"""What an output with finish reason *error* becomes; never the engine's own text (≤ 0.32)."""
GRPC_ENGINE_ERROR = "engine failed during generation"
"""The same over gRPC, with status INTERNAL (≥ 0.30; before, such a request shows as aborted)."""
RANK_DETAIL_LOST = "engine-core error"
"""All that HTTP says of ``InvalidDataParallelRank`` since 0.28: status 400 and this."""


def classify(text: str) -> str | None:
    """Return the name of the client error that ``text`` shows, ``None`` if it shows none."""
    for name, pattern in _COMPILED:
        if pattern.search(text):
            return name
    return None


def http_error_name(status: int, message: str, *, explicit_rank: bool) -> str:
    """Name the error behind an HTTP answer.

    A bare "engine-core error" with status 400 can only be a refused rank: every other client
    error is a 500. It counts as proof only if the caller asked for a rank.
    """
    if (name := classify(message)) is not None:
        return name
    if status == 400 and message == RANK_DETAIL_LOST and explicit_rank:
        return "InvalidDataParallelRank"
    return f"HttpError{status}"


def grpc_error_name(code: str, message: str) -> str:
    """Name the error behind a gRPC status, e.g. ``INVALID_ARGUMENT`` → ``GrpcInvalidArgument``."""
    return classify(message) or "Grpc" + code.title().replace("_", "")


def adapter_rejected(message: str) -> bool:
    """Whether a LoRA answer says that some engine answered ``false``."""
    return _REJECTED.search(message) is not None
