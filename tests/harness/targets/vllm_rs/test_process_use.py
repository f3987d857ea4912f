"""What a process uses."""

from __future__ import annotations

import os
import subprocess
import sys

from harness.targets.vllm_rs.process_use import use_of

SCRIPT = """
import os, subprocess, sys
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(40)]
hog = bytearray(30_000_000)
hog[::4096] = b"x" * len(hog[::4096])
print("up", flush=True)
sys.stdin.read()
"""


def started(script):
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    return child


def test_memory_descriptors_and_threads_of_a_process_are_counted():
    with started(SCRIPT) as child:
        used = use_of(child.pid)
        child.communicate()
    assert used is not None
    assert used.rss_bytes > 30_000_000
    assert 40 < used.descriptors < 80
    assert used.threads == 1


def test_what_a_wrapper_started_is_counted_with_it():
    wrapper = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {SCRIPT!r}])\n"
        "child.wait()\n"
    )
    with started(wrapper) as child:
        used = use_of(child.pid)
        child.communicate()
    assert used is not None
    assert used.descriptors > 45
    assert used.threads == 2


def test_a_process_that_is_gone_uses_nothing_that_can_be_told():
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    assert use_of(child.pid) is None
    assert use_of(os.getpid()) is not None
