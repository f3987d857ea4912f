"""The documentation as a person opens it: from a folder, without a network, by day and by night."""

from __future__ import annotations

import json

import pytest

from tests.support.site import build

pytestmark = pytest.mark.browser
PAGES = ("index", "tutorial", "reference/cli", "explanation/protocol-in-pictures")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def loaded(window):
    """Everything that the page asked for."""
    found = window.js(
        "return JSON.stringify(performance.getEntriesByType('resource').map((each) => each.name))"
    )
    return json.loads(found)


@pytest.mark.parametrize("name", PAGES)
def test_page_of_the_site_opens_from_a_file_and_asks_for_files_only(window, site, name):
    window.open(site / f"{name}.html")
    window.drawn()
    assert window.text("article h1")
    assert [name for name in loaded(window) if not name.startswith("file:")] == []
    assert window.console() == []


def test_search_of_the_site_finds_a_word_in_pages_from_files(window, site):
    window.open(site / "reference" / "cli.html")
    window.js("document.querySelector('input.md-search__input').focus()")
    window.keys("gate")
    window.later(
        "const look = () => document.querySelector('.md-search-result__link') ? done() "
        ": requestAnimationFrame(look); look();"
    )
    links = window.js(
        "return [...document.querySelectorAll('.md-search-result__link')].map((each) => each.href)"
    )
    assert any("scenarios.html" in link for link in links)
    assert window.console() == []


def test_code_and_tables_of_the_site_stay_inside_the_page(window, site):
    for name in PAGES:
        window.open(site / f"{name}.html")
        window.drawn()
        wide = window.js(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, name


@pytest.mark.parametrize("dark", [False, True], ids=["by day", "by night"])
def test_site_is_dark_where_the_system_is(window, dark_window, site, dark):
    seen = dark_window if dark else window
    seen.open(site / "index.html")
    seen.drawn()
    assert seen.js("return document.body.dataset.mdColorScheme") == ("slate" if dark else "default")
