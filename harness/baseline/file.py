"""From a baseline file to a checked baseline, or to messages with line and column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.baseline.model import Baseline, Pin, Waiver
from harness.formats import BASELINE
from harness.scenario.finding import Finding
from harness.scenario.loader import default_vocabulary, parse_model, placed, read_text
from harness.scenario.positions import Place, Positions
from harness.scenario.problems import Problem, ScenarioFileError, did_you_mean
from harness.verdict import EXPECTATION


@dataclass(frozen=True, slots=True)
class BaselineFile:
    """A checked baseline and where it came from.

    Attributes:
        path: the file, as the user named it.
        positions: place of every key and value in ``text``.
    """

    path: Path
    baseline: Baseline
    positions: Positions
    text: str

    def place_of(self, waiver: int) -> Place:
        """Where a waiver stands, by its number from 0."""
        return self.positions.find(("waivers", waiver))


def load_baseline(path: Path) -> BaselineFile:
    """Read and check a baseline file.

    Raises:
        ScenarioFileError: it cannot be read, is no YAML, of another version, lacks a key (a
            waiver without owner, reason or expiry is none), or contradicts itself.
    """
    return parse_baseline(read_text(path), path)


def parse_baseline(text: str, path: Path) -> BaselineFile:
    """Check the text of a baseline file; ``path`` is for messages.

    Raises:
        ScenarioFileError: as above.
    """
    if not text.strip():
        problem = Problem("the file is empty", expected="a baseline", help=f"see {BASELINE.again}")
        raise ScenarioFileError(path, text, [problem])
    baseline, positions, _ = parse_model(
        text, path, Baseline, shape="a mapping with `format: 1`", form=BASELINE
    )
    found = [*_pins(baseline.pins), *_waivers(baseline.waivers)]
    if found:
        raise ScenarioFileError(path, text, placed(found, positions))
    return BaselineFile(path, baseline, positions, text)


def _pins(pins: list[Pin]) -> Iterator[Finding]:
    for number, pin in enumerate(pins):
        times = Counter([*pin.judged, *pin.not_judged])
        seen: set[str] = set()
        for key, names in (("judged", pin.judged), ("not_judged", pin.not_judged)):
            for place, name in enumerate(names):
                if times[name] > 1 and name in seen:
                    title = f"scenario '{name}' stands twice in one pin"
                    yield Finding(("pins", number, key, place), title, help="leave one of them")
                seen.add(name)


def _waivers(waivers: list[Waiver]) -> Iterator[Finding]:
    known = (default_vocabulary().invariants or frozenset()) | {EXPECTATION}
    first: dict[tuple[str, str, str, str], int] = {}
    for number, waiver in enumerate(waivers):
        if waiver.invariant not in known:
            yield Finding(
                ("waivers", number, "invariant"),
                f"unknown invariant '{waiver.invariant}'",
                expected=f"an invariant id, or {EXPECTATION}; see `wavecheck list invariants`",
                help=did_you_mean(waiver.invariant, known),
            )
        before = first.setdefault(waiver.key, number)
        if before != number:
            what = f"{waiver.scenario} [{waiver.invariant}]"
            title = f"{what} is waived twice (first by waivers[{before}])"
            yield Finding(("waivers", number), title, help="leave one of them")
