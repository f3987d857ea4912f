"""Licences of all that an installation brings: a page, and what is allowed on it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

PAGE = Path(__file__).parents[2] / "docs" / "licences.md"
BEGIN, END = "<!-- packages -->", "<!-- end of packages -->"
PERMISSIVE = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "PSF-2.0",
        "Unlicense",
    }
)
WITH_FILES = frozenset({"MPL-2.0"})
"""Changes of its own files stay under it; what uses it is free."""
TOOLS_ONLY = frozenset({"LGPL"})
"""Fine for what runs beside us and is never shipped with us."""
SPELT = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "DFSG approved": "",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""What metadata says → the short name. ``""``: says nothing."""
KNOWN: dict[str, str] = {}
"""Licences of distributions whose metadata does not say; each was looked up in its source."""

Licences = Mapping[str, str]


def short(text: str) -> str:
    """One licence expression as the page writes it; a list of several is joined by ``AND``."""
    parts = [SPELT.get(part.strip(), part.strip()) for part in text.split(";")]
    return " AND ".join(dict.fromkeys(part for part in parts if part)) or "UNKNOWN"


def allowed(expression: str, licences: Collection[str]) -> bool:
    """Whether each part that has to be kept, or one of those to choose from, is among them."""
    choices = re.split(r" OR ", expression.replace("(", "").replace(")", ""))
    return any(all(part in licences for part in choice.split(" AND ")) for choice in choices)


def licences_of(names: Collection[str]) -> dict[str, str]:
    """Ask pip-licenses, by canonical name.

    Raises:
        RuntimeError: it said nothing of some.
    """
    command = [
        sys.executable,
        "-m",
        "piplicenses",
        "--from=mixed",
        "--format=json",
        "--with-system",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    told = {
        canonicalize_name(each["Name"]): short(each["License"]) for each in json.loads(done.stdout)
    }
    if missing := sorted(set(names) - set(told)):
        msg = f"pip-licenses says nothing of {', '.join(missing)}"
        raise RuntimeError(msg)
    return {name: KNOWN.get(name, told[name]) for name in sorted(names)}


def rows(page: str) -> dict[str, tuple[str, str]]:
    """What the page lists: name → licence and who needs it."""
    block = page.partition(BEGIN)[2].partition(END)[0]
    cells = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("| `")]
    return {name.strip("`"): (licence.strip(), who.strip()) for name, licence, who in cells}


def written(page: str, found: Licences, users: Collection[str]) -> str:
    """The page with what was found here; rows of other Pythons and platforms stay."""
    kept = rows(page)
    for name, licence in found.items():
        kept[name] = (licence, "users" if name in users else "developers")
    lines = [f"| `{name}` | {licence} | {who} |" for name, (licence, who) in sorted(kept.items())]
    table = "\n".join(["| package | licence | for |", "|---|---|---|", *lines])
    head, _, rest = page.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}"
