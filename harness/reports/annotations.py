"""Annotations of a code host: messages at a line of a file, in the form of GitHub's workflow commands.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.reports.visible import visible

LEVELS = ("error", "warning", "notice")
SHOWN_MAX = 10
"""How many of one level GitHub shows for one step."""
MESSAGE_MAX = 3_000
"""Characters of one message as it is written; GitHub cuts longer ones."""
_HALF = re.compile("%.?$")
"""An escape that was cut."""
_COMMAND = re.compile(r"(^|[\r\n])(\s*)::")


@dataclass(frozen=True, slots=True)
class Annotation:
    """One message.

    Attributes:
        level: one of ``LEVELS``.
        file: relative to the root of the repository, or ``""``: about no file of it.
        line: from 1, or 0: about the whole file.
    """

    level: str
    title: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0


def command(annotation: Annotation) -> str:
    """One annotation as a workflow command: one line, whatever its texts hold."""
    properties = []
    if annotation.file:
        properties.append(f"file={_property(annotation.file)}")
        if annotation.line:
            properties.append(f"line={annotation.line}")
        if annotation.line and annotation.column:
            properties.append(f"col={annotation.column}")
    properties.append(f"title={_property(annotation.title)}")
    message = defused_inside(_data(visible(annotation.message)))
    message = _HALF.sub("", message[:MESSAGE_MAX])
    return defused_inside(f"::{annotation.level} {','.join(properties)}::{message}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")


def capped(annotations: Iterable[Annotation]) -> Iterator[Annotation]:
    """At most as many of each level as are shown; the last one then says how many more there are."""
    found = list(annotations)
    for level in LEVELS:
        of_level = [one for one in found if one.level == level]
        if len(of_level) <= SHOWN_MAX:
            yield from of_level
            continue
        yield from of_level[: SHOWN_MAX - 1]
        more = len(of_level) - SHOWN_MAX + 1
        last = of_level[SHOWN_MAX - 1]
        text = f"and {more} more; the log and the report have them all. The first of them: "
        yield replace(last, title=f"{more} more", message=f"{text}{last.title}: {last.message}")


def relative(path: Path, root: Path | None) -> str:
    """A file as the code host names it, or ``""`` if it is not below the root of the repository."""
    if root is None:
        return ""
    full, top = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    return full.relative_to(top).as_posix() if full.is_relative_to(top) else ""


def defused(text: str) -> str:
    """Text in which no line is a workflow command, whoever wrote it: a frontend's log may try.

    The runner looks for ``::`` at the beginning of a line, behind blanks, and for ``##[`` anywhere.
    """
    return defused_inside(_COMMAND.sub(r"\1\2: :", text))


def defused_inside(line: str) -> str:
    """The same of what is a command anywhere in a line."""
    return line.replace("##[", "## [")
