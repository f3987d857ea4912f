"""``--attach``: where a frontend that somebody else started is reached, in one word.

``http://127.0.0.1:8000,handshake=tcp://127.0.0.1:29550,engines=2,model=NAME`` is a handshake owner that
waits for two engines; with ``input=…,output=…`` in place of ``handshake`` it is a bootstrapped one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from client.protocol.ids import RANKS_MAX
from harness.numerals import number_of
from harness.scenario.model import Topology
from harness.scenario.problems import did_you_mean, one_of
from harness.shortened import shortened
from harness.targets.vllm_rs.http_wire import UNIX_SOCKET

KEYS: Mapping[str, str] = {
    "model": "name of the model in requests, as the frontend was started with it",
    "handshake": "where a handshake owner awaits its engines, such as tcp://127.0.0.1:29550",
    "input": "where engines connect their input to a bootstrapped frontend",
    "output": "where engines connect their output to a bootstrapped frontend",
    "coordinator": "front address of the external coordinator, which the harness runs",
    "grpc": "gRPC server: host:port, or unix:path",
    "engines": "how many engines it waits for",
    "start": "rank of the first engine; 0 if absent",
    "moe": "yes: its model has experts, so a handshake owner has a coordinator inside",
    "log": "file to which its log is written",
}
_NUMBERS = frozenset({"engines", "start"})
_HTTP = "http://"
_IPC, _TCP = "ipc://", "tcp://"
_HOST_PORT = re.compile(r"(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,9})")
_PORT_MAX = 65_535
_SOCKETS = ("handshake", "input", "output", "coordinator")
"""Keys whose value is an address of ZeroMQ."""


class AttachError(ValueError):
    """The word after ``--attach`` says too little, or something that is not understood."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A frontend that somebody else started.

    Attributes:
        http: ``http://host:port`` or ``unix:path``.
        handshake: of a handshake owner; ``input`` and ``output`` are those of a bootstrapped one.
        engines: how many it waits for, ``None`` if that was not said.
    """

    http: str
    model: str
    handshake: str | None = None
    input: str | None = None
    output: str | None = None
    coordinator: str | None = None
    grpc: str | None = None
    engines: int | None = None
    start: int = 0
    moe: bool = False
    log: str | None = None

    @property
    def transport(self) -> str:
        """How its engines join, as a topology names it."""
        return "bootstrapped" if self.handshake is None else "handshake-owner"

    def mismatch(self, topology: Topology) -> str | None:
        """Return why a topology does not fit this frontend, ``None`` if it does."""
        ranks = topology.rank_list
        if topology.transport != self.transport:
            return f"the attached frontend is a {self.transport}"
        if self.engines not in (None, len(ranks)):
            return f"the attached frontend waits for {self.engines} engines, not {len(ranks)}"
        if ranks[0] != self.start or ranks != list(range(ranks[0], ranks[0] + len(ranks))):
            return f"the ranks of the attached frontend begin at {self.start}"
        if topology.transport == "handshake-owner":
            inside = self.moe and len(ranks) > 1
            if inside != (topology.coordinator == "in-process"):
                return f"the attached frontend has {'a' if inside else 'no'} coordinator inside"
        elif (self.coordinator is not None) != (topology.coordinator == "external"):
            has = "an" if self.coordinator is not None else "no"
            return f"the attached frontend has {has} external coordinator"
        if topology.config.model_fields_set:
            return "settings of the start (topology.config) are those of whoever started it"
        return None


def parse_attachment(text: str) -> Attachment:
    """Read the word after ``--attach``.

    Raises:
        AttachError: it cannot be read; the message says what is wrong and what is known.
    """
    http, *rest = (part.strip() for part in text.split(","))
    http = http.rstrip("/") if http.startswith(_HTTP) else http
    if (flaw := _flaw(http, _HTTP, UNIX_SOCKET)) is not None:
        msg = f"--attach begins with {http!r}; it wants http://HOST:PORT or unix:PATH first{flaw}"
        raise AttachError(msg)
    given: dict[str, str] = {}
    for part in rest:
        key, sign, value = part.partition("=")
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) or f"expected {one_of(KEYS)}"
            msg = f"--attach: unknown key {key!r}; {hint}"
            raise AttachError(msg)
        if not sign or not value:
            msg = f"--attach: {key} has no value ({KEYS[key]})"
            raise AttachError(msg)
        if key in given:
            msg = f"--attach: {key} is given twice"
            raise AttachError(msg)
        given[key] = value
    _complete(given)
    _check_addresses(given)
    numbers = {key: _number(key, given.pop(key)) for key in tuple(given) if key in _NUMBERS}
    moe = given.pop("moe", "no")
    if moe not in ("yes", "no"):
        msg = f"--attach: moe={moe} is neither yes nor no"
        raise AttachError(msg)
    return Attachment(
        http=http,
        model=given["model"],
        handshake=given.get("handshake"),
        input=given.get("input"),
        output=given.get("output"),
        coordinator=given.get("coordinator"),
        grpc=given.get("grpc"),
        engines=numbers.get("engines"),
        start=numbers.get("start", 0),
        moe=moe == "yes",
        log=given.get("log"),
    )


def _complete(given: Mapping[str, str]) -> None:
    def need(key: str, why: str) -> None:
        if key not in given:
            msg = f"--attach: {key}= is missing ({why})"
            raise AttachError(msg)

    need("model", KEYS["model"])
    if "handshake" in given:
        for key in ("input", "output", "coordinator"):
            if key in given:
                msg = f"--attach: handshake and {key} exclude each other: one frontend, one mode"
                raise AttachError(msg)
        return
    if "input" not in given and "output" not in given:
        need("handshake", "or input= and output= of a bootstrapped frontend")
    need("input", KEYS["input"])
    need("output", KEYS["output"])


def _flaw(address: str, over_tcp: str, over_unix: str) -> str | None:
    """Return what is wrong with an address, in brackets if there is more to say; else ``None``."""
    if address.startswith(over_unix) and len(address) > len(over_unix):
        return None
    if not address.startswith(over_tcp):
        return ""
    found = _HOST_PORT.fullmatch(address.removeprefix(over_tcp))
    if found is None:
        return ""
    if not number_of(found["port"], _PORT_MAX):
        return f" (a port is a number from 1 to {_PORT_MAX}, not {found['port']})"
    return None


def _check_addresses(given: Mapping[str, str]) -> None:
    for key, value in given.items():
        if key in _SOCKETS:
            flaw, wanted = _flaw(value, _TCP, _IPC), "tcp://HOST:PORT or ipc://PATH"
        elif key == "grpc":
            flaw, wanted = _flaw(value, "", UNIX_SOCKET), "HOST:PORT or unix:PATH"
        else:
            continue
        if flaw is not None:
            msg = f"--attach: {key}={value} is no address; it wants {wanted}{flaw}"
            raise AttachError(msg)


def check_files(at: Attachment) -> None:
    """Refuse an attachment that names a socket's file, a folder or a log that is not there.

    Raises:
        AttachError: as above; the message says which.
    """
    files = {
        "the HTTP socket": at.http.removeprefix(UNIX_SOCKET) if _is_unix(at.http) else None,
        "grpc": at.grpc.removeprefix(UNIX_SOCKET) if at.grpc and _is_unix(at.grpc) else None,
        "log": at.log,
    }
    for name in ("handshake", "input", "output"):
        address: str | None = getattr(at, name)
        if address is not None and address.startswith(_IPC):
            files[name] = address.removeprefix(_IPC)
    for name, path in files.items():
        if path is not None and not Path(path).exists():
            msg = f"--attach: {name}: there is no file {path}"
            raise AttachError(msg)
    if at.log is not None and not os.access(at.log, os.R_OK):
        msg = f"--attach: log: {at.log} cannot be read"
        raise AttachError(msg)


def _is_unix(address: str) -> bool:
    return address.startswith(UNIX_SOCKET)


def _number(key: str, value: str) -> int:
    what, least = ("of engines", 1) if key == "engines" else ("of a rank", 0)
    most = RANKS_MAX - 1 + least
    number = number_of(value, most)
    if number is None or number < least:
        msg = f"--attach: {key}={shortened(value, 100)} is no number {what} ({least} to {most:,})"
        raise AttachError(msg)
    return number
