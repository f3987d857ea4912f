"""A report as one HTML page that loads nothing.

The data is a block of JSON that no browser runs; the page's own policy allows this style and this
script, by their digests, and forbids every request.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from importlib import resources

from harness.reports.told.model import Report
from harness.reports.visible import printable, shown_builtins
from harness.version import tool_version

PARTS = ("base.js", "details.js", "diagram.js", "pages.js", "main.js")
"""Parts of the page's script, in the order in which they run."""
LIBRARY = "vendor/lit-html.js"
"""The library that draws, as its authors publish it (a module)."""
_EXPORT = re.compile(r"export\{([^}]*)\};\s*(?://# sourceMappingURL=\S*\s*)?$")


def page(report: Report) -> str:
    """The page."""
    # Here, since every other command would pay for the import.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("harness.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    style, script = asset("page.css"), _script()
    return environment.get_template("page.html.j2").render(
        policy=_policy(style, script),
        tool=tool_version(),
        title=printable(f"{report.headline}: {report.verdict}"),
        # Ours, and digested above; the data is made safe by ``as_data``.
        style=Markup(style),
        script=Markup(script),
        data=Markup(as_data(report)),
    )


def as_data(report: Report) -> str:
    """The report as JSON that may stand inside a script element.

    No sign is left that could end the element or begin another, and none that is not ASCII.
    """
    text = json.dumps(shown_builtins(report), separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def asset(name: str) -> str:
    """A file of the package's assets."""
    return (resources.files("harness.reports") / "assets" / name).read_text(encoding="utf-8")


@functools.cache
def _script() -> str:
    own = "\n".join(asset(part) for part in PARTS)
    return f'"use strict";\n(() => {{\n{_library()}\n{own}\n}})();\n'


def _library() -> str:
    """The module as an object, since an inline script cannot import."""
    text = asset(LIBRARY)
    found = _EXPORT.search(text)
    assert found is not None, "the library ends with its exports"
    pairs = (pair.split(" as ") for pair in found[1].split(","))
    names = ", ".join(f"{theirs.strip()}: {ours.strip()}" for ours, theirs in pairs)
    return f"const lit = (() => {{\n{text[: found.start()]}\nreturn {{ {names} }};\n}})();"


def _policy(style: str, script: str) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types lit-html",
        ]
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
