"""A frontend that was started by somebody else: here, by the test."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess

import pytest

from harness.runner import RunOptions, run_scenario
from harness.targets.vllm_rs import attached
from harness.targets.vllm_rs.command import ServeOptions, process_environment, serve_command
from harness.targets.vllm_rs.fetch import available
from harness.targets.vllm_rs.model_folder import model_folder
from harness.targets.vllm_rs.ports import PortLease
from harness.targets.vllm_rs.releases import NEWEST
from tests.support.stories import load

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]

STORY = """
engines: [{rules: [{on: add, do: {stream: {tokens: 3, pause_at: 1, gate: rest}}}]}]
steps:
  - call: {id: a, rank: 1}
  - wait: {event: call-output, request: a}
  - drop: a
  - wait: {event: log, where: {pattern: auto-abort}}
  - fence: true
  - expect: {count: {event: abort, engine: 1, equals: 1}}
open_at_end: [rest]
"""


@contextlib.contextmanager
def somebody_s_frontend(log, engines=2):
    """Start a handshake owner, as its owner would; yield the word for ``--attach`` and it."""
    path = available(NEWEST)
    if path is None:
        pytest.skip(f"no binary of the frontend {NEWEST}")
    model = model_folder(moe=False)
    lease = PortLease(3)
    http, grpc, handshake = lease.ports
    options = ServeOptions(model, engines, http, grpc, handshake)
    try:
        with (
            log.open("wb") as file,
            subprocess.Popen(
                serve_command(path, NEWEST, options),
                env=process_environment(model, os.environ),
                stdout=file,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            yield (
                f"http://127.0.0.1:{http},handshake=tcp://127.0.0.1:{handshake},"
                f"grpc=127.0.0.1:{grpc},model={model},engines={engines},log={log}",
                process,
            )
            process.send_signal(signal.SIGTERM)
    finally:
        lease.release()


def test_a_run_drives_it_reads_its_log_and_leaves_it_running(tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "FRESH_S", 0.5)
    with somebody_s_frontend(tmp_path / "log") as (word, process):
        options = RunOptions(target="vllm-rs", attach=word, profile=NEWEST)
        first = run_scenario(load(STORY), options)
        assert (first.status, first.reason, first.error) == ("held", None, None)
        assert process.poll() is None
        # Its engines have come and gone: a second run says what is missing.
        second = run_scenario(load(STORY), options)
        assert second.status == "error"
        assert "start it anew" in second.error.lower()
        assert process.poll() is None


def test_a_topology_that_it_was_not_started_for_is_not_judged(tmp_path):
    with somebody_s_frontend(tmp_path / "log") as (word, _process):
        options = RunOptions(target="vllm-rs", attach=word, profile=NEWEST)
        three = run_scenario(load("topology: {engines: 3}" + STORY), options)
        assert (three.status, three.reason) == (
            "not_judged",
            "the attached frontend waits for 2 engines, not 3",
        )
        signal_step = run_scenario(load("steps:\n  - signal: TERM\n"), options)
        assert signal_step.reason == "target lacks fault.signal"
        assert dataclasses.replace(options, attach=None) != options
