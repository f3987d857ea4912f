"""The four pure decoders: outputs, what an engine is told, utility envelopes, tensors and aux frames.

The judgement of each input: the second reader and the rules of ``valid`` say whether the message is
to be taken, and as what. The codec must agree, refuse with its own error, and read again what it
writes of a message that it took.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from random import Random  # noqa: TID251
from typing import Any

import msgpack
import msgspec
from msgspec.structs import replace

from client.protocol.codec import Codec, DecodeError, EncodeError
from client.protocol.messages import (
    Abort,
    Add,
    EngineCoreOutputs,
    EngineDead,
    RequestBatch,
    StartDpWave,
    StartWave,
    Unclassified,
    UtilityCall,
    UtilityReply,
    WaveComplete,
)
from client.protocol.profiles import RELEASES, profile_for
from tests.fuzz import seeds, valid
from tests.fuzz.model import Finding, Input
from tests.fuzz.mutate import broken, pack, reframed
from tests.fuzz.wire import Read, read, read_slowly

CODECS = {release: Codec(profile_for(release)) for release in RELEASES}
"""One for each release."""
ERROR_CHARS_MAX = 600
"""Longest text of a refusal: it quotes what it refused, but never at length."""
_AUX = b"\x01\x00\x00\x00"


def refused(error: DecodeError, given: Input) -> str:
    """Judge a refusal. Raises ``Finding``."""
    if not (error.message_type and error.field and error.reason):
        raise Finding(f"the refusal says too little: {error!r}")
    if len(str(error)) > ERROR_CHARS_MAX:
        raise Finding(f"the refusal of {given.size} bytes is {len(str(error))} characters long")
    return f"refused {type(error).__name__}"


def expect(
    wanted: Callable[[Callable[[bytes], Read]], str | None], seen: str | None, detail: object = ""
) -> None:
    """Raise ``Finding`` unless the codec took the message as the rules say.

    Args:
        wanted: what the rules say of it, with a given reader of bodies.
        seen: what the codec said; ``None``: refused.
        detail: what else it said.
    """
    if wanted(read) != seen and (wanted := wanted(read_slowly)) != seen:
        raise Finding(
            f"the rules say {wanted or 'refuse'}, the codec says {seen or 'refuse'}: {detail}"
        )


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals itself and types count."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left == right or (left != left and right != right)
    if isinstance(left, msgspec.Struct):
        return all(
            same(getattr(left, name), getattr(right, name)) for name in left.__struct_fields__
        )
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            same(key, other) and same(left[key], right[other])
            for key, other in zip(left, right, strict=True)
        )
    if isinstance(left, (list, tuple)) and not isinstance(left, msgpack.ExtType):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


class Outputs:
    """What reaches a client or an in-process coordinator."""

    name = "outputs"
    kind = ""

    def make(self, rng: Random) -> Input:
        """Draw one input."""
        release = rng.choice(RELEASES)
        aux: list[bytes] = []
        tree = seeds.outputs(profile_for(release), rng, aux, kind=self.kind)
        body = broken(tree, rng)
        if rng.random() < 0.005:
            body = rng.choice((valid.SENTINEL, valid.SENTINEL + b"\0", valid.SENTINEL[:-1]))
        return Input(release, "classify", reframed([body, *aux], rng))

    def check(self, given: Input) -> str:
        """Classify it and judge."""
        profile, codec = profile_for(given.release), CODECS[given.release]
        frames = list(given.frames)
        wanted = functools.partial(self._wanted, frames, profile)
        try:
            kind = codec.classify(frames)
        except DecodeError as error:
            expect(wanted, None, error)
            return refused(error, given)
        expect(wanted, type(kind).__name__, kind)
        if isinstance(kind, EngineDead):
            return "accepted EngineDead"
        self._again(codec, kind, frames)
        return f"accepted {type(kind).__name__}"

    @staticmethod
    def _wanted(
        frames: Sequence[bytes], profile: Any, reader: Callable[[bytes], Read]
    ) -> str | None:
        if not frames:
            return None
        if frames[0] == valid.SENTINEL:
            return "EngineDead"
        return valid.kind_of(reader(frames[0]), frames, profile)

    def _again(self, codec: Codec, kind: Any, frames: list[bytes]) -> None:
        """What was taken can be written, and reads as the same."""
        match kind:
            case Unclassified():
                outputs = kind.raw
            case RequestBatch():
                outputs = EngineCoreOutputs(
                    kind.engine_index, kind.outputs, kind.scheduler_stats,
                    finished_requests=kind.finished_requests,
                )  # fmt: skip
            case UtilityReply():
                outputs = EngineCoreOutputs(kind.engine_index, utility_output=kind.output)
            case WaveComplete():
                outputs = EngineCoreOutputs(kind.engine_index, wave_complete=kind.wave)
            case StartWave():
                outputs = EngineCoreOutputs(kind.engine_index, start_wave=kind.wave)
        try:
            written = codec.encode_outputs(outputs)
        except EncodeError as error:
            raise Finding(f"taken, but cannot be written: {error}") from error
        again = codec.classify(written)
        if not self._equal(kind, again):
            raise Finding(f"reads otherwise when written again: {kind!r} and {again!r}")

    @staticmethod
    def _equal(kind: Any, again: Any) -> bool:
        if isinstance(kind, UtilityReply) and kind.output.failure_message is not None:
            # A failure beats a value, which is not written beside it.
            return same(kind.output.failure_message, again.output.failure_message)
        if isinstance(kind, Unclassified) and isinstance(again, Unclassified):
            return same(_as_written(kind.raw), again.raw)
        return same(kind, again)

    def close(self) -> None:
        """Nothing is held."""


def _as_written(outputs: EngineCoreOutputs) -> EngineCoreOutputs:
    utility = outputs.utility_output
    if utility is None or utility.failure_message is None:
        return outputs
    return replace(outputs, utility_output=replace(utility, value=None))


class Tensors(Outputs):
    """Outputs and requests full of tensors, and the frames behind them."""

    name = "tensors"
    kind = "tensors"

    def make(self, rng: Random) -> Input:
        """Draw one input; half of them change the frames alone."""
        release = rng.choice(RELEASES)
        profile = profile_for(release)
        aux: list[bytes] = []
        tree = seeds.outputs(profile, rng, aux, kind=self.kind)
        body = broken(tree, rng) if rng.random() < 0.7 else pack(tree)
        for _ in range(rng.choice((0, 0, 1, 2))):
            if aux:
                at = rng.randrange(len(aux))
                aux[at] = rng.choice(
                    (aux[at][:-1], aux[at] + _AUX, b"", aux[at] * 2, aux[at][::-1])
                )
        return Input(release, "classify", reframed([body, *aux], rng))


class Utility(Outputs):
    """Utility replies and their envelopes."""

    name = "utility"
    kind = "utility"


class Requests:
    """What reaches an engine after startup."""

    name = "requests"

    def make(self, rng: Random) -> Input:
        """Draw one input."""
        release = rng.choice(RELEASES)
        profile = profile_for(release)
        aux: list[bytes] = []
        kind = rng.choice((0, 0, 0, 1, 2, 3))
        tree: Any = {
            0: lambda: seeds.request(profile, rng, aux),
            1: lambda: [seeds.text(rng) for _ in range(rng.randrange(4))],
            2: lambda: [seeds.u32(rng), rng.choice((None, 0, 65_535))],
            3: lambda: seeds.utility_call(rng),
        }[kind]()
        head = (
            bytes([kind])
            if rng.random() < 0.97
            else rng.choice((b"", b"\x04", b"\x00\x00", b"\xff"))
        )
        return Input(release, "told", reframed([head, broken(tree, rng), *aux], rng))

    def check(self, given: Input) -> str:
        """Decode it as an engine would, and judge."""
        frames = list(given.frames)
        wanted = functools.partial(valid.told, frames)
        codec = CODECS[given.release]
        try:
            told = codec.decode_engine_input(frames)
        except DecodeError as error:
            expect(wanted, None, error)
            return refused(error, given)
        expect(wanted, type(told).__name__, told)
        self._again(codec, told)
        return f"accepted {type(told).__name__}"

    @staticmethod
    def _again(codec: Codec, told: Any) -> None:
        newest = CODECS[RELEASES[-1]]
        try:
            match told:
                case Add():
                    written = newest.encode_add(Requests._fitting(told.request))
                case Abort():
                    written = codec.encode_abort(told.request_ids)
                case UtilityCall():
                    written = codec.encode_utility(told)
                case StartDpWave():
                    written = codec.encode_start_wave(told)
        except EncodeError as error:
            raise Finding(f"taken, but cannot be written: {error}") from error
        again = newest.decode_engine_input(written)
        if isinstance(told, Add):
            if not Requests._same_request(told.request, again.request):
                raise Finding(
                    f"reads otherwise when written again: {told.request!r} and {again.request!r}"
                )
        elif not same(told, again):
            raise Finding(f"reads otherwise when written again: {told!r} and {again!r}")

    @staticmethod
    def _fitting(request: Any) -> Any:
        """Without its sampling parameters if these have no form of 32 bits, as clients write them."""
        try:
            msgpack.packb(request.sampling_params, use_single_float=True)
        except OverflowError:
            return replace(request, sampling_params=None)
        return request

    @staticmethod
    def _same_request(left: Any, right: Any) -> bool:
        return all(
            name == "sampling_params"
            or same(_plain(getattr(left, name)), _plain(getattr(right, name)))
            for name in left.__struct_fields__
        )  # sampling parameters are written with 32 bits

    def close(self) -> None:
        """Nothing is held."""


def _plain(value: Any) -> Any:
    """A number of arrival is written as a float."""
    return float(value) if type(value) is int else value
