"""The frontends of a matrix: which are meant, and what each one is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from client.protocol.profiles import RELEASES
from harness.matrix.identity import digest_of
from harness.matrix.model import Column
from harness.mutants import unseen_note
from harness.runner import cached_target
from harness.targets.base import TargetError
from harness.targets.request import TargetRequest, is_reference, names_a_path
from harness.targets.vllm_rs.cache import sha256_of
from harness.targets.vllm_rs.fetch import resolve
from harness.targets.vllm_rs.releases import known_release

ALL = "all"
KIND = "vllm-rs"


@dataclass(frozen=True, slots=True)
class Start:
    """How every frontend of a matrix is started, beside what it is."""

    as_release: str | None = None
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    mutant: str | None = None

    def request(self, frontend: str) -> TargetRequest:
        """What the target is asked for."""
        return TargetRequest(
            kind=KIND,
            frontend=frontend,
            profile=self.as_release if names_a_path(frontend) else None,
            arguments=self.arguments,
            environment=self.environment,
            mutant=self.mutant,
        )


def parse_frontends(text: str) -> list[str]:
    """Names of frontends, separated by commas, each one once: ``all`` stands for every release.

    Raises:
        ValueError: nothing is named, or an unknown release.
    """
    found: dict[str, None] = {}
    for part in (part.strip() for part in text.split(",")):
        if part == ALL:
            found.update(dict.fromkeys(RELEASES))
        elif part and (names_a_path(part) or is_reference(part)):
            found[part] = None
        elif part:
            found[known_release(part)] = None
    if not found:
        msg = f"no frontend is named in {text!r}; known releases: {', '.join(RELEASES)}"
        raise ValueError(msg)
    return list(found)


def open_column(frontend: str, start: Start) -> Column:
    """Find out what a frontend is; one that cannot be had carries its error.

    Raises:
        ValueError: it does not exist, or its release cannot be told (a usage error).
    """
    released = frontend in RELEASES
    how = (start.arguments, start.environment, start.mutant)
    try:
        target = cached_target(start.request(frontend))
        profile = target.profile(None)
        assert profile is not None
        unseen = unseen_note(start.mutant, profile, black_box=True)
        sha256 = None
        if not is_reference(frontend):
            sha256 = sha256_of(resolve(frontend, start.request(frontend).profile).path)
    except TargetError as error:
        return Column(frontend, "", released, "", None, "", str(error), *how)
    return Column(
        id=frontend,
        release=profile.release,
        released=released,
        # A reference frontend is our own code, which is part of the tool's identity.
        identity=digest_of(sha256 or frontend, profile.release, *how),
        sha256=sha256,
        note="; ".join(filter(None, (*target.info.notes, unseen))),
        error=None,
        arguments=start.arguments,
        environment=start.environment,
        mutant=start.mutant,
    )


def order_of(columns: Sequence[Column]) -> list[Column]:
    """Releases first, oldest first, then the others as they were named."""
    place = {release: number for number, release in enumerate(RELEASES)}
    return sorted(columns, key=lambda column: place.get(column.id, len(place)))
