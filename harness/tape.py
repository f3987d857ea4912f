"""The tape: every choice of one run, in order, each with its number of options.

A run is a function of its tape. ``Recorder`` writes one while a strategy decides, ``Replayer``
plays one and stops at the first difference: another number of options, or, on a tape with
labels, other options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from client.protocol.strict_json import loads
from harness.sim.choosing import Chooser, Labels, Ready

FORMAT = 1
"""Version of the JSON form; another one is refused."""
CHOICES_MAX = 1_000_000
"""Choices of a stored tape at most: a run has fewer steps (see ``harness.sim.loop``)."""
_TOKEN = re.compile(r"(\d{1,9})/(\d{1,9})(?:\*(\d{1,9}))?")
_KEYS = ("format", "choices", "names", "labels")


class TapeFormatError(ValueError):
    """A stored tape cannot be read; the message says where and what was expected."""


class TapeDivergence(Exception):  # noqa: N818  (not a fault of anybody yet: an observation)
    """The run asked something else than the tape answers.

    Attributes:
        position: index of the choice, from 0.
        expected: options on the tape; ``None`` if the tape has ended.
        seen: options of this run.
        expected_labels: their names on the tape, if it has labels.
        seen_labels: their names in this run, if the loop records labels.
    """

    def __init__(
        self,
        position: int,
        expected: int | None,
        seen: int,
        *,
        expected_labels: tuple[str, ...] | None = None,
        seen_labels: tuple[str, ...] | None = None,
    ) -> None:
        self.position = position
        self.expected = expected
        self.seen = seen
        self.expected_labels = expected_labels
        self.seen_labels = seen_labels
        super().__init__(
            f"the run differs from the tape at choice {position}:"
            f"\n  expected: {_options(expected, expected_labels)}"
            f"\n  seen:     {_options(seen, seen_labels)}"
        )


def _options(count: int | None, labels: tuple[str, ...] | None) -> str:
    if count is None:
        return "the end of the tape"
    names = f": {', '.join(labels)}" if labels else ""
    return f"{count} options{names}"


@dataclass(frozen=True, slots=True)
class Tape:
    """Choices of one run.

    Attributes:
        choices: pairs (chosen index, number of options), options >= 2.
        labels: for each choice the names of all its options, or ``None``.
    """

    choices: tuple[tuple[int, int], ...] = ()
    labels: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self) -> None:
        for position, (choice, options) in enumerate(self.choices):
            if options < 2 or not 0 <= choice < options:
                msg = f"choice {position} is {choice} of {options} options"
                raise TapeFormatError(msg)
        if self.labels is None:
            return
        counts = [len(names) for names in self.labels]
        if counts != [options for _, options in self.choices]:
            msg = "the labels do not match the numbers of options"
            raise TapeFormatError(msg)

    @classmethod
    def recorded(cls, choices: tuple[tuple[int, int], ...]) -> Tape:
        """Make a tape of choices that a loop has just acted on: there is nothing to check."""
        tape = object.__new__(cls)
        object.__setattr__(tape, "choices", choices)
        object.__setattr__(tape, "labels", None)
        return tape

    def __len__(self) -> int:
        return len(self.choices)

    @property
    def chosen(self) -> tuple[str, ...] | None:
        """Name of what was chosen, for each choice; ``None`` without labels."""
        if self.labels is None:
            return None
        pairs = zip(self.choices, self.labels, strict=True)
        return tuple(names[choice] for (choice, _), names in pairs)

    def choices_as_text(self) -> str:
        """Return the choices alone, as ``to_json`` writes them."""
        return _encode(self.choices)

    def to_json(self) -> dict[str, Any]:
        """Return a compact form for ``json.dumps``.

        ``choices`` is text: ``0/2*5 1/3`` = five times the first of two, once the second of
        three. ``labels`` holds indices into ``names``.
        """
        form: dict[str, Any] = {"format": FORMAT, "choices": _encode(self.choices)}
        if self.labels is not None:
            numbers: dict[str, int] = {}
            for names in self.labels:
                for name in names:
                    numbers.setdefault(name, len(numbers))
            form["names"] = list(numbers)
            form["labels"] = [[numbers[name] for name in names] for names in self.labels]
        return form

    @classmethod
    def from_json(cls, form: Any) -> Tape:
        """Read what ``to_json`` made (or its text).

        Raises:
            TapeFormatError: it is not such a form; the message says what is wrong.
        """
        if isinstance(form, str | bytes):
            try:
                form = loads(form)
            except ValueError as error:
                msg = f"the tape is not JSON: {error}"
                raise TapeFormatError(msg) from error
        if not isinstance(form, dict):
            msg = f"a tape is a JSON object, not {type(form).__name__}"
            raise TapeFormatError(msg)
        if form.get("format") != FORMAT:
            msg = f"tape format {form.get('format')!r} cannot be read, only {FORMAT}"
            raise TapeFormatError(msg)
        if unknown := [key for key in form if key not in _KEYS]:
            msg = f"a tape has no key {unknown[0]!r}, only {', '.join(_KEYS)}"
            raise TapeFormatError(msg)
        return cls(_decode(form.get("choices")), _decode_labels(form))


class _Words(dict[tuple[int, int], str]):
    """Choices as text, kept: a run's tape is of some thirty different ones, and all are made for its digest."""

    def __missing__(self, pair: tuple[int, int]) -> str:
        if len(self) >= WORDS_MAX:
            self.clear()
        word = self[pair] = f"{pair[0]}/{pair[1]}"
        return word


