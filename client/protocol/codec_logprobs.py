"""Logprobs and sampling masks of one output: tuples of tensors that must fit together.

``new_logprobs`` is ``[token_ids [n, k+1], logprobs [n, k+1], ranks [n], cu | nil]``. The client
turns it into one record for each position, so a payload that does not fit fails there, for the
whole client.

Source: vLLM ``vllm/v1/outputs.py`` (LogprobsLists, LogprobsTensors, SamplingMaskLists); Rust
``engine-core-client/src/protocol/logprobs.rs``, ``sampling_mask.rs``; measured on the binaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from client.protocol.codec_msgpack import Where
from client.protocol.codec_tensors import (
    FLOAT32,
    INTEGERS,
    base_dtype,
    read_tensor,
    tensor_ints,
)
from client.protocol.codec_values import (
    read_row,
    read_u64s,
    refuse_ext,
    shown,
)
from client.protocol.ids import U32_MAX
from client.protocol.messages import Tensor
from client.protocol.profiles import Profile

_PARTS = ("logprob_token_ids", "logprobs", "token_ranks")
_CU = "cu_num_generated_tokens"
_MATRIX = 2
_VECTOR = 1
_MASK_MAX = 3


def read_logprobs(
    value: Any, where: Where, frames: Sequence[bytes], profile: Profile
) -> tuple[Any, ...]:
    """Resolve a logprobs tuple: three tensors, and nil where one was sent.

    Raises:
        DecodeError: fewer than 3 or too many elements, or a tensor of the wrong form.
        ExtValueDecodeError: a tensor cannot be resolved, or the parts do not fit together.
    """
    row = read_row(value, where, len(_PARTS), profile.logprobs_tuple_max)
    places = [Where(where.message, f"{where.field}.{part}") for part in _PARTS]
    _refuse_cu(row[3:4], where)
    ids, logprobs, ranks = (
        read_tensor(item, place, frames, dtype_is_form=profile.unknown_dtype_is_decode_error)
        for item, place in zip(row, places, strict=False)
    )
    _expect(ids, places[0], INTEGERS, _MATRIX)
    _expect(logprobs, places[1], FLOAT32, _MATRIX)
    _expect(ranks, places[2], INTEGERS, _VECTOR)
    if ids.shape != logprobs.shape:
        raise refuse_ext(where, f"shapes differ: {list(ids.shape)} and {list(logprobs.shape)}")
    rows, columns = ids.shape
    if ranks.shape != (rows,):
        reason = f"token_ranks length {ranks.shape[0]} does not match row count {rows}"
        raise refuse_ext(where, reason)
    if rows and not columns:
        # Up to 0.26 this ends the real client's process; a refusal is right for all.
        raise refuse_ext(where, f"zero-column logprobs payload with {rows} rows")
    _expect_range(ids, places[0], 0)
    _expect_range(ranks, places[2], profile.logprobs_rank_min)
    return (ids, logprobs, ranks, *row[3:4])


def read_sampling_mask(
    value: Any, where: Where, frames: Sequence[bytes], profile: Profile
) -> tuple[Any, ...]:
    """Resolve a sampling mask ``[token_ids [k], offsets [n+1] | nil, cu | nil]``.

    Raises:
        DecodeError: no array of 1 to 3 elements, or a tensor of the wrong form.
        ExtValueDecodeError: a tensor cannot be resolved, or offsets that do not fit.
    """
    row = read_row(value, where, 1, _MASK_MAX)
    ids_place = Where(where.message, f"{where.field}.token_ids")
    offsets_place = Where(where.message, f"{where.field}.offsets")
    dtype_is_form = profile.unknown_dtype_is_decode_error
    _refuse_cu(row[2:3], where)
    ids = read_tensor(row[0], ids_place, frames, dtype_is_form=dtype_is_form)
    _expect(ids, ids_place, INTEGERS, _VECTOR)
    _expect_range(ids, ids_place, 0)
    if len(row) == 1 or row[1] is None:
        return (ids, *row[1:])
    offsets = read_tensor(row[1], offsets_place, frames, dtype_is_form=dtype_is_form)
    _expect(offsets, offsets_place, INTEGERS, _VECTOR)
    bounds = tensor_ints(offsets)
    fits = len(bounds) > 1 and bounds[0] == 0 and bounds[-1] == ids.shape[0]
    if not fits or any(low > high for low, high in pairwise(bounds)):
        raise refuse_ext(offsets_place, f"no offsets into {ids.shape[0]} token ids")
    return (ids, offsets, *row[2:])


def _refuse_cu(rest: Sequence[Any], where: Where) -> None:
    place = Where(where.message, f"{where.field}.{_CU}")
    if rest and rest[0] is not None:
        counts = read_u64s(rest[0], place)
        raise refuse_ext(place, f"expected nil for one request, got {shown(list(counts))}")


def _expect(tensor: Tensor, where: Where, dtypes: tuple[str, ...], rank: int) -> None:
    if base_dtype(tensor) not in dtypes:
        raise refuse_ext(where, f"expected dtype in {', '.join(dtypes)}, got {tensor.dtype}")
    if len(tensor.shape) != rank:
        raise refuse_ext(where, f"expected rank-{rank} array, got rank {len(tensor.shape)}")


def _expect_range(tensor: Tensor, where: Where, low: int) -> None:
    for number in tensor_ints(tensor):
        if not low <= number <= U32_MAX:
            raise refuse_ext(where, f"expected {low}..{U32_MAX}, got {number}")
