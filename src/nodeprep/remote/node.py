"""A node that can be connected to and told to run something, and many of them at once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import paramiko
from pyinfra.api import Config, Inventory, State

from nodeprep.errors import BadInput, NodeprepError
from nodeprep.remote.connector import NodeConnector, limited
from nodeprep.remote.exchange import Result
from nodeprep.remote.known_hosts import Address, KnownHosts
from nodeprep.remote.login import Learn, Login


class Remote:
    """One node: `connect`, `run` as often as needed, `close`. Also a context manager."""

    def __init__(self, name: str, host: Any, login: Login) -> None:
        self.name = name
        self.login = login
        self._host = host  # pyinfra's, for who wants its facts

    @property
    def user(self) -> str:
        return self.login.user

    @property
    def host_key(self) -> str:
        """Fingerprint of the key that the node proved to have: SHA256:…"""
        key: paramiko.PKey = self._host.connector.client.get_transport().get_remote_server_key()
        return str(key.fingerprint)

    def connect(self) -> Remote:
        """Raises Unreachable and its kinds HostKeyChanged, HostKeyUnknown, LoginRefused; BadInput
        for a key file or known_hosts that cannot be used."""
        if self.login.password is None or Path(self.login.address.key_file).is_file():
            self.login.key = private_key(self.login.address.key_file)
        self._host.connect()
        return self

    def run(
        self,
        command: str | Sequence[str],
        *,
        sudo: bool = True,
        stdin: bytes | str | None = None,
        timeout_s: float,
    ) -> Result:
        """Run a shell text or an argument list on the node; `sudo`: as root, never with a password.

        The node itself ends the command after `timeout_s` (TERM, then KILL), so that nothing is
        left running whatever becomes of the connection. Raises Unreachable when that breaks.
        """
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        argv = limited(argv, timeout_s)
        if sudo and self.user != "root":
            argv = ["sudo", "-n", "-H", "--", *argv]
        result: Result = self._host.connector.execute(shlex.join(argv), stdin, timeout_s)
        return result

    def close(self) -> None:
        self._host.disconnect()  # by its host, which otherwise takes it for connected

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


@lru_cache(maxsize=64)
def private_key(path: str) -> paramiko.PKey:
    """The operator's key. BadInput: missing, unreadable, or behind a passphrase."""
    try:
        key: paramiko.PKey = paramiko.PKey.from_path(path)
    except FileNotFoundError:
        raise BadInput(
            f"there is no private key at {path}", hint="`nodeprep provision` makes the site's own"
        ) from None
    except (paramiko.PasswordRequiredException, TypeError):
        raise BadInput(
            f"the private key {path} is behind a passphrase",
            hint="nodeprep asks for none: name another key as ansible_ssh_private_key_file",
        ) from None
    except (OSError, ValueError, paramiko.SSHException) as error:
        raise BadInput(f"the private key {path} cannot be read ({type(error).__name__})") from None
    return key


def remotes(
    connections: Mapping[str, Address],
    *,
    users: Mapping[str, str] | None = None,
    passwords: Mapping[str, str] | None = None,
    learn: Learn | None = None,
) -> dict[str, Remote]:
    """The nodes by name, not yet connected, in one pyinfra State.

    users      who logs in, where it is not `connection.user`
    passwords  tried once, after the key
    learn      called with (known_hosts name, key) of a host that has no key on record, before
               any login; without it such a host is refused
    """
    known = {c.known_hosts: KnownHosts(Path(c.known_hosts)) for c in connections.values()}
    inventory = Inventory((list(connections), {}))
    for host in inventory:
        host.connector_cls = NodeConnector  # before State makes the connectors
    state = State(inventory, Config())
    made = {}
    for name, address in connections.items():
        host = state.inventory.get_host(name)
        host.connector.login = Login(
            address=address,
            user=(users or {}).get(name, address.user),
            known=known[address.known_hosts],
            password=(passwords or {}).get(name),
            learn=learn,
        )
        made[name] = Remote(name, host, host.connector.login)
    return made


def open_nodes(
    connections: Mapping[str, Address],
    *,
    users: Mapping[str, str] | None = None,
    passwords: Mapping[str, str] | None = None,
    concurrency: int = 20,
) -> dict[str, Remote | NodeprepError]:
    """Connect to all, in parallel where gevent has patched. A node that fails is its error."""
    return connected(remotes(connections, users=users, passwords=passwords), concurrency)


class Connects(Protocol):
    def connect(self) -> Self: ...


Node = TypeVar("Node", bound=Connects)


def connected(nodes: Mapping[str, Node], concurrency: int = 20) -> dict[str, Node | NodeprepError]:
    """The same, of nodes by name, whichever way they are reached."""
    from gevent.pool import Pool  # noqa: PLC0415

    def attempt(node: Node) -> Node | NodeprepError:
        try:
            return node.connect()
        except NodeprepError as error:
            return error

    return dict(zip(nodes, Pool(concurrency).map(attempt, nodes.values()), strict=True))
