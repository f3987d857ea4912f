"""Exports that other programs draw, read by those programs."""

from __future__ import annotations

import pytest

from harness.reports.exports.mermaid import escaped, mermaid
from harness.reports.told.model import Event, Lane, Trace, Violation
from tests.browser.conftest import written
from tests.support.failures import HOSTILE

pytestmark = pytest.mark.browser

TEXTS = (
    HOSTILE, "end", "loop x", "a;b", "a: b: c", "%% comment", "#quot; #35;", "über → ☃ 𝔘", "a\nend\nb",
    "participant x", "{x}", "[[x]]", "->>", "a->>b: c", "", "%%{init: {}}%%", "<br/>", "`x`", "$$x$$",
)  # fmt: skip


@pytest.fixture(scope="session")
def mermaid_page(window, readers, tmp_path_factory):
    """A page with Mermaid itself in it; ``draw(text)`` gives the texts of the drawing."""
    script = (readers / "mermaid" / "dist" / "mermaid.min.js").as_uri()
    path = tmp_path_factory.mktemp("mermaid") / "page.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><div id="x"></div><script src="{script}"></script>'
    )

    def draw(text):
        window.open(path)
        return window.later(
            "mermaid.initialize({startOnLoad: false});"
            "mermaid.parse(arguments[0]).then(() => mermaid.render('g', arguments[0])).then(({svg}) => {"
            "  const found = new DOMParser().parseFromString(svg, 'image/svg+xml');"
            "  done([...found.querySelectorAll('text')].map(t => t.textContent));"
            "}).catch(error => done(String(error)))",
            text,
        )

    return draw


@pytest.mark.parametrize("given", ["run", "long_failure"])
def test_mermaid_itself_draws_the_diagram(mermaid_page, request, tmp_path, given):
    place = written(request.getfixturevalue(given), tmp_path / "d.mmd")
    texts = mermaid_page(place.read_text())
    assert isinstance(texts, list), texts
    assert "client" in texts
    assert any(text.startswith("#") for text in texts)


@pytest.mark.parametrize("text", TEXTS)
def test_mermaid_itself_takes_any_text_for_text(mermaid_page, text):
    lanes = [Lane("client", "client"), Lane("engine 0", "engine 0")]
    events = [
        Event(0, 0, "add", "client", "engine 0", f"engine 0 <- {text}"),
        Event(1, 0, "idle", "engine 0", "engine 0", f"engine 0: {text}"),
    ]
    trace = Trace("recorded", "", lanes, {}, events, [], 2)
    told = Violation("s", "t", "violated", "", text, [], witness=[1], trace=trace)
    texts = mermaid_page(mermaid(told))
    assert isinstance(texts, list), texts
    plain = " ".join(text.split())
    if len(escaped(text)) and plain:
        assert f"#0 {plain}"[:40] in " ".join(" ".join(texts).split())


def test_speedscope_itself_reads_the_perfetto_trace(window, readers, run, tmp_path):
    place = written(run, tmp_path / "t.perfetto.json")
    window.open(readers / "speedscope" / "dist" / "release" / "index.html")
    window.later(
        "new MutationObserver((_, seen) => {"
        "  if (document.querySelector('input[type=file]')) { seen.disconnect(); done(); }"
        "}).observe(document, {childList: true, subtree: true});"
        "if (document.querySelector('input[type=file]')) done();"
    )
    window.js(
        "window.read = new Promise(resolve => new MutationObserver(() => {"
        "  if (document.title.startsWith('t.perfetto.json')) resolve(document.body.innerText);"
        "}).observe(document.head, {childList: true, subtree: true, characterData: true}))"
    )
    window.one("input[type=file]").send_keys(str(place))
    text = window.later(
        "window.read.then(() => requestAnimationFrame(() => done(document.body.innerText)))"
    )
    assert "waves/stale-first-request: wave.never-rewinds (pid 1), callers (tid 1)" in text
    assert "(1/6)" in text
