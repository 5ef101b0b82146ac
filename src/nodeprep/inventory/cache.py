"""Keeps compiled documents by the content that they came from: an unchanged site costs no Ansible.

The key is a hash over every file that could change a document. Secrets are not in documents.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from nodeprep import __version__
from nodeprep.model.node import Document
from nodeprep.resources import cache_home

_DOCUMENTS = TypeAdapter(tuple[Document, ...])
_KEPT = 40  # inventories times limits; the oldest go first
_ROLE_PARTS = ("defaults", "vars", "meta", "templates", "filter_plugins")


def key(inventory: Path, limit: str | None, roles: Iterable[Path], others: Iterable[Path]) -> str:
    """A hash over the inventory's folder, the roles' values and templates, and `others`."""
    digest = hashlib.sha256(f"{__version__}\0{inventory.resolve()}\0{limit or ''}".encode())
    home = os.environ.get("HOME", "")  # `~` in a key file's path
    digest.update(home.encode())
    for path in _inputs(inventory, roles, others):
        digest.update(f"\0{path}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _inputs(inventory: Path, roles: Iterable[Path], others: Iterable[Path]) -> Iterator[Path]:
    folder = inventory if inventory.is_dir() else inventory.parent
    yield from _files([inventory])
    yield from _files([folder / "group_vars", folder / "host_vars"])
    yield from _files(others)
    yield from _files(
        role / part for folder in roles for role in _children(folder) for part in _ROLE_PARTS
    )
    yield from _files(Path(__file__).parent.glob("*.py"))
    yield from _files((Path(__file__).parent.parent / "model").glob("*.py"))


def _children(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.is_file() and p.suffix != ".pyc")


def get(name: str) -> tuple[Document, ...] | None:
    """The documents kept under `name`, or None. A file that does not read is as good as none."""
    path = _path(name)
    try:
        return _DOCUMENTS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def put(name: str, documents: tuple[Document, ...]) -> None:
    path = _path(name)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_bytes(_DOCUMENTS.dump_json(documents))
    draft.replace(path)
    kept = sorted(path.parent.glob("*.json"), key=_changed, reverse=True)
    for old in kept[_KEPT:]:
        old.unlink(missing_ok=True)


def _changed(path: Path) -> float:
    """When, in seconds; 0.0 where another run has just taken the file away."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _path(name: str) -> Path:
    return cache_home() / "documents" / f"{name}.json"
