"""SSH servers for tests, on loopback: OpenSSH as it is, and odd ones made with paramiko."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL

from nodeprep.model.node import Connection

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
USER = getpass.getuser()


def make_key(path: Path, passphrase: str = "") -> paramiko.PKey:
    secret = (
        form.BestAvailableEncryption(passphrase.encode()) if passphrase else form.NoEncryption()
    )
    made = Ed25519PrivateKey.generate()
    path.write_bytes(made.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, secret))
    path.chmod(0o600)
    return paramiko.Ed25519Key(filename=str(path), password=passphrase or None)


def entry(port: int, key: paramiko.PKey, host: str = "127.0.0.1") -> str:
    return f"[{host}]:{port} {key.get_name()} {key.get_base64()}\n"


@dataclass
class Sshd:
    """A running OpenSSH, a key that opens it, and what is on record of it."""

    folder: Path
    port: int
    host_key: paramiko.PKey
    pid: int = 0

    def connection(self, **changes: object) -> Connection:
        values = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": USER,
            "key_file": str(self.folder / "id"),
            "known_hosts": str(self.folder / "known_hosts"),
            "connect_timeout_s": 5,
        }
        return Connection.model_validate(values | changes)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def openssh(folder: Path, extra: str = "") -> Iterator[Sshd]:
    """sshd for the user who runs the tests; skips where there is none, but never in CI."""
    if SSHD is None:
        assert not os.environ.get("CI"), "sshd is missing, and CI must have it"
        pytest.skip("there is no sshd on this machine")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    port, host_key = free_port(), make_key(folder / "host_key")
    own = make_key(folder / "id")
    (folder / "authorized").write_text(f"{own.get_name()} {own.get_base64()}\n")
    (folder / "known_hosts").write_text(entry(port, host_key))
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"PasswordAuthentication no\n{extra}\n"
    )
    process = subprocess.Popen([SSHD, "-D", "-f", folder / "config", "-E", folder / "log"])
    try:
        _listening(port, process)
        yield Sshd(folder, port, host_key, process.pid)
    finally:
        process.terminate()
        process.wait(10)


def _listening(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        assert process.poll() is None, "sshd did not start"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError("sshd does not listen")


@contextlib.contextmanager
def listener(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A TCP server that gives every connection to `talk`; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    talk(server.accept()[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@dataclass
class PasswordServer(paramiko.ServerInterface):
    """Takes one password, counts what is tried, and runs nothing."""

    password: str = "right"
    tried: list[str] = field(default_factory=list)

    def get_allowed_auths(self, username: str) -> str:
        return "password,publickey"

    def check_auth_password(self, username: str, password: str) -> int:
        self.tried.append(password)
        return AUTH_SUCCESSFUL if password == self.password else AUTH_FAILED


@contextlib.contextmanager
def password_server(host_key: paramiko.PKey, rules: PasswordServer) -> Iterator[int]:
    transports: list[paramiko.Transport] = []

    def talk(sock: socket.socket) -> None:
        transport = paramiko.Transport(sock)
        transport.add_server_key(host_key)
        transports.append(transport)
        with contextlib.suppress(paramiko.SSHException, EOFError):
            transport.start_server(event=threading.Event(), server=rules)

    with listener(talk) as port:
        yield port
        for transport in transports:
            transport.close()
