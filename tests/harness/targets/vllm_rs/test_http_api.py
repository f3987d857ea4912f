"""What HTTP answers and requests become, without a server."""

from __future__ import annotations

import pytest

from harness.scenario.model import CallStep
from harness.targets.base import StartFailed
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
    lines = ["noise", "", "Caused by: timed out while waiting for HELLO after 2s"]
    error = start_error(1, lines, ["f"], 0)
    assert type(error).__name__ == "HandshakeTimeout"
    assert isinstance(error, FrontendStartError)
    assert error.exit_code == 1
    assert "exit code 1" in str(error)
    assert error.command == "f"


@pytest.mark.parametrize(("code", "log_lines"), [(1, 1), (101, 0)])
def test_a_start_error_without_a_known_text_is_one_if_it_shows_a_log_or_a_panic(code, log_lines):
    assert type(start_error(code, ["odd"], ["f"], log_lines)) is FrontendStartError


@pytest.mark.parametrize(
    ("code", "lines", "words"),
    [
        (1, ["no libcuda"], "ended with exit code 1 before it was ready; it said:\nno libcuda"),
        (3, [], "ended with exit code 3 before it was ready; it said nothing"),
        (3, ["", " "], "ended with exit code 3 before it was ready; it said nothing"),
        (2, ["usage"], "ended with exit code 2 before it was ready; it said:\nusage"),
        (-11, [], "ended by SIGSEGV before it was ready; it said nothing"),
        (1, ["x" * 9_000], "it said:\n" + "x" * 400 + "\n"),
    ],
)
def test_a_process_without_a_word_of_a_frontend_has_not_started_and_no_scenario_expects_that(
    code, lines, words
):
    error = start_error(code, lines, ["/a b", "serve"], 0)
    assert isinstance(error, StartFailed)
    assert words in str(error)
    assert str(error).endswith("\ncommand: '/a b' serve")
