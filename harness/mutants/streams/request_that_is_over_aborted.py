"""An abort worker that aborts requests that are over."""

from __future__ import annotations

from dataclasses import replace

from client.abort_worker import AbortWorker
from client.components import Components
from client.inner import Request
from harness.mutants.base import Mutant


class NeverAsksTwice(AbortWorker):
    """Aborts whatever was dropped, in flight or not."""

    def drop(self, request: Request) -> None:
        """Abort a request whose reader left, and one that is over too."""
        if self._inner.requests.holds(request):
            super().drop(request)
        else:
            self.send([request])


class RequestThatIsOverAborted(Mutant):
    """See the module."""

    id = "request-that-is-over-aborted"
    family = "streams and aborts"
    title = "a request that was aborted already is aborted again"
    bug = "A second ABORT follows, which may meet the next request of the same name."
    source = "protocol page, section 8.1 (a seeded fault: no release had it)"
    killed_by = "request.abort-only-to-owner"
    hidden_because = (
        "a server reads the end of an aborted request at once, so that no caller can leave in "
        "between"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the abort worker."""
        return replace(base, abort_worker=NeverAsksTwice)
