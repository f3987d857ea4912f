"""An output for a request that is over is fatal."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import UnexpectedDispatcherOutput
from client.inner import ClientInner
from client.protocol.messages import OutputKind, RequestBatch
from harness.mutants.base import Mutant


class EveryOutputHasAnOwner(ClientInner):
    """Takes an output without owner for a sign that its registry is broken."""

    def dispatch(self, kind: OutputKind) -> None:
        """Act on one message; an output for nobody ends the client."""
        if isinstance(kind, RequestBatch) and self.health_error is None:
            lost = [each for each in kind.outputs if self.requests.get(each.request_id) is None]
            if lost:
                self.fail(UnexpectedDispatcherOutput(f"output for {lost[0].request_id}"))
        super().dispatch(kind)


class LateOutputIsFatal(Mutant):
    """See the module."""

    id = "late-output-is-fatal"
    family = "health"
    title = "an output for a request that is over closes the client"
    bug = "A caller who leaves while tokens are on their way ends the requests of all others."
    source = (
        "protocol page, section 5.2 (dropped with a warning); fault class of late and unknown "
        "outputs"
    )
    killed_by = "health.failure-has-a-cause"
    hidden_because = (
        "outside a frontend that fails is seen to fail, and only the client says that no engine "
        "gave it a reason"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=EveryOutputHasAnOwner)
