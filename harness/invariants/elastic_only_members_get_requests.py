"""Invariant elastic.only-members-get-requests."""

from __future__ import annotations

from harness.invariants._elastic import ElasticInvariant, Stage
from harness.invariants._run import event_types
from harness.trace.events import Record
from mock_engines.events import AddSeen, EngineJoined, EngineRemoved


class OnlyMembersGetRequests(ElasticInvariant):
    """An engine gets requests while it is a member of the group, and not before or after.

    Statement: No ADD reaches an engine that was started for another size before it has met the
        others and been told to resume, nor one that was told to leave.
    Reason: A new engine is not paused while its peers are: with a request it enters a forward pass
        in which they never come. What reaches an engine that leaves is lost with it, and nobody
        tells its caller.
    Source: vLLM ``v1/engine/core_client.py`` (``_commit_scale_up_elastic_ep``,
        ``_commit_scale_down_elastic_ep``); docs/lockstep.md, section Elastic changes.
    Limits: Scenarios in which the number of engines changes. vLLM's own client lists new engines
        before it resumes them, and lets its HTTP server refuse requests meanwhile.
    """

    id = "elastic.only-members-get-requests"
    handles = event_types((AddSeen, EngineJoined, EngineRemoved))

    def see(self, record: Record) -> None:
        """Judge ADDs; count engines that come and go."""
        event = record.event
        if isinstance(event, EngineRemoved):
            self.exercised += 1
        elif isinstance(event, EngineJoined):
            stage, _since = self.members.stages.get(event.engine, (Stage.MEMBER, None))
            self.exercised += stage is Stage.NEW
        else:
            assert isinstance(event, AddSeen)
            stage, since = self.members.stages.get(event.engine, (Stage.MEMBER, None))
            if stage is not Stage.MEMBER:
                self.violate(
                    f"engine {event.engine} got {event.request_id}, and was {stage.value}",
                    expected=f"no ADD at engine {event.engine} while it is {stage.value}",
                    seen=f"ADD of {event.request_id} at event {record.seq}",
                    witness=(record,) if since is None else (since, record),
                )
