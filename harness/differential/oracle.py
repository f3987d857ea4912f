"""vLLM's own ``DPEngineCoreProc`` of a release as the other side.

The class comes from the release's sources and is proven; its ``run_busy_loop`` runs in a greenlet
that stops at each effect. An object is made without ``__init__``, which would start processes and
sockets. Round it: the model's scheduler (its decisions are not compared), vLLM's own ``Executor``
for sleep and wake-up without workers, and vLLM's own ``ParallelConfig`` for what the ranks agree on
in an exchange, over a process group that is ours. Runs in child processes only.
"""

from __future__ import annotations

import inspect
import queue
from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import greenlet

from harness.differential._oracle_parts import (
    Group,
    Inbox,
    Outbox,
    SchedulerAdapter,
    Tensor,
    all_reduce,
    all_reduce_of_sums,
    barrier,
    executor_class,
)
from harness.differential.moves import Arrive, Case
from harness.differential.sides import (
    Canonical,
)
from harness.targets.vllm_py.configuration import Settings
from harness.targets.vllm_py.loader import Loaded, Proof
from harness.targets.vllm_py.members import CORE, EXECUTOR, PARALLEL_CONFIG, SCHEDULER_INTERFACE
from mock_engines.lockstep.scheduler import Work

JUDGED = (
    (CORE, "DPEngineCoreProc"),
    (CORE, "EngineCoreProc"),
    (CORE, "EngineCore"),
    (PARALLEL_CONFIG, "ParallelConfig"),
    (EXECUTOR, "Executor"),
)


class OracleMeeting:
    """Where the oracle's ranks meet: reduces as the library of collectives does, nothing more."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._present: dict[str, dict[int, tuple[str, Any]]] = {"device": {}, "host": {}}

    def enter(self, rank: int, group: str, kind: str, value: Any) -> Mapping[int, Any]:
        """See ``sides.Meeting``."""
        present = self._present[group]
        present[rank] = (kind, value)
        if len(present) < self._ranks or len({kind for kind, _value in present.values()}) > 1:
            return {}
        self._present[group] = {}
        values = [value for _kind, value in present.values()]
        if kind == "sync":
            result: Any = [sum(int(value[n]) for value in values) for n in (0, 1)]
        elif kind == "resume":
            result = max(int(value) for value in values)
        else:
            result = None
        return dict.fromkeys(present, result)


class Kit:
    """vLLM's classes of one release, proven, with our stand-ins round them."""

    def __init__(self, loaded: Loaded) -> None:
        """Load them.

        Raises:
            ForeignClassError: one of them is not vLLM's.
        """
        torch = loaded.module("torch")
        distributed = loaded.module("torch.distributed")
        torch.tensor = Tensor  # type: ignore[attr-defined]
        reductions = SimpleNamespace(SUM="SUM", MAX="MAX", MIN="MIN")
        distributed.ReduceOp = reductions  # type: ignore[attr-defined]
        distributed.all_reduce = all_reduce  # type: ignore[attr-defined]
        distributed.barrier = barrier  # type: ignore[attr-defined]
        utils = loaded.module("vllm.distributed.utils")
        utils.cpu_all_reduce_ = all_reduce_of_sums  # type: ignore[attr-defined]
        config = loaded.get(PARALLEL_CONFIG, "ParallelConfig")
        loaded.module("vllm.config").ParallelConfig = config  # type: ignore[attr-defined]
        core: Any = loaded.module(CORE)
        self.core = core
        self.proofs: list[Proof] = [loaded.prove(loaded.get(*judged)) for judged in JUDGED]
        core.RequestStatus = SimpleNamespace(FINISHED_ABORTED="aborted")
        dog = SimpleNamespace(disable=nullcontext, feed=lambda: None)
        core.get_watch_dog = lambda: dog
        # Nothing else goes on that a pause of this length would let go on.
        core.time = SimpleNamespace(sleep=lambda _seconds: None)
        self.engine: Any = loaded.get(CORE, "DPEngineCoreProc")
        self.parallel_config: Any = config
        self.pause_states: Any = loaded.module(SCHEDULER_INTERFACE).PauseState
        # Until 0.24 the scheduler returned pairs of request id and client, since then requests.
        parameters = inspect.signature(
            vars(self.core.EngineCoreProc)["_send_abort_outputs"]
        ).parameters
        self.aborted_are_pairs = "tuple" in str(parameters["aborted_reqs"].annotation)
        self.executor: Any = executor_class(loaded.get(EXECUTOR, "Executor"))


