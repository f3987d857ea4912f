"""The documentation as a site, and what its pages hold, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
APART = frozenset({"p", "li", "td", "th", "h1", "h2", "h3", "h4", "pre"})
FETCHING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""Elements that make a browser load something, and the attribute that says what."""


def build(out: Path, *, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """Build the site as ``make site`` does; what it says is in ``stderr``."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "mkdocs", "build", "--strict"),
            *("--site-dir", str(out), "--config-file", str(config)),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


class Seen(HTMLParser):
    """What a page shows and what it loads.

    Args:
        article: look at the text of the page's article alone.
    """

    def __init__(self, html: str, *, article: bool) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.loads: list[str] = []
        self._words: list[str] = []
        self._article = article
        self._on = not article
        self._hidden = 0
        self._in_permalink = False
        self.feed(html)

    @property
    def text(self) -> str:
        return " ".join("".join(self._words).split())

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        if tag in FETCHING and FETCHING[tag] in given:
            self.loads.append(given[FETCHING[tag]])
        if tag == "link" and given.get("rel", "") not in {"canonical", "next", "prev"}:
            self.loads.append(given.get("href", ""))
        if self._article and tag == "article":
            self._on = True
        if not self._on:
            return
        if tag in {"script", "style", "svg"}:
            self._hidden += 1
        if tag == "a" and "headerlink" in given.get("class", ""):
            self._hidden += 1
            self._in_permalink = True
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag in APART:
            self._words.append("\n")

    def handle_endtag(self, tag):
        if self._article and tag == "article":
            self._on = False
        if not self._on:
            return
        if tag in {"script", "style", "svg"}:
            self._hidden -= 1
        if tag == "a" and self._in_permalink:
            self._hidden -= 1
            self._in_permalink = False

    def handle_data(self, data):
        if self._on and not self._hidden:
            self._words.append(data)


def as_hosts_show(markdown: str) -> Seen:
    """A page as code hosts render it: CommonMark with tables."""
    return Seen(MarkdownIt("commonmark").enable("table").render(markdown), article=False)
