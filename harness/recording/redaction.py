"""Replaces what may be private in a message, in place: every length and type stays as it was.

Texts, bytes and token ids become others of the same length and width. Kept are names that belong
to the protocol: keys, methods, states, dtypes, addresses and what engines say of their release.
Ids of requests are replaced alike wherever they occur, and two that begin alike still do, so that
an ABORT still names its ADD.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_bytes  # noqa: TID251  (a key that nobody can guess, not a choice)

from client.protocol.codec_tensors import item_size
from client.protocol.ids import FENCE_METHOD
from client.protocol.profiles import PROFILES
from harness.capture import names, tree
from harness.capture.kinds import KINDS, UNKNOWN, kind_of_frame
from harness.capture.recording import Frame
from harness.recording.release import ReleaseGuess
from mock_engines.tokens import API_PREFIXES
from mock_engines.utilities import DEFAULT_WEIGHT_VERSION, PAUSE_MODES, SLEEP_TAGS

MARK = "redacted"
NOTE = "redacted: texts, bytes and token ids are others of the same length"
_SAME_KINDS = ("hello", "ready", "init", "registration", "start-dp-wave", "ready-gate", "dead",
               "subscription", "unsubscription")  # fmt: skip
"""Messages without anything of a caller."""
_IDS = ("request_id", "external_req_id", "finished_requests", "session_id")
_ASKED_TOKENS = ("token_ids", "logit_bias", "bad_words")
"""Parts of the names of fields whose numbers are tokens, in what a frontend sends."""
_TOKENS = (*_ASKED_TOKENS, "logprob", "stop_reason", "mask")
"""The same in what an engine sends."""
_KEPT_TEXTS = ("method", "dtype", "code")
_WORDS = frozenset(
    {*PAUSE_MODES, *SLEEP_TAGS, "scheduling", "generate", DEFAULT_WEIGHT_VERSION, FENCE_METHOD}
)
"""Texts that belong to the protocol wherever they stand."""
_RANGES = "0123456789", "abcdef", "ghijklmnopqrstuvwxyz", "ABCDEF", "GHIJKLMNOPQRSTUVWXYZ"
"""Hexadecimal digits stay such, so that the random end of an id is still recognised."""
_INT_FORMS = {0xCC: ("B", 1), 0xCD: ("H", 2), 0xCE: ("I", 4), 0xCF: ("Q", 8),
              0xD0: ("b", 1), 0xD1: ("h", 2), 0xD2: ("i", 4), 0xD3: ("q", 8)}  # fmt: skip
_TOKEN_MAX = 1 << 17
"""Replaced tokens stay below it, as those of most vocabularies do."""


class Redaction:
    """Replaces, with a key that is forgotten at the end.

    Args:
        guess: names of fields are those of its release.
        key: decides what becomes what; default: a new one.
    """

    def __init__(self, guess: ReleaseGuess, key: bytes = b"") -> None:
        self._guess = guess
        self._key = key or token_bytes(32)
        self._drawn = 0

    def of(self, frame: Frame) -> Frame:
        """Return the message as it may be shown."""
        kind = kind_of_frame(frame)
        if kind.name in _SAME_KINDS:
            return frame
        at = KINDS[kind.name].body
        if kind.name == UNKNOWN or at is None or at >= len(frame.frames):
            return replace(frame, frames=tuple(bytes(len(part)) for part in frame.frames))
        try:
            root = tree.read_tree(frame.frames[at], trailing=True)
        except tree.TreeError:
            # Nobody can say what is in it; how long it was is what can be told.
            head = frame.frames[:at]
            return replace(frame, frames=(*head, *map(_zeros, frame.frames[at:])))
        schema = names.schema_of(kind.name, PROFILES[self._guess.release])
        body = bytearray(frame.frames[at])
        body[root.end :] = bytes(len(body) - root.end)
        patch = _Patch(self, body, schema, frame.frames[at:], all_ids=kind.name == "abort")
        patch.value(root, ())
        return replace(frame, frames=(*frame.frames[:at], bytes(body), *patch.aux()))

    # --- what becomes what ------------------------------------------------------------------

    def identifier(self, text: str) -> bytes:
        """Replace an id: each character by one of its kind, depending on all before it."""
        kept = next((prefix for prefix in API_PREFIXES if text.startswith(prefix)), "")
        found = [kept]
        state = hmac.new(self._key, kept.encode(), hashlib.sha256)
        for char in text[len(kept) :]:
            digest = state.copy().digest()
            state.update(char.encode("utf-8", "surrogatepass"))
            found.append(_turned(char, int.from_bytes(digest[:4], "big")))
        return "".join(found).encode()

    def text(self, text: str) -> bytes:
        """Replace any other text, each time by another one."""
        return "".join(_turned(char, self.number()) for char in text).encode()

    def number(self) -> int:
        """Draw a number of 32 bits."""
        self._drawn += 1
        drawn = hmac.new(self._key, b"\x00draw%d" % self._drawn, hashlib.sha256).digest()
        return int.from_bytes(drawn[:4], "big")


def _turned(char: str, number: int) -> str:
    """Another character of the same kind; as many bytes of ``x`` for what is no ASCII."""
    for letters in _RANGES:
        if char in letters:
            return letters[(letters.index(char) + number) % len(letters)]
    return char if char.isascii() else "x" * len(char.encode("utf-8", "surrogatepass"))


def _zeros(part: bytes) -> bytes:
    return bytes(len(part))


class _Patch:
    """One message body on its way: walks over its values and replaces them in place."""

    def __init__(
        self,
        redaction: Redaction,
        body: bytearray,
        schema: names.Schema,
        frames: Sequence[bytes],
        *,
        all_ids: bool,
    ) -> None:
        self._redaction = redaction
        self._body = body
        self._schema = schema
        self._frames = frames
        self._all_ids = all_ids
        self._dtypes: dict[int, str] = {}

    def aux(self) -> list[bytes]:
        """The frames behind the body."""
        return [
            _tensor_bytes(self._dtypes.get(place, ""), len(part))
            for place, part in enumerate(self._frames[1:], start=1)
        ]

    def value(self, node: tree.Node, path: names.Path) -> None:
        """Replace a value and all inside."""
        if node.kind == tree.ARRAY:
            if self._tensor(node):
                return
            for place, item in enumerate(node.items):
                self.value(item, (*path, place))
        elif node.kind == tree.MAP:
            for key, item in zip(node.keys, node.items, strict=True):
                if key.kind == tree.INT:  # logit_bias: tokens are keys
                    self._number(key, (*path, "token_ids"))
                self.value(item, (*path, key.value if key.kind == tree.STR else 0))
        elif node.kind == tree.STR:
            self._text(node, path)
        elif node.kind in (tree.BIN, tree.EXT):
            length = len(node.value)
            self._body[node.end - length : node.end] = bytes(length)
        elif node.kind == tree.INT:
            self._number(node, path)

    def _label(self, path: names.Path) -> str:
        return names.label(self._schema, path, general=True)

    def _tensor(self, node: tree.Node) -> bool:
        """Empty a tensor, whose dtype and shape stay; whether it is one."""
        if len(node.items) != len(names.TENSOR.names):
            return False
        dtype, shape, data = node.items
        known = dtype.kind == tree.STR and item_size(dtype.value) is not None
        if not known or shape.kind != tree.ARRAY or data.kind not in (tree.INT, tree.EXT):
            return False
        if data.kind == tree.INT:
            self._dtypes[data.value] = dtype.value
        else:
            length = len(data.value)
            self._body[data.end - length : data.end] = _tensor_bytes(dtype.value, length)
        return True

    def _text(self, node: tree.Node, path: names.Path) -> None:
        label = self._label(path)
        last = label.rpartition(".")[2].removesuffix("[]")
        if last in _KEPT_TEXTS or node.value in _WORDS:
            return
        is_id = self._all_ids or last in _IDS
        new = self._redaction.identifier(node.value) if is_id else self._redaction.text(node.value)
        self._body[node.end - len(new) : node.end] = new

    def _number(self, node: tree.Node, path: names.Path) -> None:
        """Replace a token by one whose number takes as many bytes."""
        label = self._label(path)
        words = _TOKENS if label.startswith("outputs") else _ASKED_TOKENS
        if not any(word in label for word in words):
            return
        first, drawn = self._body[node.start], self._redaction.number()
        if first not in _INT_FORMS:
            if first <= 0x7F:
                self._body[node.start] = drawn % 0x80
            return
        form, size = _INT_FORMS[first]
        least, most = {1: (0x80, 0xFF), 2: (0x100, 0xFFFF)}.get(size, (0x10000, _TOKEN_MAX))
        if form.islower():
            least, most = 0, 0x7F
        struct.pack_into(f">{form}", self._body, node.start + 1, least + drawn % (most - least))


def _tensor_bytes(dtype: str, length: int) -> bytes:
    """As many bytes of elements that say nothing: ones where they are whole numbers, else zeros."""
    size, name = item_size(dtype) or 0, dtype.lstrip("<>=|")
    if size and not length % size and (name[0] in "iu"):
        one = (1).to_bytes(size, "big") if dtype[0] == ">" else (1).to_bytes(size, "little")
        return one * (length // size)
    return bytes(length)
