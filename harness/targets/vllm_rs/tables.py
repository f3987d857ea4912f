"""Tables of the documentation: surfaces, gRPC methods and their messages, metrics."""

from __future__ import annotations

from collections.abc import Iterator

from harness.targets.vllm_rs.grpc_messages import ENUMS, MESSAGES, METHODS, VLLM, Field, short_name
from harness.targets.vllm_rs.http_surfaces import HTTP_SURFACES, STREAM
from harness.targets.vllm_rs.metric_families import FAMILIES, LABEL_VALUES, Family

SURFACE_HEAD = ("surface", "route or method", "prompt", "shows", "external id", "served since")
METHOD_HEAD = ("method", "request", "answer", "since")
MESSAGE_HEAD = ("message", "fields")
ENUM_HEAD = ("enumeration", "values, from 0")
METRIC_HEAD = ("family", "kind", "samples", "labels", "since")
_NOT_SERVED = "by no release up to 0.33.0"


def surface_rows() -> Iterator[tuple[str, ...]]:
    """Yield one row for each surface, HTTP first."""
    for name, api in HTTP_SURFACES.items():
        shown = [
            word for word, yes in (("text", api.shows_text), ("tokens", api.shows_tokens)) if yes
        ]
        for suffix, since in (("", api.since), (STREAM, api.stream_since)):
            yield (
                f"`{name}{suffix}`",
                f"`POST {api.path}`",
                "text" if api.takes_text else "token ids",
                ", ".join(shown),
                f"`{api.prefix}ID`",
                since or _NOT_SERVED,
            )
    for suffix, method in (("", "Generate"), (STREAM, "GenerateStream")):
        yield (
            f"`grpc{suffix}`",
            f"`Inference/{method}`",
            "token ids",
            "text, tokens",
            "`ID`",
            "0.22.0",
        )


def method_rows() -> Iterator[tuple[str, ...]]:
    """Yield one row for each gRPC method."""
    for name, method in METHODS.items():
        request, answer = (kind.rpartition(".")[2] for kind in (method.request, method.response))
        stream = "stream of " if method.stream else ""
        yield (f"`{short_name(name)}`", f"`{request}`", f"{stream}`{answer}`", method.since)


def message_rows() -> Iterator[tuple[str, str]]:
    """Yield one row for each gRPC message: its fields with their kinds."""
    for package, messages in MESSAGES.items():
        for name, fields in messages.items():
            shown = name if package == VLLM else f"{package}.{name}"
            yield (f"`{shown}`", ", ".join(_field(field) for field in fields))


def _field(field: Field) -> str:
    kind = f"list of {field.kind}" if field.label == "repeated" else field.kind
    group = field.label.removeprefix("oneof ")
    choice = f", one {group}" if group != field.label else ""
    return f"`{field.name}` ({kind}{choice})"


def enum_rows() -> Iterator[tuple[str, str]]:
    """Yield one row for each gRPC enumeration."""
    for enums in ENUMS.values():
        for name, values in enums.items():
            yield (f"`{name}`", ", ".join(f"`{value}`" for value in values))


def metric_rows() -> Iterator[tuple[str, ...]]:
    """Yield one row for each family of metrics, by release and name."""
    for family in FAMILIES.values():
        samples = ", ".join(f"`…{name.removeprefix(family.name)}`" for name in family.samples)
        yield (
            f"`{family.name}`",
            family.kind,
            samples if samples != "`…`" else "the name itself",
            _labels(family),
            family.since,
        )


def _labels(family: Family) -> str:
    if family.labels is None:
        return "not seen yet"
    return ", ".join(_label(family, label) for label in family.labels)


def _label(family: Family, label: str) -> str:
    values = LABEL_VALUES.get((family.name, label))
    return f"`{label}`" if values is None else f"`{label}` ({', '.join(values)})"
