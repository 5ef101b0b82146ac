"""First contact: from an address and a root password to key login as the admin user, and no other.

Every step looks before it acts, so that a run killed anywhere is simply run again. The password
goes to a node whose host key is on record, once; password login is turned off only after key login
and sudo were proven on a connection of their own, with a timer on the node that takes it back.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeprep.errors import BadInput, HostKeyChanged, LoginRefused, NodeFault, Unreachable
from nodeprep.probe import contact_shell as shell
from nodeprep.probe import keys
from nodeprep.remote import Address, Remote, Result, remotes

if TYPE_CHECKING:
    import paramiko

LOCK_WAIT_S = 300
_RELOAD_S = 10  # how long sshd may be away while it reloads
_USER = re.compile(r"^[a-z_][a-z0-9_-]{0,31}$")
# What nodeprep and Ansible need to work at all, and what the reader asks of the hardware: a node is
# compared with what was rented before anything else is done to it.
_PACKAGES = ("python3", "sudo", "python3-apt", "dmidecode", "ethtool", "pciutils")
# What a node's tools say when a step fails -> what it means, what to do.
_CAUSES = (
    (r"No space left on device|enough free space", "its disk is full", "make room on it"),
    (r"Read-only file system", "a filesystem is read-only", "look at its disk, then at dmesg"),
    (r"Could not get lock|held by process", "the apt lock is held", "wait for the other apt"),
    (r"dpkg was interrupted", "dpkg was interrupted", "run `dpkg --configure -a` on it"),
    (r"Temporary failure resolving|Could not resolve", "it resolves no names", "check its DNS"),
    (r"Failed to fetch|Unable to connect|Could not connect|Connection timed out",
     "it does not reach its package mirror", "check its network and /etc/apt"),
    (r"Unable to locate package|no installation candidate",
     "its apt sources lack the package", "check /etc/apt on it"),
)  # fmt: skip


@dataclass(frozen=True)
class File:
    """A file that the role `access` claims, and that takes effect at first contact."""

    path: str
    content: str
    mode: str = "0644"

    @property
    def line(self) -> str:
        return f"{hashlib.sha256(self.content.encode()).hexdigest()} {self.mode} {self.path}\n"


class FirstContact:
    """One node's. `say` tells a person what is going on."""

    def __init__(self, node: Mapping[str, Any], address: Address, say: Callable[[str], None]):
        self.name: str = node["name"]
        self.address = address
        self.bootstrap_user: str = node["connection"].get("bootstrap_user") or "root"
        self.say = say
        self.changed: list[str] = []
        self.recorded = False
        self._password: str | None = node.get("password") or None
        files = [File(**file) for file in node.get("files") or ()]
        self._files = [file for file in files if file.path != shell.SUDOERS]
        own = next((file.content for file in files if file.path == shell.SUDOERS), None)
        default = f"{address.user} ALL=(ALL:ALL) NOPASSWD: ALL"
        self._sudoers = "" if address.user == "root" else (own or default).rstrip("\n")
        for user in (address.user, self.bootstrap_user):
            if not _USER.match(user):
                raise BadInput(f"{self.name}: {user!r} is no name for a user")

    def run(self) -> dict[str, Any]:
        if not Path(self.address.key_file).exists():
            self.say(f"making a key pair at {self.address.key_file}")
        self._public = keys.ensure(self.address.key_file)
        session, found = self._enter()
        try:
            fingerprint = session.host_key
            session, found = self._prepare(session, found)
            self._turn_passwords_off(session, found)
        finally:
            session.close()
        return {
            "bootstrapped": True,
            "host_key": fingerprint,
            "recorded": self.recorded,
            "changed": self.changed,
        }

    def visit(self) -> Remote:
        """A connection for reading before first contact: the node itself is not changed."""
        if Path(self.address.key_file).exists():
            with suppress(LoginRefused):
                return self._login(self.address.user)
        return self._bootstrap_login()

    # -- logging in ---------------------------------------------------------------------------

    def _login(self, user: str, password: str | None = None) -> Remote:
        made = remotes(
            {self.name: self.address},
            users={self.name: user},
            passwords={self.name: password} if password else None,
            learn=self._learn,
        )
        return made[self.name].connect()

    def _learn(self, name: str, key: paramiko.PKey) -> None:
        if keys.record(self.address.known_hosts, name, key):
            self.recorded = True
            self.say(f"recorded the host key of {name}: {key.fingerprint}")

    def _enter(self) -> tuple[Remote, set[str]]:
        """A connection with root's power, and what is found: as admin by key, or as bootstrap."""
        try:
            admin = self._login(self.address.user)
        except LoginRefused:
            pass
        else:
            found, _ = self._look(admin)
            if found:
                return admin, found
            admin.close()
        session = self._bootstrap_login()
        found, result = self._look(session)
        if not found:
            session.close()
            raise self._no_shell(result)
        self.say(f"logged in as {self.bootstrap_user}")
        return session, found

    def _bootstrap_login(self) -> Remote:
        try:
            return self._login(self.bootstrap_user, self._password)
        except LoginRefused:
            if self._password is not None:
                raise
            raise BadInput(
                f"{self.name}: the operator's key is not there yet, and no password is given",
                hint="as the vault variable nodeprep_bootstrap_password, as NODEPREP_BOOTSTRAP_"
                "PASSWORD in the environment, or at the prompt",
            ) from None

    def _no_shell(self, result: Result) -> Exception:
        said = _last(result)
        if re.search(r"password has expired|Password change required", said, re.IGNORECASE):
            return LoginRefused(
                f"{self.name}: the password of {self.bootstrap_user} has expired",
                hint="log in by hand once, change it, and give the new one",
            )
        if said.startswith("sudo"):
            return NodeFault(
                f"{self.name}: {self.bootstrap_user} may not use sudo without a password ({said})",
                hint="let first contact log in as root (nodeprep_bootstrap_user)",
            )
        return NodeFault(
            f"{self.name}: {self.bootstrap_user} may log in, but gets no shell: {said or 'silence'}"
        )

    # -- steps --------------------------------------------------------------------------------

    def _shell(
        self, session: Remote, text: str, *arguments: str, stdin: bytes | str = b"",
        timeout_s: float = 60,
    ) -> Result:  # fmt: skip
        argv = ["sh", "-c", text, "sh", *arguments]
        return session.run(argv, stdin=stdin, timeout_s=timeout_s)

    def _step(self, what: str, session: Remote, text: str, *arguments: str, **how: Any) -> Result:
        result = self._shell(session, text, *arguments, **how)
        if not result.ok:
            raise self._failed(what, result)
        return result

    def _failed(self, what: str, result: Result) -> NodeFault:
        if result.timed_out:
            return NodeFault(f"{self.name}: it took too long to {what}")
        for pattern, meaning, action in _CAUSES:
            if match := re.search(pattern, result.stderr + result.stdout):
                line = _line_of(result.stderr + result.stdout, match.start())
                hint = f"{action}; then run again: first contact goes on from here"
                return NodeFault(f"{self.name} could not {what}: {meaning} ({line})", hint=hint)
        return NodeFault(f"{self.name} could not {what}: {_last(result) or f'exit {result.rc}'}")

    def _look(self, session: Remote) -> tuple[set[str], Result]:
        """The words of LOOK; none when no shell with root's power answered."""
        wanted = "".join(file.line for file in self._files)
        blob = self._public.split()[1]
        arguments = (self.address.user, blob, self._sudoers)
        result = self._shell(session, shell.LOOK, *arguments, stdin=wanted, timeout_s=30)
        _, greeting, words = result.stdout.partition(f"{shell.GREETING}\n")
        return ({"shell", *words.splitlines()} if greeting and result.ok else set()), result

    def _prepare(self, session: Remote, found: set[str]) -> tuple[Remote, set[str]]:
        """Packages, user, key, sudo; returns a connection that proves them."""
        missing = [package for package in _PACKAGES if package not in found]
        accounts = {"user", "key"} | ({"sudoers"} if self._sudoers else set())
        if "pending" in found:
            self._step("take an unconfirmed change of sshd back", session, shell.REVERT)
            found = self._look(session)[0]
        if missing:
            self._install(session, missing)
        if not accounts <= found:
            arguments = (self.address.user, self._public, self._sudoers)
            done = self._step("set up the admin user", session, shell.ADMIN, *arguments)
            made = done.stdout.split()
            self.changed += [f"{word} {self.address.user}" for word in made]
            self.say(f"set up {self.address.user}: {', '.join(made) or 'nothing to do'}")
        if session.user == self.address.user and accounts <= found and not missing:
            return session, found
        session.close()
        return self._prove(), found

    def _install(self, session: Remote, packages: Sequence[str]) -> None:
        self._wait_for_apt(session)
        self.say(f"installing {', '.join(packages)}")
        what = f"install {', '.join(packages)}"
        self._step(what, session, shell.INSTALL, *packages, timeout_s=900)
        self.changed += [f"package {package}" for package in packages]

    def _wait_for_apt(self, session: Remote) -> None:
        deadline, told = time.monotonic() + LOCK_WAIT_S, ""
        while holder := self._shell(session, shell.LOCKS).stdout.strip():
            if time.monotonic() > deadline:
                raise NodeFault(
                    f"{self.name}: the apt lock was held for {LOCK_WAIT_S} s by {holder}",
                    hint="wait for it or end it; then run again",
                )
            if holder != told:
                self.say(f"waiting for the apt lock held by {holder}")
                told = holder
            time.sleep(2)

    def _prove(self) -> Remote:
        """A separate connection on which key login and sudo work."""
        try:
            session = self._login(self.address.user)
        except LoginRefused as error:
            raise NodeFault(
                f"{self.name}: the operator's key was installed and is refused all the same",
                hint="look at `journalctl -u ssh` on the node; password login was left on",
            ) from error
        result = session.run(["true"], timeout_s=30)
        if not result.ok:
            session.close()
            raise NodeFault(
                f"{self.name}: {session.user} logs in by key, but sudo fails: {_last(result)}",
                hint="password login was left on",
            )
        self.say(f"proved key login and sudo as {session.user} on a connection of their own")
        return session

    # -- the door ------------------------------------------------------------------------------

    def _turn_passwords_off(self, session: Remote, found: set[str]) -> None:
        stale = [file for file in self._files if f"file {file.path}" not in found]
        if not self._files:
            self.say("password login stays as it is: no claim turns it off")
        if not stale:
            self._check_door(session.name, found)
            return
        try:
            self._step("change sshd's settings", session, shell.APPLY, stdin=_tar(stale))
            self._prove_again()
            self._step("confirm the change of sshd", session, shell.CONFIRM)
        except (NodeFault, Unreachable) as error:
            raise self._taken_back(session, error) from error
        paths = [file.path for file in stale]
        self.changed += [f"file {path}" for path in paths]
        self.say(f"password login is off ({', '.join(paths)})")

    def _prove_again(self) -> None:
        deadline = time.monotonic() + _RELOAD_S
        while True:
            try:
                third = self._login(self.address.user)
                break
            except (LoginRefused, HostKeyChanged):
                raise
            except Unreachable:  # while it reloads, sshd does not listen
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
        with third:
            found, result = self._look(third)
            if not found:
                raise self._failed("use sudo", result)
            self._check_door(self.name, found)

    def _check_door(self, name: str, found: set[str]) -> None:
        """What sshd makes of its files: another one, or a missing Include, can overrule ours."""
        text = "".join(file.content for file in self._files)
        for word in ("PasswordAuthentication", "KbdInteractiveAuthentication"):
            wanted = re.search(rf"^\s*{word}\s+no\b", text, re.MULTILINE | re.IGNORECASE)
            if wanted and f"{word.lower()} yes" in found:
                raise NodeFault(
                    f"{name}: sshd still says `{word} yes`",
                    hint="/etc/ssh/sshd_config must include sshd_config.d/*.conf at its top",
                )

    def _taken_back(self, session: Remote, error: NodeFault | Unreachable) -> NodeFault:
        when = "has been taken back"
        try:
            if not self._shell(session, shell.REVERT).ok:
                raise Unreachable("")
        except Unreachable:
            when = f"takes itself back within {shell.REVERT_AFTER_S} s"
        return NodeFault(
            f"{error.message}; the change of sshd's settings {when}, password login stays on",
            hint=error.hint,
        )


def first_contact(
    node: Mapping[str, Any], address: Address, say: Callable[[str], None]
) -> dict[str, Any]:
    """Make `node` one that the operator's key opens, and no password.

    Returns {"bootstrapped", "host_key", "recorded", "changed"}. Raises a NodeprepError.
    """
    return FirstContact(node, address, say).run()


def _tar(files: Sequence[File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in files:
            data = file.content.encode()
            item = tarfile.TarInfo(file.path.lstrip("/"))
            item.size, item.mode, item.mtime = len(data), int(file.mode, 8), time.time()
            archive.addfile(item, io.BytesIO(data))
    return buffer.getvalue()


def _last(result: Result) -> str:
    lines = (result.stderr + "\n" + result.stdout).strip().splitlines()
    text = " / ".join(line.strip() for line in lines[-3:] if line.strip())
    return re.sub(r"[\x00-\x1f\x7f]", "", text)[-300:]


def _line_of(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    return text[start : (text + "\n").index("\n", at)].strip()[:200]
