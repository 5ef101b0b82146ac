"""Connections are strict about host keys, typed in their errors, bounded in time and output."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep import remote
from nodeprep.errors import (
    BadInput,
    HostKeyChanged,
    HostKeyUnknown,
    LoginRefused,
    NodeprepError,
    Unreachable,
)
from nodeprep.remote import KnownHosts, Remote, Result, exchange
from nodeprep.remote.known_hosts import forget
from tests.unit import servers
from tests.unit.servers import PasswordServer, Sshd


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with servers.openssh(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def node(sshd: Sshd) -> Iterator[Remote]:
    with remote.remotes({"node": sshd.connection()})["node"].connect() as connected:
        yield connected


def attempt(connection: object, **how: object) -> Remote | NodeprepError:
    return remote.open_nodes({"node": connection}, **how)["node"]  # type: ignore[arg-type,dict-item]


def refusal(connection: object, **how: object) -> NodeprepError:
    error = attempt(connection, **how)
    assert isinstance(error, NodeprepError), "the connection was made"
    return error


def run(node: Remote, command: str, stdin: bytes | str | None = None) -> Result:
    return node.run(command, sudo=False, stdin=stdin, timeout_s=20)


def test_a_command_brings_back_its_status_and_both_outputs(node: Remote) -> None:
    result = run(node, "echo out; echo err >&2; exit 3")
    assert (result.rc, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.ok


def test_a_list_is_no_shell_text(node: Remote) -> None:
    result = node.run(["echo", "$HOME; it's"], sudo=False, timeout_s=20)
    assert result.stdout == "$HOME; it's\n"


def test_stdin_arrives_as_it_is(node: Remote) -> None:
    assert run(node, "od -An -tx1", stdin=b"\x00\xff\n").stdout.split() == ["00", "ff", "0a"]


def test_a_missing_command_is_127(node: Remote) -> None:
    assert node.run(["no-such-command"], sudo=False, timeout_s=20).rc == 127


def test_bytes_that_are_no_text_are_replaced(node: Remote) -> None:
    assert run(node, r"printf '\377x'").stdout == "\ufffdx"


def test_both_streams_may_be_larger_than_the_ssh_window(node: Remote) -> None:
    much = 3 * 2**20
    result = run(
        node, f"head -c {much} /dev/zero >&2; cat; head -c {much} /dev/zero >&2", b"x" * much
    )
    assert (len(result.stdout), len(result.stderr)) == (much, 2 * much)


def test_output_beyond_the_cap_is_dropped_and_told(
    node: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MAX_OUTPUT", 1000)
    result = run(node, "head -c 5000 /dev/zero; exit 4")
    assert (len(result.stdout), result.truncated, result.rc) == (1000, True, 4)
    assert not run(node, "head -c 1000 /dev/zero").truncated


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A node whose logins print megabytes before any command."""
    noise = "head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero >&2"
    folder = tmp_path_factory.mktemp("noisy")
    (folder / "shell").write_text(f"{noise}; eval $SSH_ORIGINAL_COMMAND")
    with servers.openssh(folder, extra=f"ForceCommand sh {folder}/shell") as server:
        yield server


def test_what_a_login_prints_is_not_the_commands(
    noisy: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MAX_OUTPUT", 1000)
    with remote.remotes({"node": noisy.connection()})["node"].connect() as node:
        result = run(node, "echo out; echo err >&2; exit 3")
    assert (result.rc, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.truncated


def test_what_is_said_instead_of_running_the_command_is_kept_and_no_success(
    tmp_path: Path,
) -> None:
    with (
        servers.openssh(tmp_path, extra="ForceCommand echo log in as ubuntu") as server,
        remote.remotes({"node": server.connection()})["node"].connect() as node,
    ):
        result = run(node, "true")
    assert result.stdout == "log in as ubuntu\n"
    assert not result.ok


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 9))
def test_the_mark_is_found_however_the_output_is_torn(
    noise: bytes, output: bytes, size: int
) -> None:
    data, stream = noise + b"--mark--\n" + output, exchange.Stream(b"--mark--\n")
    for at in range(0, len(data), size):
        stream.add(data[at : at + size])
    assert stream.text == output.decode(errors="replace")


def test_a_command_that_takes_too_long_is_ended_on_the_node(node: Remote, tmp_path: Path) -> None:
    result = node.run(f"echo $$ >{tmp_path}/pid; sleep 60", sudo=False, timeout_s=0.3)
    assert result.timed_out
    assert not result.ok
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    pytest.fail("the command is still running")


def test_a_status_of_124_within_the_time_is_the_commands_own(node: Remote) -> None:
    result = run(node, "exit 124")
    assert (result.rc, result.timed_out) == (124, False)


