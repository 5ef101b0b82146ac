"""What is on record: known_hosts files, host keys, and how such a file writes a node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey

from nodeprep.errors import BadInput


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
        text = path.read_text(errors="replace") if path.is_file() else ""
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

    def _key(self, number: int, line: str) -> paramiko.PKey:
        try:
            entry = HostKeyEntry.from_line(line, number)
        except (InvalidHostKey, paramiko.SSHException):
            entry = None
        if entry is None or entry.key is None:
            raise BadInput(f"{self.path} line {number} holds no host key that can be read")
        return entry.key


def _names(name: str, candidate: str) -> bool:
    if candidate.startswith("|1|"):
        return HostKeys.hash_host(name, candidate) == candidate
    return name == candidate


def host_name(address: Address) -> str:
    """How known_hosts writes the node: the host, or [host]:port."""
    return address.host if address.port == 22 else f"[{address.host}]:{address.port}"


def where(address: Address) -> str:
    return f"{address.host}:{address.port}"
