"""The documentation as a site: it builds without a warning, says what the pages say, loads nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.docs.site import inside, plain_pipes
from tests.support.site import ROOT, Seen, as_hosts_show, build

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
COUNTED = ("h1", "h2", "h3", "h4", "li", "td", "th", "pre", "code", "em", "strong")
FOUR_PARTS = ["Tutorial", "How-to guides", "Reference", "Explanation"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def page_in(site: Path, page: Path) -> Path:
    name = page.relative_to(DOCS)
    return site / (
        name.parent / "index.html" if name.name == "README.md" else name.with_suffix(".html")
    )


@pytest.mark.slow
def test_site_has_every_page_and_the_four_parts(site):
    assert [page.name for page in PAGES if not page_in(site, page).is_file()] == []
    home = (site / "index.html").read_text(encoding="utf-8")
    found = [part for part in FOUR_PARTS if re.search(rf">\s*{part}\s*<", home)]
    assert found == FOUR_PARTS


@pytest.mark.slow
def test_site_shows_what_code_hosts_show_of_each_page(site):
    """Two kinds of Markdown read a page alike: headings, lists, cells, code and words."""
    differ = {}
    for page in PAGES:
        text = inside(page.read_text(encoding="utf-8"), page.parent, DOCS)
        there = as_hosts_show(text)
        here = Seen(page_in(site, page).read_text(encoding="utf-8"), article=True)
        counts = {
            tag: (there.counts.get(tag, 0), here.counts.get(tag, 0))
            for tag in COUNTED
            if there.counts.get(tag, 0) != here.counts.get(tag, 0)
        }
        if counts or there.text != here.text:
            differ[page.name] = counts or _first_difference(there.text, here.text)
    assert differ == {}


def _first_difference(there: str, here: str) -> str:
    pairs = enumerate(zip(there, here, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(there), len(here)))
    return f"{there[max(0, place - 40) : place + 40]!r}, here {here[max(0, place - 40) : place + 40]!r}"


@pytest.mark.slow
def test_site_loads_nothing_from_elsewhere(site):
    away = []
    for path in site.rglob("*.html"):
        loads = Seen(path.read_text(encoding="utf-8"), article=True).loads
        away += [f"{path.name}: {name}" for name in loads if re.match(r"(?:https?:)?//", name)]
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        away += [
            f"{path.name}: {name}" for name in re.findall(r"url\([\"']?(https?://[^)]+)", text)
        ]
        away += [f"{path.name}: @import {name}" for name in re.findall(r"@import\s+(.+?);", text)]
    assert away == []


def test_check_of_what_pages_load_sees_a_script_a_style_and_a_picture_from_elsewhere():
    html = '<link rel="stylesheet" href="https://a/x.css"><script src="//b/y.js"></script><img src="z.png">'
    assert Seen(html, article=True).loads == ["https://a/x.css", "//b/y.js", "z.png"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("index.md", "[gone](gone.md)", "gone.md"),
        ("index.md", "[gone](other.md#not-there)", "not-there"),
        ("index.md", "[gone](../not_there.py)", "not_there.py"),
        ("forgotten.md", "# A page that no menu has", "forgotten.md"),
        ("other.md", "# Nothing is wrong with this one", None),
    ],
    ids=["link to no page", "link to no heading", "link to no file", "page outside the menu", "ok"],
)
def test_site_is_not_built_with(tmp_path, name, text, said):
    """A small site with the settings of the large one."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for page in ("index.md", "other.md"):
        (docs / page).write_text("# A page\n", encoding="utf-8")
    (docs / name).write_text(f"{text}\n", encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\n"
        f"hooks: [{ROOT / 'harness' / 'docs' / 'site.py'}]\n"
        "extra_css: []\nnav: [index.md, other.md]\n",
        encoding="utf-8",
    )
    done = build(tmp_path / "site", config=tmp_path / "mkdocs.yml")
    assert (done.returncode == 0) == (said is None), done.stderr
    assert (said or "") in done.stderr


def test_link_that_leaves_the_pages_becomes_its_text_and_others_stay(tmp_path):
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (tmp_path / "code.py").touch()
    (docs / "page.md").touch()
    text = (
        "[`code.py`](../code.py), [page](page.md#there), [gone](../gone.py), [out](https://a/b), "
        "[sub](sub), `[x](../code.py)`\n\n```\n[x](../code.py)\n```\n"
    )
    assert inside(text, docs, docs) == (
        "`code.py`, [page](page.md#there), [gone](../gone.py), [out](https://a/b), "
        "sub, `[x](../code.py)`\n\n```\n[x](../code.py)\n```\n"
    )


def test_escaped_pipe_in_code_of_a_cell_becomes_a_pipe():
    assert plain_pipes("| `a \\| b` | c \\| d |\n") == "| `a | b` | c \\| d |\n"
    assert plain_pipes("```\n`a \\| b`\n```") == "```\n`a \\| b`\n```"
