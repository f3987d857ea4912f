"""What stands round vLLM's engine loop in the comparison: collectives, queues, workers, scheduler.

Each part stops the loop of its rank where the rank does something that others can notice, and
decides nothing that is compared. Runs in child processes only.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import greenlet

from harness.differential.moves import Case
from harness.differential.sides import (
    BAD_MODE,
    IN_FLIGHT,
    NO_MEMORY,
    NO_METHOD,
    NO_PAUSE,
    SHUTDOWN,
    Canonical,
)
from mock_engines.lockstep.scheduler import PauseState, Scheduler


class Tensor:
    """What vLLM's exchange needs of a tensor: whole numbers that are replaced by a reduction."""

    def __init__(self, values: list[int], **_how: Any) -> None:
        self.values = [int(value) for value in values]

    def __getitem__(self, index: int) -> Tensor:
        return Tensor([self.values[index]])

    def item(self) -> int:
        (value,) = self.values
        return value


class Group:
    """Stands for the process group of the ranks."""

    def __init__(self, size: int) -> None:
        self._size = size

    def size(self) -> int:
        return self._size


def perform(effect: Canonical) -> Any:
    """Stop the loop of this rank at an effect; returns the answer."""
    parent = greenlet.getcurrent().parent
    assert parent is not None
    return parent.switch(effect)


def _reduce(tensor: Tensor, op: str) -> None:
    # The two exchanges can be told apart by what is reduced, as the library would tell them.
    if (len(tensor.values), op) == (2, "SUM"):
        kind, value = "sync", (bool(tensor.values[0]), bool(tensor.values[1]))
        tensor.values = list(perform(("enter", "host", kind, value)))
        return
    if (len(tensor.values), op) == (1, "MAX"):
        tensor.values = [perform(("enter", "host", "resume", bool(tensor.values[0])))]
        return
    msg = f"an exchange of {len(tensor.values)} numbers by {op} is not known"
    raise RuntimeError(msg)


def all_reduce(tensor: Tensor, op: str = "SUM", group: Any = None) -> None:
    del group
    _reduce(tensor, op)


def all_reduce_of_sums(tensor: Tensor, group: Any, timeout: Any = None) -> Tensor:
    del group, timeout
    _reduce(tensor, "SUM")
    return tensor


def barrier(group: Any = None) -> None:
    del group
    perform(("enter", "host", "barrier", None))


def executor_class(base: Any) -> Any:
    """Return vLLM's executor with its own ``sleep`` and ``wake_up``, and no workers."""

    def execute_model(_self: Any, output: Any, non_block: bool = False) -> Any:
        del non_block
        # Without tokens no worker runs the model, so it meets nobody.
        if output.total_num_scheduled_tokens > 0:
            _forward()
        return SimpleNamespace(result=lambda: output)

    def nothing(_self: Any, *_args: Any, **_options: Any) -> None:
        pass

    made = type(
        "WorkerlessExecutor",
        (base,),
        {
            "execute_model": execute_model,
            "execute_dummy_batch": lambda _self: _forward(),
            "collective_rpc": nothing,
            "reset_mm_cache": nothing,
            "reset_encoder_cache": nothing,
        },
    )
    made.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    return made


def _forward() -> None:
    perform(("enter", "device", "forward", None))


