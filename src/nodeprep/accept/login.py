"""Which ways to log in a node's sshd offers, asked without logging in."""

from __future__ import annotations

import contextlib
from pathlib import Path

import paramiko

from nodeprep.errors import HostKeyChanged, Unreachable
from nodeprep.model.node import Connection
from nodeprep.remote import KnownHosts, host_name, where
from nodeprep.remote.login import dial


def methods_offered(connection: Connection, user: str) -> tuple[str, ...]:
    """sshd's answer to an authentication by `none`: publickey, password, keyboard-interactive, …

    Empty: it let `user` in without any. The host key must be on record, so that the answer is
    this node's: HostKeyChanged otherwise. Unreachable when there is no answer.
    """
    recorded = [
        item.key for item in KnownHosts(Path(connection.known_hosts)).of(host_name(connection))
    ]
    with contextlib.closing(dial(connection)) as sock:
        try:
            transport = paramiko.Transport(sock)
            with contextlib.closing(transport):
                _ask_for(transport, recorded)
                transport.start_client(timeout=3 * connection.connect_timeout_s)
                if transport.get_remote_server_key() not in recorded:
                    raise HostKeyChanged(f"{where(connection)} shows a host key not on record")
                return _offered(transport, user)
        except (OSError, EOFError, paramiko.SSHException) as problem:
            said = problem or type(problem).__name__
            raise Unreachable(f"{where(connection)}: {said}") from problem


def _offered(transport: paramiko.Transport, user: str) -> tuple[str, ...]:
    try:
        transport.auth_none(user)
    except paramiko.BadAuthenticationType as refusal:
        return tuple(refusal.allowed_types)
    return ()


def _ask_for(transport: paramiko.Transport, recorded: list[paramiko.PKey]) -> None:
    """Ask for a kind of key that is on record; today's servers sign as rsa-sha2 with RSA keys."""
    security = transport.get_security_options()
    names = {key.get_name().replace("ssh-rsa", "rsa-sha2-512") for key in recorded}
    first = [name for name in security.key_types if name in names]
    security.key_types = (*first, *(name for name in security.key_types if name not in names))
