"""Error texts and error bodies, by release.

Texts are those of the real frontend wherever something outside reads them. One difference is
meant: the ranks that are connected are named over HTTP too, which releases since 0.28 leave out.

Source: protocol page, sections 17 and 18; bodies as measured on 0.22.0 to 0.33.0.
"""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from client.errors import (
    ClientError,
    HandshakeTimeout,
    InvalidDataParallelRank,
    RequestStreamClosed,
)
from client.protocol.profiles import Profile

OK, BAD_REQUEST, NOT_FOUND, CONFLICT, SERVER_ERROR, UNAVAILABLE = 200, 400, 404, 409, 500, 503
INTERNAL_TEXT = "Internal server error"
"""All that HTTP says of an output with finish reason *error*."""
PROFILE_ACTIVE_TEXT = (
    "A profiling session is already active. Call /stop_profile before starting another session."
)
_CLASS_NAMES = {
    BAD_REQUEST: "BadRequestError",
    NOT_FOUND: "NotFoundError",
    CONFLICT: "Conflict",
    SERVER_ERROR: "InternalServerError",
    UNAVAILABLE: "ServiceUnavailableError",
}
_OLDER_NAMES = {
    BAD_REQUEST: ("invalid_request_error", "invalid_request_error"),
    NOT_FOUND: ("invalid_request_error", "model_not_found"),
    CONFLICT: ("conflict_error", "conflict_error"),
    SERVER_ERROR: ("server_error", "server_error"),
    UNAVAILABLE: ("server_error", "server_error"),
}


class Refusal(Exception):  # noqa: N818  (an answer, not a fault of ours)
    """An answer that is an error.

    Attributes:
        status: of HTTP.
        message: for the caller.
        param: the parameter at fault, if there is one.
        unreadable: the body could not be read as what the route wants.
    """

    def __init__(
        self, status: int, message: str, param: str | None = None, *, unreadable: bool = False
    ) -> None:
        self.status = status
        self.message = message
        self.param = param
        self.unreadable = unreadable
        super().__init__(message)


def since(profile: Profile, bound: str) -> bool:
    """Whether the release is ``bound`` or newer."""
    return profile.version >= Version(bound)


def error_body(profile: Profile, refusal: Refusal) -> dict[str, Any]:
    """Return the JSON body of an error answer."""
    error: dict[str, Any] = {"message": refusal.message}
    code: object
    if since(profile, "0.33"):
        kind = _CLASS_NAMES.get(refusal.status, "InternalServerError")
        kind, code = ("Bad Request" if refusal.unreadable else kind), refusal.status
    else:
        kind, code = _OLDER_NAMES.get(refusal.status, _OLDER_NAMES[SERVER_ERROR])
        code = "json_parse_error" if refusal.unreadable else code
    error["type"] = kind
    if refusal.param is not None or since(profile, "0.26"):
        error["param"] = refusal.param
    error["code"] = code
    return {"error": error}


def client_error_text(error: ClientError, profile: Profile) -> str:
    """Return the text of a client's error as the release words it."""
    match error:
        case InvalidDataParallelRank() if since(profile, "0.28"):
            ranks = ", ".join(str(each) for each in error.connected_ranks)
            return (
                f"data parallel rank {error.rank} is not connected to this frontend; "
                f"connected ranks: [{ranks}]"
            )
        case InvalidDataParallelRank():
            count = len(error.connected_ranks)
            return f"data parallel rank {error.rank} is out of range for {count} engine(s)"
        case RequestStreamClosed():
            return f"request output stream for `{error.request_id}` closed unexpectedly"
        case HandshakeTimeout():
            return f"startup handshake {error}"
        case _:
            return str(error)


def submission_refused(error: ClientError, profile: Profile) -> Refusal:
    """Return the answer to a request that the client did not take."""
    text = client_error_text(error, profile)
    rank = isinstance(error, InvalidDataParallelRank) and since(profile, "0.28")
    return Refusal(
        BAD_REQUEST if rank else SERVER_ERROR,
        f"failed to submit completion request: engine-core error: {text}",
    )
