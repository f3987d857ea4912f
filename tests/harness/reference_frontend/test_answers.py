"""Shapes of completion answers, without a server."""

from __future__ import annotations

import pytest

from client.protocol.messages import EngineCoreOutput, FinishReason, RequestError
from client.protocol.profiles import profile_for
from harness.reference_frontend.answers import Answer, Text, engine_refusal, finish_text


def answer(release, *, return_ids=True):
    return Answer(profile_for(release), "cmpl-a", "m", (97, 98), 5, return_ids)


def output(*tokens, finish=None, **more):
    return EngineCoreOutput("a", tokens, finish_reason=finish, **more)


LAST = output(99, finish=FinishReason.LENGTH)


def whole(release, **more):
    one = answer(release, **more)
    one.tokens += LAST.new_token_ids
    return one.whole(LAST)


def test_whole_answer_of_0_22_has_only_what_is_set():
    assert whole("0.22.0") == {
        "id": "cmpl-a",
        "object": "text_completion",
        "created": 5,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "text": "c",
                "finish_reason": "length",
                "token_ids": [99],
                "prompt_token_ids": [97, 98],
            }
        ],
        "usage": {"prompt_tokens": 2, "total_tokens": 3, "completion_tokens": 1},
    }
    assert "token_ids" not in whole("0.22.0", return_ids=False)["choices"][0]


@pytest.mark.parametrize(
    ("release", "keys"),
    [
        ("0.25.1", []),
        ("0.26.0", ["system_fingerprint", "kv_transfer_params", "ec_transfer_params"]),
        ("0.33.0", ["metrics", "system_fingerprint", "kv_transfer_params", "ec_transfer_params"]),
    ],
)
def test_later_releases_add_keys_behind_the_usage(release, keys):
    body = whole(release)
    assert list(body) == ["id", "object", "created", "model", "choices", "usage", *keys]


def test_without_ids_later_releases_show_null():
    choice = whole("0.33.0", return_ids=False)["choices"][0]
    assert (choice["token_ids"], choice["prompt_token_ids"]) == (None, None)


@pytest.mark.parametrize(("release", "shown"), [("0.31.0", False), ("0.32.0", True)])
def test_empty_token_ids_are_shown_in_chunks_since_0_32(release, shown):
    first = answer(release).first_chunk()["choices"][0]
    last = answer(release).last_chunk(LAST)["choices"][0]
    assert ("token_ids" in first, "token_ids" in last) == (shown, shown)
    assert first["prompt_token_ids"] == [97, 98]
    assert last["finish_reason"] == "length"


def test_chunks_count_their_tokens_for_the_usage():
    one = answer("0.33.0")
    assert one.chunk(output(99))["choices"][0] == {"index": 0, "text": "c", "token_ids": [99]}
    one.chunk(output(100, finish=FinishReason.STOP))
    assert one.usage_chunk()["usage"]["completion_tokens"] == 2


def test_text_shows_a_character_when_it_is_complete_and_a_broken_one_at_the_end():
    text = Text()
    assert [text.add([0xC3]), text.add([0xA9, 256])] == ["", "é"]
    assert text.add([0xC3], last=True) == "\ufffd"


def test_repetition_has_its_own_name_since_0_25():
    assert finish_text(FinishReason.REPETITION, profile_for("0.24.0")) == "stop"
    assert finish_text(FinishReason.REPETITION, profile_for("0.25.0")) == "repetition"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (None, 500, "Internal server error"),
        (RequestError("internal", "secret", retryable=False), 500, "Internal server error"),
        (RequestError("engine_paused", "come back", retryable=True), 503, "come back"),
        (RequestError("validation_error", "too long", retryable=False), 400, "too long"),
    ],
)
def test_engine_error_shows_its_words_only_where_they_are_meant_for_callers(error, status, message):
    refusal = engine_refusal(output(finish=FinishReason.ERROR, error=error))
    assert (refusal.status, refusal.message) == (status, message)
    assert engine_refusal(LAST) is None
