"""Texts of somebody who wants to steer whoever reads a report, and how to see that they do not.

One text has it all: escape sequences of terminals (with the one-byte form of their beginning),
controls that turn the order of signs round, separators of lines that not everybody takes for one,
commands of a code host at the beginnings of lines and inside them, markup of HTML, XML, Markdown,
Mermaid and templates, and signs that XML cannot hold.
"""

from __future__ import annotations

import copy
import html.parser
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any

from markdown_it import MarkdownIt

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eg\u2066x\u2028::error::v\u2029\n::error title=owned::x"
    "\r::warning::y\n ::add-mask::z\n##[error]z%0A::notice::w</script><script>alert(1)</script>"
    "<!--<img src=x onerror=alert(1)>]]> \" ' ` | {{x}} {%x%} ${y} @all [l](javascript:alert(1))"
    "\x00\x08\x7f\ufffe"
)
_DATA = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
Path_ = tuple[Any, ...]
_ANNOTATION = re.compile(
    r"::(error|warning|notice) (file=[^,:]+,)?(line=\d+,)?(col=\d+,)?title=[^:,]*::"
)


def spoilt(document: Any) -> Iterator[tuple[str, Any]]:
    """The document with the text behind one of its texts, or as a key of one of its objects.

    Of a list the first three items have their turn; the others are alike.
    """
    for path in _paths(document):
        copied = copy.deepcopy(document)
        place = copied
        for key in path[:-1]:
            place = place[key]
        if isinstance(place[path[-1]], str):
            place[path[-1]] += HOSTILE
        else:
            place[path[-1]][HOSTILE] = "x"
        yield ".".join(map(str, path)), copied


def _paths(document: Any, path: Path_ = ()) -> Iterator[Path_]:
    if isinstance(document, str) or (isinstance(document, dict) and path):
        yield path
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _paths(value, (*path, key))
    elif isinstance(document, list):
        for number, value in enumerate(document[:3]):
            yield from _paths(value, (*path, number))


# --- what each form must not hold -------------------------------------------------------------


def wrong_in_text(text: str) -> Iterator[str]:
    """Of a terminal, and of a log of a code host, which takes some lines for commands."""
    yield from _unseen(text)
    for line in text.split("\n"):
        if line.lstrip().startswith("::") and not _ANNOTATION.match(line):
            yield f"a command: {line[:60]}"
        if "##[" in line:
            yield f"a command in a line: {line[:60]}"


def _unseen(text: str) -> Iterator[str]:
    found = sorted({sign for sign in text if not (sign.isprintable() or sign in "\n\t")})
    if found:
        yield f"signs that nobody sees: {found!a}"


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img" or any(name.startswith("on") for name, _ in attrs):
            self.found.append(f"a tag: {tag}")
        if any(name in ("href", "src") and "javascript:" in (value or "") for name, value in attrs):
            self.found.append("a link that runs")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and data.strip() == "alert(1)":
            self.found.append("a script")

    def handle_comment(self, data: str) -> None:
        if "img" in data:
            self.found.append("a comment")


def wrong_in_html(text: str) -> Iterator[str]:
    """Of a page in a browser."""
    parser = _Tags()
    parser.feed(text)
    parser.close()
    yield from parser.found
    yield from _unseen(text)
    for data in _DATA.findall(text):
        yield from (f"in the data: {what}" for what in _unseen("".join(_texts(json.loads(data)))))


def _texts(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        yield from (text for pair in document.items() for each in pair for text in _texts(each))
    elif isinstance(document, list):
        yield from (text for each in document for text in _texts(each))


def wrong_in_junit(text: str) -> Iterator[str]:
    """Of XML that a CI server reads and shows."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        yield f"no XML: {error}"
        return
    for element in root.iter():
        for value in (element.text or "", *element.attrib.values()):
            yield from _unseen(value)


def wrong_in_markdown(text: str) -> Iterator[str]:
    """Of Markdown as a code host renders it, with HTML in it let through."""
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    yield from wrong_in_html(rendered)
    yield from _unseen(text)


def wrong_in_mermaid(text: str) -> Iterator[str]:
    """Of a diagram: one statement a line, and no markup in any."""
    yield from _unseen(text)
    for line in text.splitlines():
        if set(line) & set("<>|`\"'") - set("->>"):
            yield f"markup: {line}"


def wrong_in_json(text: str) -> Iterator[str]:
    """Of JSON, in which all is text; who shows it is warned by its being data."""
    try:
        json.loads(text)
    except ValueError as error:
        yield f"no JSON: {error}"
    if any(ord(sign) < 0x20 and sign != "\n" for sign in text):
        yield "a control"


FORMS: dict[str, Callable[[str], Iterator[str]]] = {
    "html": wrong_in_html,
    "junit": wrong_in_junit,
    "markdown": wrong_in_markdown,
    "mermaid": wrong_in_mermaid,
    "perfetto": wrong_in_json,
    "json": wrong_in_json,
}
"""By the name of the form that ``wavecheck report`` writes."""
