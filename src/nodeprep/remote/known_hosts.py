"""What is on record: known_hosts files, host keys, and how such a file writes a node."""

from __future__ import annotations

import base64
import fcntl
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nodeprep.errors import BadInput

if TYPE_CHECKING:
    import paramiko


class Address(Protocol):
    """What is needed of a `model.node.Connection`."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def key_file(self) -> str: ...
    @property
    def known_hosts(self) -> str: ...
    @property
    def connect_timeout_s(self) -> int: ...


@dataclass(frozen=True)
class Recorded:
    """A host key on record, and where."""

    line: int
    key: paramiko.PKey


class KnownHosts:
    """The host keys of a known_hosts file. Lines with a marker (@revoked, …) are not used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[tuple[int, list[str], str]] = []
        try:
            text = path.read_text(errors="replace")
        except FileNotFoundError:
            text = ""
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}") from None
        self._take(text)

    def _take(self, text: str) -> None:
        for number, line in enumerate(text.splitlines(), 1):
            names, _, rest = line.strip().partition(" ")
            if rest and names[0] not in "#@":
                self._lines.append((number, names.split(","), line.strip()))

    def of(self, name: str) -> list[Recorded]:
        """The keys of `name` (host, or [host]:port). BadInput: its line makes no sense."""
        return [
            Recorded(number, self._key(number, line))
            for number, names, line in self._lines
            if any(_names(name, candidate) for candidate in names)
        ]

    def lines_of(self, name: str) -> set[int]:
        """The numbers of the lines that hold a key of `name`."""
        found = (n for n, names, _ in self._lines if any(_names(name, known) for known in names))
        return set(found)

    def _key(self, number: int, line: str) -> paramiko.PKey:
        import paramiko  # noqa: PLC0415
        from paramiko.hostkeys import HostKeyEntry, InvalidHostKey  # noqa: PLC0415

        try:
            entry = HostKeyEntry.from_line(line, number)
        except (InvalidHostKey, paramiko.SSHException):
            entry = None
        if entry is None or entry.key is None:
            raise BadInput(f"{self.path} line {number} holds no host key that can be read")
        return entry.key


def _names(name: str, candidate: str) -> bool:
    if not candidate.startswith("|1|"):
        return name == candidate
    _, _, salt, digest, *_ = [*candidate.split("|"), "", ""]
    try:
        wanted = hmac.digest(base64.b64decode(salt), name.encode(), "sha1")
        return hmac.compare_digest(wanted, base64.b64decode(digest))
    except ValueError:  # not base64: it names nobody
        return False


def host_name(address: Address) -> str:
    """How known_hosts writes the node: the host, or [host]:port."""
    return named(address.host, address.port)


def named(host: str, port: int) -> str:
    return host if port == 22 else f"[{host}]:{port}"


def where(address: Address) -> str:
    return f"{address.host}:{address.port}"


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """A descriptor of the file, made if need be, that no other nodeprep has at the same time.

    BadInput: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def forget(path: Path, host: str, port: int) -> int:
    """Take every key of a node off the record; returns how many there were."""
    if not path.exists():
        return 0
    with locked(path) as descriptor:
        gone = KnownHosts(path).lines_of(named(host, port))
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for number, line in enumerate(lines, 1) if number not in gone]
        if gone:
            # In place: a new file under the name would not carry the lock that others wait for.
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b"".join(kept))
            os.fsync(descriptor)
    return len(gone)
