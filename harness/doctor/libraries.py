"""Python and the libraries of this installation, by its own metadata."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from harness.doctor.finding import Finding
from harness.version import tool_version

DISTRIBUTION = "wavecheck"

EXTRAS = {
    "frontend": "the targets vllm-rs and vllm-py, and `wavecheck frontend serve`",
    "dask": "--executor dask://HOST:PORT",
    "explore": "`wavecheck explore`",
    "watch": "`wavecheck watch`",
    "pytest": "`pytest scenarios/`, and the fixtures",
    "browser": "tests that open reports in Chromium",
}
"""Extras that users have a use for, and which."""
NEEDED_BY = {"frontend": frozenset({"vllm-rs", "vllm-py"})}
"""Targets that cannot do without an extra."""

ANY_PYTHON = ">=3.11"
"""Wanted where nothing says more."""


def python() -> Finding:
    """The interpreter."""
    version, wanted = platform.python_version(), _wanted_python()
    return Finding(
        name="python",
        good=platform.python_version() in SpecifierSet(wanted, prereleases=True),
        found=f"Python {version} ({sys.executable}); wanted is {wanted}",
        mend=f"python3.13 -m venv .venv, and install wavecheck {tool_version()} there",
    )


def _wanted_python() -> str:
    """The range that the installation itself names."""
    try:
        found = importlib.metadata.metadata(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return ANY_PYTHON
    return str(found.json.get("requires_python", ANY_PYTHON))


def libraries(target: str) -> Iterator[Finding]:
    """The libraries that every run needs, then each extra.

    ``target``: its extra counts as needed.
    """
    try:
        wanted = [Requirement(text) for text in importlib.metadata.requires(DISTRIBUTION) or ()]
    except importlib.metadata.PackageNotFoundError:
        yield Finding(
            name="libraries",
            good=False,
            found=f"{DISTRIBUTION} is not installed as a package, so nothing says what it needs",
            mend=f"{pip_install(['.'])} in its folder",
        )
        return
    always = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    yield _judged("libraries", always, True, "every run")
    known = importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    for extra, used_for in EXTRAS.items():
        if extra not in known:
            yield Finding(
                name=f"extra {extra}",
                good=False,
                found="this installation was made before there was such an extra",
                needed=False,
                used_for=used_for,
                mend="install wavecheck again, as you did the first time",
            )
            continue
        only = [one for one in wanted if one not in always and _is_of(one, extra)]
        needed = target in NEEDED_BY.get(extra, ())
        yield _judged(f"extra {extra}", only, needed, used_for)


def _is_of(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is not None and requirement.marker.evaluate({"extra": extra})


def _judged(name: str, wanted: Sequence[Requirement], needed: bool, used_for: str) -> Finding:
    problems = {str(_bare(one)): why for one in wanted if (why := _problem(one))}
    count = f"{len(wanted)} of {len(wanted)} libraries"
    return Finding(
        name=name,
        good=not problems,
        found=", ".join(problems.values()) or count,
        needed=needed,
        used_for=used_for,
        mend=pip_install(list(problems)) if problems else "",
    )


def _bare(requirement: Requirement) -> Requirement:
    """The same without the condition under which it counts."""
    found = Requirement(str(requirement))
    found.marker = None
    return found


def _problem(requirement: Requirement) -> str:
    """What is wrong with an installed library, or ``""``."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{requirement.name} is {version}, wanted is {requirement.specifier}"


def pip_install(what: Sequence[str]) -> str:
    """The command that installs something where this Python finds it."""
    return shlex.join([sys.executable, "-m", "pip", "install", *what])
