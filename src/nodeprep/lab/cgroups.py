"""Control groups of a lab: one per node, one for the lab's own processes.

systemd-nspawn puts each node's systemd below the group that it was started in, so nodes need one
each. Where the machine has the hybrid layout the group exists twice, in systemd's named hierarchy
and in the unified one; where it is pure v2, once.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from nodeprep.errors import LabUnavailable, ToolFailure
from nodeprep.lab import processes

SERVICES = "services"
_MOUNT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpu", "io", "memory", "pids")


def roots(mount: Path = _MOUNT) -> tuple[Path, ...]:
    """The hierarchies that systemd follows on this machine."""
    if (mount / "cgroup.controllers").is_file():
        return (mount,)
    found = tuple(mount / name for name in ("systemd", "unified"))
    if all((root / "cgroup.procs").exists() for root in found):
        return found
    raise LabUnavailable(
        "no cgroup v2 hierarchy is mounted",
        hint="boot with systemd's unified or hybrid hierarchy (the default of Debian and Ubuntu)",
    )


def _top(lab: str) -> tuple[Path, ...]:
    return tuple(root / f"nodeprep-{lab}" for root in roots())


def make(lab: str, leaf: str) -> tuple[Path, ...]:
    """The groups of one node, or of the lab's services; made when missing."""
    found = []
    for top in _top(lab):
        group = top / leaf
        group.mkdir(parents=True, exist_ok=True)
        if (top / "cgroup.controllers").is_file():
            _pass_down(top)
        found.append(group)
    return tuple(found)


def _pass_down(top: Path) -> None:
    """Offer a node what accounting there is; it does without the rest."""
    offered = set((top / "cgroup.controllers").read_text().split())
    for controller in _CONTROLLERS:
        if controller in offered:
            with contextlib.suppress(OSError):
                (top / "cgroup.subtree_control").write_text(f"+{controller}")


def members(lab: str, leaf: str = "") -> set[int]:
    """Pids of everything that runs in a lab, or in one node."""
    pids: set[int] = set()
    for top in _top(lab):
        for procs in (top / leaf).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                pids.update(int(line) for line in procs.read_text().split())
    return pids - {0}


def kill(lab: str, leaf: str = "", *, timeout_s: float = 20) -> None:
    """End everything in a group: a lab's groups hold nothing but what the lab started."""
    deadline = time.monotonic() + timeout_s
    while pids := members(lab, leaf):
        if time.monotonic() > deadline:
            raise ToolFailure(f"lab {lab}: processes {sorted(pids)[:5]} do not end")
        started = ((pid, processes.start_of(pid)) for pid in pids)
        living = [processes.Recorded(pid, start) for pid, start in started if start is not None]
        if living:
            processes.kill(living)
        else:
            time.sleep(0.02)  # zombies that their parent has still to collect


def remove(lab: str, leaf: str = "") -> None:
    """Delete the (empty) groups, the deepest first."""
    for top in _top(lab):
        group = top / leaf
        if not group.is_dir():
            continue
        folders = [path for path in group.rglob("*") if path.is_dir()]
        for folder in [*sorted(folders, key=lambda path: len(path.parts), reverse=True), group]:
            _rmdir(folder)


def _rmdir(folder: Path) -> None:
    for _attempt in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)  # its last process is being taken down
        else:
            return
    raise ToolFailure(f"{folder} cannot be removed")
