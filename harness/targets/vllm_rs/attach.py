"""``--attach``: where a frontend that somebody else started is reached, in one word.

``http://127.0.0.1:8000,handshake=tcp://127.0.0.1:29550,engines=2,model=NAME`` is a handshake owner that
waits for two engines; with ``input=…,output=…`` in place of ``handshake`` it is a bootstrapped one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.scenario.model import Topology
from harness.scenario.problems import did_you_mean, one_of
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
_SCHEMES = ("http://", UNIX_SOCKET)


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
    if not http.startswith(_SCHEMES) or http in _SCHEMES:
        msg = f"--attach begins with {http!r}; it wants http://HOST:PORT or unix:PATH first"
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


def _number(key: str, value: str) -> int:
    if not value.isdecimal() or (key == "engines" and int(value) < 1):
        msg = (
            f"--attach: {key}={value} is no number of {'engines' if key == 'engines' else 'a rank'}"
        )
        raise AttachError(msg)
    return int(value)
