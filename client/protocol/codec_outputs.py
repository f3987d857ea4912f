"""Engine → frontend or coordinator: EngineCoreOutputs and its classes.

The decoder is as strict as the Rust client of the profile's release, since one refused message
is fatal for the whole client there.

Sources: vLLM ``vllm/v1/engine/__init__.py`` (EngineCoreOutput, EngineCoreOutputs,
UtilityOutput); Rust ``engine-core-client/src/protocol/output.rs``, ``utility.rs``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from client.protocol.codec_errors import DecodeError, EncodeError
from client.protocol.codec_kept import Kept, is_fixed, key_of
from client.protocol.codec_msgpack import BodyPacker, Where, unpack
from client.protocol.codec_output_fields import MESSAGE, READERS, read_output
from client.protocol.codec_stats import read_stats
from client.protocol.codec_values import (
    read_float,
    read_int,
    read_int64,
    read_list,
    read_row,
    read_text,
    read_texts,
)
from client.protocol.ids import CallId, RequestId, Wave
from client.protocol.messages import (
    ENGINE_CORE_DEAD,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineDead,
    OutputKind,
    RequestBatch,
    StartWave,
    Unclassified,
    UtilityOutput,
    UtilityReply,
    WaveComplete,
)
from client.protocol.profiles import Profile

_WHOLE = Where(MESSAGE, MESSAGE)
_ENVELOPE = {
    name: Where(MESSAGE, f"EngineCoreOutputs.{name}")
    for name in EngineCoreOutputs.__struct_fields__
}

_KINDS: Kept[OutputKind] = Kept()


# --- encode --------------------------------------------------------------------------------


def encode_outputs(
    packer: BodyPacker, profile: Profile, outputs: EngineCoreOutputs, aux: Sequence[bytes]
) -> list[bytes]:
    """Encode as ``[body, *aux]``, every field of the release written.

    Raises:
        EncodeError: a field is set that the release has not, or a value has no msgpack form.
    """
    packer.begin(aux)
    row: list[Any] = [
        outputs.engine_index,
        _output_rows(profile, outputs.outputs),
        outputs.scheduler_stats,
        float(outputs.timestamp),
        _utility_row(outputs.utility_output),
        None if outputs.finished_requests is None else list(outputs.finished_requests),
        outputs.wave_complete,
        outputs.start_wave,
    ]
    if profile.outputs_fields > len(row):
        row.append(outputs.weight_version)
    elif outputs.weight_version is not None:
        raise EncodeError(MESSAGE, f"release {profile.release} has no field weight_version")
    return [packer.pack(row, MESSAGE), *packer.aux]


def _output_rows(profile: Profile, outputs: Sequence[EngineCoreOutput]) -> list[list[Any]]:
    if not outputs:
        return []
    values, absent = _fields_of(profile.output_field_names)
    return [_output_row(profile, output, values, absent) for output in outputs]


@functools.lru_cache(maxsize=64)
def _fields_of(
    names: tuple[str, ...],
) -> tuple[Callable[[EngineCoreOutput], tuple[Any, ...]], tuple[str, ...]]:
    """What reads a row of these fields, and the fields that it has not. The same for a release."""
    return operator.attrgetter(*names), tuple(name for name in READERS if name not in names)


def _output_row(
    profile: Profile,
    output: EngineCoreOutput,
    values: Callable[[EngineCoreOutput], tuple[Any, ...]],
    absent: Sequence[str],
) -> list[Any]:
    for name in absent:
        if getattr(output, name) is not None:
            raise EncodeError(MESSAGE, f"release {profile.release} has no field {name}")
    row = list(values(output))
    if output.error is not None:
        error = output.error
        row[profile.output_field_names.index("error")] = {
            "code": error.code,
            "message": error.message,
            "retryable": error.retryable,
        }
    return row


def _utility_row(output: UtilityOutput | None) -> list[Any] | None:
    if output is None:
        return None
    if output.failure_message is not None:
        return [output.call_id, output.failure_message, None]
    return [output.call_id, None, [None, output.value]]


# --- decode --------------------------------------------------------------------------------


def decode_outputs(profile: Profile, frames: Sequence[bytes]) -> EngineCoreOutputs:
    """Decode one message of an output or coordinator-output socket.

    Args:
        profile: decides how many trailing fields are taken.
        frames: body, then aux frames; unused ones are ignored.

    Raises:
        DecodeError: no frame, no msgpack, or a value of the wrong shape, type or range.
        ExtValueDecodeError: a tensor that cannot be resolved.
    """
    if not frames:
        raise DecodeError(MESSAGE, "frames", "missing output frame")
    body = unpack(frames[0], MESSAGE, trailing=True)
    row = read_row(body, _WHOLE, 0, profile.outputs_fields_max)
    row = row + [0, [], None, 0.0, None, None, None, None, None][len(row) :]
    where = _ENVELOPE
    stats, utility, finished = row[2], row[4], row[5]
    wave_complete, start_wave = row[6], row[7]
    if wave_complete is not None:
        wave_complete = Wave(read_int(wave_complete, where["wave_complete"]))
    if start_wave is not None:
        start_wave = Wave(read_int(start_wave, where["start_wave"]))
    if finished is not None:
        ids = read_texts(finished, where["finished_requests"])
        finished = tuple([RequestId(item) for item in ids])
    weight_version = row[8]
    if weight_version is not None:
        weight_version = read_text(weight_version, where["weight_version"])
    return EngineCoreOutputs(
        engine_index=read_int(row[0], where["engine_index"]),
        outputs=tuple(
            [read_output(profile, item, frames) for item in read_list(row[1], where["outputs"])]
        ),
        scheduler_stats=None if stats is None else read_stats(stats, profile),
        timestamp=read_float(row[3], where["timestamp"]),
        utility_output=None if utility is None else _read_utility(utility),
        finished_requests=finished,
        wave_complete=wave_complete,
        start_wave=start_wave,
        weight_version=weight_version,
    )


def _read_utility(value: Any) -> UtilityOutput:
    row = read_row(value, Where(MESSAGE, "UtilityOutput"), 1, 3)
    call_id = read_int64(row[0], Where(MESSAGE, "UtilityOutput.call_id"))
    failure = row[1] if len(row) > 1 else None
    if failure is not None:
        failure = read_text(failure, Where(MESSAGE, "UtilityOutput.failure_message"))
    envelope: list[Any] = []
    if len(row) > 2 and row[2] is not None:
        envelope = read_row(row[2], Where(MESSAGE, "UtilityOutput.result"), 0, 2)
    result = envelope[1] if len(envelope) > 1 else None
    return UtilityOutput(call_id=CallId(call_id), failure_message=failure, value=result)


# --- classify ------------------------------------------------------------------------------


def classify(profile: Profile, frames: Sequence[bytes]) -> OutputKind:
    """Sort one message into the closed set of kinds.

    The sentinel counts wherever it is the first frame, whatever follows.

    Raises:
        DecodeError: undecodable, or (≥ 0.25) of no class: "invalid wire shape".
    """
    key = key_of(frames)
    table = _KINDS.table(profile)
    kept = table.get(key)
    if kept is not None:
        return kept
    if frames and bytes(frames[0]) == ENGINE_CORE_DEAD:
        return EngineDead()
    outputs = decode_outputs(profile, frames)
    kind = classify_outputs(outputs)
    if isinstance(kind, Unclassified) and profile.unclassified_is_decode_error:
        raise DecodeError(MESSAGE, MESSAGE, "invalid wire shape")
    if key is not None and is_fixed(kind):
        table.keep(key, kind, sum(map(len, frames)))
    return kind


def classify_outputs(outputs: EngineCoreOutputs) -> OutputKind:
    """Sort decoded outputs; finished_requests counts as set even when it is empty."""
    index = outputs.engine_index
    utility, complete, start = outputs.utility_output, outputs.wave_complete, outputs.start_wave
    is_batch = (
        bool(outputs.outputs)
        or outputs.scheduler_stats is not None
        or outputs.finished_requests is not None
    )
    present = (is_batch, utility is not None, complete is not None, start is not None)
    if sum(present) != 1:
        return Unclassified(raw=outputs)
    if utility is not None:
        return UtilityReply(engine_index=index, output=utility)
    if complete is not None:
        return WaveComplete(engine_index=index, wave=complete)
    if start is not None:
        return StartWave(engine_index=index, wave=start)
    return RequestBatch(
        engine_index=index,
        outputs=outputs.outputs,
        scheduler_stats=outputs.scheduler_stats,
        finished_requests=outputs.finished_requests,
    )
