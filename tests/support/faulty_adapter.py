"""The shipped adapter with one fault: ``python -m tests.support.faulty_adapter DO FAULT``.

When command DO comes for the first time, FAULT happens before, or instead of, what it asks for;
``never`` leaves it undone whenever it comes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading

from harness.adapters import python_client
from harness.adapters.outlet import STDOUT, Outlet
from harness.targets.adapter.agreed import LINE_BYTES_MAX


def act(fault: str, outlet: Outlet, line: dict) -> bool:
    """Do it; returns whether the command is carried out all the same."""
    word, _, rest = fault.partition(":")
    pipe = outlet._pipe
    match word:
        case "exit":
            sys.stderr.write("about to go\n")
            sys.stderr.flush()
            os._exit(int(rest))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            sys.stderr.write("not listening any more\n")
            sys.stderr.flush()
            threading.Event().wait()
        case "close":
            os.close(pipe)
            os.close(STDOUT)
            threading.Event().wait()
        case "raise":
            raise RuntimeError(rest)
        case "say":
            os.write(pipe, rest.replace("ID", str(line.get("id"))).encode() + b"\n")
            return "ID" not in rest
        case "instead":
            os.write(pipe, rest.encode() + b"\n")
            return False
        case "half":
            os.write(pipe, rest.encode())
            os._exit(0)
        case "long":
            block = b"x" * (1 << 20)
            for _ in range(LINE_BYTES_MAX // len(block) + 2):
                os.write(pipe, block)
        case "flood":
            block = b'{"say":"waiting","gate":"g","change":1}\n' * 1000
            while True:
                os.write(pipe, block)
        case "chatter":
            sys.stderr.write("word " * 20_000 + "\n")
        case "print":
            sys.stdout.write(rest + "\n")
            sys.stdout.flush()
        case "late":
            # One write, so that the harness sees both or none.
            reply = {"say": "reply", "id": line["id"]}
            outlet.reply = lambda _: os.write(pipe, json.dumps(reply).encode() + b"\nlate\n")
        case "signal":
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGUSR1, os.write, pipe, b"out of turn\n")
        case "linger":
            threading.Thread(target=threading.Event().wait).start()
        case "ignore" | "never":
            return False
        case "shut":
            # Hears nothing any more, and goes on living.
            os.close(0)
            threading.Event().wait()
        case "forget":
            # As a client that loses a request, and ends it only for a caller who leaves.
            begin = python_client.Run._call
            python_client.Run._call = lambda run, line: lost(begin(run, line))
    return True


async def lost(work):
    work.close()
    await asyncio.get_running_loop().create_future()


class Trap:
    """Reads lines, and springs once."""

    def __init__(self, reader: asyncio.StreamReader, do: str, fault: str, outlet: Outlet) -> None:
        self._reader, self._do, self._fault, self._outlet = reader, do, fault, outlet
        self._sprung = False

    async def readline(self) -> bytes:
        while raw := await self._reader.readline():
            line = json.loads(raw)
            if line["do"] != self._do or (self._sprung and self._fault != "never"):
                return raw
            self._sprung = True
            if act(self._fault, self._outlet, line):
                return raw
        return b""


def main() -> int:
    do, fault = sys.argv[1:3]
    serve = python_client.serve

    async def faulty(reader: asyncio.StreamReader, outlet: Outlet) -> None:
        await serve(Trap(reader, do, fault, outlet), outlet)  # type: ignore[arg-type]

    python_client.serve = faulty
    return python_client.main()


if __name__ == "__main__":
    sys.exit(main())
