"""A client of somebody else, as small as can be: blocking, plain sockets, owns the handshake.

It knows nothing of any harness. ``poll`` says what happened.
"""

import zmq

from client.protocol.codec import Codec
from client.protocol.messages import EngineCoreRequest, Hello, Init, RequestBatch, UtilityCall
from client.protocol.messages import UtilityReply as Reply
from client.protocol.profiles import profile_for


class Client:
    def __init__(self, release, ranks, hello, inputs, outputs):
        self.codec, self.context, self.poller = (
            Codec(profile_for(release)),
            zmq.Context(),
            zmq.Poller(),
        )
        self.engines = {rank: rank.to_bytes(2, "little") for rank in ranks}
        self.hello, self.input = self.context.socket(zmq.ROUTER), self.context.socket(zmq.ROUTER)
        self.output = self.context.socket(zmq.PULL)
        for socket, address in (
            (self.hello, hello),
            (self.input, inputs),
            (self.output, outputs),
        ):
            socket.bind(address)
            self.poller.register(socket, zmq.POLLIN)
        self.init = self.codec.encode_init(Init((inputs,), (outputs,)))
        self.registered, self.number, self.owner, self.replies = set(), 0, {}, {}

    def send(self, rank, frames):
        self.input.send_multipart([self.engines[rank], *frames])

    def add(self, name, prompt, max_tokens):
        self.owner[name] = list(self.engines)[len(self.owner) % len(self.engines)]
        request = EngineCoreRequest(
            name, prompt, sampling_params={"max_tokens": max_tokens}, external_req_id=name
        )
        self.send(self.owner[name], self.codec.encode_add(request))

    def abort(self, name):
        self.send(self.owner.pop(name), self.codec.encode_abort([name]))

    def utility(self, key, method, args, ranks):
        """Call ``ranks``; ``poll`` says ``replies`` with this key when all have answered."""
        self.replies[key] = {}
        for rank in ranks:
            self.number += 1
            self.replies[key][self.number] = None
            self.send(rank, self.codec.encode_utility(UtilityCall(0, self.number, method, args)))

    def poll(self):
        """Wait, and yield ``ready``, ``output`` and ``replies`` as tuples; other descriptors too."""
        for socket, _ in self.poller.poll():
            if socket is self.hello:
                identity, body = socket.recv_multipart()
                if isinstance(self.codec.decode_hello_or_ready(body), Hello):
                    socket.send_multipart([identity, self.init])
            elif socket is self.input:
                self.registered.add(socket.recv_multipart()[0])
                if len(self.registered) == len(self.engines):
                    yield ("ready",)
            elif socket is self.output:
                yield from self.take(self.codec.classify(socket.recv_multipart()))
            else:
                yield "descriptor", socket

    def take(self, message):
        if isinstance(message, RequestBatch):
            for row in message.outputs:
                if row.request_id in self.owner:
                    reason = row.finish_reason
                    if reason is not None:
                        del self.owner[row.request_id]
                    finish = None if reason is None else reason.name.lower()
                    yield "output", row.request_id, list(row.new_token_ids), finish
        elif isinstance(message, Reply):
            for key, got in list(self.replies.items()):
                if message.output.call_id in got:
                    got[message.output.call_id] = message.output
                    if all(got.values()):
                        yield "replies", key, list(self.replies.pop(key).values())
