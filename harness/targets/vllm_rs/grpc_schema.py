"""The frontend's gRPC messages, built at run time from the tables of ``grpc_messages``."""

from __future__ import annotations

import importlib
import os
from functools import cache
from typing import Any

from harness.targets.base import TargetError
from harness.targets.vllm_rs.grpc_messages import (
    ENUMS,
    MESSAGES,
    SERVICES_SPLIT_SINCE,
    VLLM,
    Field,
)
from harness.targets.vllm_rs.releases import at_least

_STRUCT = "google/protobuf/struct.proto"


def service(release: str) -> str:
    """Return the full name of the service that generates on this release."""
    name = "Inference" if at_least(release, SERVICES_SPLIT_SINCE) else "Generate"
    return f"{VLLM}.{name}"


def load_grpc() -> Any:
    """Import grpc, which is in the extra ``frontend``.

    Raises:
        TargetError: grpcio or protobuf is not installed.
    """
    # Its C core writes notes on connections to our standard error otherwise.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        importlib.import_module("google.protobuf")
        importlib.import_module("grpc.aio")
    except ImportError as error:
        msg = f"gRPC needs {error.name}: pip install wavecheck[frontend]"
        raise TargetError(msg) from error
    return importlib.import_module("grpc")


@cache
def messages() -> dict[str, Any]:
    """Return the message classes by full name; built once."""
    load_grpc()
    from google.protobuf import descriptor_pool, message_factory, struct_pb2

    pool = descriptor_pool.DescriptorPool()
    # The pool is our own, so that no other schema of the same name can collide.
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    for package in MESSAGES:
        pool.AddSerializedFile(_file(package).SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for package, found in MESSAGES.items()
        for name in (f"{package}.{message}" for message in found)
    }


def _file(package: str) -> Any:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name=f"wavecheck/{package}.proto", package=package, syntax="proto3", dependency=[_STRUCT]
    )
    for name, values in ENUMS[package].items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in MESSAGES[package].items():
        message = file.message_type.add(name=name)
        # proto3 `optional` is a oneof of its own; those must come after the real ones.
        for field in sorted(fields, key=lambda field: field.label == "optional"):
            _add_field(package, message, field, descriptor_pb2.FieldDescriptorProto)
    return file


def _add_field(package: str, message: Any, field: Field, proto: Any) -> None:
    added = message.field.add(name=field.name, number=field.number)
    repeated = field.label == "repeated"
    added.label = proto.LABEL_REPEATED if repeated else proto.LABEL_OPTIONAL
    if field.kind in MESSAGES[package]:
        added.type = proto.TYPE_MESSAGE
        added.type_name = f".{package}.{field.kind}"
    elif field.kind in ENUMS[package]:
        added.type = proto.TYPE_ENUM
        added.type_name = f".{package}.{field.kind}"
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
