"""pyinfra's SSH connector, made strict.

pyinfra's own turns every failure into one text, remembers known hosts for the life of the process,
obeys ~/.ssh/config, logs passwords at debug level, asks the terminal for a sudo password, keeps
and decodes output without limit, leaves Nagle on (44 ms per command instead of 2) and leaves the
client open. So connecting and running are ours; Inventory, State, Host and facts stay pyinfra's.
"""

from __future__ import annotations

import logging
import secrets
import shlex
import socket
import time
from collections.abc import Callable
from typing import Any

import paramiko
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.util import CommandOutput, OutputLine, make_unix_command_for_host

from nodeprep.errors import HostKeyUnknown, Unreachable
from nodeprep.remote.exchange import Result, exchange
from nodeprep.remote.known_hosts import Recorded, host_name, where
from nodeprep.remote.login import Login, changed, dial, no_ssh, refused

KILL_AFTER_S = 5  # `timeout -k`: from TERM to KILL
_GRACE_S = 10  # what a command may take beyond its own limit before the channel is closed
_RSA = ("rsa-sha2-512", "rsa-sha2-256")  # how a key recorded as ssh-rsa signs today

_MARK = f"-----{secrets.token_hex(8)}-----\n".encode()  # where a command's own output begins

# Without a handler, paramiko's transport threads print tracebacks of what is reported here.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class _FirstKey(paramiko.MissingHostKeyPolicy):
    """Hands the key of an unknown host to `learn`, or refuses it. Runs before any login."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def missing_host_key(self, client: Any, hostname: str, key: paramiko.PKey) -> None:
        if self._login.learn is None:
            raise HostKeyUnknown(
                f"{where(self._login.address)} has no host key in {self._login.known.path}; "
                f"it presents {key.fingerprint}",
                hint="`nodeprep provision` makes first contact and records the key",
            )
        self._login.learn(hostname, key)


class NodeConnector(SSHConnector):  # type: ignore[misc]
    """pyinfra's connector with the faults named at the top of this file taken out."""

    client: paramiko.SSHClient | None = None
    login: Login

    def connect(self) -> None:
        sock = dial(self.login.address)
        client = paramiko.SSHClient()
        try:
            self._handshake(client, sock)
        except BaseException:
            client.close()
            sock.close()
            raise
        self.client = client

    def _handshake(self, client: paramiko.SSHClient, sock: socket.socket) -> None:
        login, address = self.login, self.login.address
        recorded = login.known.of(host_name(address))
        for item in recorded:
            client.get_host_keys().add(host_name(address), item.key.get_name(), item.key)
        client.set_missing_host_key_policy(_FirstKey(login))
        patience = address.connect_timeout_s
        try:
            client.connect(
                address.host, address.port, login.user, login.password, login.key, sock=sock,
                allow_agent=False, look_for_keys=False, banner_timeout=patience,
                timeout=3 * patience, auth_timeout=3 * patience, channel_timeout=3 * patience,
                transport_factory=_transport_for(recorded),
            )  # fmt: skip
        except paramiko.BadHostKeyException as error:
            raise changed(login, recorded, error) from None
        except paramiko.AuthenticationException as error:
            raise refused(login, error) from None
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise no_ssh(address, client.get_transport(), error) from None

    def disconnect(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None

    def run_shell_command(
        self, command: Any, print_output: bool = False, print_input: bool = False, **arguments: Any
    ) -> tuple[bool, CommandOutput]:
        """For pyinfra's own facts: its arguments, our way of running."""
        arguments.pop("_get_pty", None)
        timeout_s = arguments.pop("_timeout", None) or 300
        stdin = arguments.pop("_stdin", None)
        wanted = arguments.pop("_success_exit_codes", None) or [0]
        if isinstance(stdin, list | tuple):
            stdin = "".join(f"{line}\n" for line in stdin)
        raw = make_unix_command_for_host(self.state, self.host, command, **arguments)
        result = self.execute(
            shlex.join(limited(["sh", "-c", raw.get_raw_value()], timeout_s)), stdin, timeout_s
        )
        if result.timed_out:
            raise TimeoutError
        lines = [OutputLine("stdout", line) for line in result.stdout.splitlines()]
        lines += [OutputLine("stderr", line) for line in result.stderr.splitlines()]
        return result.rc in wanted, CommandOutput(lines)

    def execute(self, command: str, stdin: bytes | str | None, timeout_s: float) -> Result:
        """Run one line of shell. Unreachable: the connection broke before it ended."""
        started = time.monotonic()
        deadline = started + timeout_s + KILL_AFTER_S + _GRACE_S
        lost = Unreachable(f"{where(self.login.address)}: the connection broke during a command")
        transport = self.client.get_transport() if self.client else None
        if transport is None:
            raise lost
        try:
            channel = transport.open_session(timeout=max(1.0, deadline - time.monotonic()))
            channel.exec_command(_marked(command))
        except (paramiko.SSHException, EOFError, OSError):
            raise lost from None
        with channel:
            out, err, in_time = exchange(channel, stdin, deadline, _MARK)
            in_time = in_time and channel.status_event.wait(max(0.0, deadline - time.monotonic()))
            rc = channel.recv_exit_status() if channel.exit_status_ready() else -1
        if rc == -1 and in_time and not transport.is_active():
            raise lost
        if rc == 0 and not out.marked:
            rc = -1  # a forced command, or a notice: whatever succeeded, it was not ours
        # 124 and 137 are what `timeout` leaves; the clock tells them from the command's own.
        late = rc in (124, 137) and time.monotonic() - started >= timeout_s
        return Result(rc, out.text, err.text, late or not in_time, out.cut or err.cut)


def _transport_for(recorded: list[Recorded]) -> Callable[..., paramiko.Transport]:
    """Ask the server for the kind of key that is on record; a change of kind is then a change.

    paramiko would ask for a recorded RSA key as `ssh-rsa`, which today's servers do not sign as.
    """

    def make(sock: socket.socket, **options: Any) -> paramiko.Transport:
        transport = paramiko.Transport(sock, **options)
        kinds = [item.key.get_name() for item in recorded]
        first = [name for kind in kinds for name in (_RSA if kind == "ssh-rsa" else (kind,))]
        security = transport.get_security_options()
        offered = tuple(security.key_types)
        first = [name for name in dict.fromkeys(first) if name in offered]
        security.key_types = (*first, *(name for name in offered if name not in first))
        return transport

    return make


def limited(argv: list[str], timeout_s: float) -> list[str]:
    """`argv` under `timeout`: the node ends it, whatever becomes of the connection."""
    return ["timeout", "-k", str(KILL_AFTER_S), f"{timeout_s:g}", *argv]


def _marked(command: str) -> str:
    """`command` in a shell that writes the mark to both outputs, whatever the login shell is."""
    mark = _MARK.decode().rstrip()
    return shlex.join(["sh", "-c", f"echo {mark}; echo {mark} >&2; exec {command}"])
