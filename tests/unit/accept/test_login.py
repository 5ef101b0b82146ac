"""What sshd offers is asked on the wire, of the node whose key is on record."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL

from nodeprep.accept.login import methods_offered
from nodeprep.errors import HostKeyChanged, Unreachable
from nodeprep.model.node import Connection

KEY = paramiko.ECDSAKey.generate()


class Server(paramiko.ServerInterface):
    """An sshd that offers `ways`, or lets anyone in."""

    def __init__(self, ways: str) -> None:
        self.ways = ways

    def check_auth_none(self, username: str) -> int:
        return AUTH_FAILED if self.ways else AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return self.ways if username == "ops" else "publickey,password"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def connection(listener: socket.socket, tmp_path: Path, key: paramiko.PKey = KEY) -> Connection:
    port = listener.getsockname()[1]
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n")
    return Connection(
        host="127.0.0.1", port=port, user="ops", key_file="/k", known_hosts=str(known),
        connect_timeout_s=5,
    )  # fmt: skip


def serve(listener: socket.socket, ways: str) -> None:
    def one() -> None:
        sock, _ = listener.accept()
        transport = paramiko.Transport(sock)
        transport.add_server_key(KEY)
        try:
            transport.start_server(server=Server(ways))
            transport.join(10)
        except (paramiko.SSHException, EOFError):
            return

    threading.Thread(target=one, daemon=True).start()


@pytest.mark.parametrize(
    ("user", "ways", "offered"),
    [
        ("ops", "publickey", ("publickey",)),
        ("ops", "publickey,keyboard-interactive", ("publickey", "keyboard-interactive")),
        ("root", "publickey", ("publickey", "password")),
        ("ops", "", ()),
    ],
)
def test_the_ways_offered_to_a_user(
    listener: socket.socket, tmp_path: Path, user: str, ways: str, offered: tuple[str, ...]
) -> None:
    serve(listener, ways)
    assert methods_offered(connection(listener, tmp_path), user) == offered


def test_another_hosts_answer_is_not_taken(listener: socket.socket, tmp_path: Path) -> None:
    serve(listener, "publickey")
    with pytest.raises(HostKeyChanged):
        methods_offered(connection(listener, tmp_path, paramiko.ECDSAKey.generate()), "ops")


def test_what_speaks_no_ssh_is_unreachable(listener: socket.socket, tmp_path: Path) -> None:
    def hang_up() -> None:
        listener.accept()[0].close()

    threading.Thread(target=hang_up, daemon=True).start()
    with pytest.raises(Unreachable):
        methods_offered(connection(listener, tmp_path), "ops")
