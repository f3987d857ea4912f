"""Child process: takes single members out of a wheel on the user's package index.

pip's own finder and session are used, so that everything of the user's configuration counts:
indexes, find-links, credentials (also keyring and netrc), proxies, certificates. pip has no
command for it: ``pip download`` and (without metadata files on the index) ``pip install
--dry-run`` take the whole wheel. So this uses what pip does not promise to keep. It runs in a
process of its own and says ``refused`` when anything is not as it expects; the caller then has
the ordinary command do the work.

Usage: ``python -m harness.targets.vllm_rs.pip_members REQUIREMENT FOLDER MEMBER…``. Members are
written to ``FOLDER`` as ``0``, ``1``, … and the wheel's RECORD as ``RECORD``. Standard output is
one JSON object.

Source: pip ``commands/download.py``, ``index/package_finder.py`` (checked with 22.3 to 26.3).
"""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.targets.vllm_rs.range_reader import RangeReader, RangesRefusedError

LOCAL_HEADER_BYTES = 30 + 256
"""A member's own header before its data: fixed part, and ample room for the extra field."""
_RECORD = ".dist-info/RECORD"
_COPY_BYTES = 1 << 20


class MissingMemberError(Exception):
    """The text is the name of a member that the wheel has not."""


def find_wheel(requirement: str) -> tuple[Any, Any]:
    """Let pip pick the wheel.

    Returns:
        pip's session, and its link to the wheel.

    Raises:
        RangesRefusedError: pip finds no wheel, or it is a local file.
    """
    commands = importlib.import_module("pip._internal.commands")
    models = importlib.import_module("pip._vendor.packaging.requirements")
    command = commands.create_command("download")
    arguments = ["--no-deps", "--only-binary=:all:", "--quiet", requirement]
    options, _rest = command.parse_args(arguments)
    wanted = models.Requirement(requirement)
    with command.main_context():
        session = command._build_session(options)  # noqa: SLF001 - see the module's text
        finder = command._build_package_finder(options, session)  # noqa: SLF001
        found = finder.find_best_candidate(wanted.name, wanted.specifier)
    if found.best_candidate is None:
        msg = f"pip finds no wheel for {requirement}"
        raise RangesRefusedError(msg)
    link = found.best_candidate.link
    if link.scheme not in ("http", "https"):
        msg = "the wheel is a file on this machine"
        raise RangesRefusedError(msg)
    return session, link


def take(reader: RangeReader, members: Sequence[str], folder: Path) -> None:
    """Write members and RECORD into ``folder``.

    Raises:
        MissingMemberError: the wheel has no such member.
        RangesRefusedError: an answer of the server is unusual, or it is no wheel.
    """
    with zipfile.ZipFile(reader) as archive:
        records = [name for name in archive.namelist() if name.endswith(_RECORD)]
        if len(records) != 1:
            msg = f"a wheel has exactly one RECORD, this file has {len(records)}"
            raise RangesRefusedError(msg)
        there = set(archive.namelist())
        for name in members:
            if name not in there:
                raise MissingMemberError(name)
        wanted = [(records[0], "RECORD"), *((name, str(i)) for i, name in enumerate(members))]
        infos = [archive.getinfo(name) for name, _file in wanted]
        reader.prefetch(
            (
                info.header_offset,
                info.header_offset + LOCAL_HEADER_BYTES + len(info.filename) + info.compress_size,
            )
            for info in infos
        )
        for info, (_name, file) in zip(infos, wanted, strict=True):
            with archive.open(info) as source, (folder / file).open("wb") as sink:
                while block := source.read(_COPY_BYTES):
                    sink.write(block)


def fetch(requirement: str, folder: Path, members: Sequence[str]) -> dict[str, Any]:
    """Fetch, and say how it went.

    Returns:
        ``wheel`` (file name), ``size``, ``fetched`` (bytes) and ``requests``; or ``missing``
        (a member that the wheel has not); or ``refused`` (why the whole wheel is needed).
    """
    try:
        session, link = find_wheel(requirement)
        with RangeReader(session, link.url_without_fragment) as reader:
            try:
                take(reader, members, folder)
            except MissingMemberError as error:
                return {"wheel": link.filename, "missing": str(error)}
            return {
                "wheel": link.filename,
                "size": reader.size,
                "fetched": reader.fetched,
                "requests": reader.requests,
            }
    except (RangesRefusedError, zipfile.BadZipFile) as error:
        return {"refused": str(error)}


def main() -> None:
    """Entry of the child process."""
    requirement, folder, *members = sys.argv[1:]
    json.dump(fetch(requirement, Path(folder), members), sys.stdout)


if __name__ == "__main__":
    main()
