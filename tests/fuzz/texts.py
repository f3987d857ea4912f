"""Broken texts: JSON and YAML made of valid documents."""

from __future__ import annotations

import json
from random import Random  # noqa: TID251
from typing import Any

from tests.fuzz.mutate import garbled

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**64, -(2**63), 10**30, 1.5, float("nan"), float("inf"),
    "", "x", "0", "\x00", "é\u2028", "\ud800", "../../up", "/etc/passwd", "a\x00b", "<script>alert(1)</script>",
    "y" * 5_000, [], {}, [[]], [None], {"a": 1}, {"": None}, "0/2*99999999", "5/2", "NaN",
)  # fmt: skip
"""What is likely wrong wherever it stands."""
TOKENS = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1" * 5_000, b"-0", b"\"\\ud800\"", b"\"\\u0000\"", b"\xff", b"\xed\xa0\x80",
    b"[" * 3_000, b"{\"a\":" * 2_000, b"{\"a\":1,\"a\":2}", b"", b"//", b"\x00", b"\xef\xbb\xbf", b"0x1", b"01", b"tru",
)  # fmt: skip
"""What JSON has not, or has too much of."""
YAML = (
    b"!!python/object/apply:os.system ['true']", b"!!binary aGk=", b"!!set {a}", b"!local x", b"&a [*a]", b"*nowhere",
    b"&a [&b [x,x], *b, *b]", b"<<: {a: b}", b"{a: 1, a: 2}", b"? [a]\n: b", b"[" * 60, b"- " * 60 + b"x", b"{a: " * 60,
    b"--- x\n--- y", b"%YAML 1.1\n---\n", b"|\n  x\n y", b"\t- x", b"0x" + b"f" * 60, b"1" * 50, b".nan", b".inf", b"1e999",
    b"\"\\ud800\"", b"\"\\x00\"", b"\xff\xfe", b"\x00", b"\x85", b"'", b"\"", b"@x", b"`x`", b"%", b"#", b": :", b"0o777", b"~", b"yes",
    b"2024-01-01", b"12:30:00", b"= x", b"1_000", b"! x", b"!<tag:x> y", b"\xe2\x80\xa8", b"\xef\xbb\xbf",
)  # fmt: skip
"""What YAML has and scenario files have not, and what is no YAML."""


def mutated(tree: Any, rng: Random, values: tuple[Any, ...] = VALUES) -> Any:
    """The tree with one place changed."""
    if type(tree) is list and tree and rng.random() < 0.85:
        at = rng.randrange(len(tree))
        return [*tree[:at], mutated(tree[at], rng, values), *tree[at + 1 :]]
    if type(tree) is dict and tree and rng.random() < 0.85:
        key = rng.choice(list(tree))
        return {**tree, key: mutated(tree[key], rng, values)}
    if type(tree) is dict and rng.random() < 0.6:
        return _mapping(tree, rng, values)
    if type(tree) is list and rng.random() < 0.6:
        at = rng.randrange(len(tree) + 1)
        return rng.choice(
            (
                tree[:at],
                [*tree, *tree],
                tree[::-1],
                [*tree, rng.choice(values)],
                tree[at:],
                tree * rng.choice((1, 20)),
            )
        )
    if type(tree) is str and rng.random() < 0.5:
        return rng.choice(
            (
                tree[:-1],
                tree * 2,
                tree.upper(),
                tree + " ",
                f"{tree}*",
                [tree],
                {tree: tree},
                tree[::-1],
            )
        )
    if type(tree) is int and rng.random() < 0.5:
        return rng.choice((tree + 1, -tree, tree - 1, tree * 10**6, str(tree), float(tree), [tree]))
    return rng.choice(values)


def _mapping(tree: dict[Any, Any], rng: Random, values: tuple[Any, ...]) -> dict[Any, Any]:
    if not tree:
        return {"a": rng.choice(values)}
    key = rng.choice(list(tree))
    rest = {name: value for name, value in tree.items() if name != key}
    return rng.choice((
        rest, {**tree, f"{key}x": tree[key]}, {**rest, f"{key}_": tree[key]}, {**tree, "extra": rng.choice(values)},
        {**tree, key: rng.choice(values)}, {key: tree[key]}, {**rest, str(key).upper(): tree[key]},
    ))  # fmt: skip


def spliced(text: bytes, tokens: tuple[bytes, ...], rng: Random) -> bytes:
    """A token in the place of a piece of the text."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(tokens) + text[at + rng.choice((0, 0, 1, 4, 20)) :]


def broken_json(tree: Any, rng: Random, values: tuple[Any, ...] = VALUES) -> bytes:
    """JSON of a valid tree: now and then as it is, mostly broken once or more."""
    roll = rng.random()
    if roll > 0.03:
        for _ in range(1 if roll < 0.6 else rng.choice((1, 2, 3))):
            tree = mutated(tree, rng, values)
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if roll > 0.75:
        text = rng.choice((spliced, spliced, _garbled))(text, TOKENS, rng)
    if roll > 0.97:
        text = _twice(text, rng)
    return text


def _garbled(text: bytes, _tokens: tuple[bytes, ...], rng: Random) -> bytes:
    return garbled(text, rng)


def _twice(text: bytes, rng: Random) -> bytes:
    """One key of the outermost object stands twice."""
    at = text.find(b":", rng.randrange(max(len(text) - 1, 1)))
    return text if at < 0 else text.replace(b"{", b"{" + text[1 : text.find(b":")] + b":1,", 1)
