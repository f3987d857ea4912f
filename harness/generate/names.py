"""Puts names in where a draft points at things by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.generate.fields import Data
from harness.generate.refs import Ref

RANKS_FAR = (1, 256, 65_536, 2**32 - 1)
"""Ranks that are asked for and are none: the next one, one more byte, two more, the last."""


class NothingThereError(Exception):
    """What a draft points at does not exist in this scenario."""


@dataclass(slots=True)
class Names:
    """What can be named so far, and what is open."""

    ranks: list[int]
    frontends: int
    external: bool
    calls: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    left: dict[str, None] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)
    waited: dict[str, None] = field(default_factory=dict)
    opened: dict[str, None] = field(default_factory=dict)
    every_call: int = 0

    @property
    def open_ops(self) -> list[str]:
        """Operations whose caller is still there, the last one first."""
        return [name for name in reversed(self.kinds) if name not in self.left]

    def resolve(self, ref: Ref) -> Data:
        """Put a name in. Raises ``NothingThereError``."""
        maker = getattr(self, "_" + ref.kind.replace("-", "_"))
        return maker(ref.n)

    def _rank(self, n: int) -> int:
        return self.ranks[n % len(self.ranks)]

    def _rank_or_all(self, n: int) -> int | str:
        choices: list[int | str] = [*self.ranks, "all"]
        return choices[n % len(choices)]

    def _rank_or_coordinator(self, n: int) -> int | str:
        choices: list[int | str] = ["coordinator", *self.ranks, "all"]
        return choices[n % len(choices)]

    def _wanted_rank(self, n: int) -> int:
        far = [max(self.ranks) + RANKS_FAR[0], *(self.ranks[-1] + k for k in RANKS_FAR[1:3])]
        choices = [*self.ranks, *self.ranks, *far, RANKS_FAR[-1]]
        return choices[n % len(choices)]

    def _new(self, stem: str, kind: str) -> str:
        number = 1 + sum(name.rstrip("0123456789") == stem for name in self.kinds)
        name = f"{stem}{number}"
        self.kinds[name] = kind
        return name

    def _new_call(self, _n: int) -> str:
        name = self._new("c", "call")
        self.calls.append(name)
        return name

    def _new_utility(self, _n: int) -> str:
        return self._new("u", "utility")

    def _new_request(self, _n: int) -> str:
        return self._new("h", "request")

    def _new_crowd(self, _n: int) -> str:
        self.others.append(f"crowd{len(self.others) + 1}")
        return self.others[-1]

    def _open_op(self, n: int) -> str:
        return self._one_of(self.open_ops, n)

    def _open_call(self, n: int) -> str:
        return self._one_of([x for x in self.open_ops if self.kinds[x] == "call"], n)

    def _call_id(self, n: int) -> str:
        # The call that is being named is the last one already.
        return self._one_of(list(reversed(self.calls[:-1])), n)

    def _request(self, n: int) -> str:
        names = [f"c{number + 1}" for number in range(self.every_call)]
        return self._one_of(names, n)

    def _new_gate(self, n: int) -> str:
        name = f"g{n + 1}"
        self.waited[name] = None
        return name

    def _closed_gate(self, n: int) -> str:
        name = self._one_of([x for x in self.waited if x not in self.opened], n)
        self.opened[name] = None
        return name

    def _called_method(self, n: int) -> str:
        return self._one_of([*self.methods, "*"], n)

    def _frontend(self, n: int) -> int:
        return n % self.frontends

    @staticmethod
    def _one_of(choices: list[str], n: int) -> str:
        if not choices:
            raise NothingThereError
        return choices[n % len(choices)]

    def put(self, value: Data) -> Data:
        """A value with every reference resolved. Raises ``NothingThereError``."""
        if isinstance(value, Ref):
            return self.resolve(value)
        if isinstance(value, Mapping):
            return {key: self.put(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.put(item) for item in value]
        return value
