"""Keys: the operator's own pair, and putting a node's host key on record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nodeprep.errors import BadInput, HostKeyChanged
from nodeprep.remote.known_hosts import KnownHosts, locked

if TYPE_CHECKING:
    import paramiko

COMMENT = "nodeprep"


def ensure(path: Path | str) -> str:
    """The public key, as authorized_keys wants it, of the private key at `path`.

    An ed25519 pair is made (0600, whole or not at all) when there is none. BadInput: it cannot be
    read or written.
    """
    from nodeprep.remote import private_key  # noqa: PLC0415

    path = Path(path)
    if not path.exists():
        _generate(path)
    key = private_key(str(path))
    return f"{key.get_name()} {key.get_base64()} {COMMENT}"


def _generate(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(fresh, private, 0o600)
        try:
            os.link(fresh, path)  # unlike a rename, never over a key that someone made meanwhile
        except FileExistsError:
            return
        finally:
            fresh.unlink()
        _write(path.with_name(path.name + ".pub"), public + f" {COMMENT}\n".encode(), 0o644)
    except OSError as error:
        raise BadInput(f"no key pair can be written at {path}: {error.strerror}") from None


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def record(known_hosts: Path | str, name: str, key: paramiko.PKey) -> bool:
    """Put the host key of `name` (host, or [host]:port) on record; False: it was there already.

    Many processes may do so at once. Raises HostKeyChanged when another key of this host is on
    record, and BadInput when the file cannot be written.
    """
    path = Path(known_hosts)
    with locked(path) as descriptor:
        for known in KnownHosts(path).of(name):
            if known.key == key:
                return False
            raise HostKeyChanged(
                f"{name}: {known.key.fingerprint} is on record ({path} line {known.line}); "
                f"the node presents {key.fingerprint}"
            )
        try:
            _append(descriptor, f"{name} {key.get_name()} {key.get_base64()}\n".encode())
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    return True


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line
    os.write(descriptor, line)  # one call: whole, or an error
    os.fsync(descriptor)
