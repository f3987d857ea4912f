"""Known vulnerabilities of what an installation brings, from pip-audit; and whether it could look."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Audit:
    """What came of it.

    Attributes:
        looked_at: distributions of which the service knows.
        found: a line for each vulnerability.
        unseen: those of which it told nothing, with its reason.
        broke: why there was no answer at all.
    """

    looked_at: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    broke: str = ""

    @property
    def code(self) -> int:
        """1 if something was found; not to have looked is told, and is no finding."""
        return 1 if self.found else 0

    @property
    def text(self) -> str:
        """For people."""
        if self.broke or not self.looked_at:
            why = self.broke or self.unseen[0]
            return f"NOT RUN: no dependency could be audited: {why}"
        lines = [
            f"{len(self.looked_at)} dependencies audited, {len(self.found)} known vulnerabilities"
        ]
        lines += [f"  FOUND {line}" for line in self.found]
        lines += [f"  NOT RUN: {line}" for line in self.unseen]
        return "\n".join(lines)


def audit(names: Collection[str]) -> Audit:
    """Ask about the versions that are installed here."""
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "pins.txt"
        pins.write_text("".join(f"{name}=={version(name)}\n" for name in sorted(names)))
        command = [
            *(sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"),
            *("--no-deps", "--disable-pip", "--requirement", str(pins)),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return Audit(broke="no answer within 300 s")
    return read(done.stdout, done.stderr)


def read(answer: str, errors: str) -> Audit:
    """Take pip-audit's answer apart."""
    try:
        told = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = errors.strip().splitlines() or ["it said nothing"]
        return Audit(broke=last[-1])
    seen = [each for each in told if "skip_reason" not in each]
    return Audit(
        looked_at=tuple(f"{each['name']} {each['version']}" for each in seen),
        found=tuple(
            f"{each['name']} {each['version']}: {one['id']}, mended in "
            f"{', '.join(one['fix_versions']) or 'no release'}"
            for each in seen
            for one in each["vulns"]
        ),
        unseen=tuple(
            f"{each['name']}: {each['skip_reason']}" for each in told if "skip_reason" in each
        ),
    )
