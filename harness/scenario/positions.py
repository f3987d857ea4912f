"""YAML text to plain data, with the place of every key and value.

Only what a data file needs is accepted: one document of mappings, lists and scalars. Scalars
follow the YAML 1.2 core schema, so that ``on:`` is a key and ``no`` a word (PyYAML's own
resolver follows 1.1, where both are booleans). Tags, merge keys, keys that are not text,
duplicate keys, and what would expand or nest without bound are refused.

Source: https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import Composer

ALIASES_MAX = 50
"""Alias uses in one file."""
DEPTH_MAX = 40
"""Nested mappings and lists."""
VALUES_MAX = 20_000
"""Values of one file once its aliases are expanded."""
DIGITS_MAX = 40
"""Digits of one number: above 64 bits, below where reading gets slow."""

Path = tuple[str | int, ...]
"""Keys and indices from the top of a file to one value."""
LINE_BREAKS = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What PyYAML counts as the end of a line."""

PLAIN = re.compile(r"[\n !\"#$&->@-\[\]-~]*")
ODD = re.compile(r"^(---|\.\.\.)|[>|]\S*#", re.MULTILINE)
"""Texts that are read alike by PyYAML's own scanner and by libyaml are ``PLAIN``, that is ASCII without tabs, carriage
returns, directives, escapes and question marks, and hold nothing ``ODD``: marks of a document, and ``#``
behind the sign of a block."""
_WIDE_ESCAPE = re.compile(r"\\U[0-9A-Fa-f]{8}")
_SCANNER_FAULTS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError),
)
"""What PyYAML may raise on a text besides its own errors, e.g. ``OverflowError`` on an escape beyond
Unicode, ``ValueError`` on a directive with thousands of digits."""

NULL = re.compile(r"~|null|Null|NULL|")
TRUE = re.compile(r"true|True|TRUE")
FALSE = re.compile(r"false|False|FALSE")
INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file. ``line`` and ``column`` count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Positions:
    """Where each value (and each key of a mapping) of a file stands."""

    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)

    def find(self, path: Sequence[str | int], *, key: bool = False) -> Place:
        """The place of ``path``, or of the nearest part of it that the file has.

        An element that the file does not have is skipped: a model may turn a single item into
        a list of one, and names the alternative of a union that it tried.
        """
        found: Path = ()
        for element in path:
            if (*found, element) in self.values:
                found = (*found, element)
        if key and found in self.keys:
            return self.keys[found]
        return self.values.get(found, Place(1, 1))

    def resolve(self, path: Sequence[str | int]) -> Path:
        """The part of ``path`` that the file has."""
        found: Path = ()
        for element in path:
            if (*found, element) in self.values:
                found = (*found, element)
        return found


