"""What of a rank's memory sleeps, by tag. Pure.

Source: vLLM ``v1/executor/abstract.py`` and ``v1/engine/core.py`` (``sleep``, ``wake_up``); protocol
page, section 14.
"""

from __future__ import annotations

from collections.abc import Iterable

WEIGHTS = "weights"
KV_CACHE = "kv_cache"
TAGS = (WEIGHTS, KV_CACHE)
SCHEDULING = "scheduling"
"""No memory: with this tag alone only the scheduler wakes up."""


class Memory:
    """Memory of one rank.

    Args:
        sleeps_again: what is awake of a half-asleep rank sleeps as well when it is told to, if its
            weights are awake (0.31); before, a rank of which anything sleeps stays as it is.

    Attributes:
        tags: what sleeps, in the order in which it was put to sleep.
    """

    def __init__(self, *, sleeps_again: bool = True) -> None:
        self._sleeps_again = sleeps_again
        # A tuple that is there already: it is looked at in every step, and changes hardly ever.
        self.tags: tuple[str, ...] = ()

    @property
    def asleep(self) -> bool:
        """Whether any of it sleeps."""
        return bool(self.tags)

    def sleep(self) -> None:
        """Put all of it to sleep, unless it sleeps."""
        sleeps = WEIGHTS in self.tags if self._sleeps_again else self.asleep
        if not sleeps:
            self.tags = tuple(dict.fromkeys((*self.tags, *TAGS)))

    def release(self, tag: str) -> None:
        """Put one of it to sleep, whatever else does."""
        self.tags = tuple(dict.fromkeys((*self.tags, tag)))

    def wake(self, tags: Iterable[str] | None) -> None:
        """Wake these tags, or all; nothing if one of them does not sleep."""
        wanted = self.tags if tags is None else tuple(tags)
        if all(tag in self.tags for tag in wanted):
            self.tags = tuple(tag for tag in self.tags if tag not in wanted)
