"""What HTTP answers and requests become, without a server."""

from __future__ import annotations

from harness.scenario.model import CallStep
from harness.targets.vllm_rs.http_api import Answer, rank_headers
from harness.targets.vllm_rs.start_error import FrontendStartError, start_error


def test_a_body_that_is_no_json_decodes_to_nothing():
    assert Answer(200, "").json() is None
    assert Answer(200, '{"a":1}').json() == {"a": 1}
    assert not Answer(0, lost="ConnectionRefused").ok


def test_rank_headers_repeat_and_have_no_spaces_round_them():
    key = "X-data-parallel-rank"
    assert rank_headers(CallStep(id="a", rank_text=[" 1\t", "abc"])) == [(key, "1"), (key, "abc")]
    assert rank_headers(CallStep(id="a", rank=65_536)) == [(key, "65536")]
    assert rank_headers(CallStep(id="a")) == []


def test_a_start_error_has_the_name_of_the_client_error_that_the_log_shows():
    error = start_error(1, ["noise", "", "Caused by: timed out while waiting for HELLO after 2s"])
    assert type(error).__name__ == "HandshakeTimeout"
    assert isinstance(error, FrontendStartError)
    assert error.exit_code == 1
    assert "exit code 1" in str(error)
    assert type(start_error(2, ["usage"])).__name__ == "FrontendStartError"