def test_a_connection_that_breaks_is_unreachable(sshd: Sshd) -> None:
    with remote.remotes({"node": sshd.connection()})["node"].connect() as node:
        with pytest.raises(Unreachable, match="broke"):
            # shell -> timeout -> the connection's sshd
            run(node, "kill -9 $(awk '{print $4}' /proc/$PPID/stat); sleep 5")
        with pytest.raises(Unreachable, match="broke"):
            run(node, "true")


def test_closing_leaves_no_connection(sshd: Sshd) -> None:
    node = remote.remotes({"node": sshd.connection()})["node"].connect()
    transport = node._host.connector.client.get_transport()
    node.close()
    assert not transport.is_active()
    node.close()


def test_pyinfras_own_facts_work_over_it(node: Remote) -> None:
    from pyinfra.context import ctx_host, ctx_state
    from pyinfra.facts.server import Hostname

    host = node._host
    host.state.activate_host(host)
    with ctx_state.use(host.state), ctx_host.use(host):
        assert host.get_fact(Hostname) == socket.gethostname()


# -- host keys ---------------------------------------------------------------------------------


def test_a_host_without_a_key_on_record_is_refused_before_any_login(tmp_path: Path) -> None:
    rules = PasswordServer()
    with servers.password_server(servers.make_key(tmp_path / "host"), rules) as port:
        error = refusal(stranger(tmp_path, port), passwords={"node": "right"})
    assert isinstance(error, HostKeyUnknown)
    assert "provision" in error.hint
    assert rules.tried == []


def test_a_changed_key_names_both_fingerprints_and_the_line(sshd: Sshd, tmp_path: Path) -> None:
    other = servers.make_key(tmp_path / "other")
    known = tmp_path / "known_hosts"
    known.write_text("# a comment\n\n" + servers.entry(sshd.port, other))
    error = refusal(sshd.connection(known_hosts=str(known)))
    assert isinstance(error, HostKeyChanged)
    assert other.fingerprint in error.message
    assert sshd.host_key.fingerprint in error.message
    assert f"{known} line 3" in error.message
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}'" in error.hint