class YamlProblemError(Exception):
    """The text is no YAML that we accept."""

    def __init__(self, message: str, place: Place, *, help_text: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.help_text = help_text


def _place(mark: yaml.Mark | None) -> Place:
    return Place(mark.line + 1, mark.column + 1) if mark is not None else Place(1, 1)


class _Bounds(Composer):
    """Composes nodes, counting aliases and depth, and refusing a value inside itself."""

    _depth = 0
    _aliases = 0
    _open: tuple[str, ...] = ()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node within the bounds."""
        event: Any = self.peek_event()  # type: ignore[attr-defined]  # of the parser beside it
        place = _place(event.start_mark)
        anchor = getattr(event, "anchor", None)
        if (tag := getattr(event, "tag", None)) is not None:
            msg = f"tag {tag.replace('tag:yaml.org,2002:', '!!')} is not supported"
            raise YamlProblemError(
                msg,
                place,
                help_text="remove the tag; these files hold plain values only",
            )
        if isinstance(event, yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > ALIASES_MAX:
                msg = f"more than {ALIASES_MAX} aliases"
                raise YamlProblemError(msg, place)
            if anchor in self._open:
                msg = f"the alias *{anchor} stands inside its own value"
                raise YamlProblemError(msg, place)
        if self._depth >= DEPTH_MAX:
            msg = f"values nest deeper than {DEPTH_MAX} levels"
            raise YamlProblemError(msg, place)
        self._depth += 1
        before, self._open = self._open, (*self._open, anchor or "")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1
            self._open = before


class _BoundedLoader(_Bounds, yaml.SafeLoader):
    """Reads every text, and knows best what is wrong with it."""


def _composed_quickly(text: str) -> tuple[yaml.Node | None] | None:
    """The document by libyaml, in a fifth of the time; ``None``: the other loader has to say.

    The two agree on what is ``PLAIN`` and not ``ODD``. Where that is wrong in itself, the other one's words and
    places are better.
    """
    if not yaml.__with_libyaml__ or not PLAIN.fullmatch(text) or ODD.search(text):
        return None
    try:
        return (_QuickLoader(text).get_single_node(),)
    except (yaml.YAMLError, YamlProblemError, *_SCANNER_FAULTS):
        return None


if yaml.__with_libyaml__:

    class _QuickLoader(_Bounds, yaml.CSafeLoader):
        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            Composer.__init__(self)

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            """Compose one node, unless the two would say that it stands elsewhere.

            Raises:
                ValueError: so it is.
            """
            node = super().compose_node(parent, index)
            if isinstance(node, yaml.ScalarNode) and not (node.value or node.style):
                msg = "the place of a value that is not there differs"
                raise ValueError(msg)
            return node


class _Converter:
    """Turns nodes into plain data and notes where each value stood."""

    def __init__(self) -> None:
        self.positions = Positions()
        self._count = 0

    def convert(self, node: yaml.Node, path: Path) -> Any:
        """Convert ``node``, which stands at ``path``."""
        self._count += 1
        place = _place(node.start_mark)
        if self._count > VALUES_MAX:
            msg = f"more than {VALUES_MAX} values"
            raise YamlProblemError(msg, place)
        self.positions.values[path] = place
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.convert(item, (*path, i)) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = _place(key_node.start_mark)
            key = _scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                msg = "a key must be text"
                raise YamlProblemError(msg, place, help_text="put quotes around the key")
            if key == "<<" and not key_node.style:
                msg = "merge keys (<<) are not supported"
                raise YamlProblemError(msg, place)
            if key in found:
                first = self.positions.keys[(*path, key)]
                msg = f"key '{key}' stands twice in one mapping (first in line {first.line})"
                raise YamlProblemError(msg, place)
            self.positions.keys[(*path, key)] = place
            found[key] = self.convert(value_node, (*path, key))
        return found


def _scalar(node: yaml.ScalarNode) -> Any:
    """The value of a scalar by the YAML 1.2 core schema."""
    text, place = str(node.value), _place(node.start_mark)
    if any("\ud800" <= c <= "\udfff" for c in text):
        msg = "text holds half of a surrogate pair"
        raise YamlProblemError(msg, place)
    if node.style:  # a plain scalar has None here, or with libyaml an empty text
        return text
    return _plain_scalar(text, place)


def _plain_scalar(text: str, place: Place) -> Any:
    if NULL.fullmatch(text):
        return None
    if TRUE.fullmatch(text):
        return True
    if FALSE.fullmatch(text):
        return False
    if INT.fullmatch(text):
        if len(text) > DIGITS_MAX:
            msg = f"a number of more than {DIGITS_MAX} digits"
            raise YamlProblemError(msg, place)
        return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)
    if NOT_FINITE.fullmatch(text):
        msg = f"{text} is no finite number"
        raise YamlProblemError(msg, place)
    if FLOAT.fullmatch(text):
        value = float(text)
        if value in {float("inf"), float("-inf")}:
            msg = "the number is too large"
            raise YamlProblemError(msg, place)
        return value
    return text


def parse_yaml(text: str) -> tuple[Any, Positions]:
    """Parse one YAML document.

    Returns:
        Its data (``dict``, ``list``, ``str``, ``int``, ``float``, ``bool``, ``None``) and the
        place of every value; ``None`` and no places for a text without a document.

    Raises:
        YamlProblemError: the text is no YAML, or uses what is not supported (see the module).
    """
    quick = _composed_quickly(text)
    node = _composed(text) if quick is None else quick[0]
    converter = _Converter()
    if node is None:
        return None, converter.positions
    return converter.convert(node, ()), converter.positions


def _composed(text: str) -> yaml.Node | None:
    loader: _BoundedLoader | None = None
    try:
        loader = _BoundedLoader(text)
        return loader.get_single_node()
    except yaml.reader.ReaderError as error:
        # Characters are counted by the reader, lines are not.
        before = LINE_BREAKS.split(text[: error.position])
        message = f"character U+{ord(text[error.position]):04X} is not allowed in YAML"
        raise YamlProblemError(message, Place(len(before), len(before[-1]) + 1)) from error
    except yaml.composer.ComposerError as error:
        if error.problem == "but found another document":
            msg = "more than one document"
            raise YamlProblemError(
                msg,
                _place(error.problem_mark),
                help_text="put each scenario into a file of its own",
            ) from error
        raise YamlProblemError(_problem(error), _place(error.problem_mark)) from error
    except yaml.MarkedYAMLError as error:
        raise YamlProblemError(
            _problem(error), _place(error.problem_mark or error.context_mark)
        ) from error
    except _SCANNER_FAULTS as error:
        # The reader stands where it gave up; the marks of its errors say the same.
        assert loader is not None, "only scanning raises these"
        raise _unread(text, loader.get_mark()) from error
    finally:
        if loader is not None:
            loader.dispose()


def _unread(text: str, mark: yaml.Mark) -> YamlProblemError:
    """What PyYAML gives up over at ``mark`` without an error of its own."""
    place = _place(mark)
    found = _WIDE_ESCAPE.match(text, max(mark.index - 2, 0))
    if found is None:
        return YamlProblemError("invalid YAML: the parser cannot read what stands here", place)
    # The reader stands behind the two signs that begin the escape.
    msg = f"the escape {found[0]} is no character: the last one is \\U0010FFFF"
    return YamlProblemError(msg, Place(place.line, place.column - 2))


def _problem(error: yaml.MarkedYAMLError) -> str:
    context = f" ({error.context})" if error.context else ""
    return f"invalid YAML: {error.problem}{context}"
