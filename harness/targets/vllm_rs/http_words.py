"""What can stand in an HTTP request or in gRPC metadata; pure, and needs no library.

It says what the libraries that send would refuse in the middle of a run, or change without a
word. ``tests/harness/targets/vllm_rs`` compares it with h11.

Source: RFC 9110, 5.5 and 5.6.2; RFC 9112, 3.2; gRPC over HTTP/2, *Custom-Metadata*.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE_NEVER = re.compile(r"[\x00\n\r\x0b\x0c]")
_TARGET_NEVER = re.compile(r"[\x00-\x20\x7f]")
_METADATA_NAME = re.compile(r"[-_.0-9a-z]+")
_METADATA_VALUE = re.compile(r"[\x20-\x7e]*")
_METADATA_OWN = frozenset({"content-type", "te", "user-agent"})
"""Metadata that the gRPC library sends itself, whatever it is told."""
_BINARY = "-bin"
_LENGTH_DIGITS_MAX = 20
_METHOD = re.compile(r"[!-~]+")
EVERYTHING = "*"

Flaw = tuple[str, str]
"""What is wrong, and what would be right."""


def path_flaw(path: str, verb: str) -> Flaw | None:
    """Say why a path cannot be asked for as it stands. What is not ASCII is sent encoded."""
    if path == EVERYTHING and verb == "OPTIONS":
        return None
    if not path.startswith("/"):
        return f"path '{path}' does not begin with a slash", f"such as '/{path.strip()}'"
    for mark, encoded in (("?", "%3F"), ("#", "%23")):
        if mark in path:
            key = "key 'query' for parameters" if mark == "?" else "no fragment, which is not sent"
            return f"a path has no '{mark}'", f"{key}, or {encoded} for the character itself"
    if (found := _TARGET_NEVER.search(path)) is not None:
        character = found[0]
        return (
            f"a path has no {character!r}",
            f"%{ord(character):02X} for the character itself",
        )
    return None


def header_flaw(name: str, value: str) -> Flaw | None:
    """Say why this cannot be a header. A value beyond ASCII is sent as UTF-8."""
    if _TOKEN.fullmatch(name) is None:
        return f"'{name}' is no name of a header", "letters, digits and !#$%&'*+-.^_`|~"
    return header_value_flaw(value, f"header '{name}'")


def header_value_flaw(value: str, what: str) -> Flaw | None:
    """Say why this cannot be the value of a header; ``what`` names it."""
    if (found := _VALUE_NEVER.search(value)) is not None:
        return f"the value of {what} has {found[0]!r}, which no header carries", "one line of text"
    if value != value.strip(" \t"):
        return (
            f"the value of {what} begins or ends with a space, which is no part of it",
            "text without spaces round it",
        )
    return None


def framing_flaw(name: str, value: str, *, has_body: bool, headless: bool) -> Flaw | None:
    """Say why a header contradicts what is sent with it.

    Args:
        name: of the header.
        value: of the header.
        has_body: whether a body goes with it, whose length is announced by us.
        headless: whether nothing follows the head, whatever it announces.
    """
    match name.lower():
        case "host":
            return "every request has a header 'Host' already", "no second one"
        case "content-length" if has_body:
            return "the length of the body is announced already", "no header 'Content-Length'"
        case "content-length":
            digits = value.isascii() and value.isdigit() and len(value) <= _LENGTH_DIGITS_MAX
            if not digits:
                return f"'{value}' is no length", "digits"
            if not headless:
                return (
                    "the header announces a body, and there is none",
                    "key 'body' or 'text', or send: head",
                )
        case "transfer-encoding" if value.lower() != "chunked":
            return f"transfer encoding '{value}' cannot be sent", "chunked"
    return None


def metadata_flaw(name: str, value: str) -> Flaw | None:
    """Say why this cannot be metadata of a gRPC call."""
    if _METADATA_NAME.fullmatch(name) is None:
        return (
            f"'{name}' is no name of metadata",
            "lower-case letters, digits and -_.",
        )
    if name.endswith(_BINARY):
        return f"metadata '{name}' carries bytes, which a file cannot give", "a name without -bin"
    if name in _METADATA_OWN:
        return f"metadata '{name}' is sent by the gRPC library itself", "another name"
    if _METADATA_VALUE.fullmatch(value) is None:
        return f"the value of metadata '{name}' is no printable ASCII", "printable ASCII"
    return None


def method_flaw(method: str) -> Flaw | None:
    """Say why this cannot be the name of a gRPC method."""
    service, slash, name = method.partition("/")
    if not service or not slash or not name or _METHOD.fullmatch(method) is None:
        return f"'{method}' is no name of a gRPC method", "Service/Method, such as Control/IsPaused"
    return None