class OracleRank:
    """One rank of vLLM's."""

    def __init__(self, kit: Kit, index: int, case: Case, sync_interval: int) -> None:
        self._kit = kit
        self._parts = SchedulerAdapter(kit, case)
        self._engine = _engine(kit, index, case, sync_interval, self._parts)
        self._greenlet = greenlet.greenlet(self._run)

    def _run(self, _answer: Any) -> Canonical:
        try:
            self._engine.run_busy_loop()
        except SystemExit:
            return ("end", "the loop is over")
        except Exception as error:  # noqa: BLE001 - compared like any other end
            return ("end", f"{type(error).__name__}: {error}")
        return ("end", "the loop returned")

    def advance(self, answer: Any) -> Canonical:
        """See ``sides.Side``."""
        effect: Canonical = self._greenlet.switch(answer)
        return effect

    def item(self, arrived: Arrive) -> tuple[Any, Any]:
        """See ``sides.Side``."""
        args: tuple[Any, ...] = arrived.args
        wave = self._engine.current_wave
        kinds = self._kit.core.EngineCoreRequestType
        match arrived.what:
            case "add":
                name, delta, tokens, client = args
                return (kinds.ADD, (_request(name, tokens, client), max(0, wave + delta)))
            case "abort":
                return (kinds.ABORT, list(args))
            case "start":
                return (kinds.START_DP_WAVE, (max(0, wave + args[0]), args[1]))
            case "restart":
                return (kinds.START_DP_WAVE, args)
            case "call":
                return (kinds.UTILITY, args)
        # What the signal handler does: note it, and wake the loop.
        self._engine.vllm_config.shutdown_timeout = args[0]
        self._engine.shutdown_state = self._kit.core.EngineShutdownState.REQUESTED
        return (kinds.WAKEUP, None)

    def state(self) -> Canonical:
        """See ``sides.Side``."""
        engine = self._engine
        return (
            engine.engines_running,
            engine.current_wave,
            engine.step_counter,
            engine.pending_pause,
            engine.ignore_start_dp_wave,
            engine.reject_new_requests,
            int(engine.scheduler.pause_state),
            self._parts.own.counts,
            int(engine.shutdown_state),
            frozenset(engine.model_executor.sleeping_tags),
        )

    def close(self) -> None:
        """See ``sides.Side``."""
        if not self._greenlet.dead:
            self._greenlet.throw()


def _request(name: str, tokens: int, client: int) -> Any:
    return SimpleNamespace(
        request_id=name,
        client_index=client,
        work=Work(name, tokens, client),
        pooling_params=None,
        kv_transfer_params=None,
        ec_transfer_params=None,
        abort_immediately=False,
    )


def _engine(kit: Kit, index: int, case: Case, sync_interval: int, scheduler: Any) -> Any:
    """An engine in the state that its ``__init__`` leaves behind."""
    executor = object.__new__(kit.executor)
    executor.sleeping_tags = set()
    if not isinstance(inspect.getattr_static(kit.executor, "is_sleeping", None), property):
        executor.is_sleeping = False
    parallel = object.__new__(kit.parallel_config)
    parallel.cpu_distributed_timeout_seconds = None
    engine = object.__new__(kit.engine)
    engine.__dict__.update(
        engine_index=index,
        dp_rank=index,
        dp_size=case.ranks,
        dp_group=Group(case.ranks),
        dp_sync_interval=sync_interval,
        has_coordinator=case.has_coordinator,
        publish_dp_lb_stats=case.publishes,
        last_counts=(0, 0),
        engines_running=False,
        current_wave=0,
        step_counter=0,
        pending_pause=False,
        ignore_start_dp_wave=False,
        reject_new_requests=False,
        shutdown_state=kit.core.EngineShutdownState.RUNNING,
        eep_scaling_state=None,
        process_input_queue_block=True,
        prefill_schedule_interval=1,
        scheduler=scheduler,
        model_executor=executor,
        batch_queue=None,
        aborts_queue=queue.Queue(),
        input_queue=Inbox(engine),
        output_queue=Outbox(),
        step_fn=engine.step,
        check_for_draft_tokens=False,
        use_spec_decode=False,
        async_scheduling=False,
        log_stats=False,
        mm_receiver_cache=None,
        enable_fault_tolerance=False,
        _idle_state_callbacks=[],
        _weight_version="",
        vllm_config=Settings(
            shutdown_timeout=0,
            parallel_config=parallel,
            observability_config=Settings(enable_logging_iteration_details=False),
        ),
    )
    return engine
