"""Limits of the tool itself, as numbers, from the constants that enforce them."""

from __future__ import annotations

from client.protocol.ids import RANKS_MAX
from harness.capture.kept import FRAME_MAX, SIZE_MAX
from harness.cli.run_cmd import REPEAT_MAX, TIMEOUT_MAX_S
from harness.cli.search_flags import BUDGET_S, SCHEDULES_MAX
from harness.docs.markdown import table
from harness.failure import EVENTS_MAX, FILE_BYTES_MAX
from harness.scenario.schema import scenario_schema


def limits() -> str:
    """What is bounded, and by how much."""
    engines = scenario_schema()["$defs"]["Topology"]["properties"]["engines"]["maximum"]
    return table(
        ("what", "at most"),
        (
            ("engines of a scenario, by `topology.engines`", f"{engines}"),
            ("ranks there are numbers for", f"{RANKS_MAX:,}"),
            ("schedules of a campaign", f"{SCHEDULES_MAX:,}"),
            (
                "search by `stall` or `dfs` for which neither schedules nor a budget are named",
                f"{BUDGET_S:g} s",
            ),
            ("repeats of a scenario", f"{REPEAT_MAX:,}"),
            ("`--timeout`", f"{TIMEOUT_MAX_S:,} s"),
            ("events that a failure file keeps", f"{EVENTS_MAX:,}"),
            ("size of a failure file that is read", f"{FILE_BYTES_MAX >> 20} MiB"),
            ("recording in a failure file, from real sockets", f"{SIZE_MAX >> 20} MiB"),
            ("bytes of each frame in it", f"{FRAME_MAX:,}"),
        ),
    )
