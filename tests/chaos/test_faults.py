"""What the system does to a run: full disks, clocks that jump, no descriptors, parents that die."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from harness.targets.vllm_rs.fetch import FRONTEND_DIR_VARIABLE, available
from tests.chaos.__main__ import linked
from tests.chaos.stages import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs limits and proc(5)")

RUN = ("run", "--target", "zmq", "requests/aborted-then-left", "lifecycle/a-rank-vanishes")
LIMITED = """
import os, resource, sys
which, soft, hard = (int(word) for word in sys.argv[1:4])
resource.setrlimit(which, (soft, hard))
os.execv(sys.executable, [sys.executable, "-m", "harness", *sys.argv[4:]])
"""
DATA_MAX = resource.RLIMIT_FSIZE
FILES_MAX = resource.RLIMIT_NOFILE
LIMIT_S = 120.0


def ran(
    cwd: Path, *words: str, limit: tuple[int, int, int] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run our command in ``cwd``, with its own folder for temporary files."""
    temporary = cwd / "t"
    temporary.mkdir(exist_ok=True)
    first = ["-m", "harness"]
    if limit is not None:
        first = ["-c", LIMITED, *map(str, limit)]
    return subprocess.run(
        [sys.executable, *first, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def statuses(path: Path) -> list[str]:
    return [one["status"] for one in json.loads(path.read_text())["results"]]


# --- descriptors ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("most", [12, 32, 64])
def test_run_without_enough_descriptors_is_an_error_that_says_so(tmp_path: Path, most: int) -> None:
    done = ran(tmp_path, *RUN, limit=(FILES_MAX, most, most))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "too few file descriptors" in done.stdout + done.stderr
    assert "ulimit -n" in done.stdout + done.stderr
    assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.slow
def test_run_raises_its_own_limit_of_descriptors(tmp_path: Path) -> None:
    done = ran(tmp_path, *RUN, limit=(FILES_MAX, 16, 4096))
    assert done.returncode == 0, done.stdout + done.stderr


# --- full disks -----------------------------------------------------------------------------


@pytest.mark.slow
def test_matrix_on_a_full_disk_is_read_and_taken_up_again(tmp_path: Path) -> None:
    """The limit is that of a file: the journal takes two cells of four, the reports none."""
    words = ["matrix", "--frontends", "reference", "--jobs", "1", "--out", "out"]
    words += ["requests/aborted-then-left", "utility/failing-beside-hanging"]
    words += ["waves/wave-complete-advances-once", "lifecycle/sigkill-ends-the-frontend"]
    whole = ran(tmp_path, *words, "--out", "whole")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    full = ran(tmp_path, *words, limit=(DATA_MAX, 1_500, 1_500))
    assert full.returncode == 3, full.stdout + full.stderr
    assert "cannot write out/cells.jsonl: File too large" in full.stdout + full.stderr
    assert not (tmp_path / "out" / "matrix.json").exists()
    lines = (tmp_path / "out" / "cells.jsonl").read_bytes().split(b"\n")
    assert all(json.loads(line) for line in lines[:-1])
    again = ran(tmp_path, *words, "--resume")
    assert again.returncode == 0, again.stdout + again.stderr
    assert cells(tmp_path / "out") == cells(tmp_path / "whole")
    assert not list((tmp_path / "out").rglob("*.partial"))


def cells(folder: Path) -> dict[tuple[str, str], str]:
    document = json.loads((folder / "matrix.json").read_text())
    return {(one["scenario"], one["frontend"]): one["status"] for one in document["cells"]}


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--junit", "--json"])
def test_report_that_finds_no_room_is_an_error_and_leaves_no_half_of_itself(
    tmp_path: Path, flag: str
) -> None:
    words = ["run", "requests/aborted-then-left", flag, "report"]
    done = ran(tmp_path, *words, limit=(DATA_MAX, 100, 100))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "cannot write report: File too large" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"t"}


# --- clocks ---------------------------------------------------------------------------------

JUMPS = """
import itertools, time
_real, _jumps = time.time, itertools.cycle((0, 86_400, -86_400, 3))
time.time = lambda: _real() + next(_jumps)
time.time_ns = lambda: int(time.time() * 1e9)
"""
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <sys/time.h>
static long jump(void) { static long n; return (n++ % 3 - 1) * 86400; }
int clock_gettime(clockid_t which, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int code = real(which, now);
  if (!code && which == CLOCK_REALTIME) now->tv_sec += jump();
  return code;
}
"""


def took(path: Path) -> list[float]:
    return [one["duration_s"] for one in json.loads(path.read_text())["results"]]


@pytest.mark.slow
def test_jumps_of_the_wall_clock_change_no_verdict_and_no_duration(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(JUMPS)
    path = os.pathsep.join((str(tmp_path / "site"), str(ROOT)))
    check = "import time; print(abs(time.time() - time.time()) > 80_000)"
    seen = subprocess.run(
        [sys.executable, "-c", check],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert seen.stdout == "True\n"
    done = ran(tmp_path, *RUN, "--jobs", "2", "--json", "r.json", PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert statuses(tmp_path / "r.json") == ["held", "held"]
    assert all(0 <= seconds < LIMIT_S for seconds in took(tmp_path / "r.json"))


@pytest.mark.slow
@pytest.mark.vllm_rs
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_jumps_of_the_wall_clock_change_no_verdict_on_a_real_frontend(tmp_path: Path) -> None:
    release = "0.33.0"
    if available(release) is None:
        pytest.skip(f"no binary of the frontend {release}")
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    words = ["cc", "-shared", "-fPIC", "-o", str(shim), str(tmp_path / "shim.c"), "-ldl"]
    subprocess.run(words, check=True)
    binaries = linked([release], tmp_path / "f")
    names = ("requests/aborted-then-left", "utility/failing-beside-hanging")
    done = ran(
        tmp_path,
        *("run", "--target", "vllm-rs", "--frontend", release, *names, "--json", "r.json"),
        LD_PRELOAD=str(shim),
        **{FRONTEND_DIR_VARIABLE: str(binaries)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert statuses(tmp_path / "r.json") == ["held", "held"]


# --- parents that die -----------------------------------------------------------------------

HANGS = """
import importlib.abc, os, sys, threading
class Hangs(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            global told
            told = open(os.environ["TOLD"], "wb", buffering=0)
            told.write(b"loading\\n")
            threading.Event().wait()
sys.meta_path.insert(0, Hangs())
"""
WORKER_PARENT = """
{hangs_in_worker}
if __name__ == "__main__":
    from harness.cli.executors import ProcessExecutor
    executor = ProcessExecutor(1)
    executor._start()
    sys.stdin.read()
"""
ENGINE_PARENT = """
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
heard, taken = os.pipe()
script = {hangs!r} + "from mock_engines.child_entry import main; main(sys.argv[1:])"
words = [str(theirs.fileno()), str(heard), str(os.getpid())]
subprocess.Popen([sys.executable, "-c", script, *words], pass_fds=[theirs.fileno(), heard])
sys.stdin.read()
"""


def parent_of(kind: str) -> str:
    if kind == "engine":
        return ENGINE_PARENT.format(hangs=HANGS.format(name="mock_engines.child"))
    # The worker imports this file under another name; its parent must not hang.
    hangs = "\n".join(
        f"    {line}" for line in HANGS.format(name="harness.cli.executors").splitlines() if line
    )
    head = f"import sys\nif __name__ != '__main__':\n{hangs}\n"
    return head + WORKER_PARENT.format(hangs_in_worker="")


@pytest.mark.parametrize("kind", ["worker", "engine"])
def test_process_whose_parent_is_killed_while_it_still_loads_ends_with_it(
    tmp_path: Path, kind: str
) -> None:
    """It holds the writing end of a pipe, whose end tells that it is gone."""
    script, fifo = tmp_path / "parent.py", tmp_path / "fifo"
    script.write_text(parent_of(kind))
    os.mkfifo(fifo)
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TOLD": str(fifo)},
        start_new_session=True,
    ) as parent:
        try:
            with fifo.open("rb") as told:
                assert told.readline() == b"loading\n"
                parent.kill()
                parent.wait()
                assert told.read() == b""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
