"""How numbers of things read, and orders of events."""

from __future__ import annotations

from collections.abc import Sequence

FIFO = "everything in FIFO order"
BUT = f"{FIFO}, except that"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Say how many there are: ``1 scenario``, ``2 scenarios``.

    Args:
        number: of the things.
        noun: what one of them is called.
        plural: what several are called, where that is not the noun with an s.
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def order_lines(departures: Sequence[str]) -> tuple[str, ...]:
    """Say a schedule in a few lines.

    Args:
        departures: where it leaves FIFO order, such as ``at choice 3 `a` ran before `b```.
    """
    if not departures:
        return (FIFO,)
    *first, last = departures
    joined = [f"{line}," for line in first]
    if joined:
        joined[-1] += " and"
    return (BUT, *joined, last)


def order_text(departures: Sequence[str]) -> str:
    """The same as one sentence."""
    return " ".join(order_lines(departures))
