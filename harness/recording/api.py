"""Which method of the client's API makes a call that was seen on the wire. Pure.

A step ``via: method`` plays on every target; one ``via: raw`` only where the API can send any
name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from client.admin import AdminMethods
from client.aggregation import Aggregation
from client.protocol.profiles import Profile
from client.utility import CONFIGURED, Timeout
from harness.scenario.checks_utilities import api_methods

T = TypeVar("T")
_RENAMED = {
    "is_scheduler_paused": "is_paused",
    "pause_scheduler": "pause",
    "pause_generation": "pause",
    "resume_scheduler": "resume",
}
"""Methods on the wire that the API calls otherwise."""


class _Sent(Exception):  # noqa: N818  (it carries what a method sends)
    def __init__(self, method: str, args: Sequence[Any]) -> None:
        super().__init__(method)
        self.method = method
        self.call_args = args


class _Probe(AdminMethods):
    """An API that sends nothing and says what it would have sent."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._aggregation = Aggregation()

    async def call_utility(
        self,
        method: str,
        args: Sequence[Any],
        result_type: type[T],  # noqa: ARG002
        *,
        timeout_s: Timeout = CONFIGURED,  # noqa: ARG002
        only: Sequence[int] | None = None,  # noqa: ARG002
    ) -> list[T]:
        """Tell instead of send."""
        raise _Sent(method, args)


def api_call(profile: Profile, method: str, args: Sequence[Any]) -> tuple[str, list[Any]] | None:
    """The method of the API, and its arguments, that send exactly this; ``None``: none does.

    Args:
        profile: release of the frontend.
        method: on the wire.
        args: the same, in lists where they are arrays.
    """
    name = _RENAMED.get(method, method)
    if name not in api_methods():
        return None
    for given in range(len(args) + 1):
        if _sends(profile, name, args[:given]) == (method, list(args)):
            return name, list(args[:given])
    return None


def _sends(profile: Profile, name: str, args: Sequence[Any]) -> tuple[str, list[Any]] | None:
    probe = _Probe(profile)
    try:
        coroutine = getattr(probe, name)(*args)
    except TypeError:
        return None  # too few or too many
    try:
        coroutine.send(None)
    except _Sent as sent:
        return sent.method, _lists(sent.call_args)
    except Exception:  # noqa: BLE001  (arguments that the method itself cannot take)
        return None
    coroutine.close()
    return None


def _lists(value: Any) -> Any:
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value
