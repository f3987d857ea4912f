"""``raw``: scripted frames on any socket of the engine."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO, ScriptError
from mock_engines.behaviours.model import Action
from mock_engines.frames import parse_frames
from mock_engines.matching import Message


class SendRaw(Behaviour):
    """Send bytes that no codec would make."""

    verbs: ClassVar[tuple[str, ...]] = ("raw",)

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Send them."""
        spec = action.raw
        assert spec is not None, "an action's value is checked when it is read"

        def id_of(name: str) -> str:
            known = io.engine.find(name)
            if known is None:
                msg = f"'raw' names request {name!r}, which this engine never had"
                raise ScriptError(msg)
            return known.request_id

        frames = parse_frames(spec.frames, id_of)
        for _ in range(spec.times):
            await io.out.raw(frames, spec.path)
