"""Logprobs that a mock engine invents: the token itself is the best candidate.

Source: vLLM ``vllm/v1/outputs.py`` (LogprobsLists, LogprobsTensors): token ids ``[n, k + 1]`` with
the sampled token in front of the k best ones, their logprobs, and the rank of the sampled one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from client.protocol.messages import Tensor

_BEST = -0.5
_STEP = 1.0
"""By how much each candidate is less likely than the one before."""
_BYTE = 256
Logprobs = tuple[Tensor, Tensor, Tensor]


def logprobs_of(tokens: Sequence[int], candidates: int) -> Logprobs:
    """Return ids, logprobs and ranks of tokens, each with its best ``candidates``.

    The first candidate is the token, the others are the byte values that follow.
    """
    ids: list[int] = []
    values: list[float] = []
    for token in tokens:
        ids += [token, *((token + place) % _BYTE for place in range(candidates))]
        values += [_BEST, *(_BEST - _STEP * place for place in range(candidates))]
    rows, columns = len(tokens), candidates + 1
    return (
        Tensor("<i8", (rows, columns), struct.pack(f"<{rows * columns}q", *ids)),
        Tensor("<f4", (rows, columns), struct.pack(f"<{rows * columns}f", *values)),
        Tensor("<i8", (rows,), struct.pack(f"<{rows}q", *[1] * rows)),
    )
