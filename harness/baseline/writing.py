"""The text of a baseline file, and changes of it that leave the rest as its authors wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.baseline.file import BaselineFile, parse_baseline
from harness.baseline.model import Baseline, Pin, Waiver
from harness.scenario.positions import parse_yaml
from harness.scenario.problems import ScenarioFileError

HEAD = """\
# What wavecheck is expected to find. `wavecheck run --baseline FILE` is red only where a run departs from it.
# pins: scenarios that are judged, and those that are not. waivers: violations that somebody answers for.
"""
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")


class CannotEditError(Exception):
    """The file is written in a way that this module cannot change without changing the rest."""


def scalar(text: str) -> str:
    """One text as a YAML scalar on one line."""
    if _PLAIN.fullmatch(text) and parse_yaml(text)[0] == text:
        return text
    quoted = "".join(_sign(sign) for sign in text)
    return f'"{quoted}"'


def _sign(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    if sign.isprintable():
        return sign
    code = ord(sign)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def baseline_text(baseline: Baseline) -> str:
    """A whole new file."""
    lines = [HEAD.rstrip("\n"), f"format: {baseline.format}", *_pins_lines(baseline.pins)]
    return "\n".join([*lines, *_waivers_lines(baseline.waivers)]) + "\n"


def _pins_lines(pins: Sequence[Pin]) -> Iterator[str]:
    if not pins:
        yield "pins: []"
        return
    yield "pins:"
    for pin in pins:
        yield f"  - target: {pin.target}"
        if pin.releases:
            yield f"    releases: {scalar(pin.releases)}"
        for key, names in (("judged", pin.judged), ("not_judged", pin.not_judged)):
            if names:
                yield f"    {key}:"
                yield from (f"      - {scalar(name)}" for name in names)


def _waivers_lines(waivers: Sequence[Waiver]) -> Iterator[str]:
    if not waivers:
        yield "waivers: []"
        return
    yield "waivers:"
    for waiver in waivers:
        yield from _waiver_lines(waiver, "  ")


def _waiver_lines(waiver: Waiver, indent: str) -> Iterator[str]:
    yield f"{indent}- scenario: {scalar(waiver.scenario)}"
    keys = [("invariant", waiver.invariant), ("target", waiver.target)]
    keys += [("releases", waiver.releases)] if waiver.releases else []
    keys += [("owner", waiver.owner), ("reason", waiver.reason)]
    for key, value in keys:
        yield f"{indent}  {key}: {scalar(value)}"
    yield f"{indent}  expires: {waiver.expires.isoformat()}"


# --- changes --------------------------------------------------------------------------------


class _Lines:
    """A file by lines; blocks are found before any of them changes."""

    def __init__(self, file: BaselineFile) -> None:
        self.lines = file.text.split("\n")
        self._positions = file.positions
        tops = [place.line for path, place in file.positions.keys.items() if len(path) == 1]
        self._tops = sorted(tops)

    def block(self, key: str) -> tuple[int, int] | None:
        """First line of a top-level key, from 0, and the line behind what belongs to it."""
        place = self._positions.keys.get((key,))
        if place is None:
            return None
        behind = next((top for top in self._tops if top > place.line), len(self.lines) + 1)
        return place.line - 1, self._without_gap(place.line, behind - 1)

    def _without_gap(self, first: int, behind: int) -> int:
        """``behind`` without comments and empty lines above it, which are about what follows."""
        while behind > first and _is_gap(self.lines[behind - 1]):
            behind -= 1
        return behind

    def starts(self, count: int) -> list[int]:
        """First line, from 0, of each waiver, with the comments right above it.

        Raises:
            CannotEditError: they do not stand below each other.
        """
        found = []
        for number in range(count):
            place = self._positions.values[("waivers", number)]
            line = place.line - 1
            if not re.fullmatch(r"\s*-\s+", self.lines[line][: place.column - 1]):
                msg = f"line {place.line}: a waiver begins with '- ' on a line of its own"
                raise CannotEditError(msg)
            while line > 0 and self.lines[line - 1].lstrip().startswith("#"):
                line -= 1
            found.append(line)
        return found

    def indent(self) -> str:
        """What stands before the dash of the first waiver."""
        place = self._positions.values[("waivers", 0)]
        return self.lines[place.line - 1].partition("-")[0]


def _is_gap(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def changed(file: BaselineFile, wanted: Baseline, *, dropped: frozenset[int] = frozenset()) -> str:
    """The text of a file with other pins, without some waivers, and with new ones at the end.

    Args:
        file: as it is.
        wanted: what it is to hold: its waivers are those of ``file`` that are kept, then new ones.
        dropped: numbers of the waivers that go.

    Raises:
        CannotEditError: that cannot be done without touching the rest.
    """
    old = file.baseline
    lines = _Lines(file)
    edits: list[tuple[int, int, list[str]]] = []
    if wanted.pins != old.pins:
        edits.append(_pins_edit(lines, wanted.pins))
    new = wanted.waivers[len(old.waivers) - len(dropped) :]
    edits += _waivers_edits(lines, old, dropped, new)
    # From the end, so that the numbers of the lines before it stay true.
    for first, behind, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        lines.lines[first:behind] = text
    result = "\n".join(lines.lines)
    if not result.endswith("\n"):
        result += "\n"
    _check(file.path, result, wanted)
    return result


def _pins_edit(lines: _Lines, pins: Sequence[Pin]) -> tuple[int, int, list[str]]:
    text = list(_pins_lines(pins))
    block = lines.block("pins")
    if block is not None:
        return (*block, text)
    place = lines.block("format")
    assert place is not None
    return place[1], place[1], text


def _waivers_edits(
    lines: _Lines, old: Baseline, dropped: frozenset[int], new: Sequence[Waiver]
) -> Iterator[tuple[int, int, list[str]]]:
    block = lines.block("waivers")
    kept = len(old.waivers) - len(dropped)
    if kept == 0 and (dropped or new):
        first, behind = block or (_end(lines), _end(lines))
        yield first, behind, list(_waivers_lines(new))
        return
    if block is None or not (dropped or new):
        return
    starts = [*lines.starts(len(old.waivers)), block[1]]
    for number in dropped:
        yield starts[number], starts[number + 1], []
    if new:
        indent = lines.indent()
        yield block[1], block[1], [line for one in new for line in _waiver_lines(one, indent)]


def _end(lines: _Lines) -> int:
    """Behind the last line that is not empty."""
    count = len(lines.lines)
    while count and not lines.lines[count - 1].strip():
        count -= 1
    return count


def _check(path: Path, text: str, wanted: Baseline) -> None:
    """Refuse a change that says something else than what is wanted."""
    try:
        same = parse_baseline(text, path).baseline == wanted
    except ScenarioFileError:
        same = False
    if not same:
        msg = "it is written in a form that cannot be changed in place"
        raise CannotEditError(msg)
