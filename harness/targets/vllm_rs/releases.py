"""Releases of the binary, and comparisons between them.

Source: ``vllm`` on the package index carries ``vllm/vllm-rs`` since 0.22.0.
"""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from client.protocol.profiles import NEWEST, RELEASES

VERSION_FLAG_SINCE = "0.29.0"
"""First release whose binary knows ``--version``."""


class UnknownFrontendError(ValueError):
    """The release asked for is not a known one; a usage error (exit code 2)."""


def known_release(text: str) -> str:
    """Return the release that ``text`` names; a leading ``v`` is allowed.

    Raises:
        UnknownFrontendError: no such release; the message lists those there are.
    """
    wanted = text.removeprefix("v")
    if wanted in RELEASES:
        return wanted
    known = ", ".join(RELEASES)
    msg = f"unknown frontend release {text!r}; known releases: {known}"
    raise UnknownFrontendError(msg)


def is_newer(text: str) -> bool:
    """Whether ``text`` is a version beyond all that are known."""
    try:
        return Version(text) > Version(NEWEST)
    except InvalidVersion:
        return False


def fetchable_release(text: str) -> str:
    """Return the release that ``text`` names, also if it is newer than all that are known.

    Raises:
        UnknownFrontendError: neither a known release nor a newer one.
    """
    wanted = text.removeprefix("v")
    if is_newer(wanted) and not Version(wanted).is_devrelease:
        return wanted
    return known_release(text)


def judged_release(text: str) -> str:
    """Return the release whose promises a frontend is judged by that is taken for ``text``.

    A newer one than all that are known, a development version too, is treated as the newest.

    Raises:
        UnknownFrontendError: neither a known release nor a newer one.
    """
    return NEWEST if is_newer(text.removeprefix("v")) else known_release(text)


def newer_note(release: str) -> str:
    """Say how a release is judged that is not known yet."""
    return f"{release} is newer than all known releases; it is judged by the promises of {NEWEST}"


def judged_as(option: str, text: str) -> str:
    """Say whose promises hold since an option names a release."""
    release = judged_release(text)
    if release == text.removeprefix("v"):
        return f"{option} {text} has it judged by the promises of {release}"
    return f"{option}: {newer_note(text)}"


def nearest_release(text: str) -> str | None:
    """Return the newest known release that is not newer than ``text``.

    For binaries built from a newer or a development tree; ``None`` if there is none.
    """
    try:
        wanted = Version(text)
    except InvalidVersion:
        return None
    older = [release for release in RELEASES if Version(release) <= wanted]
    return older[-1] if older else None


def at_least(release: str, bound: str) -> bool:
    """Whether ``release`` is ``bound`` or newer."""
    return Version(release) >= Version(bound)


__all__ = [
    "NEWEST",
    "RELEASES",
    "VERSION_FLAG_SINCE",
    "UnknownFrontendError",
    "at_least",
    "fetchable_release",
    "is_newer",
    "judged_as",
    "judged_release",
    "known_release",
    "nearest_release",
    "newer_note",
]