def test_a_key_that_changes_while_the_process_lives_is_noticed(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(servers.entry(sshd.port, sshd.host_key))
    connection = sshd.connection(known_hosts=str(known))
    assert isinstance(attempt(connection), Remote)
    known.write_text(servers.entry(sshd.port, servers.make_key(tmp_path / "other")))
    assert isinstance(refusal(connection), HostKeyChanged)


def test_another_kind_of_key_is_a_change_too(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(servers.entry(sshd.port, paramiko.ECDSAKey.generate()))
    assert isinstance(refusal(sshd.connection(known_hosts=str(known))), HostKeyChanged)


def test_a_key_recorded_as_rsa_is_asked_for_as_rsa(tmp_path: Path) -> None:
    rsa = paramiko.RSAKey.generate(2048)
    rsa.write_private_key_file(str(tmp_path / "rsa"))
    with servers.openssh(tmp_path, extra=f"HostKey {tmp_path}/rsa") as sshd:
        (tmp_path / "known_hosts").write_text(servers.entry(sshd.port, rsa))
        assert isinstance(attempt(sshd.connection()), Remote)


def test_a_hashed_name_is_found(sshd: Sshd, tmp_path: Path) -> None:
    name = paramiko.HostKeys.hash_host(f"[127.0.0.1]:{sshd.port}")
    known = tmp_path / "known_hosts"
    known.write_text(f"{name} {sshd.host_key.get_name()} {sshd.host_key.get_base64()}\n")
    assert isinstance(attempt(sshd.connection(known_hosts=str(known))), Remote)


def test_what_the_user_keeps_in_ssh_folder_counts_for_nothing(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".ssh"
    folder.mkdir()
    (folder / "known_hosts").write_text(servers.entry(sshd.port, sshd.host_key))
    (folder / "config").write_text("Host *\n  StrictHostKeyChecking no\n  Port 1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    error = refusal(sshd.connection(known_hosts=str(tmp_path / "none")))
    assert isinstance(error, HostKeyUnknown)


def test_a_damaged_line_is_bad_input_for_its_host_alone(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text("other ssh-ed25519 !!!\n" + servers.entry(sshd.port, sshd.host_key))
    assert isinstance(attempt(sshd.connection(known_hosts=str(known))), Remote)
    with pytest.raises(BadInput, match="line 1"):
        KnownHosts(known).of("other")


@given(st.text())
def test_no_known_hosts_file_breaks_the_reader(text: str) -> None:
    path = Path("/nonexistent")
    hosts = KnownHosts(path)
    hosts._take(text)
    for name in ("host", "", text[:5]):
        try:
            hosts.of(name)
        except BadInput as error:
            assert "line" in error.message


def test_forgetting_takes_one_host_off_the_record(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    other = servers.entry(1, sshd.host_key)
    known.write_text(servers.entry(sshd.port, sshd.host_key) + other)
    assert forget(known, "127.0.0.1", sshd.port) == 1
    assert known.read_text() == other
    assert forget(known, "127.0.0.1", sshd.port) == 0
    assert forget(tmp_path / "none", "127.0.0.1", 22) == 0


# -- everything else that can go wrong ---------------------------------------------------------


def test_an_unknown_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    servers.make_key(tmp_path / "stranger")
    error = refusal(sshd.connection(key_file=str(tmp_path / "stranger")))
    assert isinstance(error, LoginRefused)
    assert f"{servers.USER}@127.0.0.1:{sshd.port}" in error.message


def stranger(folder: Path, port: int, **changes: object) -> object:
    """A connection to a server of which nothing is known, and no key of ours."""
    base = Sshd(folder, port, servers.make_key(folder / "unused"))
    return base.connection(key_file=str(folder / "none"), **changes)


def test_a_password_is_tried_once_and_shown_nowhere(tmp_path: Path) -> None:
    host_key, rules = servers.make_key(tmp_path / "host"), PasswordServer()
    with servers.password_server(host_key, rules) as port:
        (tmp_path / "known_hosts").write_text(servers.entry(port, host_key))
        error = refusal(stranger(tmp_path, port), passwords={"node": "s3cret"})
        assert isinstance(error, LoginRefused)
        assert "s3cret" not in str(error) + repr(error)
        assert rules.tried == ["s3cret"]
        assert isinstance(attempt(stranger(tmp_path, port), passwords={"node": "right"}), Remote)


def test_a_server_that_takes_no_passwords_is_told_as_such(sshd: Sshd, tmp_path: Path) -> None:
    connection = sshd.connection(key_file=str(tmp_path / "none"))
    error = refusal(connection, passwords={"node": "s3cret"})
    assert isinstance(error, LoginRefused)
    assert "takes no password, only publickey" in error.message


def test_a_password_is_in_no_representation(sshd: Sshd) -> None:
    node = remote.remotes({"node": sshd.connection()}, passwords={"node": "s3cret"})["node"]
    assert "s3cret" not in repr(node.login) + str(node.__dict__)


def test_a_refused_port_says_so(sshd: Sshd) -> None:
    error = refusal(sshd.connection(port=servers.free_port()))
    assert type(error) is Unreachable
    assert "refuses the connection" in error.message


def test_a_name_that_does_not_resolve_says_so(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    def unresolved(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    assert "does not resolve" in refusal(sshd.connection(host="nowhere")).message


@pytest.mark.parametrize(
    ("greeting", "said"),
    [
        (None, "does not speak SSH within 1 s"),
        (b"", "closes it before SSH begins"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200, "something else than SSH"),
        (b"SSH-1.5-old\r\n", "handshake failed"),
        (b"SSH-2.0-broken\r\n" + bytes(3000), "handshake failed"),
    ],
)
def test_a_server_that_is_no_ssh_says_how(
    greeting: bytes | None, said: str, tmp_path: Path
) -> None:
    held = []

    def talk(sock: socket.socket) -> None:
        held.append(sock)
        if greeting is not None:
            sock.sendall(greeting)
            sock.shutdown(socket.SHUT_WR)

    with servers.listener(talk) as port:
        error = refusal(stranger(tmp_path, port, connect_timeout_s=1), passwords={"node": "x"})
    for sock in held:
        sock.close()
    assert type(error) is Unreachable
    assert said in error.message
    assert f"127.0.0.1:{port}" in error.message


def test_a_key_file_that_cannot_be_used_is_bad_input(sshd: Sshd, tmp_path: Path) -> None:
    missing = refusal(sshd.connection(key_file=str(tmp_path / "none")))
    assert isinstance(missing, BadInput)
    assert "no private key" in missing.message
    servers.make_key(tmp_path / "locked", passphrase="open sesame")
    locked = refusal(sshd.connection(key_file=str(tmp_path / "locked")))
    assert isinstance(locked, BadInput)
    assert "passphrase" in locked.message
    (tmp_path / "nonsense").write_text("no key")
    assert isinstance(refusal(sshd.connection(key_file=str(tmp_path / "nonsense"))), BadInput)


def test_one_bad_node_leaves_the_others_alone(sshd: Sshd) -> None:
    good, bad = sshd.connection(), sshd.connection(port=servers.free_port())
    opened = remote.open_nodes({"bad": bad, "good": good})
    assert isinstance(opened["bad"], Unreachable)
    assert isinstance(opened["good"], Remote)
    opened["good"].close()
