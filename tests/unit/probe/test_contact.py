"""First contact: in which order, what is proven before what, and how each fault is told.

The node is a pretended one that knows the texts of `contact_shell` by identity; what the texts do
on a real node is the affair of tests/integration/test_contact.py.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nodeprep.errors import (
    BadInput,
    HostKeyChanged,
    LoginRefused,
    NodeFault,
    NodeprepError,
    Unreachable,
)
from nodeprep.probe import contact, contact_shell
from nodeprep.probe.worker import address
from nodeprep.remote import Result
from tests.unit.accept.fault_table import outside

DOOR = "/etc/ssh/sshd_config.d/00-nodeprep.conf"
CLOSED = "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
NAMES = {
    getattr(contact_shell, name): name
    for name in ("LOOK", "LOCKS", "INSTALL", "ADMIN", "APPLY", "CONFIRM", "REVERT")
}
ACCOUNT = {"user", "key", "sudoers"}


@dataclass
class Pretended:
    """A node: what it has, whom it lets in, and everything that was done to it, in order."""

    password: str = "right"
    has: set[str] = field(default_factory=lambda: set(contact._PACKAGES))
    files: dict[str, str] = field(default_factory=dict)
    root_has_key: bool = False
    sudo_works: bool = True
    overruled: bool = False  # another file of sshd's wins
    locks: list[str] = field(default_factory=list)
    faults: dict[str, Result | NodeprepError] = field(default_factory=dict)  # by step
    logins: list[NodeprepError | None] = field(default_factory=list)  # of the next as admin
    sudoers: str = ""
    log: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def open_to_passwords(self) -> bool:
        return self.overruled or "PasswordAuthentication no" not in self.files.get(DOOR, "")

    def login(self, user: str, password: str | None) -> Session:
        self.log.append(f"login {user}{' with password' if password else ''}")
        if user == "root":
            good = password == self.password and self.open_to_passwords
            if not good and not self.root_has_key:
                raise LoginRefused("refused")
        else:
            fault = self.logins.pop(0) if self.logins else None
            if fault:
                raise fault
            if not {"user", "key"} <= self.has:
                raise LoginRefused("refused")
        return Session(self, user)

    def step(self, name: str, arguments: list[str], stdin: bytes | str) -> Result:
        self.log.append(name)
        fault = self.faults.get(name)
        if isinstance(fault, NodeprepError):
            raise fault
        return fault or getattr(self, f"_{name.lower()}")(arguments, stdin)

    def _look(self, _: list[str], stdin: str) -> Result:
        words = [contact_shell.GREETING, *self.has]
        for line in stdin.splitlines():
            wanted, _mode, path = line.split(" ", 2)
            content = self.files.get(path)
            if content is not None and hashlib.sha256(content.encode()).hexdigest() == wanted:
                words.append(f"file {path}")
        words.append(f"passwordauthentication {'yes' if self.open_to_passwords else 'no'}")
        return Result(0, "\n".join(words) + "\n", "")

    def _locks(self, *_: object) -> Result:
        return Result(0, self.locks.pop(0) if self.locks else "", "")

    def _install(self, packages: list[str], _: object) -> Result:
        self.has |= set(packages)
        return Result(0, "", "")

    def _admin(self, arguments: list[str], _: object) -> Result:
        self.sudoers = arguments[2]
        made = ACCOUNT - self.has - (set() if arguments[2] else {"sudoers"})
        self.has |= made
        return Result(0, "\n".join(sorted(made)), "")

    def _apply(self, _: object, stdin: bytes) -> Result:
        with tarfile.open(fileobj=io.BytesIO(stdin)) as archive:
            for item in archive:
                held = archive.extractfile(item)
                assert held is not None
                self.files["/" + item.name] = held.read().decode()
        return Result(0, "", "")

    def _revert(self, *_: object) -> Result:
        self.files.clear()
        self.has.discard("pending")
        return Result(0, "", "")

    def _confirm(self, *_: object) -> Result:
        return Result(0, "", "")


@dataclass
class Session:
    """A connection to the pretended node."""

    node: Pretended
    user: str
    name: str = "gpu1"
    host_key: str = "SHA256:abc"

    def run(self, argv: list[str], *, stdin: bytes | str = b"", timeout_s: float) -> Result:
        if self.user != "root" and not (self.node.sudo_works and "sudoers" in self.node.has):
            return Result(1, "", "sudo: a password is required")
        if argv == ["true"]:
            self.node.log.append("sudo true")
            return Result(0, "", "")
        assert argv[:2] == ["sh", "-c"]
        return self.node.step(NAMES[argv[2]], argv[4:], stdin)

    def close(self) -> None:
        pass

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        pass


Contact = Callable[..., dict[str, Any]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contact:
    """First contact with a pretended node; keywords change its entry in the job."""

    def run(node: Pretended, **changes: Any) -> dict[str, Any]:
        def remotes(
            connections: Mapping[str, Any],
            *,
            users: Mapping[str, str],
            passwords: Mapping[str, str] | None,
            learn: object,
        ) -> dict[str, Any]:
            assert learn is not None
            (name,) = connections
            made = Connecting(node, users[name], (passwords or {}).get(name))
            return {name: made}

        monkeypatch.setattr(contact, "remotes", remotes)
        monkeypatch.setattr("time.sleep", lambda _: None)
        entry = {
            "name": "gpu1",
            "connection": {
                "host": "192.0.2.1",
                "port": 22,
                "user": changes.pop("user", "ops"),
                "bootstrap_user": "root",
                "key_file": str(tmp_path / "id"),
                "known_hosts": str(tmp_path / "known_hosts"),
                "connect_timeout_s": 5,
            },
            "password": "right",
            "files": [{"path": DOOR, "content": CLOSED, "mode": "0644"}],
        } | changes
        return contact.first_contact(entry, address(entry), node.said.append)

    return run


@dataclass
class Connecting:
    node: Pretended
    user: str
    password: str | None

    def connect(self) -> Session:
        return self.node.login(self.user, self.password)


def refused(make: Contact, node: Pretended, **changes: Any) -> NodeprepError:
    with pytest.raises(NodeprepError) as caught:
        make(node, **changes)
    assert "right" not in str(caught.value)
    assert not any("right" in text for text in node.said)
    return caught.value


def finished() -> Pretended:
    node = Pretended(files={DOOR: CLOSED})
    node.has |= ACCOUNT
    return node


def test_a_fresh_node_goes_through_every_step_in_order(make: Contact) -> None:
    node = Pretended(has=set())
    done = make(node)
    assert node.log == [
        "login ops",
        "login root with password",
        "LOOK",
        "LOCKS",
        "INSTALL",
        "ADMIN",
        "login ops",
        "sudo true",
        "APPLY",
        "login ops",
        "LOOK",
        "CONFIRM",
    ]
    assert done["bootstrapped"]
    assert done["host_key"] == "SHA256:abc"
    assert done["changed"] == [
        "package python3", "package sudo", "package python3-apt",
        "package dmidecode", "package ethtool", "package pciutils",
        "key ops", "sudoers ops", "user ops", f"file {DOOR}",
    ]  # fmt: skip


def test_a_node_that_was_contacted_costs_one_connection_and_one_look(make: Contact) -> None:
    node = finished()
    assert make(node, password=None)["changed"] == []
    assert node.log == ["login ops", "LOOK"]


def test_it_goes_on_where_a_run_was_killed(make: Contact) -> None:
    node = finished()
    node.files.clear()
    assert make(node, password=None)["changed"] == [f"file {DOOR}"]
    assert "ADMIN" not in node.log


def test_an_unconfirmed_change_of_a_killed_run_is_taken_back_first(make: Contact) -> None:
    node = finished()
    node.has.add("pending")
    make(node)
    assert node.log[:4] == ["login ops", "LOOK", "REVERT", "LOOK"]
    assert node.log[-1] == "CONFIRM"


def test_a_key_that_opens_root_needs_no_password(make: Contact) -> None:
    assert make(Pretended(root_has_key=True), password=None)["bootstrapped"]


def test_without_a_password_the_three_ways_to_give_one_are_named(make: Contact) -> None:
    error = refused(make, Pretended(), password=None)
    assert isinstance(error, BadInput)
    for way in ("nodeprep_bootstrap_password", "NODEPREP_BOOTSTRAP_PASSWORD", "prompt"):
        assert way in error.hint


def test_a_wrong_password_is_tried_once(make: Contact) -> None:
    node = Pretended(password="other")
    assert isinstance(refused(make, node), LoginRefused)
    assert node.log.count("login root with password") == 1


def test_a_changed_host_key_ends_it_before_the_password(make: Contact) -> None:
    node = Pretended(logins=[HostKeyChanged("changed")])
    assert isinstance(refused(make, node), HostKeyChanged)
    assert node.log == ["login ops"]


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        (Result(1, "", "WARNING: Your password has expired.\nPassword change required but no TTY"),
         LoginRefused, "expired"),
        (Result(0, "Please login as the user \"ubuntu\"\n", ""), NodeFault, "gets no shell"),
        (Result(0, "", ""), NodeFault, "silence"),
        (Result(1, "", "sudo: a password is required"), NodeFault, "sudo without a password"),
    ],
)  # fmt: skip
def test_a_login_that_leads_nowhere_says_why(
    answer: Result, kind: type, expected: str, make: Contact
) -> None:
    error = refused(make, Pretended(faults={"LOOK": answer}))
    assert isinstance(error, kind)
    assert expected in error.message


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("cat: write error: No space left on device", "its disk is full"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "its disk is full"),
        ("Err:1 http://mirror bookworm\n  Temporary failure resolving 'mirror'", "no names"),
        ("E: Failed to fetch http://mirror/x  Unable to connect", "package mirror"),
        ("E: Unable to locate package python3-apt", "apt sources lack"),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend", "apt lock is held"),
        ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", "interrupted"),
        ("something never seen", "something never seen"),
        ("", "exit 100"),
    ],
)
def test_a_failed_install_says_what_it_means(output: str, expected: str, make: Contact) -> None:
    node = Pretended(has=set(), faults={"INSTALL": Result(100, "", output)})
    error = refused(make, node)
    assert isinstance(error, NodeFault)
    assert expected in error.message
    assert "ADMIN" not in node.log


def test_a_step_that_hangs_says_so(make: Contact) -> None:
    node = Pretended(has=set(), faults={"INSTALL": Result(124, "", "", timed_out=True)})
    assert "took too long to install" in refused(make, node).message


def test_a_held_apt_lock_is_waited_for_with_one_word_a_holder(make: Contact) -> None:
    node = Pretended(has=set(), locks=["apt-get, pid 7", "apt-get, pid 7", "dpkg, pid 8"])
    make(node)
    assert [text for text in node.said if "the apt lock" in text] == [
        "waiting for the apt lock held by apt-get, pid 7",
        "waiting for the apt lock held by dpkg, pid 8",
    ]


def test_a_lock_that_is_never_let_go_is_an_error(
    make: Contact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contact, "LOCK_WAIT_S", -1)
    error = refused(make, Pretended(has=set(), locks=["apt, pid 7"] * 9))
    assert "held" in error.message
    assert "apt, pid 7" in error.message
    assert outside("apt_lock_held").action == error.hint


def test_password_login_stays_while_the_key_is_refused(make: Contact) -> None:
    node = Pretended(logins=[LoginRefused("no"), LoginRefused("no")])
    assert "refused all the same" in refused(make, node).message
    assert "APPLY" not in node.log
    assert node.open_to_passwords


def test_password_login_stays_while_sudo_does_not_work(make: Contact) -> None:
    node = Pretended(sudo_works=False)
    assert "sudo fails" in refused(make, node).message
    assert "APPLY" not in node.log


@pytest.mark.parametrize("fault", [LoginRefused("no"), HostKeyChanged("other")])
def test_a_change_that_locks_out_is_taken_back(fault: NodeprepError, make: Contact) -> None:
    node = Pretended(logins=[LoginRefused("not yet"), None, fault])
    error = refused(make, node)
    assert isinstance(error, NodeFault)
    assert "has been taken back" in error.message
    assert node.log[-1] == "REVERT"
    assert "CONFIRM" not in node.log


def test_when_it_cannot_be_taken_back_the_timer_is_named(make: Contact) -> None:
    node = Pretended(
        logins=[LoginRefused("not yet"), None, LoginRefused("no")],
        faults={"REVERT": Unreachable("gone")},
    )
    assert "takes itself back within 120 s" in refused(make, node).message


def test_settings_that_sshd_refuses_are_taken_back(make: Contact) -> None:
    node = Pretended(faults={"APPLY": Result(1, "", "line 1: Bad configuration option: x")})
    error = refused(make, node)
    assert "Bad configuration option" in error.message
    assert "taken back" in error.message


def test_settings_that_are_overruled_are_taken_back(make: Contact) -> None:
    error = refused(make, Pretended(overruled=True))
    assert "sshd still says `PasswordAuthentication yes`" in error.message
    assert "taken back" in error.message


def test_a_door_that_was_opened_later_is_noticed(make: Contact) -> None:
    node = finished()
    node.overruled = True
    assert "sshd still says" in refused(make, node).message


def test_sshd_may_be_away_while_it_reloads(make: Contact) -> None:
    away = Unreachable("refused")
    node = Pretended(logins=[LoginRefused("not yet"), None, away, away])
    assert make(node)["bootstrapped"]


def test_a_node_that_cannot_be_reached_is_no_other_error(make: Contact) -> None:
    error = refused(make, Pretended(logins=[Unreachable("off")]))
    assert type(error) is Unreachable


def test_without_a_claim_the_door_stays_and_a_word_is_said(make: Contact) -> None:
    node = Pretended()
    assert make(node, files=[])["bootstrapped"]
    assert "APPLY" not in node.log
    assert any("stays as it is" in text for text in node.said)


def test_root_as_admin_gets_a_key_and_no_sudoers_file(make: Contact) -> None:
    node = Pretended()
    node.has |= {"user"}
    node.logins = []
    node.root_has_key = True
    make(node, user="root", password=None)
    assert "sudoers" not in node.has


def test_the_claimed_sudoers_file_is_the_one_written(make: Contact) -> None:
    node = Pretended()
    text = "ops ALL=(ALL) NOPASSWD: ALL"
    make(node, files=[{"path": contact_shell.SUDOERS, "content": f"{text}\n", "mode": "0440"}])
    assert node.sudoers == text
    assert "APPLY" not in node.log


@pytest.mark.parametrize("user", ["o'ps", "-x", "a b", "", "Ops", "x" * 40])
def test_a_name_that_is_none_never_reaches_a_shell(user: str, make: Contact) -> None:
    node = Pretended()
    assert isinstance(refused(make, node, user=user), BadInput)
    assert node.log == []


@pytest.mark.parametrize("text", NAMES, ids=NAMES.values())
def test_the_shell_texts_are_posix_shell(text: str) -> None:
    checked = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
