"""A reply that nobody waits for is fatal."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import UnexpectedDispatcherOutput
from client.inner import ClientInner
from client.protocol.messages import OutputKind, UtilityReply
from harness.mutants.base import Mutant


class EveryReplyIsExpected(ClientInner):
    """Looks a waiter up without a thought of those who left."""

    def dispatch(self, kind: OutputKind) -> None:
        """Act on one message; a reply without waiter ends the client."""
        if isinstance(kind, UtilityReply) and kind.output.call_id not in self.utilities.pending():
            self.fail(UnexpectedDispatcherOutput(f"{kind!r}"))
        else:
            super().dispatch(kind)


class UnexpectedReplyIsFatal(Mutant):
    """See the module."""

    id = "unexpected-reply-is-fatal"
    family = "health"
    title = "a reply that nobody waits for closes the client"
    bug = "One operator who leaves early ends every request of every caller."
    source = (
        "Python client of vLLM 0.33.0 (its receiver ends with such a reply); protocol page, "
        "section 9.2"
    )
    killed_by = "health.failure-has-a-cause"
    hidden_because = (
        "outside a frontend that fails is seen to fail, and only the client says that no engine "
        "gave it a reason"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=EveryReplyIsExpected)