WORDS_MAX = 4_096
"""Words that are kept."""
_WORDS = _Words()


def _encode(choices: Iterable[tuple[int, int]]) -> str:
    # By hand: with ``groupby`` it was one or two hundredths of a run's time, now half of one.
    found: list[str] = []
    last, times = "", 1
    for word in map(_WORDS.__getitem__, choices):
        if word == last:
            times += 1
            continue
        if times > 1:
            found[-1] = f"{last}*{times}"
            times = 1
        found.append(word)
        last = word
    if times > 1:
        found[-1] = f"{last}*{times}"
    return " ".join(found)


def _decode(text: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(text, str):
        msg = f"choices of a tape are text such as '0/2*5 1/3', not {type(text).__name__}"
        raise TapeFormatError(msg)
    choices: list[tuple[int, int]] = []
    for position, word in enumerate(text.split()):
        found = _TOKEN.fullmatch(word)
        if found is None:
            msg = f"word {position} of the choices is {word!r}, expected choice/options[*times]"
            raise TapeFormatError(msg)
        choice, options, times = found.groups()
        if len(choices) + int(times or 1) > CHOICES_MAX:
            msg = f"word {position} of the choices makes the tape longer than {CHOICES_MAX:,}"
            raise TapeFormatError(msg)
        choices.extend([(int(choice), int(options))] * int(times or 1))
    return tuple(choices)


def _decode_labels(form: dict[str, Any]) -> tuple[tuple[str, ...], ...] | None:
    names, labels = form.get("names"), form.get("labels")
    if names is None and labels is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        msg = "names of a tape are a list of texts"
        raise TapeFormatError(msg)
    if not isinstance(labels, list) or not all(isinstance(row, list) for row in labels):
        msg = "labels of a tape are a list of lists of indices into names"
        raise TapeFormatError(msg)
    for position, row in enumerate(labels):
        if not all(type(index) is int and 0 <= index < len(names) for index in row):
            msg = f"labels of choice {position} are not indices below {len(names)}"
            raise TapeFormatError(msg)
    return tuple(tuple(names[index] for index in row) for row in labels)


class Deciding(Protocol):
    """What a recorder needs of a strategy."""

    def begin(self) -> None:
        """Forget what was decided."""

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return an index below ``n``."""


def _looks_away(ready: Ready) -> None:
    """Do without the list of ready entries."""


def _goes_on() -> None:
    """Decide everywhere alike."""


class Recorder:
    """A chooser that writes down what a strategy chooses."""

    def __init__(self, strategy: Deciding) -> None:
        strategy.begin()
        self.attach: Callable[[Ready], None] = getattr(strategy, "attach", _looks_away)
        self.steps_begin: Callable[[], None] = getattr(strategy, "steps_begin", _goes_on)
        """Called when the start-up is over."""
        self.steps_end: Callable[[], None] = getattr(strategy, "steps_end", _goes_on)
        """Called when the scenario has come to its end."""
        self._decide = strategy.choose
        self._choices: list[tuple[int, int]] = []
        self._note = self._choices.append
        self._labels: list[tuple[str, ...]] = []

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Ask the strategy and note its answer."""
        if labels is not None:
            self._labels.append(tuple(labels()))
        choice = self._decide(n, labels)
        self._note((choice, n))
        return choice

    @property
    def tape(self) -> Tape:
        """What was chosen so far."""
        labels = tuple(self._labels) if len(self._labels) == len(self._choices) > 0 else None
        if labels is None:
            return Tape.recorded(tuple(self._choices))
        return Tape(tuple(self._choices), labels)


class Replayer:
    """A chooser that plays a tape.

    Args:
        tape: what to play.
        strict: whether a run longer than the tape diverges; else it goes on with 0.
    """

    def __init__(self, tape: Tape, *, strict: bool = True) -> None:
        self._tape = tape
        self._strict = strict
        self.position = 0

    def attach(self, ready: Ready) -> None:
        """A tape names indices; what they stand for is the run's own affair."""

    def choose(self, n: int, labels: Labels | None = None) -> int:
        """Return the next choice of the tape.

        Raises:
            TapeDivergence: the options are not those on the tape, or it has ended (strict).
        """
        position = self.position
        self.position += 1
        seen = None if labels is None else tuple(labels())
        if position >= len(self._tape.choices):
            if self._strict:
                raise TapeDivergence(position, None, n, seen_labels=seen)
            return 0
        choice, options = self._tape.choices[position]
        wanted = None if self._tape.labels is None else self._tape.labels[position]
        if options != n or (wanted is not None and seen is not None and wanted != seen):
            raise TapeDivergence(position, options, n, expected_labels=wanted, seen_labels=seen)
        return choice

    def finish(self) -> None:
        """Say that the run is over.

        Raises:
            TapeDivergence: choices are left on the tape (strict only).
        """
        if self._strict and self.position < len(self._tape.choices):
            _, options = self._tape.choices[self.position]
            wanted = None if self._tape.labels is None else self._tape.labels[self.position]
            raise TapeDivergence(self.position, options, 0, expected_labels=wanted)


def choices_of(pairs: Sequence[Sequence[int]]) -> Tape:
    """Make a tape of bare pairs."""
    return Tape(tuple((choice, options) for choice, options in pairs))


__all__ = [
    "Chooser",
    "Deciding",
    "Recorder",
    "Replayer",
    "Tape",
    "TapeDivergence",
    "TapeFormatError",
    "choices_of",
]
