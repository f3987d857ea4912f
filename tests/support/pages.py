"""Pages as scripts: their blocks, and what a shown line stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"`([\w./-]+\.\w+)`:\s*$")
"""How the text before a block says which file it is."""
ANYTHING = "…"
SECONDS = re.compile(r"\\\(\d+\\\.\d+\\ s\\\)|in\\ \d+\\\.\d+s")


@dataclass
class Command:
    """One command line of a page and the lines that the page shows below it."""

    line: str
    shown: list[str] = field(default_factory=list)


@dataclass
class WrittenFile:
    """A file whose text stands on a page."""

    name: str
    text: str


def script(page: str) -> list[Command | WrittenFile]:
    """What a reader of a page does, in order."""
    found: list[Command | WrittenFile] = []
    end = 0
    for match in BLOCK.finditer(page):
        before, end = page[end : match.start()], match.end()
        language, text = match.groups()
        if language == "console":
            found += _commands(text)
        elif named := NAMED.search(before):
            found.append(WrittenFile(named[1], text))
    return found


def _commands(text: str) -> list[Command]:
    commands: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        else:
            commands[-1].shown.append(line)
    return commands


def shown_line(line: str) -> re.Pattern[str]:
    """What a shown line stands for: durations vary, an ellipsis is anything."""
    pattern = re.escape(line.rstrip()).replace(ANYTHING, ".*")
    return re.compile(SECONDS.sub(r"\\(?(?:in )?[0-9.]+ ?s\\)?", pattern))


def difference(shown: list[str], printed: list[str]) -> str | None:
    """The first shown line that was not printed, or ``None``.

    Lines follow each other as shown; a line of an ellipsis alone stands for any number of them.
    """
    places = {0}
    for line in shown:
        if line.strip() == ANYTHING:
            places = set(range(min(places), len(printed) + 1))
            continue
        pattern = shown_line(line)
        after = {
            place + 1
            for place in places
            if place < len(printed) and pattern.fullmatch(printed[place].rstrip())
        }
        if not after:
            return line
        places = after
    return None if not shown or len(printed) in places else f"more lines behind {shown[-1]!r}"
