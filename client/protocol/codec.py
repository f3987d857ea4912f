"""Bytes ↔ messages of one release.

``Codec`` is the door; the messages of each direction have a module of their own
(``codec_requests``, ``codec_outputs``, ``codec_startup``). Encoders write every field of their
release. Decoders are as strict or lenient as the receiver of the profile's release: the output
side like the Rust client, the engine side like the Python engine.

Arrays of a known element type decode to tuples; free-form values (utility arguments and results,
sampling parameters, statistics) keep the lists and dicts of msgpack.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from client.protocol import codec_outputs, codec_requests, codec_startup
from client.protocol.codec_errors import (
    CodecError,
    DecodeError,
    EncodeError,
    ExtValueDecodeError,
    HandshakeStatusError,
)
from client.protocol.codec_msgpack import BodyPacker
from client.protocol.ids import RequestId
from client.protocol.messages import (
    SCALE_MESSAGE,
    CoordinatorPublish,
    EngineCoreOutputs,
    EngineCoreRequest,
    EngineInput,
    FirstRequestNotice,
    Hello,
    Init,
    OutputKind,
    Ready,
    ReadyResponse,
    StartDpWave,
    UtilityCall,
)
from client.protocol.profiles import Profile

__all__ = [
    "INLINE_BELOW_BYTES",
    "Codec",
    "CodecError",
    "DecodeError",
    "EncodeError",
    "ExtValueDecodeError",
    "HandshakeStatusError",
]

INLINE_BELOW_BYTES = 256
"""Tensors of this size or more travel as aux frames.

Source: ``VLLM_MSGPACK_ZERO_COPY_THRESHOLD``, vLLM ``vllm/v1/serial_utils.py``.
"""


class Codec:
    """Encodes and decodes every message of one release.

    Bodies are returned as ``bytes``, messages with a type byte or aux frames as lists of frames;
    identities are the transport's business. One codec belongs to one loop.

    Args:
        profile: the release.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._packer = BodyPacker(inline_below=INLINE_BELOW_BYTES)

    @functools.cached_property
    def _client_packer(self) -> BodyPacker:
        """Made when it is needed: engines have no use for it."""
        # Before 0.27 the client inlined every tensor that it sent.
        inline_below = INLINE_BELOW_BYTES if self.profile.outbound_aux_frames else None
        return BodyPacker(inline_below=inline_below)

    # Frontend → engine.

    def encode_add(self, request: EngineCoreRequest, aux: Sequence[bytes] = ()) -> list[bytes]:
        """Encode ADD as ``[type, body, *aux]``; large tensors go behind the given aux frames.

        Raises:
            EncodeError: a field is set that the release has not, or has no msgpack form.
        """
        return codec_requests.encode_add(self._client_packer, self.profile, request, aux)

    def encode_abort(self, request_ids: Sequence[RequestId]) -> list[bytes]:
        """Encode ABORT as ``[type, body]``."""
        return codec_requests.encode_abort(self._packer, request_ids)

    def encode_utility(self, call: UtilityCall) -> list[bytes]:
        """Encode UTILITY as ``[type, body]``.

        Raises:
            EncodeError: an argument has no msgpack form.
        """
        return codec_requests.encode_utility(self._client_packer, call)

    def encode_start_wave(self, message: StartDpWave) -> list[bytes]:
        """Encode START_DP_WAVE as ``[type, body]``, for the coordinator socket."""
        return codec_requests.encode_start_wave(self._packer, message)

    def decode_engine_input(self, frames: Sequence[bytes]) -> EngineInput:
        """Decode what an engine received after startup (frames without identity).

        Raises:
            DecodeError: unknown type, missing body, or a body of another shape.
        """
        return codec_requests.decode_engine_input(frames)

    # Engine → frontend or coordinator.

    def encode_outputs(self, outputs: EngineCoreOutputs, aux: Sequence[bytes] = ()) -> list[bytes]:
        """Encode outputs as ``[body, *aux]``.

        Raises:
            EncodeError: a field is set that the release has not, or has no msgpack form.
        """
        return codec_outputs.encode_outputs(self._packer, self.profile, outputs, aux)

    def decode_outputs(self, frames: Sequence[bytes]) -> EngineCoreOutputs:
        """Decode outputs; the class rule is not applied.

        Raises:
            DecodeError: of the wrong shape, type or range.
            ExtValueDecodeError: a tensor cannot be resolved.
        """
        return codec_outputs.decode_outputs(self.profile, frames)

    def classify(self, frames: Sequence[bytes]) -> OutputKind:
        """Decode one output message and sort it into the closed set of kinds.

        Raises:
            DecodeError: as ``decode_outputs``; ≥ 0.25 also for a message of no class.
        """
        return codec_outputs.classify(self.profile, frames)

    # Startup.

    def encode_hello(self, hello: Hello) -> bytes:
        """Encode HELLO."""
        return codec_startup.encode_hello(self._packer, hello)

    def encode_ready(self, ready: Ready) -> bytes:
        """Encode the handshake's READY."""
        return codec_startup.encode_ready(self._packer, ready)

    def decode_hello_or_ready(self, body: bytes) -> Hello | Ready:
        """Decode an engine's handshake body.

        Raises:
            HandshakeStatusError: another status.
            DecodeError: no such map.
        """
        return codec_startup.decode_hello_or_ready(body)

    def encode_init(self, init: Init) -> bytes:
        """Encode INIT."""
        return codec_startup.encode_init(self._packer, init)

    def decode_init(self, body: bytes) -> Init:
        """Decode INIT.

        Raises:
            DecodeError: no such map.
        """
        return codec_startup.decode_init(body)

    def encode_ready_response(self, response: ReadyResponse) -> bytes:
        """Encode a registration body; empty for a response without values."""
        return codec_startup.encode_ready_response(self._packer, response)

    def decode_ready_response(self, body: bytes) -> ReadyResponse:
        """Decode a registration body, as strictly as the release.

        Raises:
            DecodeError: empty (≥ 0.23), a required key is missing, or a value is wrong.
        """
        return codec_startup.decode_ready_response(self.profile, body)

    # External coordinator.

    def encode_publish(self, publish: CoordinatorPublish) -> bytes:
        """Encode a coordinator publish."""
        return codec_startup.encode_publish(self._packer, publish)

    def decode_publish(self, body: bytes) -> CoordinatorPublish:
        """Decode a coordinator publish.

        Raises:
            DecodeError: no 3-tuple, wave not u32, or running not a bool.
        """
        return codec_startup.decode_publish(body)

    def encode_first_request(self, notice: FirstRequestNotice) -> bytes:
        """Encode the notice of a first request (≤ 0.32)."""
        return codec_startup.encode_first_request(self._packer, notice)

    def encode_scale(self, engines: int) -> bytes:
        """Encode how many engines there are from now on."""
        return self._packer.pack([SCALE_MESSAGE, engines], "scale message")

    def decode_first_request(self, body: bytes) -> FirstRequestNotice:
        """Decode the notice of a first request.

        Raises:
            DecodeError: no 2-tuple of integers.
        """
        return codec_startup.decode_first_request(body)
