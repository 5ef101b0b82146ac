"""From rows of SQLite to records."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3

from nodeprep.ledger.records import Accepted, Identity, Move, NodeState, RunRecord
from nodeprep.model.lifecycle import Event, State


def run(row: sqlite3.Row) -> RunRecord:
    return RunRecord(
        id=row["id"],
        verb=row["verb"],
        inventory=row["inventory"],
        pid=row["pid"],
        started=_time(row["started"]),
        finished=_time(row["finished"]) if row["finished"] else None,
        exit_code=row["exit_code"],
        interrupted=bool(row["interrupted"]),
    )


def node_state(row: sqlite3.Row) -> NodeState:
    return NodeState(state=State(row["state"]), since=_time(row["since"]), why=row["why"])


def move(row: sqlite3.Row) -> Move:
    return Move(
        node=row["node"],
        at=_time(row["at"]),
        event=Event(row["event"]),
        before=State(row["before"]),
        after=State(row["after"]),
        reason=row["reason"],
        run_id=row["run_id"],
    )


def accepted(row: sqlite3.Row) -> Accepted:
    return Accepted(
        digest=row["digest"],
        boot_id=row["boot_id"],
        at=_time(row["at"]),
        measurements=json.loads(row["measurements"]),
        identity=Identity.model_validate_json(row["identity"]),
        stands=bool(row["stands"]),
    )


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)
