"""Whether an address can be reached from this machine alone, and what is said if it cannot.

Nothing of ours asks who somebody is, so all that listens does so on the loopback interface or in a
private folder; where a person asks for more, a note on standard error says what that means.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

NAMES = frozenset({"localhost", "localhost.", "ip6-localhost"})
"""Names that mean this machine everywhere."""
LISTENING = {
    "--host": "whoever reaches it can call every route",
    "--data-parallel-address": "whoever reaches it can join as an engine",
}
"""Options of a frontend that say where it listens, and what others can do there."""


def is_loopback(host: str) -> bool:
    """Whether a host is an address of the loopback interface, or a name that always means one.

    Any other name may lead anywhere, also one that begins like an address; so may the name of an
    interface, ``*``, and an address in an old short form.
    """
    bare = host.removeprefix("[").removesuffix("]")
    if bare.lower() in NAMES:
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def exposure(option: str, host: str, what: str) -> str | None:
    """The note on a listener, or ``None`` if only this machine reaches it."""
    if is_loopback(host):
        return None
    return f"note: {option} {host} is not the loopback interface: {what}"


def exposures_of(words: Sequence[str]) -> list[str]:
    """The notes on arguments that a frontend is started with."""
    found = []
    for place, word in enumerate(words):
        option, sign, value = word.partition("=")
        if option in LISTENING:
            host = value if sign else next(iter(words[place + 1 : place + 2]), "")
            found.append(exposure(option, host, LISTENING[option]))
    return [note for note in found if note is not None]
