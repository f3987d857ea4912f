"""Which socket a message leaves on when there are several frontends."""

from __future__ import annotations

import pytest

from client.protocol.codec import Codec
from client.protocol.messages import EngineDead
from client.protocol.profiles import profile_for
from harness.sim.loop import SimLoop
from mock_engines import events
from mock_engines.outlets import Outlets, ScriptError


class Fifo:
    def choose(self, n, labels=None):
        return 0


class Sink:
    def __init__(self):
        self.sent = []

    async def send(self, frames):
        self.sent.append(list(frames))


def outlets(number):
    seen = []
    made = Outlets(0, Codec(profile_for("0.33.0")), seen.append)
    made.sockets.outputs.extend(Sink() for _ in range(number))
    return made, seen


@pytest.mark.parametrize(("client_index", "socket"), [(0, 0), (1, 1), (2, 0), (-1, 0)])
def test_reply_goes_to_the_frontend_that_asked_and_else_to_the_first(client_index, socket):
    made, seen = outlets(2)
    SimLoop(Fifo()).run(made.reply(1, "sleep", client_index=client_index))
    assert [len(sink.sent) for sink in made.sockets.outputs] == [1 - socket, socket]
    assert seen == [events.UtilityReplySent(0, 1, "sleep", None, "None")]


def test_sentinel_goes_to_every_frontend():
    made, _ = outlets(2)
    SimLoop(Fifo()).run(made.sentinel())
    codec = Codec(profile_for("0.33.0"))
    for sink in made.sockets.outputs:
        assert [codec.classify(frames) for frames in sink.sent] == [EngineDead()]


def test_failed_reply_carries_no_value():
    made, _ = outlets(1)
    SimLoop(Fifo()).run(made.reply(1, "sleep", value=5, failure="x"))
    reply = Codec(profile_for("0.33.0")).classify(made.sockets.outputs[0].sent[0])
    assert (reply.output.failure_message, reply.output.value) == ("x", None)


def test_engine_without_output_socket_says_so_and_emits_nothing():
    made, seen = outlets(0)
    with pytest.raises(ScriptError, match="no output socket"):
        SimLoop(Fifo()).run(made.reply(1, "sleep"))
    assert seen == []
