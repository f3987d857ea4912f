"""A few ranks, driven effect by effect."""

from __future__ import annotations

from collections import deque

import pytest

from client.protocol.profiles import profile_for
from mock_engines.lockstep.collectives import Collectives
from mock_engines.lockstep.effects import (
    AddInput,
    Block,
    CallInput,
    Enter,
    Ignored,
    Poll,
    Send,
    ShutdownInput,
    StartInput,
)
from mock_engines.lockstep.rank import Rank
from mock_engines.lockstep.rules import rules_of
from mock_engines.lockstep.scheduler import Scheduler, Work

EFFECTS_MAX = 5000


class Ranks:
    """Ranks that go on in turn. ``sent[rank]`` is what each has sent, ``entered`` where it was."""

    def __init__(self, release, count, **options):
        self.ranks = [
            Rank(n, rules_of(profile_for(release)), Scheduler(), **options) for n in range(count)
        ]
        self.collectives = Collectives(range(count))
        self.loops = [rank.loop() for rank in self.ranks]
        self.inputs = [deque() for _ in self.ranks]
        self.effects = [None] * count
        self.results = {}
        self.sent = [[] for _ in self.ranks]
        self.entered = [[] for _ in self.ranks]
        self.ignored = [[] for _ in self.ranks]
        self.ended = [False] * count

    def __getitem__(self, rank):
        return self.ranks[rank]

    def put(self, rank, item):
        self.inputs[rank].append(item)

    def add(self, rank, name, wave, tokens=3, client=0):
        self.put(rank, AddInput(Work(name, tokens, client), wave))

    def start(self, rank, wave, exclude=None):
        self.put(rank, StartInput(wave, exclude))

    def call(self, rank, method, *args, call_id=1, client=0):
        self.put(rank, CallInput(client, call_id, method, args))

    def call_all(self, method, *args, call_id=1):
        for rank in range(len(self.ranks)):
            self.call(rank, method, *args, call_id=call_id)

    def shut_down(self, rank, timeout_s):
        self.put(rank, ShutdownInput(timeout_s))

    def settle(self, only=None):
        """Let all ranks go on until each waits for input, for a peer, or has ended."""
        for _ in range(EFFECTS_MAX):
            ready = [n for n in range(len(self.ranks)) if self._ready(n) and only in (None, n)]
            if not ready:
                return
            for rank in ready:
                self._advance(rank)
        raise AssertionError("the ranks do not come to rest")

    def turns(self, rank, count):
        for _ in range(count):
            self._advance(rank)

    def _ready(self, rank):
        effect = self.effects[rank]
        if self.ended[rank] or (isinstance(effect, Block) and not self.inputs[rank]):
            return False
        return not isinstance(effect, Enter) or rank in self.results

    def _advance(self, rank):
        effect, answer = self.effects[rank], None
        if isinstance(effect, Block | Poll) and self.inputs[rank]:
            answer = self.inputs[rank].popleft()
        elif isinstance(effect, Enter):
            answer = self.results.pop(rank)
        try:
            effect = self.loops[rank].send(answer)
        except StopIteration:
            self.ended[rank] = True
            return
        self.effects[rank] = effect
        match effect:
            case Send():
                self.sent[rank].append((effect.client, effect.output))
            case Ignored():
                self.ignored[rank].append(effect.why)
            case Enter():
                self.entered[rank].append(effect.kind)
                self.results |= self.collectives.enter(
                    rank, effect.group, effect.kind, effect.value
                )

    def outputs(self, rank, kind):
        return [output for _client, output in self.sent[rank] if isinstance(output, kind)]


@pytest.fixture
def ranks():
    """Return ``ranks(release, count)``, whose ranks do not publish unless told to."""

    def make(release, count=1, **options):
        options.setdefault("publishes", False)
        made = Ranks(release, count, **options)
        made.settle()
        return made

    return make
