"""Error texts and bodies: what differs between releases, as measured on the real frontend."""

from __future__ import annotations

import pytest

from client.errors import (
    EngineCoreDead,
    HandshakeTimeout,
    InvalidDataParallelRank,
    RequestStreamClosed,
)
from client.protocol.profiles import RELEASES, profile_for
from harness.reference_frontend.texts import (
    Refusal,
    client_error_text,
    error_body,
    submission_refused,
)
from harness.targets.vllm_rs.client_errors import classify

RANK = InvalidDataParallelRank(7, [0, 3])


@pytest.mark.parametrize(
    ("release", "refusal", "error"),
    [
        ("0.22.0", Refusal(500, "m"), {"type": "server_error", "code": "server_error"}),
        (
            "0.26.0",
            Refusal(500, "m"),
            {"type": "server_error", "param": None, "code": "server_error"},
        ),
        ("0.33.0", Refusal(500, "m"), {"type": "InternalServerError", "param": None, "code": 500}),
        (
            "0.22.0",
            Refusal(404, "m", "model"),
            {"type": "invalid_request_error", "param": "model", "code": "model_not_found"},
        ),
        (
            "0.33.0",
            Refusal(404, "m", "model"),
            {"type": "NotFoundError", "param": "model", "code": 404},
        ),
        (
            "0.25.0",
            Refusal(400, "m", unreadable=True),
            {"type": "invalid_request_error", "code": "json_parse_error"},
        ),
        (
            "0.33.0",
            Refusal(400, "m", unreadable=True),
            {"type": "Bad Request", "param": None, "code": 400},
        ),
        (
            "0.32.0",
            Refusal(409, "m"),
            {"type": "conflict_error", "param": None, "code": "conflict_error"},
        ),
        ("0.33.0", Refusal(409, "m"), {"type": "Conflict", "param": None, "code": 409}),
        (
            "0.33.0",
            Refusal(503, "m"),
            {"type": "ServiceUnavailableError", "param": None, "code": 503},
        ),
    ],
)
def test_error_body_has_the_shape_of_its_release(release, refusal, error):
    assert error_body(profile_for(release), refusal) == {"error": {"message": "m", **error}}


def test_refused_rank_is_a_server_error_up_to_0_27_and_names_the_ranks_later():
    old = submission_refused(RANK, profile_for("0.27.1"))
    assert (old.status, old.message) == (
        500,
        "failed to submit completion request: engine-core error: "
        "data parallel rank 7 is out of range for 2 engine(s)",
    )
    new = submission_refused(RANK, profile_for("0.28.0"))
    assert new.status == 400
    assert new.message.endswith(
        "data parallel rank 7 is not connected to this frontend; connected ranks: [0, 3]"
    )


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "error",
    [RANK, RequestStreamClosed("cmpl-a-1"), HandshakeTimeout("HELLO", 1.0), EngineCoreDead()],
    ids=lambda error: type(error).__name__,
)
def test_text_of_every_release_is_classified_as_the_error_that_it_is(release, error):
    assert classify(client_error_text(error, profile_for(release))) == type(error).__name__
