"""Words for who takes part: engines, coordinator, transport, settings; a sentence each."""

from __future__ import annotations

from typing import Any

from harness.authoring.words.told import (
    Told,
    capital,
    codes,
    fields,
    listed,
    ranks_text,
    yes,
)
from harness.reports.wording import counted
from harness.scenario.model import ClientConfigSpec, Topology
from mock_engines.behaviours.model import Pace

COORDINATORS = {
    "none": "there is no coordinator",
    "in-process": "the coordinator is a part of the frontend, so the model counts as MoE",
    "external": "the coordinator is a process of its own, one of ours",
}
TRANSPORTS = {
    "handshake-owner": "the frontend runs the startup handshake itself",
    "bootstrapped": "the engines' addresses are given to the frontend, which runs no handshake",
}
WAVES = {
    "auto": "engines complete a wave when all are idle, and start it as their release does",
    "script": "engines send no wave notice but those that this file tells them to send",
    "lockstep": "each engine runs the loop of its release, steps with its peers, meets them in "
    "collectives and may wait for them for ever",
}


def _step_ms(bounds: list[int]) -> str:
    return f"a forward pass takes {listed(bounds, 'to')} ms"


PACE = Told(
    Pace,
    clauses={
        "batch": lambda n: f"an engine runs {n} requests together",
        "tokens": lambda n: f"each request gets {counted(n, 'token')} in a step",
        "step_ms": _step_ms,
        "mended": lambda names: f"engines have not the open faults {codes(names)}" if names else "",
    },
)
CONFIG = Told(
    ClientConfigSpec,
    clauses={
        "engine_count": lambda n: f"{counted(n, 'engine')}",
        "engine_start_index": lambda n: f"first rank {n}",
        "data_parallel_size": lambda n: f"data-parallel size {n}",
        "ready_timeout_s": lambda s: f"a startup of at most {s:g} s",
        "utility_timeout_s": lambda s: f"utility calls of at most {s:g} s",
    },
)


def _engines(topology: Any) -> str:
    ranks = topology.rank_list
    if topology.start_rank or topology.ranks is not None:
        return f"{counted(len(ranks), 'engine')}, by their global {ranks_text(ranks)}"
    return f"{counted(len(ranks), 'engine')}, {ranks_text(ranks)}"


def _config(config: Any) -> str:
    return (
        f"the client is configured with {listed(CONFIG.parts(config))}"
        if CONFIG.parts(config)
        else ""
    )


def _frontends(count: int) -> str:
    second = "a second frontend, client index 1, serves the same engines"
    return second if count > 1 else "one frontend serves them"


TOPOLOGY = Told(
    Topology,
    lambda topology: _engines(topology),
    of_head=("engines", "start_rank", "ranks", "coordinator", "transport", "waves"),
    clauses={
        "later": lambda n: (
            f"{counted(n, 'more engine')} may be started by `scale` steps" if n else ""
        ),
        "data_parallel_size": lambda n: (
            f"the frontend is configured with a data-parallel size of {n}"
        ),
        "lockstep": PACE.say,
        "engine_release": lambda v: f"the engines follow the protocol and rules of release {v}",
        "config": _config,
        "frontends": _frontends,
        "frontend_args": lambda words: (
            f"a real frontend gets the arguments {codes(words)}" if words else ""
        ),
        "frontend_env": lambda env: (
            f"a real frontend gets the environment {fields(env)}" if env else ""
        ),
        "starved": yes(
            "a real frontend shares one CPU with engines and callers, at the lowest priority"
        ),
    },
)
TELLERS = (TOPOLOGY, CONFIG, PACE)


def topology_sentences(topology: Topology) -> list[str]:
    """All that is to be said of who takes part."""
    engines, *rest = TOPOLOGY.parts(topology)
    always = (
        TRANSPORTS[topology.transport],
        COORDINATORS[topology.coordinator],
        WAVES[topology.waves],
    )
    return [f"{capital(text)}." for text in (engines, *always, *rest)]
