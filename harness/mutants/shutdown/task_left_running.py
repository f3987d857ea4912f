"""Shutdown ends the oldest task of each kind."""

from __future__ import annotations

from dataclasses import replace

from client.aio import TaskSet, cancel_and_wait
from client.components import Components
from harness.mutants.base import Mutant


class FirstOnly(TaskSet):
    """Ends one task and takes the others along in thought."""

    async def close(self) -> None:
        """Cancel the oldest task and wait for it."""
        await cancel_and_wait(self._tasks[:1])


class TaskLeftRunning(Mutant):
    """See the module."""

    id = "task-left-running"
    family = "shutdown"
    title = "shutdown leaves tasks running"
    bug = "A task that outlives its client keeps the client and its sockets alive."
    source = "https://github.com/vllm-project/vllm/pull/52671"
    killed_by = "lifecycle.shutdown-leaves-nothing"
    hidden_because = (
        "only the client itself can say what it still holds at its end; its process takes "
        "everything along"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the set of tasks."""
        return replace(base, tasks=FirstOnly)
