"""The cache, binaries of real frontends, and what opens their reports."""

from __future__ import annotations

import importlib.util
import platform
import shutil
from collections.abc import Iterator

from client.protocol.profiles import NEWEST, RELEASES
from harness.doctor.finding import Finding
from harness.doctor.libraries import NEEDED_BY
from harness.doctor.machine import existing, megabytes, unwritable
from harness.targets.base import TargetError
from harness.targets.vllm_rs import cache
from harness.targets.vllm_rs.fetch import available, resolve
from harness.targets.vllm_rs.releases import UnknownFrontendError

WHOLE_WHEEL_BYTES = 400 << 20
"""Free bytes that a fetch needs where the index gives whole wheels only (250 to 340 MB)."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVER = "chromedriver"


def cache_folder(target: str) -> Iterator[Finding]:
    """Where fetched binaries go."""
    root = cache.cache_root()
    there = existing(root)
    why = unwritable(there)
    free = shutil.disk_usage(there).free
    if why is None and free < WHOLE_WHEEL_BYTES:
        why = f"only {megabytes(free)} are free in {there}; a wheel may take 340 MB"
    yield Finding(
        name="cache folder",
        good=why is None,
        found=why or f"{root} can be written, {megabytes(free)} free",
        needed=target in NEEDED_BY["frontend"],
        used_for="binaries of real frontends, sources of their Python parts",
        mend=f"export {cache.CACHE_VARIABLE}=DIR, with a folder that can be written and has room",
    )


def binaries(target: str) -> Iterator[Finding]:
    """Which releases of the real frontend are here, and whether the newest of them runs."""
    needed, used_for = target == "vllm-rs", "--target vllm-rs"
    if (platform.system(), platform.machine().lower()) not in {
        ("Linux", "x86_64"),
        ("Linux", "amd64"),
    }:
        yield Finding(
            name="real frontend",
            good=False,
            found=f"there is no binary for {platform.system()} {platform.machine()}",
            needed=needed,
            used_for=used_for,
            mend="--frontend reference, which is our own server; or a build of your own",
        )
        return
    here, problems = _here()
    damaged = [release for release, why in problems.items() if why]
    newest = here[-1] if here else None
    found = f"{', '.join(here)}" if here else "none is fetched"
    mend = f"wavecheck frontend fetch {' '.join(damaged) or NEWEST}"
    if damaged:
        found = "; ".join(problems.values())
    elif newest is not None and (why := _does_not_run(newest)):
        found, damaged = why, [newest]
        mend = "a system with glibc, or `ldd` on the binary, which names the library that it lacks"
    yield Finding(
        name="real frontend",
        good=bool(here) and not damaged,
        found=found,
        # A run fetches what is not there; what is damaged stops it.
        needed=needed and bool(damaged),
        used_for=used_for,
        mend=mend,
    )


def _here() -> tuple[list[str], dict[str, str]]:
    """Releases whose binary can be used, oldest first, and what is wrong with others."""
    here: list[str] = []
    problems: dict[str, str] = {}
    for release in RELEASES:
        try:
            path = available(release)
        except TargetError as error:
            problems[release] = str(error)
            continue
        if path is not None:
            here.append(release)
        elif (left := cache.binary_path(release)).exists():
            problems[release] = f"{left} does not match its checksum"
    return here, problems


def _does_not_run(release: str) -> str | None:
    """Why the binary of a release cannot be started here; ``None``: it can."""
    path = available(release)
    assert path is not None
    try:
        resolve(str(path), release)
    except UnknownFrontendError as error:
        return str(error)
    return None


def browser() -> Iterator[Finding]:
    """A Chromium with its driver, where the extra that drives it is there."""
    if importlib.util.find_spec("selenium") is None:
        return
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which(DRIVER)
    lacks = [name for name, there in (("Chromium", program), (DRIVER, driver)) if there is None]
    yield Finding(
        name="browser",
        good=not lacks,
        found=f"{' and '.join(lacks)} not found" if lacks else f"{program}, {driver}",
        needed=False,
        used_for="tests that open reports",
        mend="apt-get install chromium chromium-driver",
    )
