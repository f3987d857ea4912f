"""The ``call`` of releases up to 0.28: cancelled before its end, it leaks its registration."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from client.components import Components
from client.guards import AdmissionGuard
from harness.mutants.base import Mutant


class ForgetfulAdmission(AdmissionGuard):
    """Rolls back after errors only."""

    def on_failure(self, kind: type[BaseException]) -> None:
        """Leave the registration of a cancelled call where it is, and send no ABORT."""
        if not issubclass(kind, asyncio.CancelledError):
            super().on_failure(kind)


class RequestLeakedOnCancelBeforeSend(Mutant):
    """See the module."""

    id = "request-leaked-on-cancel-before-send"
    family = "registry"
    title = "a cancelled call leaves its request registered"
    bug = "The id stays blocked and the engine's load score stays one too high."
    source = "https://github.com/vllm-project/vllm/pull/52671"
    killed_by = "request.no-registration-outlives-end"
    hidden_because = (
        "a real socket takes an ADD at once, so no caller can leave between its registration and "
        "the end of its send unless the send is held from inside"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the guard of ``call``."""
        return replace(base, admission_guard=ForgetfulAdmission)
