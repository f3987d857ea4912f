"""The external coordinator of a run: a process of its own in reality, ours in every run.

Whichever frontend is judged, the coordinator is the same, and its events are in the trace.
"""

from __future__ import annotations

from client.components import Components
from client.coordinator_process import ExternalCoordinator
from client.events import Observer
from client.protocol.profiles import Profile
from client.protocol.transport import Transport
from harness.scenario.model import Topology


def make_coordinator(
    topology: Topology,
    profile: Profile,
    transport: Transport,
    observer: Observer,
    components: Components = Components(),  # noqa: B008  (frozen)
) -> ExternalCoordinator:
    """Make the coordinator of a topology; it is not started yet.

    It keeps counts for every rank of the deployment, and waits for the engines that exist here.
    """
    ranks = topology.rank_list
    return ExternalCoordinator(
        transport=transport,
        profile=profile,
        engine_count=max(max(ranks) + 1, topology.data_parallel_size or 0),
        subscribers=len(ranks),
        front_address=transport.endpoint("coordinator-front"),
        back_input_address=transport.endpoint("coordinator-input"),
        back_output_address=transport.endpoint("coordinator-output"),
        observer=observer,
        components=components,
    )
