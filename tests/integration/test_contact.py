"""First contact with real nodes: from a root password to key login, through every fault."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.accept.fault_table import outside

from nodeprep.model.claim import File
from nodeprep.model.event import Event, What
from nodeprep.model.node import Connection
from nodeprep.probe import contact, contact_shell
from nodeprep.remote import Remote, known_hosts, open_nodes

if TYPE_CHECKING:
    from tests.conftest import Rack

pytestmark = pytest.mark.lab
NODE, OTHER = "gpu1", "gpu2"
DOOR = "/etc/ssh/sshd_config.d/00-nodeprep.conf"
CLOSED = "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
ADMIN = "operator"  # Debian has a group of this name


class Site:
    """A site's folder, and jobs for the worker; watches what they emit and show."""

    def __init__(self, rack: Rack, folder: Path) -> None:
        self.rack = rack
        self.folder = folder
        self.password: str | None = rack.password
        self.door = CLOSED
        self.leaks: list[str] = []

    def connection(self, node: str, **changes: Any) -> Connection:
        status = self.rack.status(node)
        values = {
            "host": status.host,
            "port": status.port,
            "user": ADMIN,
            "key_file": str(self.folder / "id_ed25519"),
            "known_hosts": str(self.folder / "known_hosts"),
            "connect_timeout_s": 5,
        }
        return Connection.model_validate(values | changes)

    def entry(self, node: str) -> dict[str, Any]:
        return {
            "name": node,
            "connection": self.connection(node).model_dump(),
            "password": self.password,
            "files": [{"path": DOOR, "content": self.door, "mode": "0644"}],
            "claims": [File(role="access", name=DOOR).model_dump()],
            "hardware": False,
            "timeout_s": 60,
        }

    def start(self, job: str, *nodes: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "nodeprep.probe.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps({"job": job, "nodes": [self.entry(n) for n in nodes]}))
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, job: str, *nodes: str) -> list[Event]:
        process = self.start(job, *nodes)
        watch = threading.Thread(target=self._watch, args=(process,))
        watch.start()
        out, err = process.communicate(timeout=300)
        watch.join()
        assert process.returncode == 0, err
        secret = self.rack.password
        assert secret not in out + err
        assert self.leaks == []
        return [Event.model_validate_json(line) for line in out.splitlines()]

    def _watch(self, process: subprocess.Popen[str]) -> None:
        """Look for the password in every command line of the machine, the nodes' included."""
        secret = self.rack.password.encode()
        while process.poll() is None:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if secret in path.read_bytes():
                        self.leaks.append(str(path))
                except OSError:
                    continue
            time.sleep(0.2)

    def contact(self, node: str) -> dict[str, Any]:
        """What a first contact that must succeed reports."""
        last = self.run("contact", node)[-1]
        assert last.what is What.DONE, last.data
        return last.data

    def error(self, node: str, job: str = "contact") -> dict[str, Any]:
        last = self.run(job, node)[-1]
        assert last.what is What.ERROR, last.data
        return last.data

    def open(self, node: str, **how: Any) -> Remote:
        opened = open_nodes({node: self.connection(node)}, **how)[node]
        assert isinstance(opened, Remote), opened
        return opened

    def settings(self, node: str) -> str:
        return self.rack.run(node, "sshd", "-T")


@pytest.fixture
def site(rack: Rack, tmp_path: Path) -> Site:
    """A site that never saw the node, and the node as the provider handed it over."""
    rack.fresh(NODE)
    return Site(rack, tmp_path / "site")


@pytest.fixture
def fault(rack: Rack) -> Iterator[Callable[..., None]]:
    """Injects into NODE; taken back at the end."""

    def inject(name: str, **args: str) -> None:
        rack.inject(NODE, name, **args)

    yield inject
    rack.clear(NODE)


def test_the_watch_sees_a_password_on_a_command_line(site: Site) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(3)", site.rack.password]
    with subprocess.Popen(argv, text=True) as shown:
        site._watch(shown)
    assert site.leaks


