"""Capabilities that a scenario's content asks for."""

from __future__ import annotations

from typing import Any

import pytest

from harness.scenario.model import Scenario
from harness.scenario.needs import needs
from harness.targets.capabilities import unknown

BASE = {"transport.handshake-owner", "coordinator.none"}


def needed(*steps: dict[str, Any], **keys: Any) -> set[str]:
    data = {"title": "t", "promise": "p", "refs": ["r"], "steps": list(steps) or [{"fence": True}]}
    found = needs(Scenario.model_validate({**data, **keys}))
    assert unknown(found) == []
    return set(found) - BASE


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"call": {"id": "a"}}, {"op.generate"}),
        ({"call": {"id": "a", "surface": "grpc"}}, {"op.generate", "surface.grpc"}),
        ({"call": {"id": "a", "rank": 1}}, {"op.generate", "op.rank"}),
        ({"call": {"id": "a", "rank_text": "+1"}}, {"op.generate", "op.rank-text"}),
        ({"call": {"id": "a", "kv_transfer_params": {}}}, {"op.generate", "op.kv-transfer"}),
        ({"call": {"id": "a", "aux": ["00"]}}, {"op.generate", "op.aux"}),
        ({"call": {"id": "a", "unencodable": True}}, {"op.generate", "op.unencodable"}),
        ({"call": {"id": "a", "stop": "x"}}, {"op.generate", "op.stop"}),
        ({"call": {"id": "a", "body": {"n": 1}}}, {"op.generate", "op.body"}),
        ({"call": {"id": "a", "headers": {"n": "1"}}}, {"op.generate", "op.body"}),
        ({"call": {"id": "a", "read": "g"}}, {"op.generate", "op.slow-reader"}),
        ({"call": {"id": "a", "frontend": 1}}, {"op.generate", "topology.two-frontends"}),
        ({"http": {"id": "h", "path": "/x"}}, {"op.http"}),
        ({"grpc": {"id": "g", "method": "Control/IsPaused"}}, {"op.grpc"}),
        ({"crowd": {"id": "c"}}, {"op.generate"}),
        (
            {"crowd": {"id": "c", "leave": "at-once", "surface": "chat"}},
            {"op.generate", "op.cancel", "surface.chat"},
        ),
        (
            {"crowd": {"id": "c", "leave": "abort-after-add"}},
            {"op.generate", "op.abort", "op.cancel"},
        ),
        ({"sample": {"id": "s"}}, {"see.process"}),
        ({"signal": "STOP"}, {"fault.signal"}),
        ({"expect": {"metrics": {"m": 1}}}, {"see.metrics"}),
        ({"expect": {"process": {"since": "s"}}}, {"see.process"}),
        ({"expect": {"exit_code": 0}}, {"see.process"}),
        ({"expect": {"op": "a", "text": "x"}}, {"see.text"}),
        ({"expect": {"op": "a", "status": 200}}, {"see.status"}),
        ({"cancel": "a"}, {"op.cancel"}),
        ({"drop": "a"}, {"op.drop"}),
        ({"abort": "a"}, {"op.abort"}),
        ({"utility": {"id": "u", "method": "m"}}, {"op.utility"}),
        ({"utility": {"id": "u", "method": "m", "via": "raw"}}, {"op.utility-raw"}),
        ({"utility": {"id": "u", "method": "m", "via": "consensus"}}, {"op.utility-raw"}),
        (
            {"utility": {"id": "u", "method": "m", "timeout_s": 1.0}},
            {"op.utility", "op.utility-timeout"},
        ),
        ({"link": {"fail": "x"}}, {"fault.link"}),
        ({"engine": {"do": {"die": "vanish"}}}, {"fault.engine-vanish"}),
        ({"engine": {"do": {"die": "sentinel"}}}, set()),
        ({"engine": {"do": {"stall": "g"}}}, {"fault.engine-stall"}),
        ({"engine": {"rejoin": True}}, {"fault.engine-rejoin"}),
        ({"coordinator": {"stop": True}}, {"coordinator.external"}),
        ({"load": {}}, {"op.generate"}),
        ({"shutdown": {}}, {"op.shutdown"}),
        ({"expect": {"in_flight": 0}}, set()),  # judged where it can be seen
        ({"expect": {"pending_utility_calls": 0}}, set()),
        ({"expect": {"coordinator_wave": 0}}, set()),
        ({"wait": {"event": "wave-notice"}}, {"see.client-events"}),
        ({"wait": {"event": "log"}}, {"see.log"}),
        ({"expect": {"count": {"event": "first-request"}}}, {"see.client-events"}),
        ({"expect": {"server_info": {}}}, {"op.server-info"}),
        ({"expect": {"connect": "ok"}}, {"op.connect-error"}),
        ({"expect": {"healthy": True}}, {"see.health"}),
    ],
)
def test_step_asks_for_what_it_uses(step: dict[str, Any], expected: set[str]) -> None:
    assert needed(step) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"needs": ["see.log"]}, {"see.log"}),
        ({"connect_fails": True}, {"op.connect-error"}),
        ({"engines": [{"rules": [{"on": "add", "do": {"stall": "g"}}]}]}, {"fault.engine-stall"}),
        ({"topology": {"start_rank": 2}}, {"topology.any-ranks"}),
        ({"topology": {"ranks": [1, 0]}}, {"topology.any-ranks"}),
        ({"topology": {"ranks": [0, 1]}}, set()),
        ({"topology": {"transport": "bootstrapped"}}, {"transport.bootstrapped"}),
        ({"topology": {"frontends": 2}}, {"topology.two-frontends"}),
        ({"topology": {"frontend_args": ["--x"]}}, {"op.frontend-args"}),
        ({"topology": {"frontend_env": {"A": "b"}}}, {"op.frontend-args"}),
        ({"topology": {"starved": True}}, {"fault.starved"}),
        ({"topology": {"coordinator": "in-process"}}, {"coordinator.in-process"}),
    ],
)
def test_topology_asks_for_what_it_uses(keys: dict[str, Any], expected: set[str]) -> None:
    assert needed(**keys) == expected


EXTERNAL = {"topology": {"transport": "bootstrapped", "coordinator": "external"}}


@pytest.mark.parametrize(
    ("event", "inside", "beside"),
    [
        ("health", "see.failure", "see.failure"),
        ("state-applied", "see.client-events", "see.publishes"),
        ("first-request-queued", "see.client-events", "see.publishes"),
        ("first-request", "see.client-events", None),
        ("wave-notice", "see.client-events", None),
        ("published", "see.client-events", None),
        ("request-registered", "see.client-events", "see.client-events"),
    ],
)
def test_events_of_an_external_coordinator_are_ours_whatever_the_frontend_is(
    event: str, inside: str, beside: str | None
) -> None:
    step = {"wait": {"event": event}}
    assert needed(step) == {inside}
    expected = {"transport.bootstrapped", "coordinator.external", beside} - {None}
    assert needed(step, **EXTERNAL) == expected
