"""Watches the sockets of vLLM's coordinator from inside its own process.

The coordinator's code is vLLM's, unchanged; its sockets and its poller are subclasses of pyzmq's
that tell what passes. One *turn* is what the coordinator does from one receive (or time-out of its
poll) to the next: it is told in one line, with the wave state before and after, which is read
from the local variables of the running function, and with what was sent. The messages of a turn
leave once the harness has taken note of it. So the trace never shows an effect before its cause.

Two things are arranged, neither of which the coordinator can tell from a slow network:

- its clock for publishes stands still until a frontend has subscribed, and what it publishes
  before that goes nowhere, as with any PUB socket;
- a publish that a scenario scripts is sent from here, in turn, and changes nothing in it.

Runs in child processes only.
"""

from __future__ import annotations

import sys
import time
from types import FrameType
from typing import Any

import zmq

from harness.targets.vllm_py.pipe import Pipe

LOOP = "process_input_socket"
"""vLLM's function whose local variables are the coordinator's state."""
FRONT, BACK, SUBSCRIPTION, SCRIPT, TIMER = "front", "back", "subscription", "script", "timer"
_SUBSCRIBE, _UNSUBSCRIBE = b"\x01", b"\x00"
Frames = list[bytes]


class Tap:
    """What is shared by the sockets and the poller of one coordinator."""

    def __init__(self, pipe: Pipe, roles: dict[str, str]) -> None:
        """``roles``: address → ``front``, ``back`` or ``subscription``."""
        self._pipe = pipe
        self._roles = roles
        self._sockets: dict[str, zmq.Socket[Any]] = {}
        self._of: dict[int, str] = {}
        self._way: str | None = None
        self._received: bytes = b""
        self._before: list[Any] | None = None
        self._sent: list[tuple[str, Frames]] = []
        self._subscribers = 0

    # --- sockets ----------------------------------------------------------------------------

    def bound(self, socket: zmq.Socket[Any], address: str) -> None:
        """A socket was bound: its address says what it is for."""
        role = self._roles.get(address)
        if role is not None:
            self._sockets[role] = socket
            self._of[id(socket)] = role

    def role(self, socket: zmq.Socket[Any]) -> str | None:
        """What a socket is for; ``None``: not one that is watched."""
        return self._of.get(id(socket))

    def sending(self, role: str, frames: Frames) -> None:
        """The coordinator sends; the message leaves at the end of the turn."""
        self._sent.append((role, frames))

    def received(self, role: str, data: bytes) -> None:
        """The coordinator has received; a turn begins."""
        self._way, self._received, self._before = role, data, self._state()
        if role == FRONT and data in (_SUBSCRIBE, _UNSUBSCRIBE):
            self._subscribers += 1 if data == _SUBSCRIBE else -1

    def end_turn(self) -> None:
        """Tell the turn that ends here, and let its messages leave."""
        if self._way is None and not self._sent:
            return
        after = self._state()
        self._tell(
            self._way or TIMER, self._received, after if self._way is None else self._before, after
        )

    def _tell(
        self, way: str, data: bytes, before: list[Any] | None, after: list[Any] | None
    ) -> None:
        listening = self._subscribers > 0
        sent = [(role, frames) for role, frames in self._sent if role != FRONT or listening]
        self._pipe.say(
            turn=way,
            frame=data.hex(),
            before=before,
            after=after,
            sent=[[role, [frame.hex() for frame in frames]] for role, frames in sent],
        )
        self._pipe.wait_for("noted")
        for role, frames in sent:
            for number, frame in enumerate(frames):
                more = zmq.SNDMORE if number + 1 < len(frames) else 0
                zmq.Socket.send(self._sockets[role], frame, more)
        self._way, self._received, self._before, self._sent = None, b"", None, []

    @staticmethod
    def _state() -> list[Any] | None:
        """Wave and running flag of the coordinator; ``None`` before its loop has them."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way
        while frame is not None and frame.f_code.co_name != LOOP:
            frame = frame.f_back
        if frame is None:
            return None
        local = frame.f_locals
        if "current_wave" not in local or "engines_running" not in local:
            msg = f"this release keeps its wave state elsewhere than in {LOOP}"
            raise RuntimeError(msg)
        return [local["current_wave"], local["engines_running"]]

    # --- time -------------------------------------------------------------------------------

    def poll(self, poller: zmq.Poller, timeout_ms: float | None) -> list[tuple[Any, int]]:
        """Poll for the coordinator, and serve the harness's commands meanwhile."""
        self.end_turn()
        holding = self._subscribers <= 0
        deadline = None
        if timeout_ms is not None and not holding:
            deadline = time.monotonic() + timeout_ms / 1000  # noqa: TID251 - a real process
        while True:
            while self._pipe.waiting:
                self._obey(self._pipe.hear())
            left = None
            if deadline is not None:
                left = max(0.0, deadline - time.monotonic()) * 1000  # noqa: TID251
            found = zmq.zmq_poll(
                [*poller.sockets, (self._pipe.fd, zmq.POLLIN)], -1 if left is None else int(left)
            )
            events = [(socket, event) for socket, event in found if socket != self._pipe.fd]
            if len(events) < len(found):
                self._pipe.fill()
            if events or (deadline is not None and not found and self._over(deadline)):
                return events

    @staticmethod
    def _over(deadline: float) -> bool:
        return time.monotonic() >= deadline - 0.001  # noqa: TID251

    def _obey(self, command: dict[str, Any]) -> None:
        """Send what a scenario scripts, as if the coordinator had."""
        self._sent = [(FRONT, [bytes.fromhex(frame) for frame in command["publish"]])]
        self._tell(SCRIPT, b"", None, None)


def make_classes(tap: Tap) -> tuple[type[zmq.Socket[Any]], type[zmq.Poller]]:
    """Return the socket and poller classes that tell ``tap`` what passes."""

    class TappedSocket(zmq.Socket[Any]):
        def bind(self, addr: str) -> Any:
            bound = super().bind(addr)
            tap.bound(self, addr)
            return bound

        def recv(self, *args: Any, **kwargs: Any) -> Any:
            role = tap.role(self)
            if role is None:
                return super().recv(*args, **kwargs)
            tap.end_turn()
            data = super().recv(*args, **kwargs)
            tap.received(role, bytes(data))
            return data

        def send(self, data: Any, *args: Any, **kwargs: Any) -> Any:
            role = tap.role(self)
            if role is None:
                return super().send(data, *args, **kwargs)
            tap.sending(role, [bytes(data)])
            return None

        def send_multipart(self, msg_parts: Any, *args: Any, **kwargs: Any) -> Any:
            role = tap.role(self)
            if role is None:
                return super().send_multipart(msg_parts, *args, **kwargs)
            tap.sending(role, [bytes(part) for part in msg_parts])
            return None

    class TappedPoller(zmq.Poller):
        def poll(self, timeout: float | None = None) -> list[tuple[Any, int]]:
            return tap.poll(self, timeout)

    return TappedSocket, TappedPoller