def test_a_fresh_node_opens_to_the_key_and_to_no_password(site: Site, rack: Rack) -> None:
    done = site.contact(NODE)
    assert done["bootstrapped"]
    assert done["recorded"]
    assert done["host_key"].startswith("SHA256:")
    assert f"file {DOOR}" in done["changed"]
    with site.open(NODE) as node:
        assert node.run(["id", "-u"], timeout_s=20).stdout == "0\n"
    refused = open_nodes(
        {NODE: site.connection(NODE, key_file="/nonexistent")},
        users={NODE: "root"},
        passwords={NODE: rack.password},
    )[NODE]
    assert "takes no password" in str(refused)
    assert rack.run(NODE, "cat", contact_shell.SUDOERS) == f"{ADMIN} ALL=(ALL:ALL) NOPASSWD: ALL\n"
    assert rack.run(NODE, "stat", "-c", "%a", contact_shell.SUDOERS) == "440\n"
    assert rack.execute(NODE, ["ls", "/run/nodeprep-contact"]).returncode != 0


def test_a_second_contact_finds_nothing_to_do_and_needs_no_password(site: Site) -> None:
    site.contact(NODE)
    site.password = None
    done = site.contact(NODE)
    assert (done["changed"], done["recorded"]) == ([], False)


def test_other_keys_of_an_account_are_kept(site: Site, rack: Rack) -> None:
    rack.run(NODE, "useradd", "-m", "-g", "users", ADMIN)
    folder = f"/home/{ADMIN}/.ssh"
    script = f"mkdir -m 700 {folder}; printf 'ssh-ed25519 AAAA other' >{folder}/authorized_keys"
    rack.run(NODE, "sh", "-c", script)
    site.contact(NODE)
    kept = rack.run(NODE, "cat", f"/home/{ADMIN}/.ssh/authorized_keys").splitlines()
    assert kept[0] == "ssh-ed25519 AAAA other"
    assert len(kept) == 2


def test_a_contacted_node_is_read_in_one_exec(site: Site) -> None:
    site.contact(NODE)
    (event,) = site.run("read", NODE)
    assert event.what is What.READING, event.data
    assert event.data["readings"][f"access/file:{DOOR}"]["data"]["exists"]


def test_a_node_before_first_contact_is_read_and_left_as_it_is(site: Site, rack: Rack) -> None:
    assert site.run("read", NODE)[-1].what is What.READING
    assert rack.execute(NODE, ["id", ADMIN]).returncode != 0
    assert "passwordauthentication yes" in site.settings(NODE)


def test_a_wrong_password_is_refused(site: Site) -> None:
    site.password = "wrong"
    assert site.error(NODE)["type"] == "LoginRefused"


def test_no_password_is_bad_input(site: Site) -> None:
    site.password = None
    assert site.error(NODE)["type"] == "BadInput"


def test_an_expired_password_is_told_as_one(site: Site, rack: Rack) -> None:
    rack.run(NODE, "chage", "-d", "0", "root")
    error = site.error(NODE)
    assert "expired" in error["message"]


def in_its_words(fault: str, error: dict[str, Any]) -> None:
    """As docs/faults.md has them."""
    assert outside(fault).verdict in error["message"]
    assert outside(fault).action in error["hint"]


def test_a_changed_host_key_names_both(site: Site, fault: Callable[..., None]) -> None:
    before = site.contact(NODE)["host_key"]
    fault("host_key_changed")
    for job in ("contact", "read"):
        error = site.error(NODE, job)
        assert error["type"] == "HostKeyChanged"
        in_its_words("host_key_changed", error)
        assert before in error["message"]
        assert error["message"].count("SHA256:") == 2
    connection = site.connection(NODE)
    known_hosts.forget(Path(connection.known_hosts), connection.host, connection.port)
    assert site.contact(NODE)["recorded"]


@pytest.mark.parametrize("name", ["port_refused", "ssh_hangs"])
def test_a_node_that_is_away_leaves_the_others_alone(
    name: str, site: Site, rack: Rack, fault: Callable[..., None]
) -> None:
    rack.fresh(OTHER)
    fault(name)
    last = {event.node: event for event in site.run("contact", NODE, OTHER)}
    assert last[NODE].data["type"] == "Unreachable"
    in_its_words(name, last[NODE].data)
    assert last[OTHER].what is What.DONE


