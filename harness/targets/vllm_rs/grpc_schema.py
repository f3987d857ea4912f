"""The frontend's gRPC messages, built at run time from a table.

The binary has no reflection and the wheels carry no schema, so the field numbers below are
facts of the wire: they were seen to work on 0.24, 0.27, 0.28 and 0.33. Fields we do not use are
left out; unknown ones in answers are kept by protobuf and ignored.

Source: page on the real frontend, "gRPC shapes" (package ``vllm``, proto3).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.targets.base import TargetError
from harness.targets.vllm_rs.releases import at_least

PACKAGE = "vllm"
SERVICES_SPLIT_SINCE = "0.27.0"
"""``vllm.Generate`` became ``vllm.Inference`` and ``vllm.Control``."""
FINISH_REASONS = {1: "length", 2: "stop", 3: "abort"}
"""Numbers of ``finish_reason``; 0 = not finished."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: ``kind`` is a scalar type or a message name of the table or ``Struct``.

    ``label``: ``""``, ``optional`` (presence is tracked), ``repeated``, or ``oneof <name>``.
    """

    number: int
    name: str
    kind: str
    label: str = ""


SCHEMA: dict[str, tuple[Field, ...]] = {
    "TokenIds": (Field(1, "ids", "uint32", "repeated"),),
    "Stopping": (
        Field(1, "max_new_tokens", "uint32"),
        Field(2, "min_new_tokens", "uint32"),
        Field(6, "ignore_eos", "bool"),
    ),
    "ResponseOptions": (
        Field(1, "prompt_token_ids", "bool"),
        Field(4, "output_text", "bool", "optional"),
        Field(5, "output_token_ids", "bool"),
    ),
    "KvOptions": (Field(3, "kv_transfer_params", "Struct"),),
    "GenerateRequest": (
        Field(1, "request_id", "string"),
        Field(2, "model", "string"),
        Field(4, "token_ids", "TokenIds", "oneof prompt"),
        Field(8, "stopping", "Stopping"),
        Field(9, "response", "ResponseOptions"),
        Field(10, "kv", "KvOptions"),
    ),
    "FinishInfo": (
        Field(1, "num_output_tokens", "uint32"),
        Field(2, "finish_reason", "int32"),
    ),
    "GenerateOutput": (
        Field(1, "index", "uint32"),
        Field(2, "text", "string"),
        Field(3, "num_tokens", "uint32"),
        Field(4, "token_ids", "uint32", "repeated"),
        Field(8, "finish_info", "FinishInfo"),
    ),
    # outputs: `repeated` reads a single message too
    "GenerateResponse": (Field(2, "outputs", "GenerateOutput", "repeated"),),
}


def service(release: str) -> str:
    """Return the full name of the service that generates on this release."""
    name = "Inference" if at_least(release, SERVICES_SPLIT_SINCE) else "Generate"
    return f"{PACKAGE}.{name}"


def load_grpc() -> Any:
    """Import grpc, which is in the extra ``frontend``.

    Raises:
        TargetError: grpcio or protobuf is not installed.
    """
    try:
        importlib.import_module("google.protobuf")
        importlib.import_module("grpc.aio")
    except ImportError as error:
        msg = f"gRPC needs {error.name}: pip install wavecheck[frontend]"
        raise TargetError(msg) from error
    return importlib.import_module("grpc")


@cache
def messages() -> dict[str, Any]:
    """Return the message classes by name; built once."""
    load_grpc()
    from google.protobuf import descriptor_pool, message_factory, struct_pb2

    pool = descriptor_pool.DescriptorPool()
    # The pool is our own, so that no other schema of the same name can collide.
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_file().SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in SCHEMA
    }


def _file() -> Any:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name="wavecheck_frontend.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=["google/protobuf/struct.proto"],
    )
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        # proto3 `optional` is a oneof of its own; those must come after the real ones.
        for field in sorted(fields, key=lambda field: field.label == "optional"):
            _add_field(message, field, descriptor_pb2.FieldDescriptorProto)
    return file


def _add_field(message: Any, field: Field, proto: Any) -> None:
    added = message.field.add(name=field.name, number=field.number)
    repeated = field.label == "repeated"
    added.label = proto.LABEL_REPEATED if repeated else proto.LABEL_OPTIONAL
    if field.kind in SCHEMA:
        added.type = proto.TYPE_MESSAGE
        added.type_name = f".{PACKAGE}.{field.kind}"
    elif field.kind == "Struct":
        added.type = proto.TYPE_MESSAGE
        added.type_name = ".google.protobuf.Struct"
    else:
        added.type = getattr(proto, f"TYPE_{field.kind.upper()}")
    if field.label == "optional":
        added.proto3_optional = True
        added.oneof_index = _oneof(message, f"_{field.name}")
    elif field.label.startswith("oneof "):
        added.oneof_index = _oneof(message, field.label.removeprefix("oneof "))


def _oneof(message: Any, name: str) -> int:
    for index, known in enumerate(message.oneof_decl):
        if known.name == name:
            return index
    message.oneof_decl.add(name=name)
    return len(message.oneof_decl) - 1
