"""How the lab runs the host's own tools, and how it removes what it made."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nodeprep.errors import ToolFailure

_TAIL_LINES = 15


def run(
    argv: Sequence[str | Path],
    *,
    text: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> str:
    """Standard output of a host tool; ToolFailure with the last lines of its complaint.

    `text` goes to its standard input (secrets travel there, never in `argv`).
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=text if text is not None else "",
            env=None if env is None else {**os.environ, **env},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise ToolFailure(f"{words[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ToolFailure(f"`{' '.join(words[:4])}` took more than {timeout_s:.0f} s") from None
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_TAIL_LINES:])
        raise ToolFailure(f"`{' '.join(words[:6])}` failed ({done.returncode}): {tail}")
    return done.stdout


def mounts_under(path: Path) -> list[Path]:
    """Mount points at or below `path`, deepest first."""
    top = str(path.resolve())
    found: list[Path] = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split()[4].encode().decode("unicode_escape")
        if target == top or target.startswith(top + "/"):
            found.append(Path(target))
    return sorted(found, key=lambda target: len(target.parts), reverse=True)


def unmount_under(path: Path) -> None:
    """Unmount everything at or below `path`; a busy mount is detached."""
    for target in mounts_under(path):
        try:
            run(["umount", target])
        except ToolFailure:
            run(["umount", "--lazy", target])


def remove_tree(path: Path) -> None:
    """Delete a tree of the lab's own. Never walks into a mount: what is mounted goes first."""
    if not path.exists() and not path.is_symlink():
        return
    unmount_under(path)
    left = mounts_under(path)
    if left:
        raise ToolFailure(f"{left[0]} is still mounted", hint="nothing below it was deleted")
    shutil.rmtree(path)


def write_atomic(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file that is either the old or the new one, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    temporary.replace(path)
