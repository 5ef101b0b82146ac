"""Keeps what the proofs' commands printed: the raw outputs behind the verdicts."""

from __future__ import annotations

from pathlib import Path

from nodeprep.accept.session import Ran

MOST_BYTES = 4_000_000  # of one node's acceptance; a burn-in prints a lot of the same
MOST_OF_ONE = 200_000  # characters of one command's stream


class Transcript:
    """One text file a node: each command, its exit status, and what it wrote."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        self._path = path

    def keep(self, command: str, ran: Ran) -> None:
        """Append one command. What is too long is cut, and says so."""
        if self._path.stat().st_size > MOST_BYTES:
            return
        ended = "timed out" if ran.timed_out else f"exit status {ran.rc}"
        parts = [f"$ {command}", f"# {ended}", _cut(ran.stdout)]
        if ran.stderr.strip():
            parts += ["# stderr", _cut(ran.stderr)]
        with self._path.open("a", encoding="utf-8", errors="replace") as file:
            file.write("\n".join(parts) + "\n\n")


def _cut(text: str) -> str:
    if len(text) <= MOST_OF_ONE:
        return text.rstrip("\n")
    return f"{text[:MOST_OF_ONE]}\n# … {len(text) - MOST_OF_ONE} more characters"