def test_a_node_without_python_gets_one(site: Site, fault: Callable[..., None]) -> None:
    fault("no_python")
    assert "no python3" in site.error(NODE, "read")["message"]
    assert "package python3" in site.contact(NODE)["changed"]
    assert site.run("read", NODE)[-1].what is What.READING


def test_a_held_apt_lock_is_waited_for_with_a_word(
    site: Site, rack: Rack, fault: Callable[..., None]
) -> None:
    rack.run(NODE, "dpkg", "--remove", "--force-depends", "python3-apt")
    fault("apt_lock_held", seconds="6")
    events = site.run("contact", NODE)
    told = outside("apt_lock_held").verdict
    assert any(f"{told} python3" in e.data.get("text", "") for e in events)
    assert events[-1].what is What.DONE


def test_a_full_disk_is_told_and_later_gone_on_from(
    site: Site, rack: Rack, fault: Callable[..., None]
) -> None:
    fault("disk_full")
    in_its_words("disk_full", site.error(NODE))
    assert "passwordauthentication yes" in site.settings(NODE)
    rack.clear(NODE)
    assert site.contact(NODE)["bootstrapped"]


def test_no_dns_is_told_when_a_package_is_missing(
    site: Site, rack: Rack, fault: Callable[..., None]
) -> None:
    rack.run(NODE, "dpkg", "--remove", "--force-depends", "python3-apt")
    named = "sed -i s/10.77.0.1/mirror.example/ $(grep -rl 10.77.0.1 /etc/apt)"
    rack.run(NODE, "sh", "-c", named)
    fault("no_dns")
    in_its_words("no_dns", site.error(NODE))


def test_megabytes_of_noise_do_no_harm(site: Site, fault: Callable[..., None]) -> None:
    fault("noisy_output")
    assert site.contact(NODE)["bootstrapped"]
    assert site.run("read", NODE)[-1].what is What.READING


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("AllowUsers nobody\n", "refuses the key"),
        ("NoSuchOption yes\n", "Bad configuration option"),
    ],
)
def test_a_setting_that_would_lock_out_is_taken_back(
    extra: str, said: str, site: Site, rack: Rack
) -> None:
    site.door = CLOSED + extra
    error = site.error(NODE)
    assert said in error["message"]
    assert "taken back" in error["message"]
    assert rack.execute(NODE, ["ls", DOOR]).returncode != 0
    assert "passwordauthentication yes" in site.settings(NODE)
    site.door = CLOSED
    assert site.contact(NODE)["changed"] == [f"file {DOOR}"]


def locked_out(site: Site, after_s: int) -> None:
    """What a controller leaves that dies right after the change: nobody confirms it."""
    site.contact(NODE)
    text = contact_shell.APPLY.replace(
        f"--on-active={contact_shell.REVERT_AFTER_S}", f"--on-active={after_s}"
    )
    assert text != contact_shell.APPLY
    bad = contact.File(DOOR, CLOSED + "AllowUsers nobody\n")
    with site.open(NODE) as node:
        argv = ["sh", "-c", text, "sh"]
        assert node.run(argv, stdin=contact._tar([bad]), timeout_s=30).ok
    refused = open_nodes({NODE: site.connection(NODE)})[NODE]
    assert "refuses the key" in str(refused)


def test_the_node_itself_takes_back_what_nobody_confirms(site: Site, rack: Rack) -> None:
    locked_out(site, after_s=2)
    for _ in range(60):
        time.sleep(0.5)
        if isinstance(open_nodes({NODE: site.connection(NODE)})[NODE], Remote):
            break
    assert rack.run(NODE, "cat", DOOR) == CLOSED
    assert site.contact(NODE)["changed"] == []


def test_a_killed_run_leaves_a_node_that_the_next_run_finishes(site: Site, rack: Rack) -> None:
    process = site.start("contact", NODE)
    assert process.stdout is not None
    for line in process.stdout:
        if "set up" in line:
            break
    process.kill()
    process.communicate()
    assert site.contact(NODE)["bootstrapped"]
    assert "passwordauthentication no" in site.settings(NODE)
