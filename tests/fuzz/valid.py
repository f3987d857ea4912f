"""Which messages are valid, written from the protocol page and with nothing of the codec.

The tables of ``profiles`` (field names and which keys a release requires) are shared: they are
facts, not logic. Everything takes what ``wire.read`` returns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.msgpack import Ext

from client.protocol.profiles import Profile
from tests.fuzz.wire import Read

Test = Callable[[Any], bool]
NESTING_MAX = 128
SENTINEL = b"ENGINE_CORE_DEAD"
_SIZES = {
    "b1": 1, "bool": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    **{f"{sign}{bits // 8}": bits // 8 for sign in "iu" for bits in (8, 16, 32, 64)},
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"f{size}": size for size in (2, 4, 8)},
}  # fmt: skip


# --- single values -----------------------------------------------------------------------------


def integer(low: int, high: int) -> Test:
    """A whole number within bounds."""
    return lambda v: type(v) is int and low <= v <= high


u32, u64 = integer(0, 2**32 - 1), integer(0, 2**64 - 1)
int64 = integer(-(2**63), 2**64 - 1)


def flag(v: Any) -> bool:
    """A bool."""
    return type(v) is bool


def number(v: Any) -> bool:
    """A number."""
    return type(v) in (int, float)


def string(v: Any) -> bool:
    """A string."""
    return type(v) is str


def text(v: Any) -> bool:
    """A string, or bytes that are one."""
    if type(v) is bytes:
        try:
            v.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True
    return type(v) is str


def anything(_v: Any) -> bool:
    """Whatever it is."""
    return True


def nil_or(test: Test) -> Test:
    """Nil, or what the test says."""
    return lambda v: v is None or test(v)


def array(test: Test) -> Test:
    """An array all of whose items pass."""
    return lambda v: type(v) is list and all(test(item) for item in v)


def mapping(v: Any) -> bool:
    """A map."""
    return type(v) is dict


def named(v: Any) -> bool:
    """A map whose keys are strings or bytes."""
    return type(v) is dict and all(type(key) in (str, bytes) for key in v)


def fields(tests: Mapping[str, Test], required: Sequence[str] = (), *, names: bool = True) -> Test:
    """A map whose known keys pass; the last of several counts."""

    def check(v: Any) -> bool:
        if not (named(v) if names else mapping(v)):
            return False
        return all(key in v for key in required) and all(
            test(v[key]) for key, test in tests.items() if key in v
        )

    return check


def row(tests: Sequence[Test], low: int) -> Test:
    """An array of ``low`` to all fields."""
    return lambda v: (
        type(v) is list
        and low <= len(v) <= len(tests)
        and all(test(item) for test, item in zip(tests, v, strict=False))
    )


def json_like(v: Any) -> bool:
    """What JSON has too."""
    if type(v) is dict:
        return all(type(key) is str and json_like(item) for key, item in v.items())
    if type(v) is list:
        return all(json_like(item) for item in v)
    return v is None or type(v) in (bool, int, float, str)


# --- tensors -----------------------------------------------------------------------------------


def resolved(v: Any, frames: Sequence[bytes]) -> tuple[str, list[int], bytes] | None:
    """Dtype without byte order, shape and bytes of a tensor; ``None`` if it is none."""
    if type(v) is not list or len(v) != 3 or not text(v[0]) or not array(u64)(v[1]):
        return None
    dtype = v[0] if type(v[0]) is str else v[0].decode()
    marks = dtype[:1] if dtype[:1] in ("<", ">", "=", "|") else ""
    size = _SIZES.get(dtype[len(marks) :])
    if size is None:
        return None
    if type(v[2]) is Ext:
        if v[2].code != 3:
            return None
        data = v[2].data
    elif type(v[2]) is int and 0 <= v[2] < len(frames):
        data = frames[v[2]]
    else:
        return None
    want = 0 if 0 in v[1] else size
    for dimension in v[1] if want else ():
        want *= dimension
        if want > len(data):
            return None
    return (dtype, v[1], bytes(data)) if want == len(data) else None


def ints(found: tuple[str, list[int], bytes]) -> list[int]:
    """Elements of a tensor of int32 or int64."""
    dtype, _, data = found
    wide = dtype.lstrip("<>=|") in ("i8", "int64")
    order = ">" if dtype[:1] == ">" else "<"
    return list(
        struct.unpack(f"{order}{len(data) // (8 if wide else 4)}{'q' if wide else 'i'}", data)
    )


def _is_int(found: tuple[str, list[int], bytes], rank: int) -> bool:
    return found[0].lstrip("<>=|") in ("i4", "i8", "int32", "int64") and len(found[1]) == rank


def logprobs(v: Any, frames: Sequence[bytes], profile: Profile) -> bool:
    """Three tensors that fit together, and nil behind them."""
    most = profile.logprobs_tuple_max
    if type(v) is not list or len(v) < 3 or (most is not None and len(v) > most):
        return False
    if len(v) > 3 and v[3] is not None:
        return False
    parts = [resolved(part, frames) for part in v[:3]]
    if any(part is None for part in parts):
        return False
    ids, scores, ranks = parts
    if not (_is_int(ids, 2) and _is_int(ranks, 1)):
        return False
    if scores[0].lstrip("<>=|") not in ("f4", "float32") or len(scores[1]) != 2:
        return False
    rows, columns = ids[1]
    if scores[1] != ids[1] or ranks[1] != [rows] or (rows and not columns):
        return False
    return all(0 <= n < 2**32 for n in ints(ids)) and all(
        profile.logprobs_rank_min <= n < 2**32 for n in ints(ranks)
    )


def mask(v: Any, frames: Sequence[bytes]) -> bool:
    """Token ids, and offsets into them."""
    if type(v) is not list or not 1 <= len(v) <= 3 or (len(v) == 3 and v[2] is not None):
        return False
    ids = resolved(v[0], frames)
    if ids is None or not _is_int(ids, 1) or not all(0 <= n < 2**32 for n in ints(ids)):
        return False
    if len(v) == 1 or v[1] is None:
        return True
    offsets = resolved(v[1], frames)
    if offsets is None or not _is_int(offsets, 1):
        return False
    bounds = ints(offsets)
    return (
        len(bounds) > 1 and bounds[0] == 0 and bounds[-1] == ids[1][0] and sorted(bounds) == bounds
    )


# --- outputs -----------------------------------------------------------------------------------

_EVENT = (integer(1, 3), number)
_PREFILL = dict.fromkeys(
    ("num_prompt_tokens", "num_computed_tokens", "num_cached_tokens", "num_local_cached_tokens",
     "num_external_cached_tokens", "num_cache_creation_tokens"), u32,
)  # fmt: skip
_SPEC = {
    "num_spec_tokens": u64, "histogram": array(u64), "num_draft_tokens": u64,
    "per_step_accepted": array(u64), "per_step_drafted": array(u64),
}  # fmt: skip
_ERROR = {"code": text, "message": text, "retryable": flag}


def either(tests: Mapping[str, Test], low: int, required: Sequence[str], *, names: bool) -> Test:
    """A struct written as an array or as a map."""
    as_row, as_map = row(list(tests.values()), low), fields(tests, required, names=names)
    return lambda v: as_row(v) or as_map(v)


_FIELD: dict[str, Test] = {
    "request_id": text,
    "new_token_ids": lambda v: type(v) is bytes or array(u32)(v),
    "finish_reason": nil_or(integer(0, 4)),
    "stop_reason": nil_or(lambda v: u32(v) or text(v)),
    "events": nil_or(array(either(dict(zip(("type", "timestamp"), _EVENT, strict=True)), 2, ("type", "timestamp"), names=True))),
    "kv_transfer_params": json_like,
    "ec_transfer_params": json_like,
    "prefill_stats": nil_or(either(_PREFILL, 0, (), names=False)),
    "num_nans_in_logits": u32,
    "mm_cache_miss_hashes": nil_or(array(text)),
    "error": nil_or(either(_ERROR, 2, ("code", "message"), names=True)),
}  # fmt: skip


def output(v: Any, frames: Sequence[bytes], profile: Profile) -> bool:
    """One EngineCoreOutput."""
    names, most = profile.output_field_names, profile.output_fields_max
    if type(v) is not list or len(v) < 2 or (most is not None and len(v) > most):
        return False
    for name, item in zip(names, v, strict=False):
        if not _FIELD.get(name, anything)(item):
            return False
        if item is None:
            continue
        if name in ("new_logprobs", "new_prompt_logprobs_tensors"):
            fits = logprobs(item, frames, profile)
        elif name not in profile.typed_output_fields:
            fits = True
        elif name == "new_sampling_mask":
            fits = mask(item, frames)
        elif name == "spec_decode_metrics":
            fits = either(_SPEC, 0, (), names=False)(item)
        else:
            fits = resolved(item, frames) is not None
        if not fits:
            return False
    return True


_PREFIX = dict.fromkeys(
    ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits"),
    u64,
) | {"reset": flag}


def whole(tests: Mapping[str, Test]) -> Test:
    """A map that must have all the keys."""
    return fields(tests, tuple(tests))


_STATS = {
    "num_running_reqs": u64, "num_waiting_reqs": u64, "num_skipped_waiting_reqs": u64,
    "step_counter": u64, "current_wave": u64, "kv_cache_usage": number,
    "prefix_cache_stats": whole(_PREFIX), "connector_prefix_cache_stats": nil_or(whole(_PREFIX)),
    "kv_cache_eviction_events": array(whole({
        "lifetime_seconds": number, "idle_seconds": number, "reuse_gaps_seconds": array(number)})),
    "spec_decoding_stats": nil_or(whole(
        dict.fromkeys(("num_spec_tokens", "num_drafts", "num_draft_tokens", "num_accepted_tokens"), u64)
        | {"num_accepted_tokens_per_pos": array(u64)})),
    "kv_connector_stats": nil_or(named),
    "cudagraph_stats": nil_or(whole(
        dict.fromkeys(("num_unpadded_tokens", "num_padded_tokens", "num_paddings"), u64) | {"runtime_mode": text})),
    "perf_stats": nil_or(whole(dict.fromkeys(
        ("num_flops_per_gpu", "num_read_bytes_per_gpu", "num_write_bytes_per_gpu"), u64))),
}  # fmt: skip


def _counts(v: Any) -> bool:
    return named(v) and all(u64(item) for item in v.values())


def stats(v: Any, profile: Profile) -> bool:
    """Scheduler statistics."""
    tests = dict(_STATS)
    for name in ("waiting_lora_adapters", "running_lora_adapters"):
        if name in profile.stats_required:
            tests[name] = _counts
    return fields(tests, profile.stats_required)(v)


def utility(v: Any) -> bool:
    """One UtilityOutput."""
    return row((int64, nil_or(text), nil_or(row((anything, anything), 0))), 1)(v)


def kind_of(read: Read, frames: Sequence[bytes], profile: Profile) -> str | None:
    """Class of an output message; ``None`` if it is to be refused."""
    v = read.value
    if read.why or read.depth > NESTING_MAX or type(v) is not list:
        return None
    if len(v) > (9 if profile.outputs_fields == 9 else 8):
        return None
    v = [*v, *[0, [], None, 0.0, None, None, None, None, None][len(v) :]]
    fine = (
        u32(v[0]) and number(v[3]) and nil_or(array(text))(v[5]) and nil_or(u32)(v[6])
        and nil_or(u32)(v[7]) and nil_or(text)(v[8]) and nil_or(utility)(v[4])
        and type(v[1]) is list and (v[2] is None or stats(v[2], profile))
    )  # fmt: skip
    if not fine or not all(output(item, frames, profile) for item in v[1]):
        return None
    batch = bool(v[1]) or v[2] is not None or v[5] is not None
    found = [name for name, there in (("RequestBatch", batch), ("UtilityReply", v[4] is not None),
             ("WaveComplete", v[6] is not None), ("StartWave", v[7] is not None)) if there]  # fmt: skip
    if len(found) == 1:
        return found[0]
    return None if profile.unclassified_is_decode_error else "Unclassified"


# --- what an engine is told ----------------------------------------------------------------------

_REQUEST: tuple[Test, ...] = (
    string, nil_or(array(int64)), nil_or(array(anything)), nil_or(mapping), anything, number,
    nil_or(array(anything)), nil_or(string), nil_or(int64), anything, nil_or(array(flag)), int64, int64,
    int64, nil_or(mapping), flag, nil_or(string), nil_or(flag), nil_or(mapping), flag, nil_or(string),
    nil_or(mapping),
)  # fmt: skip


def _tensors_in(v: Any, frames: Sequence[bytes]) -> bool:
    """Whether everything that has the form of a tensor is one."""
    if type(v) is list and len(v) == 3 and _looks(v):
        return resolved(v, frames) is not None
    if type(v) is list:
        return all(_tensors_in(item, frames) for item in v)
    if type(v) is dict:
        return all(_tensors_in(item, frames) for item in v.values())
    return True


def _looks(v: list[Any]) -> bool:
    if type(v[0]) is not str or not array(u64)(v[1]):
        return False
    marks = 1 if v[0][:1] in ("<", ">", "=", "|") else 0
    return v[0][marks:] in _SIZES and type(v[2]) in (int, Ext)


def add(v: Any, frames: Sequence[bytes]) -> bool:
    """The body of ADD; ``frames`` from the body on."""
    if type(v) is not list or len(v) < 9:
        return False
    if not all(test(item) for test, item in zip(_REQUEST, v, strict=False)):
        return False
    embeds = v[9] if len(v) > 9 else None
    if embeds is not None and resolved(embeds, frames) is None:
        return False
    return v[2] is None or _tensors_in(v[2], frames)


def told(frames: Sequence[bytes], reader: Callable[[bytes], Read]) -> str | None:
    """What an engine is told by these frames; ``None`` if it is to be refused."""
    if len(frames) < 2:
        return None
    read = reader(frames[1])
    if read.why or read.rest or read.depth > NESTING_MAX:
        return None
    v = read.value
    match frames[0]:
        case b"\x00":
            return "Add" if add(v, frames[1:]) else None
        case b"\x01":
            return "Abort" if array(string)(v) else None
        case b"\x02":
            good = (
                len(frames) == 2
                and type(v) is list
                and len(v) == 2
                and int64(v[0])
                and nil_or(int64)(v[1])
            )
            return "StartDpWave" if good else None
        case b"\x03":
            return (
                "UtilityCall"
                if type(v) is list
                and len(v) == 4
                and row((int64, int64, string, array(anything)), 4)(v)
                else None
            )
    return None


# --- startup and coordinator -----------------------------------------------------------------------

_READY: dict[str, Test] = {
    **dict.fromkeys(("max_model_len", "num_gpu_blocks", "block_size", "world_size", "data_parallel_size",
                     "max_num_seqs", "max_num_batched_tokens", "max_loras"), u64),
    **dict.fromkeys(("tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size",
                     "data_parallel_rank"), u32),
    "vllm_version": text, "instance_id": text, "supports_lora": flag,
}  # fmt: skip
_READY_MORE: dict[str, Test] = {
    "dp_stats_address": nil_or(text), "kv_cache_size_tokens": nil_or(u64),
    "kv_cache_max_concurrency": nil_or(number), "kv_events_config": nil_or(named),
    "weight_transfer_backend": nil_or(text), "enable_sleep_mode": flag,
    "supports_draft_weight_updates": flag, "effective_attention_block_size": nil_or(u64),
}  # fmt: skip


def _dtype(v: Any) -> bool:
    return v in ("float16", "bfloat16", "float32") and type(v) is str


def ready(read: Read, profile: Profile) -> bool:
    """A registration that is not empty."""
    if read.why or read.depth > NESTING_MAX:
        return False
    needed = profile.ready_required
    tests = {key: test for key, test in _READY.items() if key in needed}
    tests |= {key: test for key, test in _READY_MORE.items() if key in profile.ready_keys}
    tests["dtype"] = _dtype if "dtype" in needed else nil_or(_dtype)
    return fields(tests, [key for key in profile.ready_keys if key in needed])(read.value)


def greeting(read: Read) -> str | None:
    """HELLO, READY, ``status`` for a map of another status, or ``None``."""
    v = read.value
    if read.why or read.depth > NESTING_MAX or not named(v):
        return None
    status = v.get("status")
    if not nil_or(text)(status) or not all(
        nil_or(flag)(v.get(key)) for key in ("local", "headless")
    ):
        return None
    if type(status) is bytes:
        status = status.decode()
    return {"HELLO": "Hello", "READY": "Ready"}.get(status, "status")


def init(read: Read) -> bool:
    """INIT."""
    if read.why or read.rest or read.depth > NESTING_MAX:
        return False
    addresses = {
        "inputs": array(string), "outputs": array(string), "coordinator_input": nil_or(string),
        "coordinator_output": nil_or(string), "frontend_stats_publish_address": nil_or(string),
    }  # fmt: skip
    tests = {
        "addresses": fields(addresses, ("inputs", "outputs"), names=False),
        "parallel_config": mapping,
    }
    return fields(tests, tuple(tests), names=False)(read.value)


def publish(read: Read) -> bool:
    """A publish of the external coordinator."""
    v = read.value
    if read.why or read.depth > NESTING_MAX or type(v) is not list or len(v) != 3:
        return False
    return u32(v[1]) and flag(v[2])


def notice(read: Read) -> bool:
    """A first-request notice."""
    v = read.value
    if read.why or read.rest or read.depth > NESTING_MAX or type(v) is not list or len(v) != 2:
        return False
    return int64(v[0]) and u64(v[1])
