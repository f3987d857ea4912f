"""SHA-256 of every vLLM file that is executed here, for each release.

``checksums.json`` was made from the RECORD of the wheels; the sums prove where a class comes from,
and hold nothing of its text. To add a release, let pip download its wheel and run

    python -m harness.targets.vllm_py.checksums vllm-0.34.0-….whl > …/vllm_py/checksums.json
"""

from __future__ import annotations

import base64
import csv
import io
import json
import sys
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from harness.targets.vllm_py.members import EXECUTED, member_of

TABLE = Path(__file__).with_name("checksums.json")
_RECORD = ".dist-info/RECORD"


@cache
def checksums() -> Mapping[str, Mapping[str, str]]:
    """Return release → member → hexadecimal SHA-256."""
    table: dict[str, dict[str, str]] = {}
    for member, sums in json.loads(TABLE.read_text(encoding="ascii")).items():
        for sha256, releases in sums.items():
            for release in releases:
                table.setdefault(release, {})[member] = sha256
    return table


def executed_in(record: str) -> dict[str, str]:
    """Return member → hexadecimal SHA-256 from a wheel's RECORD, for what is executed here."""
    wanted = {member_of(name, package=package) for name in EXECUTED for package in (False, True)}
    found = {}
    for row in csv.reader(io.StringIO(record)):
        if len(row) > 1 and row[0] in wanted and row[1].startswith("sha256="):
            text = row[1].removeprefix("sha256=")
            found[row[0]] = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
    return found


def with_releases(
    table: Mapping[str, Mapping[str, str]], records: Iterable[tuple[str, str]]
) -> dict[str, dict[str, list[str]]]:
    """Return the table of the file, with further releases from ``(release, RECORD)``."""
    merged = {release: dict(members) for release, members in table.items()}
    merged |= {release: executed_in(record) for release, record in records}
    found: dict[str, dict[str, list[str]]] = {}
    for release, members in sorted(merged.items()):
        for member, sha256 in members.items():
            found.setdefault(member, {}).setdefault(sha256, []).append(release)
    return {member: found[member] for member in sorted(found)}


def main(wheels: Iterable[str]) -> str:
    """Return the file's new text for further wheels."""
    records = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(_RECORD))
            records.append((name.split("-")[1].removesuffix(".dist"), archive.read(name).decode()))
    known = checksums() if TABLE.is_file() else {}
    return json.dumps(with_releases(known, records), indent=1)


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]) + "\n")
