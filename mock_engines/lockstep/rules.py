"""What differs between releases in how data-parallel ranks step together."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from packaging.version import Version

from client.protocol.profiles import Profile

SYNC_INTERVAL_OLD = 32
SYNC_INTERVAL = 16
"""Steps from one exchange of unfinished work to the next (``dp_sync_interval``, 0.30)."""


@dataclass(frozen=True, slots=True)
class LockstepRules:
    """Rules of one release.

    Source: vLLM ``v1/engine/core.py`` of that release, ``DPEngineCoreProc`` and its bases.

    Attributes:
        sync_interval: steps from one exchange to the next; the same on all ranks.
        syncs_first_step: the first step of a wave ends in an exchange too, so that an idle pause
            takes one dummy batch and not a whole interval (0.30).
        announces_edge: rank 0 sends ``start_wave`` when its loop begins to run (0.29).
        announces_current: an idle rank answers an ADD of the current wave with ``start_wave``, not
            only one of an older wave (0.33).
        dummies_asleep: a dummy batch is also run while memory sleeps (until 0.23).
        resumes_half_awake: ``wake_up`` resumes although some memory still sleeps (until 0.23).
        releases_kv_cache: the KV cache alone can be given up, and may sleep before the rest (0.31).
        wake_up_tells: ``wake_up`` returns whether all memory is back (0.31).
        rejects_while_paused: ``pause_generation`` refuses new requests (0.33).
        changes_size: the size of the group changes in two stages, between a pause and a resume
            (0.27); before, while the engines run.
        resumes_once: a rank that is not paused answers ``resume_scheduler`` at once. No release: all
            decide by whether they step, which differs between ranks (vllm#55229).
        pauses_once: a rank on which all agreed asks for no second agreement when it is told to pause
            again. No release: ranks that hear the second pause before the first agreement need none,
            and those that hear it after wait for them.
    """

    sync_interval: int
    syncs_first_step: bool
    announces_edge: bool
    announces_current: bool
    dummies_asleep: bool
    resumes_half_awake: bool
    releases_kv_cache: bool
    wake_up_tells: bool
    rejects_while_paused: bool
    changes_size: bool
    resumes_once: bool = False
    pauses_once: bool = False

    def syncs(self, step: int) -> bool:
        """Whether step number ``step`` of a wave, from 1, ends in an exchange."""
        return step % self.sync_interval == 0 or (step == 1 and self.syncs_first_step)


@functools.lru_cache(maxsize=64)
def rules_of(profile: Profile) -> LockstepRules:
    """Return the rules of a release."""

    def since(bound: str) -> bool:
        return profile.version >= Version(bound)

    return LockstepRules(
        sync_interval=SYNC_INTERVAL if since("0.30") else SYNC_INTERVAL_OLD,
        syncs_first_step=since("0.30"),
        announces_edge=since("0.29"),
        announces_current=profile.engine_starts_current_wave,
        dummies_asleep=not since("0.24"),
        resumes_half_awake=not since("0.24"),
        releases_kv_cache=since("0.31"),
        wake_up_tells=profile.wake_up_returns_bool,
        rejects_while_paused=since("0.33"),
        changes_size=since("0.27"),
    )
