"""The day that expiry is counted from: the only clock of a baseline."""

from __future__ import annotations

import datetime as dt

from harness.baseline.model import parse_day


def utc_today(now: dt.datetime | None = None) -> dt.date:
    """The day in UTC, so that a waiver ends at one moment for everybody.

    ``now``: any moment with a time zone; default: this one.
    """
    moment = dt.datetime.now(dt.UTC) if now is None else now
    return moment.astimezone(dt.UTC).date()


def day_or_span(text: str, today: dt.date) -> dt.date:
    """Read a day, or a number of days from today such as ``90d``.

    Raises:
        ValueError: it is neither; the message says what is expected.
    """
    number = text.removesuffix("d")
    if text.endswith("d") and number.isascii() and number.isdigit() and len(number) <= 5:
        try:
            return today + dt.timedelta(days=int(number))
        except OverflowError as error:
            msg = f"'{text}' ends after the last day that there is"
            raise ValueError(msg) from error
    day = parse_day(text)
    assert isinstance(day, dt.date)
    return day
