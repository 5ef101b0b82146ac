"""One login: what it needs, and the error of each way in which it can fail."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from nodeprep.errors import HostKeyChanged, LoginRefused, Unreachable
from nodeprep.remote.known_hosts import Address, KnownHosts, Recorded, host_name, where

# A node that dies in the middle of a command is noticed within half a minute.
_DEAD_AFTER = {
    "TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000,
}  # fmt: skip

Learn = Callable[[str, paramiko.PKey], None]


@dataclass
class Login:
    """Everything that one connection needs. The password is in no text that is made of it."""

    address: Address
    user: str
    known: KnownHosts
    password: str | None = field(default=None, repr=False)
    learn: Learn | None = (
        None  # records the key of a host that has none; else such a host is refused
    )
    key: paramiko.PKey | None = field(default=None, repr=False)

    @property
    def who(self) -> str:
        return f"{self.user}@{where(self.address)}"


def dial(address: Address) -> socket.socket:
    """A connected socket without Nagle, or an Unreachable that says what went wrong."""
    place = where(address)
    try:
        sock = socket.create_connection((address.host, address.port), address.connect_timeout_s)
    except socket.gaierror:
        raise Unreachable(
            f"{place}: the name does not resolve", hint="check ansible_host in the inventory"
        ) from None
    except ConnectionRefusedError:
        raise Unreachable(
            f"{place} refuses the connection",
            hint="is sshd running there, and is ansible_port right?",
        ) from None
    except TimeoutError:
        raise Unreachable(
            f"{place} does not answer within {address.connect_timeout_s} s",
            hint="is the node switched on, and does a firewall let this machine through?",
        ) from None
    except OSError as error:
        raise Unreachable(f"{place} cannot be reached: {error.strerror or error}") from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _DEAD_AFTER.items():
        if option := getattr(socket, name, None):  # not every system has them all
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


def changed(
    login: Login, recorded: list[Recorded], error: paramiko.BadHostKeyException
) -> HostKeyChanged:
    line = next((item.line for item in recorded if item.key == error.expected_key), 0)
    path = login.known.path
    return HostKeyChanged(
        f"{where(login.address)}: the host key changed. On record: "
        f"{error.expected_key.fingerprint} ({path} line {line}); "
        f"the node presents {error.key.fingerprint}",
        hint="another machine, or an attack. If the node was reinstalled and the new fingerprint "
        f"is the one that its console shows: ssh-keygen -R '{host_name(login.address)}' -f {path}",
    )


def refused(login: Login, error: paramiko.AuthenticationException) -> Unreachable:
    text = str(error).lower()
    if "timeout" in text:
        return Unreachable(f"{login.who}: the login got no answer")
    if "transport shut down" in text or "eof" in text:
        return Unreachable(f"{login.who}: the connection was closed during the login")
    if isinstance(error, paramiko.BadAuthenticationType) and login.password is not None:
        return LoginRefused(
            f"{login.who} takes no password, only {', '.join(error.allowed_types)}",
            hint="was first contact made from elsewhere? Then that operator's key is needed",
        )
    what = "the password" if login.password is not None else "the key"
    hint = "the password was tried once" if login.password is not None else ""
    return LoginRefused(f"{login.who} refuses {what}", hint=hint)


def no_ssh(
    address: Address, transport: paramiko.Transport | None, error: BaseException
) -> Unreachable:
    place, patience = where(address), address.connect_timeout_s
    if transport is not None and transport.remote_version:
        return Unreachable(f"{place}: the SSH handshake failed: {error or type(error).__name__}")
    cause = error.__context__  # paramiko gives every trouble with the greeting one text
    if isinstance(cause, EOFError | ConnectionError):
        return Unreachable(
            f"{place} accepts the connection and closes it before SSH begins",
            hint="sshd too busy (MaxStartups), or a firewall or fail2ban in between?",
        )
    if isinstance(cause, TimeoutError) or "No existing session" in str(error):
        return Unreachable(
            f"{place} answers but does not speak SSH within {patience} s",
            hint="sshd or the whole node hangs: the provider's console shows which",
        )
    return Unreachable(f"{place} answers, but with something else than SSH")
