"""What stands in requests, against what the libraries send."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.targets.vllm_rs.http_words import (
    framing_flaw,
    header_flaw,
    metadata_flaw,
    method_flaw,
    path_flaw,
)

CHARACTERS = st.characters(exclude_categories=["Cs"])
NAMES = st.text(st.characters(max_codepoint=0x100), min_size=0, max_size=4)


@given(NAMES, st.text(CHARACTERS, max_size=6))
@example("X-A", "é😀")
@example("X-A", " a")
@example("X-A", "a\x0bb")
@example("X A", "a")
def test_headers_are_refused_exactly_where_h11_refuses_them(name, value):
    h11 = pytest.importorskip("h11", reason="the extra `frontend` is not installed")
    if framing_flaw(name, value, has_body=False, headless=True) is not None:
        return
    headers = [("Host", "h"), (name, value.encode())]
    try:
        h11.Request(method="GET", target="/", headers=headers)
    except (h11.LocalProtocolError, UnicodeEncodeError):
        assert header_flaw(name, value) is not None
    else:
        assert header_flaw(name, value) is None


@pytest.mark.parametrize(
    ("name", "value", "has_body", "headless", "right"),
    [
        ("Host", "h", False, False, False),
        ("content-length", "3", True, False, False),
        ("Content-Length", "3", False, False, False),
        ("Content-Length", "3", False, True, True),
        ("Content-Length", "three", False, True, False),
        ("Content-Length", "1" * 21, False, True, False),
        ("Transfer-Encoding", "gzip", True, False, False),
        ("Transfer-Encoding", "Chunked", True, False, True),
        ("Expect", "100-continue", True, False, True),
    ],
)
def test_header_that_contradicts_what_is_sent_is_refused(name, value, has_body, headless, right):
    assert (framing_flaw(name, value, has_body=has_body, headless=headless) is None) is right


@pytest.mark.parametrize("path", ["/", "//v1", "/v1/../x", "/sleep%00", "/é", "/a%zz"])
def test_odd_path_that_can_be_sent_is_fine(path):
    assert path_flaw(path, "GET") is None


@pytest.mark.parametrize(
    ("path", "title", "expected"),
    [
        ("v1/models", "path 'v1/models' does not begin with a slash", "such as '/v1/models'"),
        (
            "/sleep?level=1",
            "a path has no '?'",
            "key 'query' for parameters, or %3F for the character itself",
        ),
        (
            "/a#b",
            "a path has no '#'",
            "no fragment, which is not sent, or %23 for the character itself",
        ),
        ("/a b", "a path has no ' '", "%20 for the character itself"),
        ("/a\r\nX: 1", "a path has no '\\r'", "%0D for the character itself"),
    ],
)
def test_path_that_cannot_be_sent_as_it_stands_is_refused(path, title, expected):
    assert path_flaw(path, "GET") == (title, expected)


def test_star_is_a_path_for_options_only():
    assert path_flaw("*", "OPTIONS") is None
    assert path_flaw("*", "GET") is not None


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("x-a_b.c", " ~!", True),
        ("x-a", "", True),
        ("X-A", "a", False),
        ("x a", "a", False),
        ("", "a", False),
        (":path", "a", False),
        ("x-bin", "a", False),
        ("user-agent", "a", False),
        ("x", "a\nb", False),
        ("x", "é", False),
        ("x", "\t", False),
    ],
)
def test_metadata_that_the_library_cannot_send_is_refused(name, value, right):
    assert (metadata_flaw(name, value) is None) is right


@pytest.mark.parametrize(
    "method", ["", "Control", "/Control/IsPaused", "Control/", "Co ntrol/A", "A/B\r"]
)
def test_name_that_is_no_method_is_refused(method):
    assert method_flaw(method) is not None
