"""Messages of the gRPC services, built at run time from a table of our own.

The table is written down a second time on purpose: if caller and server shared one, a wrong
field number would be invisible between them.

Source: field numbers as seen on the wire of 0.24, 0.27, 0.28 and 0.33; gRPC health checking
protocol.
"""

from __future__ import annotations

from functools import cache
from typing import Any

PACKAGE = "vllm"
HEALTH_PACKAGE = "grpc.health.v1"
SCHEMAS: dict[str, dict[str, str]] = {
    PACKAGE: {
        "TokenIds": "1 ids uint32*",
        "Sampling": "1 num_sequences uint32, 2 top_k uint32, 3 top_p float, 4 min_p float,"
        " 5 seed int64?",
        "Stopping": "1 max_new_tokens uint32, 2 min_new_tokens uint32, 3 stop_token_ids uint32*,"
        " 4 stop_strings string*, 5 include_stop_strings bool, 6 ignore_eos bool",
        "ResponseOptions": "1 prompt_token_ids bool, 4 output_text bool?, 5 output_token_ids bool",
        "KvOptions": "1 bypass_prefix_cache bool, 2 cache_salt string, 3 kv_transfer_params Struct",
        "GenerateRequest": "1 request_id string, 2 model string, 3 text string|prompt,"
        " 4 token_ids TokenIds|prompt, 5 temperature float?, 6 sampling Sampling,"
        " 8 stopping Stopping, 9 response ResponseOptions, 10 kv KvOptions, 12 priority int32",
        "PromptInfo": "1 num_prompt_tokens uint32, 2 token_ids uint32*",
        "FinishInfo": "1 num_output_tokens uint32, 2 finish_reason int32,"
        " 3 stop_token_id uint32|stop, 5 stop_string string|stop",
        "Output": "1 index uint32, 2 text string, 3 num_tokens uint32, 4 token_ids uint32*,"
        " 8 finish_info FinishInfo",
        "GenerateResponse": "1 prompt_info PromptInfo, 2 outputs Output",
        "Parallelism": "1 tensor uint32, 2 pipeline uint32, 3 data_parallel_size uint32,"
        " 4 data_parallel_rank uint32, 5 decode_context uint32, 6 world_size uint64",
        "ServerInfo": "1 engine_version string, 2 api_version string, 3 instance_id string,"
        " 4 parallelism Parallelism, 5 max_model_len uint32, 6 kv_block_size uint32,"
        " 7 total_kv_blocks uint64, 8 max_running_requests uint32,"
        " 9 max_batched_tokens uint32, 10 max_loras uint32",
        "Empty": "",
        "AbortRequest": "1 request_ids string*",
        "PauseRequest": "1 mode int32, 2 clear_cache bool?",
        "SleepRequest": "1 level uint32?, 2 mode int32",
        "WakeUpRequest": "1 tags string*",
        "Flag": "1 value bool",
        "WeightVersion": "1 version string",
    },
    HEALTH_PACKAGE: {
        "HealthCheckRequest": "1 service string",
        "HealthCheckResponse": "1 status int32",
    },
}
"""Per package: message → fields ``number name kind``; ``*`` repeated, ``?`` optional,
``|name`` member of a oneof."""


@cache
def messages() -> dict[str, Any]:
    """Return the message classes by name; built once, in a pool of their own."""
    from google.protobuf import descriptor_pool, message_factory, struct_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    found = {}
    for package, schema in SCHEMAS.items():
        pool.AddSerializedFile(_file(package, schema).SerializeToString())
        for name in schema:
            described = pool.FindMessageTypeByName(f"{package}.{name}")
            found[name] = message_factory.GetMessageClass(described)
    return found


def _file(package: str, schema: dict[str, str]) -> Any:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name=f"reference_{package}.proto",
        package=package,
        syntax="proto3",
        dependency=["google/protobuf/struct.proto"],
    )
    for name, fields in schema.items():
        message = file.message_type.add(name=name)
        written = [each.split() for each in fields.split(",") if each]
        # The oneof of an optional field comes behind the real ones.
        for number, field, kind in sorted(written, key=lambda each: each[2].endswith("?")):
            _add(message, package, schema, int(number), field, kind)
    return file


def _add(
    message: Any, package: str, schema: dict[str, str], number: int, name: str, kind: str
) -> None:
    from google.protobuf import descriptor_pb2

    proto = descriptor_pb2.FieldDescriptorProto
    kind, _, oneof = kind.partition("|")
    bare = kind.rstrip("*?")
    added = message.field.add(name=name, number=number)
    added.label = proto.LABEL_REPEATED if kind.endswith("*") else proto.LABEL_OPTIONAL
    if bare in schema or bare == "Struct":
        added.type = proto.TYPE_MESSAGE
        added.type_name = ".google.protobuf.Struct" if bare == "Struct" else f".{package}.{bare}"
    else:
        added.type = getattr(proto, f"TYPE_{bare.upper()}")
    if kind.endswith("?"):
        added.proto3_optional = True
        oneof = f"_{name}"
    if oneof:
        known = [each.name for each in message.oneof_decl]
        if oneof not in known:
            message.oneof_decl.add(name=oneof)
            known.append(oneof)
        added.oneof_index = known.index(oneof)
