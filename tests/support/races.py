"""A story with a fault that first in, first out does not show."""

from __future__ import annotations

RACE = """
topology: {engines: 2, coordinator: in-process, waves: script}
profiles: "<0.33"
engines:
  - rules:
      - {on: add, do: {stream: {tokens: 2}}}
steps:
  - utility: {id: u, method: is_sleeping}
  - finish: u
  - call: {id: a, rank: 0, max_tokens: 2}
  - call: {id: b, rank: 1}
  - finish: [a, b]
  - expect: {op: u, outcome: finished}
"""
"""In FIFO order the coordinator hears of the first request before there is a second one."""
RACE_MUTANT = "every-request-is-a-first-one"
RACE_PROMISE = "wave.first-request-marks-running"
