"""Frames for people: what was refused, in a line, however much of it there is."""

from __future__ import annotations

from collections.abc import Sequence

FRAMES_MAX = 4
BYTES_MAX = 32


def shown_frames(frames: Sequence[bytes]) -> str:
    """Return frames in hexadecimal, e.g. ``[01, 4865…(70,000 bytes)]``."""
    parts = [_shown(frame) for frame in frames[:FRAMES_MAX]]
    if len(frames) > FRAMES_MAX:
        parts.append(f"and {len(frames) - FRAMES_MAX:,} more")
    return f"[{', '.join(parts)}]"


def _shown(frame: bytes) -> str:
    if len(frame) <= BYTES_MAX:
        return frame.hex() or "empty"
    return f"{frame[:BYTES_MAX].hex()}…({len(frame):,} bytes)"
