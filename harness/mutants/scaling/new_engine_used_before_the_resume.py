"""A new engine gets requests as soon as it is connected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.aio import turn
from client.components import Components
from client.protocol.ids import Identity
from client.scaling import Scaling
from harness.mutants.base import Mutant
from harness.mutants.scaling import HIDDEN


class Hasty(Scaling):
    """Lists new engines before they are resumed."""

    async def before_resume(self, engines: Sequence[Identity]) -> None:
        """Send requests to all of them from now on, and let those that wait come first."""
        self.route(engines)
        await turn()


class NewEngineUsedBeforeTheResume(Mutant):
    """See the module."""

    id = "new-engine-used-before-the-resume"
    family = "elastic changes"
    title = "a new engine gets requests before its peers are resumed"
    bug = (
        "It is not paused, takes the request up, and waits in a forward pass while its peers wait "
        "in the resume that it should come to."
    )
    source = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/engine/core_client.py "
        "(_commit_scale_up_elastic_ep lists new engines before it resumes; the HTTP server refuses "
        "requests meanwhile)"
    )
    killed_by = "elastic.only-members-get-requests"
    hidden_because = HIDDEN

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the change."""
        return replace(base, scaling=Hasty)
