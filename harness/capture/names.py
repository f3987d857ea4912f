"""Names for the places of a message: position 5 of an output row is its ``finish_reason``.

Positions move between releases, so a name belongs to a profile. What is free-form (sampling
parameters, results, arguments) has the keys that it carries, and positions where it has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from client.protocol.messages import EngineCoreOutputs, EngineCoreRequest
from client.protocol.profiles import Profile

Path = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """What is known about one array.

    Attributes:
        names: of its positions, if it stands for a struct.
        inner: what is known about the value behind a name.
        each: what is known about every element, if it is a list.
        positional: its positions mean something, although they have no names.
    """

    names: tuple[str, ...] = ()
    inner: Mapping[str, Schema] = field(default_factory=dict)
    each: Schema | None = None
    positional: bool = False

    @property
    def is_struct(self) -> bool:
        """Whether its length and its positions are part of the protocol."""
        return bool(self.names) or self.positional

    def step(self, place: int | str) -> tuple[str | None, Schema]:
        """Go to one element: its name, and what is known about it."""
        if isinstance(place, str):
            return place, self.inner.get(place, NOTHING)
        if self.names:
            name = self.names[place] if place < len(self.names) else None
            return name, self.inner.get(name or "", NOTHING)
        return None, self.each or NOTHING


NOTHING = Schema()
POSITIONAL = Schema(positional=True)
TENSOR = Schema(("dtype", "shape", "data"))
_LOGPROBS = Schema(
    ("logprob_token_ids", "logprobs", "token_ranks", "cu_num_generated_tokens"),
    {"logprob_token_ids": TENSOR, "logprobs": TENSOR, "token_ranks": TENSOR},
)
_MASK = Schema(
    ("token_ids", "offsets", "cu_num_generated_tokens"), {"token_ids": TENSOR, "offsets": TENSOR}
)
_OUTPUT_INNER = {
    "new_logprobs": _LOGPROBS,
    "new_prompt_logprobs_tensors": _LOGPROBS,
    "events": Schema(each=Schema(("type", "timestamp"))),
    "routed_experts": TENSOR,
    "new_sampling_mask": _MASK,
    "prompt_token_id_logprobs": TENSOR,
    "error": Schema(("code", "message", "retryable")),
}
_UTILITY_OUTPUT = Schema(
    ("call_id", "failure_message", "result"), {"result": Schema(("type_info", "value"))}
)
_REQUEST = Schema(
    EngineCoreRequest.__struct_fields__,
    {"prompt_embeds": TENSOR, "lora_request": POSITIONAL},
)
# A LoRA request travels as an array of its own; the other arguments are scalars, or lists.
_ARGUMENTS = {"add_lora": Schema(positional=True, each=POSITIONAL)}
_FIXED = {
    "add": _REQUEST,
    "abort": Schema(each=NOTHING),
    "start-dp-wave": Schema(("wave", "exclude_engine_index")),
    "publish": Schema(("counts", "current_wave", "engines_running")),
    "first-request": Schema(("exclude_engine_index", "wave")),
}


def schema_of(kind: str, profile: Profile, method: str = "") -> Schema:
    """Return what is known about the body of a message in a release.

    Args:
        kind: name of a kind.
        profile: the release.
        method: of a utility call.
    """
    if kind == "utility":
        call = ("client_index", "call_id", "method", "args")
        return Schema(call, {"args": _ARGUMENTS.get(method, POSITIONAL)})
    if kind != "outputs":
        return _FIXED.get(kind, NOTHING)
    row = Schema(profile.output_field_names, _OUTPUT_INNER)
    names = EngineCoreOutputs.__struct_fields__
    return Schema(names, {"outputs": Schema(each=row), "utility_output": _UTILITY_OUTPUT})


def label(schema: Schema, path: Path, *, general: bool = False) -> str:
    """Write a path with names: ``outputs[0].finish_reason``.

    Args:
        schema: of the whole body.
        path: positions, and keys of maps.
        general: elements of lists become ``[]``, so that equal structs have equal labels.
    """
    text = ""
    for place in path:
        is_list = not schema.is_struct
        name, schema = schema.step(place)
        if name is not None:
            text += f".{name}" if text else name
        elif general and is_list and isinstance(place, int):
            text += "[]"
        else:
            text += f"[{place}]"
    return text


def schema_at(schema: Schema, path: Path) -> Schema:
    """Return what is known about the value at a path."""
    for place in path:
        schema = schema.step(place)[1]
    return schema


def struct_name(kind: str, path: Sequence[int | str]) -> str:
    """Return the name that the codec's errors use for the struct at a path, or ``""``."""
    structs = {
        "add": "EngineCoreRequest",
        "utility": "UtilityCall",
        "start-dp-wave": "StartDpWave",
        "publish": "CoordinatorPublish",
        "first-request": "FirstRequestNotice",
        "registration": "EngineCoreReadyResponse",
        "hello": "ReadyMessage",
        "ready": "ReadyMessage",
        "init": "Init",
        "abort": "Abort",
    }
    if kind != "outputs":
        return structs.get(kind, "") if not path else ""
    if not path:
        return "EngineCoreOutputs"
    if len(path) == 2 and path[0] == 1:
        return "EngineCoreOutput"
    return {(4,): "UtilityOutput", (2,): "SchedulerStats"}.get(tuple(path), "")  # type: ignore[arg-type]
