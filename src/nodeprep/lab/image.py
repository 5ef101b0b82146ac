"""The node image: built once with mmdebstrap, cached by the hash of all that it is made of.

Two layers, stacked by overlayfs. `base-<hash>` (a minute or two) holds the Debian root, the
repository of packages that roles install and its signing key; `sim-<hash>` (seconds) holds the
hardware stand-ins and NVIDIA's packages as the lab serves them.

    base-<hash>/  root/  debian/  repository.key  repository.gpg
    sim-<hash>/   root/  nvidia/
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nodeprep import resources
from nodeprep.lab import build
from nodeprep.lab.locks import locked
from nodeprep.lab.shell import remove_tree

_HERE = Path(__file__).parent
# What decides what the base layer becomes.
_MADE_OF = tuple(_HERE / name for name in ("recipe.py", "repository.py", "build.py"))
_KEPT = 2


def _silent(_text: str) -> None:
    pass


@dataclass(frozen=True)
class Image:
    """A finished image. `layers`: overlayfs lower directories, the uppermost first."""

    base: Path
    sim: Path

    @property
    def layers(self) -> tuple[Path, ...]:
        return (self.sim / "root", self.base / "root")

    @property
    def debian(self) -> Path:
        return self.base / "debian"

    @property
    def nvidia(self) -> Path:
        return self.sim / "nvidia"


def cache_dir() -> Path:
    return resources.cache_home() / "lab-images"


def digest(paths: Iterable[Path], *, salt: str = "") -> str:
    """Hash of the names and bytes of files (folders are walked), as 16 hex digits."""
    total = hashlib.sha256(salt.encode())
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                total.update(f"{file.relative_to(path.parent)}\0".encode())
                total.update(file.read_bytes())
    return total.hexdigest()[:16]


def today() -> Image:
    """Where the image for today's sources lies, or will lie once it is built."""
    base = digest(_MADE_OF)
    return Image(
        cache_dir() / f"base-{base}", cache_dir() / f"sim-{digest([build.SIM], salt=base)}"
    )


def ensure(*, note: Callable[[str], None] = _silent, in_use: Iterable[Path] = ()) -> Image:
    """The image for today's sources: from the cache, or built. `in_use` is never pruned."""
    wanted = today()
    cache = cache_dir()
    with locked(cache / ".lock"):
        if not wanted.base.is_dir():
            note("building the node image (once; a minute or two)")
            build_in(wanted.base, build.base)
        if not wanted.sim.is_dir():
            note("building the hardware stand-ins and their packages")
            build_in(wanted.sim, lambda folder: build.sim(folder, wanted.base))
        prune_kinds(("base-*", "sim-*"), {wanted.base, wanted.sim, *in_use})
    return wanted


def build_in(target: Path, fill: Callable[[Path], None]) -> None:
    """All or nothing: fill a folder of another name, then rename it."""
    prefix = f".building-{target.name.partition('-')[0]}-"
    for stale in target.parent.glob(f"{prefix}*"):
        remove_tree(stale)  # of a build that was killed; we hold the lock of this kind of layer
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        folder.chmod(0o755)
        fill(folder)
        folder.rename(target)
    finally:
        remove_tree(folder)


def _running(cache: Path) -> set[Path]:
    """Layers under a running node, whichever lab's, from whatever state folder."""
    used = Path("/proc/self/mountinfo").read_text()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            used += file.read_text(errors="replace")
    return {path for path in cache.iterdir() if f"{path}/" in used}


def prune_kinds(kinds: Iterable[str], keep: set[Path]) -> None:
    """Of each kind of layer keep the newest few, and whatever is in use."""
    cache = cache_dir()
    keep = {*keep, *_running(cache)}
    for path in keep:
        with contextlib.suppress(FileNotFoundError):  # a lab's record outlives its layers
            os.utime(path)
    for kind in kinds:
        newest = sorted(cache.glob(kind), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in newest[_KEPT:]:
            if old not in keep:
                remove_tree(old)
