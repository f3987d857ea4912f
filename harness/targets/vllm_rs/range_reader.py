"""A file on an HTTP server, read piece by piece with range requests.

``RangeReader`` is what ``zipfile`` needs to open an archive: the directory at its end is read
first, then single members. Whatever is unusual about an answer ends the attempt with
``RangesRefusedError``, so that the caller can take the whole file in the ordinary way; nothing
is guessed.

Runs inside a child process next to pip, so it uses the standard library only. The session is
pip's own (one of ``requests``), and brings credentials, proxies and certificates along.

Source: RFC 9110, section 14 (range requests).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any, Protocol

TAIL_BYTES = 1 << 20
"""How much of the end is asked for at first: holds the directory of a wheel of vLLM and its
RECORD, for the releases 0.22 to 0.33."""
PIECE_BYTES = 64 << 10
"""Smallest piece that is asked for afterwards."""
GAP_BYTES = 64 << 10
"""Two pieces that are no farther apart than this are asked for as one."""
SPAN_BYTES_MAX = 1 << 30
"""Largest piece that is held in memory; a wheel has no such member."""
ATTEMPTS = 2
"""How often a piece is asked for when an answer breaks off."""
_PARTIAL = 206
_WHOLE = 200
_READ_BYTES = 1 << 18
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class RangesRefusedError(Exception):
    """The file cannot be read piece by piece; the text says why."""


class Response(Protocol):
    """What is used of an answer of ``requests``."""

    status_code: int
    headers: Any
    raw: Any

    def close(self) -> None:
        """Give the connection back, or drop it if the body was not read."""


class Session(Protocol):
    """What is used of a session of ``requests``."""

    def get(self, url: str, *, headers: dict[str, str], stream: bool) -> Response:
        """Ask; with ``stream`` the body is not read yet."""


class RangeReader(io.RawIOBase):
    """A remote file, read only and seekable. Use from one thread.

    Attributes:
        size: of the whole file, bytes.
        fetched: bytes of bodies received so far.
        requests: how many requests were made.
    """

    def __init__(self, session: Session, url: str, *, tail: int = TAIL_BYTES) -> None:
        """Ask for the last ``tail`` bytes.

        Raises:
            RangesRefusedError: the server does not serve ranges of this file.
        """
        super().__init__()
        self._session = session
        self._url = url
        self._position = 0
        self._spans: list[tuple[int, bytes]] = []
        self._validator: str | None = None
        self.fetched = 0
        self.requests = 0
        self.size = 0
        self._ask(f"bytes=-{tail}", None)

    # --- what zipfile uses ------------------------------------------------------------------

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read anywhere: yes."""
        return True

    def tell(self) -> int:
        """Return the position, in bytes from the start."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position; nothing is asked for."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Read ``size`` bytes, fewer at the end.

        Raises:
            RangesRefusedError: an answer is not the piece that was asked for.
        """
        stop = self.size if size is None or size < 0 else min(self._position + size, self.size)
        parts = []
        while self._position < stop:
            piece = self._held(self._position, stop)
            if not piece:
                self._fetch(self._position, min(max(stop, self._position + PIECE_BYTES), self.size))
                continue
            parts.append(piece)
            self._position += len(piece)
        return b"".join(parts)

    # --- pieces -----------------------------------------------------------------------------

    def prefetch(self, pieces: Iterable[tuple[int, int]]) -> None:
        """Ask for pieces ``(start, stop)`` that will be read; near ones with one request.

        Raises:
            RangesRefusedError: as ``read``.
        """
        merged: list[list[int]] = []
        for start, stop in sorted((start, min(stop, self.size)) for start, stop in pieces):
            if merged and start <= merged[-1][1] + GAP_BYTES:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([start, stop])
        for start, stop in merged:
            while start < stop and (piece := self._held(start, stop)):
                start += len(piece)
            if start < stop:
                self._fetch(start, stop)

    def _held(self, start: int, stop: int) -> bytes:
        for begin, data in self._spans:
            if begin <= start < begin + len(data):
                return data[start - begin : stop - begin]
        return b""

    def _fetch(self, start: int, stop: int) -> None:
        if stop - start > SPAN_BYTES_MAX:
            msg = f"a piece of {stop - start} bytes is more than a wheel's member can have"
            raise RangesRefusedError(msg)
        self._ask(f"bytes={start}-{stop - 1}", start)

    def _ask(self, wanted: str, start: int | None) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            span = self._try(wanted, start)
            if span is not None:
                self._spans.append(span)
                return
            if attempt == ATTEMPTS:
                msg = f"the answer to {wanted!r} broke off, {ATTEMPTS} times"
                raise RangesRefusedError(msg)

    def _try(self, wanted: str, start: int | None) -> tuple[int, bytes] | None:
        """Make one request; ``None``: the body is shorter than its headers say."""
        self.requests += 1
        # A cache would have to store whole files only; ranges must not be answered from one.
        headers = {"Range": wanted, "Accept-Encoding": "identity", "Cache-Control": "no-cache"}
        response = self._session.get(self._url, headers=headers, stream=True)
        try:
            first, stop = self._check(response, start)
            body = self._body(response, stop - first)
        finally:
            response.close()
        return (first, body) if len(body) == stop - first else None

    def _check(self, response: Response, start: int | None) -> tuple[int, int]:
        status = response.status_code
        if status == _WHOLE:
            msg = "the server answers a range request with the whole file"
            raise RangesRefusedError(msg)
        if status != _PARTIAL:
            msg = f"the server answers a range request with status {status}"
            raise RangesRefusedError(msg)
        told = response.headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(told.strip())
        if match is None:
            msg = f"the server's Content-Range is {told!r}"
            raise RangesRefusedError(msg)
        first, last, size = (int(number) for number in match.groups())
        if first > last or last >= size or (start is not None and first != start):
            msg = f"the server's Content-Range {told!r} is not what was asked for"
            raise RangesRefusedError(msg)
        if start is None and last != size - 1:
            msg = f"the server's Content-Range {told!r} is not the end of the file"
            raise RangesRefusedError(msg)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            msg = "the server encodes the body of a range"
            raise RangesRefusedError(msg)
        validator = response.headers.get("ETag")
        if self.size and (size, validator) != (self.size, self._validator):
            msg = "the file on the server changed between two requests"
            raise RangesRefusedError(msg)
        self.size, self._validator = size, validator
        return first, last + 1

    def _body(self, response: Response, expected: int) -> bytes:
        parts, received = [], 0
        try:
            while received < expected:
                part = response.raw.read(min(_READ_BYTES, expected - received))
                if not part:
                    break
                parts.append(part)
                received += len(part)
        except Exception as error:
            # A connection that broke. The classes belong to pip's own urllib3: not named here.
            if "urllib3" not in type(error).__module__.split("."):
                raise
        self.fetched += received
        return b"".join(parts)
