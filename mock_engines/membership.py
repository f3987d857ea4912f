"""One engine's part in the wave model that all engines share."""

from __future__ import annotations

from mock_engines.handle import WaveLink


class WaveMembership:
    """Tells the shared model what happens to one engine, for as long as it takes part.

    Args:
        link: the model, ``None`` = wave notices by script only.
        rank: global rank of the engine.
    """

    def __init__(self, link: WaveLink | None, rank: int) -> None:
        self._link = link
        self._rank = rank
        self._member: WaveLink | None = None

    def wave(self) -> int | None:
        """The rank's current wave, ``None`` when it takes no part."""
        return None if self._member is None else self._member.wave(self._rank)

    def enter(self) -> None:
        """Take part: the engine joined a coordinator. Again is the same as once."""
        if self._member is None and self._link is not None:
            self._member = self._link
            self._link.enter(self._rank)

    def leave(self) -> None:
        """Take part no more."""
        link, self._member = self._member, None
        if link is not None:
            link.leave(self._rank)

    def added(self, *, wave: int, paused: bool) -> None:
        """ADD arrived; told before the request counts as work: whether we were idle decides."""
        if self._member is not None:
            self._member.added(self._rank, wave=wave, paused=paused)

    def start_dp_wave(self, *, wave: int, exclude: int | None) -> None:
        """START_DP_WAVE took effect."""
        if self._member is not None:
            self._member.start_dp_wave(self._rank, wave=wave, exclude=exclude)

    def work(self, *, unfinished: bool) -> None:
        """The engine has unfinished requests now, or none."""
        if self._member is not None:
            self._member.work(self._rank, unfinished=unfinished)

    def stall(self) -> None:
        """The engine stopped for a while."""
        if self._member is not None:
            self._member.stall(self._rank)

    def resume(self) -> None:
        """The engine goes on."""
        if self._member is not None:
            self._member.resume(self._rank)
