"""Token values carry evidence of where they belong."""

import pytest

from mock_engines.tokens import TOKEN_MAX, TOKEN_MIN, caller_id, token_for, tokens_for


@pytest.mark.parametrize(
    ("given", "caller"),
    [
        ("a", "a"),
        ("cmpl-a", "a"),
        ("chatcmpl-a", "a"),
        ("cmpl-a-0123abcd", "a"),
        ("a-0123abcd", "a"),
        ("a-0123ABCD", "a-0123ABCD"),
        ("a-0123abc", "a-0123abc"),
        ("xcmpl-a", "xcmpl-a"),
    ],
)
def test_caller_id_strips_route_prefix_and_random_suffix_only(given, caller):
    assert caller_id(given) == caller


def test_tokens_are_equal_for_all_names_of_one_request():
    names = ["a", "cmpl-a", "chatcmpl-a", "cmpl-a-0123abcd"]
    assert len({tokens_for(name, start=0, count=10) for name in names}) == 1


def test_tokens_are_letters_and_26_in_a_row_differ():
    tokens = tokens_for("some-request", start=5, count=26)
    assert sorted(tokens) == list(range(TOKEN_MIN, TOKEN_MAX + 1))


def test_tokens_of_two_requests_rarely_agree():
    streams = {tokens_for(f"r{number}", start=0, count=4) for number in range(30)}
    assert len(streams) == 30


def test_token_values_are_pinned_so_that_failure_files_stay_valid():
    assert bytes(tokens_for("a", start=0, count=6)) == b"gezvdl"
    assert token_for("a", 26) == token_for("a", 0)
    assert TOKEN_MIN <= token_for("é\ud800", 3) <= TOKEN_MAX