class Inbox:
    """The engine's input queue."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._next: Any = None

    def get(self, block: bool = True) -> Any:
        if not block:
            msg = "the loop only polls without waiting while ranks come or go"
            raise RuntimeError(msg)
        return perform(("block",))

    def empty(self) -> bool:
        if not self._engine.has_work() and self._engine.is_running():
            # The loop is about to wait; it asks only whether old aborts may be forgotten.
            return True
        self._next = perform(("poll",))
        return self._next is None

    def get_nowait(self) -> Any:
        item, self._next = self._next, None
        return item


class Outbox:
    def put_nowait(self, item: tuple[int, Any]) -> None:
        client, outputs = item
        perform(("send", client, *_told(outputs)))


def _told(outputs: Any) -> Canonical:
    if outputs.wave_complete is not None:
        return ("complete", outputs.wave_complete)
    if outputs.start_wave is not None:
        return ("start", outputs.start_wave)
    if outputs.utility_output is not None:
        reply = outputs.utility_output
        failure = None if reply.failure_message is None else failure_of(reply.failure_message)
        value = None if failure is not None or reply.result is None else reply.result.result
        return ("reply", reply.call_id, value, failure)
    if outputs.scheduler_stats is not None:
        stats = outputs.scheduler_stats
        counts = (stats.num_running_reqs, stats.num_waiting_reqs)
        return ("counts", *counts, stats.step_counter, stats.current_wave)
    rows = sorted(
        (row.request_id, len(row.new_token_ids), _finish(row.finish_reason))
        for row in outputs.outputs
    )
    errors: list[Any] = [getattr(row, "error", None) for row in outputs.outputs]
    paused = any(e is not None and e.code == "engine_paused" and e.retryable for e in errors)
    return ("rows", tuple(rows), tuple(sorted(outputs.finished_requests or ())), paused)


FAILURES = (
    (re.compile(r"^Server shutting down$"), SHUTDOWN),
    (re.compile(r": Invalid pause mode"), BAD_MODE),
    (re.compile(r": resume_scheduler called while pause is still in flight"), IN_FLIGHT),
    (re.compile(r": release_kv_cache_memory\(\) requires a completed pause first$"), NO_PAUSE),
    (re.compile(r": release_kv_cache_memory\(\) requires all executor memory"), NO_MEMORY),
    (re.compile(r"method failed: .* object has no attribute '\w+'$"), NO_METHOD),
)
"""What vLLM says when a call fails, and what it means."""


def failure_of(text: str) -> str:
    """Return what a failed call means; its own text if that is not known here."""
    return next((meaning for pattern, meaning in FAILURES if pattern.search(text)), text)


def _finish(reason: Any) -> str | None:
    return None if reason is None else str(reason.name).lower()


class _Schedule:
    """What a step runs."""

    def __init__(self, rows: list[Any], executed: bool) -> None:
        self.rows = rows
        self.total_num_scheduled_tokens = sum(row.tokens for row in rows) if executed else 0


class SchedulerAdapter:
    """The model's scheduler behind vLLM's interface."""

    def __init__(self, kit: Any, case: Case) -> None:
        self._kit = kit
        self.own = Scheduler(batch=case.batch, tokens=case.tokens)

    @property
    def pause_state(self) -> Any:
        return self._kit.pause_states(int(self.own.pause))

    def set_pause_state(self, state: Any) -> None:
        self.own.pause = PauseState(int(state))

    def has_requests(self) -> bool:
        return self.own.has_work

    def has_unfinished_requests(self) -> bool:
        return self.own.unfinished > 0

    def get_num_unfinished_requests(self) -> int:
        return self.own.unfinished

    def has_request(self, request_id: str) -> bool:
        return self.own.has(request_id)

    def get_request_counts(self) -> tuple[int, int]:
        return self.own.counts

    def get_kv_cache_usage(self) -> float:
        return 0.0

    def get_kv_connector(self) -> None:
        return None

    def get_ec_connector(self) -> None:
        return None

    def get_grammar_bitmask(self, _output: Any) -> None:
        return None

    def reset_prefix_cache(
        self, reset_running_requests: bool = False, *_args: Any, **_o: Any
    ) -> bool:
        if reset_running_requests:
            self.own.preempt()
        return True

    def reset_encoder_cache(self) -> None:
        pass

    def add_request(self, request: Any) -> None:
        self.own.add(request.work)

    def finish_requests(self, request_ids: Any, _status: Any) -> list[Any]:
        rows = self.own.abort(request_ids)
        if self._kit.aborted_are_pairs:
            return [(row.request_id, row.client) for row in rows]
        return [SimpleNamespace(request_id=row.request_id, client_index=row.client) for row in rows]

    def schedule(self, throttle_prefills: bool = False) -> _Schedule:
        assert not throttle_prefills
        return _Schedule(*self.own.step())

    def update_from_output(self, output: _Schedule, _model_output: Any) -> dict[int, Any]:
        core = self._kit.core
        found: dict[int, list[Any]] = {}
        for row in output.rows:
            reason = None if row.finish is None else core.FinishReason[row.finish.upper()]
            made = core.EngineCoreOutput(row.request_id, [0] * row.tokens, finish_reason=reason)
            found.setdefault(row.client, []).append(made)
        return {client: core.EngineCoreOutputs(outputs=rows) for client, rows in found.items()}
