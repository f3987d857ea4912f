"""What an event loop in simulation refuses: everything that reaches outside the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

_REFUSED = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "call_soon_threadsafe",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "remove_reader",
    "remove_signal_handler",
    "remove_writer",
    "run_forever",
    "run_in_executor",
    "sendfile",
    "set_default_executor",
    "set_task_factory",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "stop",
    "subprocess_exec",
    "subprocess_shell",
)
_Class = TypeVar("_Class", bound=type)


class NotAvailableError(RuntimeError):
    """Simulated code asked for a thread, a socket, a signal or a child process."""


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(_self: object, *_args: Any, **_kwargs: Any) -> NoReturn:
        msg = f"{name} is not available in simulation"
        raise NotAvailableError(msg)

    refuse.__name__ = name
    refuse.__doc__ = "Refuse: not available in simulation."
    return refuse


def refuses_the_outside(cls: _Class) -> _Class:
    """Give a loop class a clear refusal for each method that reaches outside the process."""
    for name in _REFUSED:
        setattr(cls, name, _refusal(name))
    return cls
