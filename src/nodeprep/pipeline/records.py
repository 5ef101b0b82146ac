"""What is on record of a site: earlier runs, and all that is known of one node. Reaches no node."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nodeprep.errors import BadInput
from nodeprep.inventory import Site
from nodeprep.ledger import Ledger
from nodeprep.ledger.scrub import Scrubber
from nodeprep.model.lifecycle import State
from nodeprep.model.run import RunResult
from nodeprep.resources import site_dir

if TYPE_CHECKING:
    from nodeprep.report.evidence import Evidence

VERBS = ("inspect", "plan", "provision", "drift", "accept")
_RUNS = 5  # of a node, whose outputs and logs go into its evidence
_READ_LIMIT = 3_000_000  # bytes of one file, from its end
_TEXTS = (".log", ".txt", ".xml", ".out", ".err", ".json", ".csv")


def previous(ledger: Ledger, result: RunResult) -> RunResult | None:
    """The run of the same verb before this one; None too when another version wrote it."""
    try:
        return ledger.last_run(result.verb, before=result.id)
    except ValidationError:
        return None


def previous_run(result: RunResult) -> RunResult | None:
    """The same, for who has only the result."""
    path = site_dir(result.site) / "ledger.sqlite"
    if not path.exists():
        return None
    with Ledger.open(path) as ledger:
        return previous(ledger, result)


def last_runs(site: str) -> list[RunResult]:
    """The last run of every verb, newest first."""
    path = site_dir(site) / "ledger.sqlite"
    if not path.exists():
        return []
    with Ledger.open(path) as ledger:
        found = [result for verb in VERBS if (result := ledger.last_run(verb)) is not None]
    return sorted(found, key=lambda result: result.started, reverse=True)


def evidence(site: Site, name: str) -> bytes:
    """All that is known of a node, as the archive for its provider's ticket; secrets masked.

    BadInput when the site has no such node, or no run that is kept was of it.
    """
    known = [document.node.name for document in site.documents]
    if name not in known:
        raise BadInput(f"no such node: {name}", hint=f"nodes: {', '.join(known)}")
    from nodeprep.report import evidence as archive  # noqa: PLC0415

    scrub = Scrubber(_secrets(site)).text
    return archive.pack(_collect(site, name), scrub)


def _collect(site: Site, name: str) -> Evidence:
    from nodeprep.report import evidence as archive  # noqa: PLC0415

    runs = [run for run in last_runs(site.name) if any(node.name == name for node in run.nodes)]
    if not runs:
        raise BadInput(
            f"nothing is on record of {name}", hint="nodeprep inspect or provision it first"
        )
    with Ledger.open(site.folder / "ledger.sqlite") as ledger:
        bad = ledger.state(name).state in (State.QUARANTINED, State.DRIFTED)
        alone = [archive.alone(run, name) for run in runs]
        # The run that says what is wrong, not a later one that only looked at something else.
        telling = [run for run in alone if run.nodes[0].blocking or run.nodes[0].fault]
        chosen = telling[0] if bad and telling else alone[0]
        others = [document.node.name for document in site.documents if document.node.name != name]
        return archive.Evidence(
            result=chosen,
            hardware=ledger.hardware(name),
            history=tuple(
                archive.history_line(m.at, m.before, m.event, m.after, m.reason)
                for m in ledger.history(name)
            ),
            files=dict(_files(site.folder / "runs", name, others)),
        )


def _secrets(site: Site) -> set[str]:
    """What must not leave: passwords of first contact, and variables that are named as secrets."""
    from nodeprep.report.redact import secrets_in  # noqa: PLC0415

    given = os.environ.get("NODEPREP_BOOTSTRAP_PASSWORD", "")
    return {given, *site.passwords.values(), *secrets_in(site.variables)}


def _files(runs: Path, name: str, others: Sequence[str]) -> Iterator[tuple[str, str | Any]]:
    """The texts of the node's last runs, each by `<run>/<path>`."""
    kept = 0
    for folder in sorted(runs.glob("*/"), reverse=True) if runs.is_dir() else ():
        part = _part(folder / "run.json", name)
        if part is None or kept == _RUNS:
            continue
        kept += 1
        yield f"{folder.name}/run.json", part
        for path in sorted(folder.rglob("*")):
            inner = path.relative_to(folder)
            if path.is_file() and not path.is_symlink() and _is_of(inner, name, others):
                mine = _named([name], inner.as_posix())
                text = _tail(path) if mine else _lines(_tail(path), name, others)
                if text:
                    yield f"{folder.name}/{inner}", text


def _part(path: Path, name: str) -> dict[str, Any] | None:
    """The node's part of a run's document; None when it has none."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        nodes = [node for node in whole["nodes"] if node["name"] == name]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**whole, "nodes": nodes} if nodes else None


def _is_of(path: Path, name: str, others: Sequence[str]) -> bool:
    """Outputs of this node, and logs of the whole run; Ansible's own folder holds neither."""
    if path.suffix not in _TEXTS or path.parts[0] == "ansible":
        return False
    text = path.as_posix()
    if _named([name], text):
        return not _named([other for other in others if name in other], text)
    return path.suffix == ".log" and not _named(others, text)


def _lines(text: str, name: str, others: Sequence[str]) -> str:
    """A log of the whole run without the lines about other nodes."""
    lines = text.splitlines()
    kept = [line for line in lines if _named([name], line) or not _named(others, line)]
    return "".join(f"{line}\n" for line in kept)


def _named(names: Sequence[str], text: str) -> bool:
    """Whether one of the names stands in the text: `gpu1` does not in `gpu10`."""
    either = "|".join(map(re.escape, names))
    return bool(names) and bool(re.search(rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])", text))


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _READ_LIMIT))
        return file.read().decode("utf-8", "replace")
