"""Single files out of a wheel on a package index of our own, with the real pip."""

from __future__ import annotations

import os
import platform
import sys

import pytest

from harness.targets.base import TargetError
from harness.targets.vllm_rs.fetch import fetch
from harness.targets.vllm_rs.range_reader import TAIL_BYTES
from harness.targets.vllm_rs.wheel import fetch_members
from tests.support.wheel_server import ELF, make_wheel, record_digest, serving

RELEASE = "0.30.0"
BINARY = ELF + bytes(1 << 16)
FILES = {
    "vllm/vllm-rs": BINARY,
    "vllm/between": bytes(3 << 20),
    "vllm/v1/one.py": b"one = 1\n",
    "vllm/v1/two.py": b"two = 2\n",
}
FILLER = 2 * TAIL_BYTES


@pytest.fixture
def make(tmp_path):
    path = tmp_path / f"vllm-{RELEASE}-py3-none-any.whl"

    def write(files=FILES, **more):
        make_wheel(path, files, release=RELEASE, filler=FILLER, **more)
        return path

    write()
    return write


@pytest.fixture
def index(make, tmp_path, monkeypatch):
    """The index, and a pip that knows nothing else."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NETRC", os.devnull)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    monkeypatch.setenv("WAVECHECK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WAVECHECK_FRONTEND_DIR", raising=False)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with serving(make()) as server:
        monkeypatch.setenv("PIP_INDEX_URL", server.index_url)
        yield server


def left(folder):
    return sorted(path.name for path in folder.rglob("*") if path.name != ".lock")


def test_only_the_member_is_fetched_where_the_index_serves_ranges(index, tmp_path):
    lines = []
    assert fetch(RELEASE, lines.append).read_bytes() == BINARY
    assert index.ranges()[0] == f"bytes=-{TAIL_BYTES}"
    assert len(index.ranges()) == 2
    assert index.sent < TAIL_BYTES + len(BINARY) + 1000
    assert index.sent < index.wheel.stat().st_size / 4
    assert lines[-1].startswith(f"took vllm/vllm-rs out of {index.wheel.name}: 1.1 MB of")
    assert left(tmp_path / "cache" / "frontends" / RELEASE) == ["vllm-rs", "vllm-rs.sha256"]


def test_the_whole_wheel_is_downloaded_where_it_is_asked_for(index):
    assert fetch(RELEASE, whole=True).read_bytes() == BINARY
    assert index.ranges() == []


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("whole", "answers a range request with the whole file"),
        ("refused", "answers a range request with status 416"),
        ("truncated", "broke off, 2 times"),
    ],
)
def test_a_server_without_ranges_is_said_and_the_whole_wheel_is_taken(index, mode, words):
    index.mode = mode
    lines = []
    assert fetch(RELEASE, lines.append).read_bytes() == BINARY
    assert words in lines[1]
    assert lines[1].startswith("downloading the whole wheel")


def test_a_member_that_differs_from_its_record_is_refused_in_both_ways(make, index, tmp_path):
    make(digests={"vllm/vllm-rs": record_digest(b"other")})
    lines = []
    with pytest.raises(TargetError, match="differs from its RECORD"):
        fetch(RELEASE, lines.append)
    assert "differs from its RECORD" in lines[1]
    assert left(tmp_path / "cache" / "frontends" / RELEASE) == []


def test_a_redirect_is_followed_with_the_range(index):
    index.redirect = True
    assert fetch(RELEASE).read_bytes() == BINARY
    assert [path for _method, path, asked in index.asked if asked][1].startswith("/elsewhere/")
    assert index.sent < index.wheel.stat().st_size / 4


def test_the_credentials_of_the_index_go_with_every_request(index, monkeypatch):
    index.login = "me:secret"
    monkeypatch.setenv("PIP_INDEX_URL", index.index_url)
    lines = []
    assert fetch(RELEASE, lines.append).read_bytes() == BINARY
    assert index.sent < index.wheel.stat().st_size / 4
    assert "secret" not in "".join(lines)


def test_wrong_credentials_end_with_the_words_of_pip(index, monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_INDEX_URL", index.index_url.replace("//", "//me:wrong@"))
    monkeypatch.setenv("PIP_NO_INPUT", "1")
    index.login = "me:secret"
    with pytest.raises(TargetError, match=f"could not download vllm=={RELEASE}"):
        fetch(RELEASE)
    assert left(tmp_path / "cache" / "frontends" / RELEASE) == []


def test_a_wheel_without_the_member_is_told_from_its_directory(make, index):
    make({"vllm/other": b"x"})
    with pytest.raises(TargetError, match="has no member vllm/vllm-rs: this wheel has no Rust"):
        fetch(RELEASE)
    assert index.sent <= TAIL_BYTES


@pytest.mark.parametrize("mode", ["ranges", "whole"])
def test_several_members_are_put_below_a_folder(index, tmp_path, mode):
    index.mode = mode
    into = tmp_path / "sources"
    found = fetch_members(RELEASE, ["vllm/v1/one.py", "vllm/v1/two.py"], into)
    assert [path.read_bytes() for path in found.values()] == [b"one = 1\n", b"two = 2\n"]
    assert left(into) == ["one.py", "two.py", "v1", "vllm"]
    assert (index.sent <= TAIL_BYTES) is (mode == "ranges")


def test_members_that_cannot_all_be_had_leave_nothing(index, tmp_path):
    into = tmp_path / "sources"
    with pytest.raises(TargetError, match=r"has no member vllm/three\.py"):
        fetch_members(RELEASE, ["vllm/v1/one.py", "vllm/three.py"], into)
    assert left(into) == []


def test_a_member_whose_name_leads_elsewhere_is_refused(tmp_path):
    with pytest.raises(ValueError, match="leads out of its folder"):
        fetch_members(RELEASE, ["../outside"], tmp_path / "sources")


def test_an_interrupted_fetch_of_members_leaves_nothing(index, tmp_path, monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.targets.vllm_rs.wheel.subprocess.run", interrupted)
    into = tmp_path / "sources"
    with pytest.raises(KeyboardInterrupt):
        fetch_members(RELEASE, ["vllm/v1/one.py"], into)
    assert left(into) == []


@pytest.mark.skipif(sys.platform != "linux", reason="permissions of a folder")
def test_a_folder_that_cannot_be_written_is_named(index, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match="cannot write into"):
        fetch_members(RELEASE, ["vllm/v1/one.py"], tmp_path / "file" / "below")
