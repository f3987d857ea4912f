"""From plain data to the text of a scenario file, in the form that people write by hand.

Keys of the file, steps, engines and rules stand below each other; whatever fits into one line
stands in one. Scalars are quoted where the loader would read them as something else: it follows
the YAML 1.2 core schema, PyYAML the older one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from harness.reports.visible import printable
from harness.scenario.positions import (
    FALSE,
    FLOAT,
    INT,
    NOT_FINITE,
    NULL,
    TRUE,
)
from harness.shortened import shortened

WIDTH = 96
"""Columns that a line may take."""
COMMENT_CHARS_MAX = 4_096
"""Longest comment that is made of a text of somebody else."""
KEYS = (
    *("format", "title", "promise", "refs", "profiles", "known", "needs", "invariants", "trials"),
    *("explore", "topology", "engines", "connect_fails", "steps", "open_at_end"),
)
"""Order of the keys of a file; that of the story."""
_OPEN = frozenset({"steps", "engines"})
"""Lists that never stand in one line."""
_PLAIN = re.compile(r"[\w./-]+")
_TAGS = {
    "tag:yaml.org,2002:bool": (TRUE, FALSE),
    "tag:yaml.org,2002:int": (INT,),
    "tag:yaml.org,2002:float": (FLOAT, NOT_FINITE),
    "tag:yaml.org,2002:null": (NULL,),
}


class _Dumper(yaml.SafeDumper):
    """Writes what ``harness.scenario.positions`` reads."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def write_double_quoted(self, text: Any, split: Any = True) -> None:
        """Write a text, with signs that steer whoever shows the file as escapes."""
        readable, self.allow_unicode = self.allow_unicode, text.isprintable()
        super().write_double_quoted(text, split)
        self.allow_unicode = readable

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """The tag that a plain scalar would be read with."""
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        for tag, forms in _TAGS.items():
            if any(form.fullmatch(value) for form in forms):
                return tag
        found = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        # The older schema has more words that are no text; merge keys stay what they are.
        return found if found.endswith((":merge", ":value")) else "tag:yaml.org,2002:str"


def scenario_text(data: Mapping[str, Any], comments: Iterable[str] = ()) -> str:
    """Write a scenario file.

    Args:
        data: what is in it, in the form of ``Scenario.model_dump(exclude_unset=True)``.
        comments: lines that stand above it.
    """
    known = {key: data[key] for key in KEYS if key in data}
    ordered = {**known, **{key: value for key, value in data.items() if key not in known}}
    out = io.StringIO()
    dumper = _Dumper(out, width=WIDTH, allow_unicode=True, sort_keys=False)
    node = dumper.represent_data(ordered)
    _lay_out(node, 0, 0, opened=True)
    dumper.open()
    dumper.serialize(node)
    dumper.close()
    dumper.dispose()
    return "".join(f"{comment(line)}\n" for line in comments) + out.getvalue()


def comment(text: str) -> str:
    """One line of a file that is a comment, whatever text it holds.

    Names of files, notes of a capture and messages of errors are written above scenarios. A line feed in
    one would begin a line of YAML; a sign that YAML forbids would make the file unreadable.
    """
    return f"# {one_line(text)}".rstrip()


def one_line(text: str) -> str:
    """A text of somebody else as part of a comment: one line, printable, of bounded length."""
    return shortened(printable(text), COMMENT_CHARS_MAX)


def _lay_out(node: yaml.Node, column: int, indent: int, *, opened: bool = False) -> None:
    """Decide which collections stand in one line.

    Args:
        node: a value.
        column: where it begins if it does.
        indent: of what is inside if it does not.
        opened: it does not, whatever room there is.
    """
    if not isinstance(node, yaml.CollectionNode):
        if isinstance(node, yaml.ScalarNode) and not str(node.value).isprintable():
            # Escaped: PyYAML folds line breaks where it quotes in another way, and lets pass what turns
            # the order of a line round.
            node.style = '"'
        return
    node.flow_style = not opened and column + _width(node) <= WIDTH
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            # A step or an action below others is told by its one key.
            one_key = isinstance(item, yaml.MappingNode) and len(item.value) == 1
            _lay_out(item, indent + 2, indent + 2, opened=one_key and not node.flow_style)
        return
    for key, value in node.value:
        _lay_out(key, indent, indent)
        behind = indent + len(str(key.value)) + 2
        of_the_story = opened and indent == 0 and key.value in _OPEN and bool(value.value)
        _lay_out(value, behind, indent + 2, opened=of_the_story)


def _width(node: yaml.Node) -> int:
    """Columns that a value takes in one line."""
    if isinstance(node, yaml.MappingNode):
        return 2 + sum(_width(key) + _width(value) + 4 for key, value in node.value)
    if isinstance(node, yaml.SequenceNode):
        return 2 + sum(_width(item) + 2 for item in node.value)
    return len(str(node.value)) + (0 if _PLAIN.fullmatch(str(node.value)) else 2)
