"""The HTTP and gRPC side of our own server, over real sockets on the loopback interface.

The server and its engines are processes. An input that crashes the server, that it does not answer,
or that it answers with a fault of its own is a finding; so is a completion that was served although
its body asks for something that cannot be.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zlib
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251
from typing import Any

from client.protocol.profiles import NEWEST
from harness.cli.worker_process import die_with
from tests.fuzz.model import Finding, Input
from tests.fuzz.mutate import garbled
from tests.fuzz.texts import broken_json

LIMIT_S = 20.0
"""How long an answer may take: a safety net, a thousand times what is usual."""
FAULT = b'"message":"Internal server error"'
"""What only a fault of the server is answered with: the engines here fail nobody."""
BEHAVIOUR = """\
- engine: all
  rules:
    - {on: utility, do: {reply: null}}
    - {on: add, do: {stream: {tokens: 1, finish: stop}}}
"""
VOCABULARY = 4_096
POSTS = (
    "/v1/completions", "/v1/completions", "/v1/completions", "/sleep", "/wake_up", "/reset_prefix_cache", "/collective_rpc",
    "/abort_requests", "/pause", "/resume", "/update_weight_version", "/release_kv_cache_memory", "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter", "/start_profile", "/nowhere",
)  # fmt: skip
GETS = (
    "/health",
    "/load",
    "/metrics",
    "/v1/models",
    "/version",
    "/server_info",
    "/is_sleeping",
    "/is_paused",
    "/weight_info",
    "/get_world_size",
)
QUERIES = (
    "",
    "",
    "",
    "?level=1",
    "?level=x",
    "?level=-1",
    "?level=99999999999999999999",
    "?mode=keep",
    "?tags=a&tags=b",
    "?%00=%ff",
    "?a=b&a",
    "?timeout=1e9",
    "?reset_running_requests=maybe",
)
HEADERS = (
    "x-request-id: one", "x-request-id: <script>", "X-data-parallel-rank: 0", "X-data-parallel-rank: 99", "X-data-parallel-rank: x",
    "x-data-parallel-rank: -1", "x-request-id: " + "y" * 3_000, "Expect: 100-continue", "Accept: */*", "Content-Encoding: gzip", "X-A: \u00e9",
)  # fmt: skip


READY = b"OpenAI server is ready"
"""The last thing that a start says; the gRPC side says the same of itself before."""
START_S = 60
"""Longest start; a safety net."""


class Servers:
    """The server and its engines; started once for each process that fuzzes."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="wavecheck-fuzz-")
        folder = Path(self._folder.name)
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text(
            json.dumps(
                {"model_type": "fuzz", "vocab_size": VOCABULARY, "max_position_embeddings": 64}
            ),
            encoding="utf-8",
        )
        (folder / "engines.yaml").write_text(BEHAVIOUR, encoding="utf-8")
        self.log = folder / "log"
        self.log.touch()
        self.port, self.grpc_port, handshake = _ports(3)
        environment = {
            **os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "RUST_LOG": "error,vllm_server=info",
        }  # fmt: skip
        frontend = [
            "frontend", "serve", str(folder / "model"), "--port", str(self.port), "--grpc-port", str(self.grpc_port),
            "--data-parallel-size", "2", "--data-parallel-rpc-port", str(handshake),
            "--profiler-config", '{"profiler": "torch", "torch_profiler_dir": "x"}',
        ]  # fmt: skip
        engines = [
            "engine",
            "--handshake",
            f"127.0.0.1:{handshake}",
            "--engines",
            "2",
            "--behaviour",
            str(folder / "engines.yaml"),
        ]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._heard = threading.Event()
        try:
            for arguments in (frontend, engines):
                command = [sys.executable, "-m", "harness.cli", *arguments]
                process = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=partial(die_with, os.getpid()),
                )
                self._processes.append(process)
                threading.Thread(target=self._keep, args=(process,), daemon=True).start()
            self._wait()
        except BaseException:
            self.close()
            raise

    def _keep(self, process: subprocess.Popen[bytes]) -> None:
        """Write down what a process says; wake whoever waits when it is ready, or has ended."""
        assert process.stdout is not None
        with self.log.open("ab", buffering=0) as log, process.stdout as lines:
            for line in lines:
                log.write(line)
                if READY in line:
                    self._heard.set()
        process.wait()
        self._heard.set()

    def _wait(self) -> None:
        """Wait until the server says that it takes requests."""
        if not self._heard.wait(START_S):
            raise Finding(f"the server does not come up: {self.log.read_text()[-800:]}")
        self.alive()

    def alive(self) -> None:
        """Raise ``Finding`` if one of the processes has ended."""
        for process in self._processes:
            if process.poll() is not None:
                raise Finding(
                    f"a process ended with {process.returncode}: {self.log.read_text()[-1500:]}"
                )

    def http(self, request: bytes, *, half: bool = False) -> bytes:
        """Send bytes over a new connection; what came until the server closed it."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as connection:
            answer = bytearray()
            try:
                connection.sendall(request)
                if half:
                    connection.shutdown(socket.SHUT_WR)
                while block := connection.recv(1 << 16):
                    answer += block
            except (ConnectionResetError, BrokenPipeError):
                pass
            except TimeoutError as error:
                raise Finding(f"no answer within {LIMIT_S:g} s") from error
        return bytes(answer)

    def faults(self) -> str:
        """What the server says of faults of its own since the last look; its log is emptied."""
        text = self.log.read_text("utf-8", "replace")
        os.truncate(self.log, 0)
        return text if "by a fault of this frontend" in text or "Traceback" in text else ""

    def close(self) -> None:
        """End the processes and remove the folder."""
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._folder.cleanup()


def _ports(count: int) -> list[int]:
    found = [socket.socket() for _ in range(count)]
    for each in found:
        each.bind(("127.0.0.1", 0))
    ports: list[int] = [each.getsockname()[1] for each in found]
    for each in found:
        each.close()
    return ports


class _Front:
    def __init__(self) -> None:
        self._servers: Servers | None = None

    @property
    def servers(self) -> Servers:
        """The server; a dead one is replaced."""
        if self._servers is None:
            self._servers = Servers()
        return self._servers

    def settle(self) -> None:
        """Look for faults and for processes that ended; start afresh if there are."""
        servers = self.servers
        try:
            servers.alive()
            if faults := servers.faults():
                raise Finding(f"a fault of the server: {faults[-1200:]}")
        except Finding:
            self.close()
            raise

    def close(self) -> None:
        """End what runs."""
        if self._servers is not None:
            self._servers.close()
            self._servers = None


class Http(_Front):
    """HTTP requests."""

    name = "http"

    def make(self, rng: Random) -> Input:
        """Draw one input: a whole request, or one whose head is broken."""
        path = rng.choice(POSTS)
        verb = "POST" if rng.random() < 0.95 else rng.choice(("GET", "PUT", "OPTIONS", "BREW"))
        body = broken_json(_body(path, rng), rng)
        if rng.random() < 0.15:
            verb, path, body = "GET", rng.choice(GETS), b""
        kind = (
            "application/json"
            if rng.random() < 0.95
            else rng.choice(("text/plain", "", "application/json; charset=x"))
        )
        head = [
            f"{verb} {path}{rng.choice(QUERIES)} HTTP/1.1",
            "Host: x",
            "Connection: close",
            f"Content-Type: {kind}",
        ]
        head += rng.sample(HEADERS, rng.choice((0, 0, 1, 2)))
        head.append(f"Content-Length: {len(body)}")
        raw = "\r\n".join(head).encode() + b"\r\n\r\n" + body
        if rng.random() < 0.2:
            return Input(NEWEST, "raw", (garbled(raw, rng),))
        return Input(NEWEST, "whole", (raw,))

    def check(self, given: Input) -> str:
        """Send it, and judge the answer."""
        raw = b"".join(given.frames)
        answer = self.servers.http(raw, half=given.door == "raw")
        status = answer[9:12].decode("ascii", "replace") if answer.startswith(b"HTTP/1.") else ""
        if given.door == "whole" and not status.isdigit():
            self.settle()
            raise Finding(f"no answer: {answer[:80]!r}")
        if status == "500" and FAULT in answer:
            self.settle()
            raise Finding(f"answered with a fault of its own: {answer[-200:]!r}")
        if status == "200" and raw.startswith(b"POST /v1/completions") and given.door == "whole":
            head, _, body = raw.partition(b"\r\n\r\n")
            if b"gzip" not in head and not possible(body):
                raise Finding(f"served: {body[:300]!r}")
        if zlib.crc32(raw) % 64 == 0 or not status:
            self.settle()
        return f"answered {status or 'nothing'}"


def _body(path: str, rng: Random) -> dict[str, Any]:
    if path == "/v1/completions":
        return {
            "model": "model", "prompt": rng.choice(([1, 2], "ab")), "max_tokens": rng.choice((1, 16)), "stream": rng.random() < 0.3,
            "temperature": 0.5, "seed": 3, "stop_token_ids": [7], "kv_transfer_params": {"a": [1]}, "n": 1, "priority": 0,
            "stream_options": {"include_usage": True}, "request_id": "mine", "return_token_ids": True, "top_k": 2, "min_tokens": 0,
        }  # fmt: skip
    return rng.choice((
        {"method": "x", "args": [1], "kwargs": {"a": 1}, "timeout": 1.5}, {"request_ids": ["a", "b"]}, {"new_version": "v2", "weight_version": "v2"},
        {"lora_name": "a", "lora_path": "/x", "load_inplace": True}, {"tags": ["weights"], "level": 1, "mode": "abort"},
        {"profile_prefix": "p", "num_steps": 3},
    ))  # fmt: skip


def possible(body: bytes) -> bool:
    """Whether a completion of this body can be served at all."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) != len(found):
            raise ValueError
        return dict(found)

    def constant(_word: str) -> None:
        raise ValueError

    try:
        asked = json.loads(body, object_pairs_hook=pairs, parse_constant=constant)
        json.dumps(asked, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    if type(asked) is not dict:
        return False
    prompt = asked.get("prompt")
    fine = (type(prompt) is str and prompt) or (
        type(prompt) is list
        and prompt
        and all(type(token) is int and 0 <= token < VOCABULARY for token in prompt)
    )

    def u32(name: str, low: int = 0) -> bool:
        value = asked.get(name)
        return value is None or (type(value) is int and low <= value < 2**32)

    def kind(name: str, *kinds: type) -> bool:
        return asked.get(name) is None or type(asked[name]) in kinds

    numbers = (
        "temperature",
        "top_p",
        "min_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
    )
    stops = asked.get("stop_token_ids")
    return bool(
        fine and u32("max_tokens", 1) and asked.get("n") in (None, 1) and u32("top_k") and u32("min_tokens")
        and kind("stream", bool) and kind("request_id", str) and kind("model", str) and kind("priority", int)
        and kind("kv_transfer_params", dict) and kind("stream_options", dict) and kind("seed", int)
        and all(kind(name, int, float) for name in numbers)
        and (stops is None or (type(stops) is list and all(type(t) is int and 0 <= t < 2**32 for t in stops)))
    )  # fmt: skip


_METHODS = (
    "/vllm.Inference/Generate", "/vllm.Inference/GenerateStream", "/vllm.Control/Health", "/grpc.health.v1.Health/Check", "/no.Such/Method",
)  # fmt: skip
_STATUSES_OF_FAULTS = ("UNKNOWN", "DEADLINE_EXCEEDED", "DATA_LOSS")


class Grpc(_Front):
    """Bytes of gRPC messages."""

    name = "grpc"

    def __init__(self) -> None:
        super().__init__()
        self._channel: Any = None

    def make(self, rng: Random) -> Input:
        """Draw one input: bytes of a valid message, broken."""
        from harness.reference_frontend.grpc_messages import messages

        request = messages()["GenerateRequest"]()
        _fill(request, rng, 0)
        body: bytes = request.SerializeToString()
        for _ in range(rng.choice((0, 1, 1, 2))):
            body = garbled(body, rng)
        return Input(NEWEST, rng.choice(methods()), (body,))

    def check(self, given: Input) -> str:
        """Call the method with it."""
        import grpc

        if self._channel is None:
            self._channel = grpc.insecure_channel(
                f"127.0.0.1:{self.servers.grpc_port}",
                options=[("grpc.use_local_subchannel_pool", 1)],
            )
        call = self._channel.unary_stream(given.door)
        try:
            list(call(b"".join(given.frames), timeout=LIMIT_S, wait_for_ready=True))
            status = "OK"
        except grpc.RpcError as error:
            status = error.code().name
            if status in _STATUSES_OF_FAULTS or (
                status == "INTERNAL" and "internal error" in (error.details() or "")
            ):
                self.settle()
                raise Finding(f"{status}: {error.details()}") from error
        if zlib.crc32(b"".join(given.frames)) % 64 == 0:
            self.settle()
        return f"answered {status}"

    def close(self) -> None:
        """End what runs."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        super().close()


def methods() -> tuple[str, ...]:
    """Methods of the newest release."""
    from harness.reference_frontend.grpc_messages import HEALTH_PACKAGE, PACKAGE

    names = ("Generate", "GenerateStream")
    control = (
        "Sleep",
        "WakeUp",
        "IsSleeping",
        "Pause",
        "Resume",
        "Abort",
        "GetServerInfo",
        "GetLoad",
        "ResetPrefixCache",
        "Nothing",
    )
    return (
        *(f"/{PACKAGE}.Inference/{name}" for name in names * 4),
        *(f"/{PACKAGE}.Control/{name}" for name in control),
        f"/{HEALTH_PACKAGE}.Health/Check",
    )


def _fill(message: Any, rng: Random, depth: int) -> None:
    """Set some fields of a message to values of their type."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.45:
            continue
        many = (
            field.is_repeated
            if hasattr(field, "is_repeated")
            else field.label == field.LABEL_REPEATED
        )
        if field.message_type is not None:
            if field.message_type.GetOptions().map_entry or depth > 3:
                continue
            _fill(
                getattr(message, field.name).add() if many else getattr(message, field.name),
                rng,
                depth + 1,
            )
            if not many:
                getattr(message, field.name).SetInParent()
            continue
        value = _scalar(field, rng)
        if many:
            getattr(message, field.name).extend([value] * rng.choice((1, 2)))
        else:
            setattr(message, field.name, value)


def _scalar(field: Any, rng: Random) -> Any:
    kinds = {
        "string": ("x", "", "é", "<script>"), "bytes": (b"", b"\xff"), "bool": (True, False),
        "float": (0.5, -1.0, float("nan"), 3e38), "double": (0.5, float("inf"), 1e308),
    }  # fmt: skip
    name = {9: "string", 12: "bytes", 8: "bool", 2: "float", 1: "double", 14: "enum"}.get(
        field.type, "int"
    )
    if name == "enum":
        return rng.choice([value.number for value in field.enum_type.values])
    if name == "int":
        unsigned = field.type in (4, 6, 7, 13)
        wide = field.type in (3, 4, 6, 16, 18)
        top = 2 ** ((64 if wide else 32) - (0 if unsigned else 1)) - 1
        return rng.choice((0, 1, 2, 16, top) if unsigned else (0, 1, -1, top, -top))
    return rng.choice(kinds[name])
