"""Which stand-in packages are installed: installed.json beside the board.

Maintainer scripts keep it.

Keys are parts (`library`, `kernel`, `fabricmanager`, `gdrdrv`, `nccl`, `cuda`, …), values are
versions without the Debian revision. `loaded` is the version of the running kernel module: like the
real one it stays what it was when the package changes under it, until a reboot.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from . import board as boards

if TYPE_CHECKING:
    from .board import Board


def path() -> Path:
    return boards.path().with_name("installed.json")


def load() -> dict[str, str]:
    try:
        parts: dict[str, str] = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return parts


def save(parts: dict[str, str]) -> None:
    path().parent.mkdir(parents=True, exist_ok=True)
    draft = path().with_name("installed.json.new")
    draft.write_text(json.dumps(parts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    draft.replace(path())


def record(args: list[str]) -> int:
    """`installed PART VERSION` after an installation, `installed PART -` after a removal."""
    if len(args) != 2:
        return 2
    part, version = args
    parts = load()
    if version == "-":
        parts.pop(part, None)
    else:
        parts[part] = version
        if part == "kernel":
            parts.setdefault("loaded", version)
    save(parts)
    return 0


def booted() -> None:
    """After a boot the module that is installed is the one that is loaded."""
    parts = load()
    parts.pop("loaded", None)
    if "kernel" in parts:
        parts["loaded"] = parts["kernel"]
    try:
        save(parts)
    except OSError:  # not root: the next one who is will do it
        return


def loaded(board: Board) -> str:
    """Version of the running kernel module; empty when none is loaded."""
    override = board["driver"]
    if override.get("not_loaded") or not boards.on_bus(board):
        return ""
    if own_kernel() and "kernel" not in override:
        return in_kernel("nvidia")
    parts = load()
    return str(override.get("kernel") or parts.get("loaded", ""))


def own_kernel() -> bool:
    """Whether this node boots a kernel of its own, which then tells what is loaded."""
    return boards.path() == Path(boards.STATE) and any(Path("/boot").glob("vmlinuz-*"))


def in_kernel(module: str) -> str:
    """The version of a module in the running kernel; empty when it is not loaded."""
    try:
        return Path("/sys/module/%s/version" % module).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def library(board: Board) -> str:
    """Version of libnvidia-ml; empty when none is installed."""
    return str(board["driver"].get("library") or load().get("library", ""))
