"""A second adapter in another style: one blocking loop round a client of somebody else.

It does the least that makes an adapter: calls, cancels, raw utility calls. Nothing of the client's
inside is shown, so that it is judged as a black box.
"""

import json
import os
import sys

import zmq

from tests.support.small_client import Client

CAN = ["op.cancel", "op.utility-raw", "transport.handshake-owner", "coordinator.none"]


def say(word, **keys):
    sys.stdout.write(json.dumps({"say": word, **keys}) + "\n")
    sys.stdout.flush()


class Run:
    def __init__(self, start):
        ends = start["endpoints"]
        places = ends["handshake"], ends["input"], ends["output"]
        self.client = Client(start["release"], start["ranks"], *places)
        self.ops, self.connecting = {}, None  # request id → op
        say("reply", id=start["id"])

    def obey(self, line):
        client = self.client
        match line["do"]:
            case "connect":
                self.connecting = line["id"]
            case "call":
                self.ops[line["request_id"]] = line["op"]
                client.add(line["request_id"], tuple(line["prompt"]), line["max_tokens"])
            case "utility":
                client.utility(line["op"], line["method"], line["args"], list(client.engines))
            case "fence" if line["ranks"]:
                client.utility(line["id"], line["method"], (), line["ranks"])
            case "fence":
                say("reply", id=line["id"])
            case "cancel":
                for name in [name for name, op in self.ops.items() if op == line["op"]]:
                    client.abort(name)
                    del self.ops[name]
                client.replies.pop(line["op"], None)
                say("ended", op=line["op"], outcome="cancelled")
            case "stop":
                client.context.destroy(linger=0)
                say("reply", id=line["id"])

    def tell(self, what, *about):
        match (what, *about):
            case ("ready",):
                say("reply", id=self.connecting)
            case ("output", name, tokens, finish):
                say("output", op=self.ops[name], tokens=tokens, finish=finish)
                if finish is not None:
                    say("ended", op=self.ops.pop(name), outcome="finished", finish=finish)
            case ("replies", int(number), _):
                say("reply", id=number)
            case ("replies", op, replies):
                failed = [r.failure_message for r in replies if r.failure_message is not None]
                if failed:
                    error = {"error": "UtilityCallFailed", "message": failed[0]}
                    say("ended", op=op, outcome="failed", **error)
                else:
                    say("ended", op=op, outcome="finished", value=[r.value for r in replies])


def main():
    run, half = None, b""
    while True:
        for what in list(run.client.poll()) if run else [("descriptor", 0)]:
            if what[0] != "descriptor":
                run.tell(*what)
                continue
            block = os.read(0, 1 << 16)
            if not block:
                return
            *lines, half = (half + block).split(b"\n")
            for line in map(json.loads, lines):
                match line["do"]:
                    case "hello":
                        say("hello", version=1, name="small", capabilities=CAN, schemes=["tcp"])
                    case "ping":
                        say("reply", id=line["id"])
                    case "start":
                        run = Run(line)
                        run.client.poller.register(0, zmq.POLLIN)
                    case _:
                        run.obey(line)


if __name__ == "__main__":
    main()
