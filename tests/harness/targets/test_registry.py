"""Targets are opened by kind; what does not exist is refused with what does."""

from __future__ import annotations

import pytest

from harness.targets.capabilities import CAPABILITIES
from harness.targets.reference import SimTarget, ZmqTarget
from harness.targets.registry import KINDS, open_target
from harness.targets.request import TargetRequest
from harness.targets.vllm_rs import target as vllm_rs


@pytest.mark.parametrize(("kind", "cls"), [("sim", SimTarget), ("zmq", ZmqTarget)])
def test_kind_opens_its_target(kind, cls):
    target = open_target(TargetRequest(kind, "ignored", "0.28.0"))
    assert type(target) is cls
    assert (target.kind, target.info.kind, target.title) == (kind, kind, KINDS[kind])


def test_real_frontend_is_opened_with_release_and_profile(monkeypatch):
    opened = []
    monkeypatch.setattr(vllm_rs.VllmRsTarget, "open", lambda *words: opened.append(words))
    requests = [TargetRequest("vllm-rs", "0.24.0"), TargetRequest("vllm-rs", "./vllm-rs", "0.25.0")]
    for request in requests:
        open_target(request)
    assert opened == [(request,) for request in requests]


@pytest.mark.parametrize("kind", ["", "SIM", "vllm_rs", "simulation"])
def test_unknown_kind_is_refused_with_those_that_there_are(kind):
    with pytest.raises(
        ValueError, match=r"^there is no target .*; targets are sim, zmq, vllm-rs, .*$"
    ):
        open_target(TargetRequest(kind))


@pytest.mark.parametrize("kind", ["sim", "zmq"])
def test_declared_capabilities_exist(kind):
    assert open_target(TargetRequest(kind)).info.capabilities <= set(CAPABILITIES)
