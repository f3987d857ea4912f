"""Which frontends are meant, and what each one is."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from client.protocol.profiles import RELEASES
from harness.matrix import columns
from harness.matrix.columns import Start, open_column, order_of, parse_frontends
from harness.targets.base import TargetError
from harness.targets.request import TargetRequest


def binary(folder: Path, says: str = "0.33.0") -> Path:
    path = folder / "vllm-rs"
    path.write_text(f"#!/bin/sh\necho vllm-rs {says}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("all", list(RELEASES)),
        ("0.33.0, 0.22.0", ["0.33.0", "0.22.0"]),
        ("v0.33.0,0.33.0,", ["0.33.0"]),
        ("0.33.0,all", ["0.33.0", *RELEASES[:-1]]),
        ("reference,reference:0.28.0", ["reference", "reference:0.28.0"]),
        ("./build/vllm-rs", ["./build/vllm-rs"]),
    ],
)
def test_list_of_frontends_names_each_one_once(text: str, names: list[str]) -> None:
    assert parse_frontends(text) == names


@pytest.mark.parametrize("text", ["", " , ", "0.33", "newest"])
def test_list_with_an_unknown_release_or_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"known releases: 0\.22\.0"):
        parse_frontends(text)


def test_releases_stand_first_and_by_age() -> None:
    found = [open_stub(name) for name in ("./b", "0.33.0", "0.22.0", "./a")]
    assert [one.id for one in order_of(found)] == ["0.22.0", "0.33.0", "./b", "./a"]


def open_stub(name: str) -> columns.Column:
    return columns.Column(name, "0.33.0", name in RELEASES, "i")


def test_file_is_judged_as_the_release_it_says_and_known_by_its_bytes(tmp_path: Path) -> None:
    path = binary(tmp_path)
    found = open_column(str(path), Start())
    assert (found.release, found.released, found.error) == ("0.33.0", False, None)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_identity_changes_with_bytes_arguments_environment_and_release(tmp_path: Path) -> None:
    path = binary(tmp_path)
    starts = [
        Start(),
        Start(arguments=("--x",)),
        Start(environment=(("A", "1"),)),
        Start(as_release="0.28.0"),
    ]
    found = {open_column(str(path), start).identity for start in starts}
    columns.cached_target.cache_clear()
    path.write_text(path.read_text() + "# another build\n")
    found.add(open_column(str(path), Start()).identity)
    assert len(found) == 5


def test_as_release_is_for_files_alone(tmp_path: Path) -> None:
    start = Start(as_release="0.28.0")
    assert start.request("0.33.0").profile is None
    assert start.request("reference").profile is None
    path = binary(tmp_path)
    assert start.request(str(path)).profile == "0.28.0"
    assert open_column(str(path), start).release == "0.28.0"


def test_frontend_that_cannot_be_had_is_a_column_with_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(request: TargetRequest) -> None:
        msg = f"pip could not download {request.frontend}"
        raise TargetError(msg)

    monkeypatch.setattr(columns, "cached_target", refuse)
    found = open_column("0.24.0", Start())
    assert (found.id, found.error) == ("0.24.0", "pip could not download 0.24.0")
    assert found.identity == ""
