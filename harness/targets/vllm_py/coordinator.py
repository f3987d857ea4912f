"""vLLM's own coordinator process, behind the interface of the reference one.

What it received, did and sent is told by the tap in its process and becomes the same trace events
that the reference coordinator tells: so the same scenarios and invariants judge it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from client.aio import resolve
from client.events import (
    CoordinatorPublished,
    FirstRequestHandled,
    Observer,
    WaveNoticeHandled,
)
from client.protocol.codec import Codec
from client.protocol.codec_errors import DecodeError
from client.protocol.ids import Wave
from client.protocol.messages import (
    SUBSCRIBE_ALL,
    UNSUBSCRIBE_ALL,
    CoordinatorPublish,
    StartDpWave,
)
from client.protocol.profiles import Profile
from harness.targets.base import Emit, TargetError
from harness.targets.vllm_py.child import LineChild
from harness.targets.vllm_py.log_patterns import log_line
from harness.targets.vllm_py.sources import SourceTree
from harness.targets.vllm_py.tap import BACK, FRONT, SCRIPT, SUBSCRIPTION, TIMER

_START_FRAMES = 2
_FIRST_REQUEST_ELEMENTS = 2


class VllmCoordinator:
    """One coordinator process of vLLM's. ``start`` and ``stop`` may alternate.

    Attributes:
        died: why it ended by itself, else ``None``.
        turns: how many turns it has told since the first start.
    """

    def __init__(
        self,
        *,
        tree: SourceTree,
        profile: Profile,
        engine_count: int,
        front_address: str,
        back_input_address: str,
        back_output_address: str,
        observer: Observer,
        emit: Emit,
        wave_coordination: bool = True,
    ) -> None:
        self._tree = tree
        self._codec = Codec(profile)
        self._profile = profile
        self._engine_count = engine_count
        self._wave_coordination = wave_coordination
        self._observer = observer
        self._emit = emit
        self.front_address = front_address
        self.back_input_address = back_input_address
        self.back_output_address = back_output_address
        self.died: str | None = None
        self.turns = 0
        self._child: LineChild | None = None
        self._proven = False
        self._bound = False
        self._timed_publishes = 0
        self._subscriptions = 0
        self._applied = 0
        self._starts = 0
        self._scripted = 0
        self._watchers: list[asyncio.Future[None]] = []

    @property
    def running(self) -> bool:
        """Whether it is started and has not died."""
        return self._child is not None and self._child.running and self.died is None

    async def start(self) -> None:
        """Start the process and wait until its sockets are bound.

        Raises:
            TargetError: it is started already, it could not start, or its class is not vLLM's.
        """
        if self._child is not None:
            msg = "the coordinator is started already"
            raise TargetError(msg)
        self.died = None
        self._starts += 1
        self._proven = self._bound = False
        self._subscriptions = self._timed_publishes = self._applied = 0
        self._child = LineChild(
            "harness.targets.vllm_py.coordinator_child", self._on_line, self._on_end
        )
        await self._child.start(
            {
                "folder": str(self._tree.folder),
                "checksums": self._tree.checksums,
                "engines": self._engine_count,
                "front": self.front_address,
                "back": self.back_output_address,
                "subscription": self.back_input_address,
                "waves": self._wave_coordination,
            }
        )
        await self._until(lambda: self._bound)

    async def stop(self) -> None:
        """End it as a killed process ends. Idempotent."""
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    async def front_subscribed(self, count: int = 1) -> None:
        """Wait until ``count`` frontends have subscribed, and the client has taken a publish over.

        vLLM's coordinator publishes 50 ms after it began to serve, then after 5 s. What a
        scenario does must not be overtaken by that first publish.

        Raises:
            TargetError: it died meanwhile.
        """
        await self._until(
            lambda: self._subscriptions >= count and 0 < self._timed_publishes <= self._applied
        )

    def client_applied(self) -> bool:
        """The client took a publish over; whether it is one that belongs to startup."""
        startup = self._starts == 1 and self._applied == 0
        self._applied += 1
        self._wake()
        return startup

    def _is_startup(self) -> bool:
        """Whether this is the publish with which the first process begins to serve.

        It says what a frontend assumes anyhow, and the reference coordinator makes none; one
        after a restart is news.
        """
        return self._starts == 1 and self._timed_publishes == 1

    async def publish(
        self, counts: Sequence[Sequence[float]] | None, wave: int, running: bool
    ) -> None:
        """Send a scripted publish to all frontends. Its own state stays as it is."""
        message = CoordinatorPublish(counts, Wave(wave), running)
        await self.publish_raw([self._codec.encode_publish(message)])

    async def publish_raw(self, frames: Sequence[bytes]) -> None:
        """Send scripted frames to all frontends."""
        if self._child is None or not self.running:
            msg = "the coordinator is stopped"
            raise TargetError(msg)
        before = self._scripted
        self._child.say(publish=[frame.hex() for frame in frames])
        await self._until(lambda: self._scripted > before)

    # --- what the child tells ---------------------------------------------------------------

    def _on_line(self, line: dict[str, Any]) -> None:
        if "turn" in line:
            self.turns += 1
            self._on_turn(line)
            if self._child is not None:
                self._child.say(noted=True)
        elif "log" in line:
            self._emit(log_line(line["log"], line["text"]))
        elif "proof" in line:
            self._check_proof(line)
        elif "bound" in line:
            self._bound = self._proven
        elif "died" in line or "broken" in line:
            self.died = line.get("died") or line["broken"]
        self._wake()

    def _on_end(self) -> None:
        if self._child is not None and self.died is None:
            self.died = "its process ended without a word"
        self._wake()

    def _wake(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            resolve(watcher)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if not self.running:
                tail = "" if self._child is None else self._child.tail
                msg = f"vLLM's coordinator ended: {self.died}\n{tail}".rstrip()
                raise TargetError(msg)
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append(changed)
            await changed

    def _check_proof(self, line: dict[str, Any]) -> None:
        """The child's word is compared with what we know of the sources."""
        fault = self._tree.fault_of(Path(line["file"]), line["sha256"])
        if fault is not None:
            self.died = f"{line['proof']} is not vLLM's: {fault}"
            return
        self._proven = True

    def _on_turn(self, turn: dict[str, Any]) -> None:
        frame = bytes.fromhex(turn["frame"])
        sent = [(role, [bytes.fromhex(part) for part in parts]) for role, parts in turn["sent"]]
        match turn["turn"]:
            case way if way == BACK:
                self._on_back(frame, turn, sent)
            case way if way == FRONT:
                self._on_front(frame, turn, sent)
            case way if way == SCRIPT:
                self._scripted += 1
            case way if way == TIMER:
                published = any(role == FRONT for role, _frames in sent)
                self._timed_publishes += published
                if published and self._is_startup():
                    return
        for role, frames in sent:
            if role == FRONT:
                self._tell_publish(frames, scripted=turn["turn"] == SCRIPT)

    def _tell_publish(self, frames: list[bytes], *, scripted: bool) -> None:
        try:
            message = self._codec.decode_publish(b"".join(frames))
        except DecodeError:
            if not scripted:  # else malformed on purpose
                raise
            return
        if len(frames) > 1:
            return
        counts = message.counts
        self._observer(
            CoordinatorPublished(
                None if counts is None else tuple(tuple(each) for each in counts),
                message.current_wave,
                message.engines_running,
            )
        )

    def _on_back(
        self, frame: bytes, turn: dict[str, Any], sent: list[tuple[str, list[bytes]]]
    ) -> None:
        try:
            outputs = self._codec.decode_outputs([frame])
        except DecodeError:
            return  # what it did with it is in the log, or it died of it
        complete = outputs.wave_complete is not None
        wave = outputs.wave_complete if complete else outputs.start_wave
        if wave is None:
            return
        self._observer(
            WaveNoticeHandled(
                notice="complete" if complete else "start",
                engine=outputs.engine_index,
                wave=wave,
                wave_before=turn["before"][0],
                running_before=turn["before"][1],
                wave_after=turn["after"][0],
                running_after=turn["after"][1],
                broadcast=self._broadcast(sent) is not None,
            )
        )

    def _on_front(
        self, frame: bytes, turn: dict[str, Any], sent: list[tuple[str, list[bytes]]]
    ) -> None:
        if [frame] == [SUBSCRIBE_ALL]:
            self._subscriptions += 1
            return
        if [frame] == [UNSUBSCRIBE_ALL]:
            return
        try:
            notice = self._codec.decode_first_request(frame)
        except DecodeError:
            return
        broadcast = self._broadcast(sent)
        self._observer(
            FirstRequestHandled(
                engine=notice.exclude_engine_index,
                request_wave=notice.wave,
                wave_before=turn["before"][0],
                running_before=turn["before"][1],
                wave_after=turn["after"][0],
                running_after=turn["after"][1],
                broadcast_wave=None if broadcast is None else broadcast.wave,
                exclude=None if broadcast is None else broadcast.exclude_engine_index,
            )
        )

    def _broadcast(self, sent: list[tuple[str, list[bytes]]]) -> StartDpWave | None:
        for role, frames in sent:
            if role == SUBSCRIPTION and len(frames) == _START_FRAMES:
                message = self._codec.decode_engine_input(frames)
                return message if isinstance(message, StartDpWave) else None
        return None
