"""What exploration found in our own code, each in its smallest form: it must not come back.

Either the client was wrong, or an invariant asked for what nobody promises.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import parse
from harness.verdict import VIOLATED

HEAD = "title: t\npromise: p\nrefs: [vllm#1]\n"
FOUND = {
    "the client: a utility call that has not begun when it shuts down never ended": """
topology: {engines: 1}
steps:
  - utility: {id: u1, method: get_weight_version}
  - shutdown: {}
  - call: {id: c1}
""",
    "utility.no-waiter-outlives-call: a failure lets go of all waiters at once": """
topology: {engines: 1}
engines:
  - engine: 0
    rules:
      - {on: utility, do: {die: sentinel}}
steps:
  - utility: {id: u1, method: get_weight_version}
  - cancel: u1
""",
    "answer.finish-is-the-engines: an output before the call is dropped": """
topology: {engines: 1}
steps:
  - engine: {engine: 0, do: {output: {finish: stop, request: c1}}}
  - call: {id: c1}
""",
    "request.every-add-ends: an end that comes before the ADD ends the call": """
topology: {engines: 1}
engines:
  - engine: 0
    rules:
      - {on: add, do: [{stall: g1}, {stream: {finish: null}}]}
steps:
  - engine: {engine: 0, do: {output: {finish: stop, request: c1}}, background: true}
  - call: {id: c1}
  - open: g1
  - cancel: c1
""",
    "request.every-add-ends: the end of an earlier request of the same id": """
topology: {engines: 1}
engines:
  - engine: 0
    rules:
      - {on: add, nth: 2, do: {stats: {running: 0}}}
steps:
  - call: {id: c1}
  - wait: {event: add, request: c1}
  - drop: c1
  - call: {id: c2, request_id: c1}
  - cancel: c2
""",
    "request.outputs-own-only: an engine sends for a request whose ADD it never got": """
topology: {engines: 1}
steps:
  - call: {id: c1}
  - call: {id: c2}
  - engine: {engine: 0, do: [{output: {tokens: [7], request: c2}}, {die: sentinel}]}
""",
    "request.outputs-own-only: late outputs reach the next request of the id": """
topology: {engines: 1}
steps:
  - call: {id: c1}
  - call: {id: c2}
  - call: {id: c3}
  - cancel: c3
  - call: {id: c4, request_id: c3}
  - shutdown: {}
""",
    "routing.unconnected-rank-refused: an id in flight is refused first": """
topology: {engines: 2}
steps:
  - call: {id: c1}
  - call: {id: c2, rank: 2, request_id: c1}
""",
    "wave.ends-when-idle: a call whose ADD never left": """
profiles: "<0.33"
topology: {engines: 2, coordinator: in-process, ranks: [1, 0]}
steps:
  - link: {engine: 1, hold: g1}
  - call: {id: c1, rank: 1}
  - cancel: c1
  - call: {id: c2}
  - open: g1
""",
    "wave.current-first-request-excludes-holder: two calls of one id, one ADD": """
profiles: "<0.33"
topology: {coordinator: in-process, ranks: [3, 256]}
engines:
  - engine: 3
    rules:
      - {on: start_wave, do: {wave_complete: 0}}
steps:
  - engine: {engine: 3, do: {wave_complete: 0}, background: true}
  - call: {id: c1, unencodable: true}
  - cancel: c1
  - call: {id: c2, request_id: c1}
""",
    "handshake.gate-before-ready: the more specific entry tells how an engine joins": """
topology: {engines: 2, coordinator: in-process}
connect_fails: true
engines:
  - {engine: all, join: {never: true}}
  - {engine: 0, join: {}}
  - {engine: 1, join: {}}
steps:
  - connect: true
""",
    "health.fails-all-open-work: an ADD of the earlier of two calls with one id": """
topology: {engines: 1}
steps:
  - call: {id: c1}
  - call: {id: c2}
  - engine: {engine: 0, do: {raw: {frames: [""]}}, background: true}
  - call: {id: c3}
  - call: {id: c4, request_id: c3}
""",
    "request.every-add-ends: an abort by id is one of the next call of this id too": """
topology: {engines: 1}
steps:
  - call: {id: c1}
  - call: {id: c2}
  - fence: true
  - abort: [c2]
  - call: {id: c3, request_id: c2}
  - abort: [c2]
""",
    "answer.failure-has-a-cause: an engine said of the id before that it is over": """
topology: {coordinator: none, engines: 1}
steps:
  - crowd: {id: crowd1, callers: 1}
  - engine: {engine: 0, do: [{output: {finished: 1, request: c1}}]}
  - call: {id: c1}
""",
    "request.every-add-ends: another engine ends a later call of the same id": """
topology: {coordinator: none, engines: 4}
engines:
  - engine: 0
    rules:
      - {on: add, do: [{stats: {running: 0}}]}
  - engine: 2
    rules:
      - {on: add, do: [{output: {finish: stop, finished: 1}}, {stall: g1}]}
      - {on: add, do: [{default: true}]}
steps:
  - call: {id: c1, rank_text: ['2'], surface: http}
  - call: {id: c2, rank_text: ['2'], surface: http}
  - cancel: c1
  - cancel: c2
  - call: {id: c3, surface: http, request_id: c2}
  - link: {engine: coordinator, hold: g1}
  - open: g1
  - cancel: c3
""",
    "utility.result-order: what all engines agree on is one value": """
topology: {coordinator: none, ranks: [0, 2]}
engines:
  - engine: all
    rules:
      - {on: utility, do: [{reply: [1]}]}
steps:
  - utility: {id: u1, method: collective_rpc, via: consensus, result: any}
""",
}


@pytest.mark.parametrize("told", FOUND)
def test_fault_that_exploration_found_in_our_own_code_stays_away(told: str) -> None:
    loaded = parse(HEAD + FOUND[told].lstrip(), Path("found.yaml"), name="found")
    result = run_scenario(loaded, RunOptions(schedules=60, strategy="auto"))
    broken = [v.invariant for v in result.verdicts if v.verdict == VIOLATED and v.level == "must"]
    stuck = [e.seen for e in result.expectations if e.status == VIOLATED]
    assert (broken, stuck, result.error) == ([], [], None)
    assert result.schedules == 60
