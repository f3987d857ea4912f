"""Texts that libyaml composes have the data and the places that PyYAML's own scanner finds."""

from __future__ import annotations

import random  # noqa: TID251 - any text will do, and comes again with its seed

import pytest
import yaml

from harness.scenario import positions
from harness.scenario.positions import YamlProblemError, parse_yaml
from harness.scenario.selection import builtin_dir

TEXTS = {
    str(path.relative_to(builtin_dir())): path.read_text(encoding="utf-8")
    for path in sorted(builtin_dir().rglob("*.yaml"))
}
SIGNS = "{}[],:-?!&*#|>'\"@`~ \n\n  ab1.<=$/+()_;^%\t\\é"

pytestmark = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML has no libyaml here")


def told(text: str, *, quick: bool, monkeypatch: pytest.MonkeyPatch) -> object:
    """Data and places, or the error and its place."""
    with monkeypatch.context() as patch:
        if not quick:
            patch.setattr(positions, "_composed_quickly", lambda _text: None)
        try:
            return parse_yaml(text)
        except YamlProblemError as error:
            return error.message, error.place, error.help_text


@pytest.mark.parametrize("name", TEXTS)
def test_scenario_is_read_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXTS[name]
    assert told(text, quick=True, monkeypatch=monkeypatch) == told(
        text, quick=False, monkeypatch=monkeypatch
    )


def test_nearly_all_scenarios_are_read_quickly() -> None:
    quick = [name for name, text in TEXTS.items() if positions._composed_quickly(text)]
    assert len(quick) > 0.9 * len(TEXTS)


@pytest.mark.parametrize("seed", range(20))
def test_broken_text_is_read_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    texts = list(TEXTS.values())
    quickly = 0
    for _ in range(150):
        text = broken(rng, rng.choice(texts))
        quickly += positions._composed_quickly(text) is not None
        assert told(text, quick=True, monkeypatch=monkeypatch) == told(
            text, quick=False, monkeypatch=monkeypatch
        ), repr(text)
    assert quickly > 15


@pytest.mark.parametrize(
    "text",
    [
        "[a ?b]",  # one of the two takes the question mark for a sign
        "a: >#\n  b",
        "---",  # the place of a value that is not there
        "{a: }",
        "[b ::: ]",
        "a:\tb",
        "a: é",
        'a: "\\x41"',
        "%YAML 1.2\n---\na: 1",
        "a: [",
        "a: !!str b",
    ],
)
def test_what_the_two_may_tell_differently_is_not_read_quickly(text: str) -> None:
    assert positions._composed_quickly(text) is None


def broken(rng: random.Random, text: str) -> str:
    """Some lines of a file, with signs that come, go and are repeated."""
    lines = text.split("\n")
    start = rng.randrange(len(lines))
    found = "\n".join(lines[start : start + rng.randrange(1, 7)])
    if rng.random() < 0.3:
        found = "".join(rng.choice(SIGNS) for _ in range(rng.randrange(1, 25)))
    for _ in range(rng.randrange(5)):
        at, what = rng.randrange(len(found) + 1), rng.random()
        if what < 0.5:
            found = found[:at] + rng.choice(SIGNS) + found[at:]
        elif what < 0.75:
            found = found[:at] + found[at + 1 :]
        else:
            found = found[:at] + found[at : at + rng.randrange(1, 6)] + found[at:]
    return found
