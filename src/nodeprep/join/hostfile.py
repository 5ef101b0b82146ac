"""The adapter without a scheduler: accepted.json and an MPI hostfile in the site's folder."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from nodeprep.errors import ToolFailure
from nodeprep.join.adapter import Member
from nodeprep.model.base import Frozen


class Roster(Frozen):
    """The content of accepted.json. `updated`: when `nodes` last changed."""

    site: str
    updated: dt.datetime
    nodes: tuple[Member, ...] = ()


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class HostfileAdapter:
    """Maintains `accepted.json` and `hostfile` in `directory`; implements `Adapter`.

    `by` says what the hostfile calls a node: its inventory name, or its address. Both files are
    replaced in one step each, and left alone when nothing changed. A reader of `hostfile`
    (`mpirun --hostfile`) therefore never meets a half-written one.
    """

    def __init__(
        self,
        site: str,
        directory: Path,
        *,
        by: Literal["name", "address"] = "name",
        clock: Callable[[], dt.datetime] = _now,
    ) -> None:
        self._site = site
        self._by = by
        self._clock = clock
        self.roster_path = directory / "accepted.json"
        self.hostfile_path = directory / "hostfile"

    def join(self, nodes: Iterable[Member]) -> bool:
        current = {node.name: node for node in self.members()}
        return self._save({**current, **{node.name: node for node in nodes}})

    def leave(self, nodes: Iterable[str]) -> bool:
        gone = set(nodes)
        return self._save({m.name: m for m in self.members() if m.name not in gone})

    def members(self) -> tuple[Member, ...]:
        """Who is in; empty when the site has no roster yet. ToolFailure when it is damaged."""
        roster = self._roster()
        return roster.nodes if roster else ()

    def _roster(self) -> Roster | None:
        try:
            return Roster.model_validate_json(self.roster_path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise ToolFailure(
                f"{self.roster_path} cannot be read as a roster of nodes",
                hint="move it away: the next provision writes it anew from the ledger",
            ) from error

    def _save(self, wanted: dict[str, Member]) -> bool:
        nodes = tuple(wanted[name] for name in sorted(wanted))
        roster = self._roster()
        if roster is None or (roster.nodes, roster.site) != (nodes, self._site):
            roster = Roster(site=self._site, updated=self._clock(), nodes=nodes)
        # The hostfile is compared too: a run killed between the two files is mended by the next.
        wrote = _replace(self.roster_path, roster.model_dump_json(indent=2) + "\n")
        return _replace(self.hostfile_path, self._hostfile(nodes)) or wrote

    def _hostfile(self, nodes: tuple[Member, ...]) -> str:
        head = "# Accepted nodes, one slot per GPU. Written by nodeprep: changes are lost.\n"
        lines = [
            f"{node.name if self._by == 'name' else node.address} slots={node.slots}\n"
            for node in nodes
            if node.slots
        ]
        return head + "".join(lines)


def _replace(path: Path, text: str) -> bool:
    """Put `text` at `path` in one step; false when it was already there."""
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return False
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, UnicodeError) as error:
        raise ToolFailure(f"{path} cannot be written: {error}") from error
    return True
