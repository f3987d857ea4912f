"""Reads files of others: regular ones only, and no more of them than their kind may have.

A pipe would let the command wait for whoever writes into it, a device never ends, and a file may be
larger than memory. All three are told as errors of the file, with its name.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

# What a system does not know is not needed there.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_KINDS = (
    (stat.S_ISDIR, errno.EISDIR, os.strerror(errno.EISDIR)),
    (stat.S_ISFIFO, errno.EINVAL, "it is a pipe, not a regular file"),
    (stat.S_ISSOCK, errno.EINVAL, "it is a socket, not a regular file"),
    (stat.S_ISCHR, errno.EINVAL, "it is a device, not a regular file"),
    (stat.S_ISBLK, errno.EINVAL, "it is a device, not a regular file"),
)


class NotRegularError(OSError):
    """What has the name is no regular file; ``strerror`` says what it is."""


class TooLargeError(OSError):
    """The file, or what comes from a stream, is larger than its kind may be."""


def check_regular(mode: int, path: Path | str) -> None:
    """Refuse everything but a regular file.

    Args:
        mode: ``st_mode`` of what is there.
        path: its name, for the error.

    Raises:
        NotRegularError: it is a folder, pipe, socket or device.
    """
    for is_kind, number, what in _KINDS:
        if is_kind(mode):
            raise NotRegularError(number, what, str(path))
    if not stat.S_ISREG(mode):
        raise NotRegularError(errno.EINVAL, "it is no regular file", str(path))


def regular_descriptor(path: Path | str) -> int:
    """Open a regular file to read it; the caller closes the descriptor.

    Nothing else is opened, nor waited for: what is there is looked at before, and once more when
    it is open, since it may have been exchanged in between.

    Raises:
        NotRegularError: it is no regular file.
        OSError: it cannot be opened.
    """
    check_regular(os.stat(path).st_mode, path)
    descriptor = os.open(path, _FLAGS)
    try:
        check_regular(os.fstat(descriptor).st_mode, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file to read its bytes.

    Raises:
        OSError: as ``regular_descriptor``.
    """
    return os.fdopen(regular_descriptor(path), "rb")


def read_bounded(stream: BinaryIO, limit: int, name: Path | str) -> bytes:
    """Read a stream to its end.

    Args:
        stream: a file or standard input.
        limit: bytes that there may be.
        name: of the stream, for the error.

    Raises:
        TooLargeError: there are more.
    """
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise TooLargeError(errno.EFBIG, f"larger than {_size(limit)}", str(name))
    return content


def read_regular(path: Path | str, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes.

    Raises:
        NotRegularError: it is no regular file.
        TooLargeError: it is larger.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise TooLargeError(errno.EFBIG, f"larger than {_size(limit)}", str(path))
        # Also where the system tells no size, or the file grows.
        return read_bounded(file, limit, path)


def _size(limit: int) -> str:
    mebi = 1 << 20
    return f"{limit // mebi} MiB" if limit >= mebi and limit % mebi == 0 else f"{limit} bytes"
