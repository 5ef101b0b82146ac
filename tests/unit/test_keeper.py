"""A run keeps one connection a node, whichever of its processes asks for the node."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodeprep import workers
from nodeprep.errors import HostKeyUnknown, ToolFailure, Unreachable
from nodeprep.remote import KeptRemote, kept
from tests.unit import servers
from tests.unit.servers import Sshd

MODULE = "nodeprep.remote.keeper"


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with servers.openssh(tmp_path) as server:
        yield server


@contextlib.contextmanager
def keeper(sshd: Sshd, **changes: object) -> Iterator[KeptRemote]:
    connection = sshd.connection(**changes)
    socket = str(sshd.folder / "keeper")
    job = {"socket": socket, "nodes": {"node": connection.model_dump(mode="json")}}
    with workers.beside(MODULE, job, log=sshd.folder / "keeper.log"):
        yield kept({"node": connection.user}, socket)["node"]


def logins(sshd: Sshd) -> int:
    return (sshd.folder / "log").read_text().count("Accepted publickey")


def sessions(sshd: Sshd) -> list[int]:
    """The processes of sshd that serve a login each."""
    children = Path(f"/proc/{sshd.pid}/task/{sshd.pid}/children").read_text()
    return [int(child) for child in children.split()]


def say(node: KeptRemote, command: str, **how: object) -> str:
    return node.run(command, sudo=False, timeout_s=20, **how).stdout  # type: ignore[arg-type]


def test_all_that_ask_share_one_login(sshd: Sshd) -> None:
    with keeper(sshd) as node, ThreadPoolExecutor(8) as pool:
        assert logins(sshd) == 0  # nobody has asked yet
        said = list(pool.map(lambda n: say(node.connect(), f"sleep 0.2; echo {n}"), range(8)))
        assert said == [f"{n}\n" for n in range(8)]
        assert logins(sshd) == 1


def test_a_command_is_run_as_on_a_connection_of_ones_own(sshd: Sshd) -> None:
    with keeper(sshd) as node:
        assert say(node, "tr a-z A-Z", stdin="grün\n") == "GRüN\n"
        result = node.run(["sh", "-c", "echo err >&2; exit 3"], sudo=False, timeout_s=20)
        assert (result.rc, result.stderr, result.timed_out) == (3, "err\n", False)
        assert node.run("sleep 30", sudo=False, timeout_s=1).timed_out


def test_what_keeps_a_node_from_being_reached_is_told_as_it_is(sshd: Sshd) -> None:
    (sshd.folder / "nobody").touch()
    with (
        keeper(sshd, known_hosts=str(sshd.folder / "nobody")) as node,
        pytest.raises(HostKeyUnknown) as told,
    ):
        node.connect()
    assert "provision" in told.value.hint


def test_a_broken_connection_is_an_error_once_and_made_anew_then(sshd: Sshd) -> None:
    with keeper(sshd) as node:
        say(node, "true")
        (serving,) = sessions(sshd)
        os.kill(serving, signal.SIGKILL)
        with pytest.raises(Unreachable):
            say(node, "sleep 1; echo lost")
        assert say(node, "echo back") == "back\n"
        assert logins(sshd) == 2


def test_without_its_keeper_a_node_says_so(sshd: Sshd) -> None:
    with keeper(sshd) as node:
        say(node, "true")
    with pytest.raises(ToolFailure, match="connections are not kept"):
        say(node, "true")


def test_it_ends_with_its_parent_and_closes_what_it_kept(sshd: Sshd) -> None:
    with keeper(sshd) as node:
        say(node, "true")
        assert len(sessions(sshd)) == 1
    deadline = time.monotonic() + 5
    while sessions(sshd) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not sessions(sshd)


def test_one_that_does_not_start_is_no_keeper(sshd: Sshd) -> None:
    job = {"socket": str(sshd.folder / "nowhere" / "keeper"), "nodes": {}}
    with (
        pytest.raises(ToolFailure, match="FileNotFoundError"),
        workers.beside(MODULE, job, log=sshd.folder / "log of it"),
    ):
        raise AssertionError("it said that it was ready")
