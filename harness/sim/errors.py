"""How a simulated run can fail through nobody's answer but its own state.

::

    SimulationError
    ├── Deadlock             nothing can run, no timer is pending, the main task is not done
    ├── StepLimitExceeded    it would run for ever
    ├── StuckTask            a task outlived its cancellation at the end of the run
    └── CallbackFailed       a callback raised, or asyncio reported an error to the loop
"""

from __future__ import annotations

from harness.sim.waiting import as_lines


class SimulationError(Exception):
    """Base of all errors of the simulation itself."""


class Deadlock(SimulationError):  # noqa: N818  (it is the field's word for it)
    """Nothing can run any more although the main task is not done.

    Attributes:
        waiting: task name and where it waits, for each live task in order of creation.
    """

    def __init__(self, waiting: tuple[tuple[str, str], ...]) -> None:
        self.waiting = waiting
        tasks = "1 task waits" if len(waiting) == 1 else f"{len(waiting)} tasks wait"
        super().__init__(
            f"deadlock: nothing can run, no timer is pending, {tasks}" + as_lines(waiting)
        )


class StepLimitExceeded(SimulationError):  # noqa: N818
    """The run took more steps than allowed; most likely two tasks keep each other busy.

    Attributes:
        waiting: as for ``Deadlock``; tasks that were about to run are among them.
    """

    def __init__(self, limit: int, waiting: tuple[tuple[str, str], ...]) -> None:
        self.limit = limit
        self.waiting = waiting
        super().__init__(f"more than {limit:,} steps, the run does not end" + as_lines(waiting))


class StuckTask(SimulationError):  # noqa: N818
    """A task did not end although it was cancelled.

    Attributes:
        waiting: as for ``Deadlock``, stuck tasks only.
    """

    def __init__(self, waiting: tuple[tuple[str, str], ...]) -> None:
        self.waiting = waiting
        super().__init__(
            "tasks did not end when cancelled at the end of the run" + as_lines(waiting)
        )


class CallbackFailed(SimulationError):  # noqa: N818
    """A callback raised; the first one is the cause (``__cause__``)."""
