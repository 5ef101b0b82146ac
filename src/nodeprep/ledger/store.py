"""The ledger of one site: SQLite, journaled, every move committed before the call returns."""

from __future__ import annotations

import datetime as dt
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from nodeprep.errors import ToolFailure
from nodeprep.ledger import rows, schema
from nodeprep.ledger.identity import changes, identity_of
from nodeprep.ledger.lock import SiteLock
from nodeprep.ledger.records import Accepted, IdentityChange, Move, NodeState, RunRecord
from nodeprep.ledger.scrub import Scrubber
from nodeprep.model.hardware import Hardware
from nodeprep.model.lifecycle import Event, State, advance, allowed
from nodeprep.model.run import RunResult

BUSY_TIMEOUT_S = 10.0
RESULTS_KEPT = 20  # whole results per verb; the list of runs and the histories are kept for good
_VOIDING = (Event.DRIFTED, Event.REFUSED, Event.RETIRED)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class Ledger:
    """What is known of a site's nodes and runs. Open it with `Ledger.open`; use it with `with`.

    Readers are never blocked. A run that writes takes the site's lock in `begin` and gives it back
    in `finish`; a process that dies gives it back by dying, and the next `begin` names its run.
    Safe to use from several threads. Errors of SQLite come out as ToolFailure.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        lock: SiteLock,
        scrubber: Scrubber,
        clock: Callable[[], dt.datetime] = _now,
    ) -> None:
        self._db = connection
        self._lock = lock
        self._scrub = scrubber
        self._clock = clock
        self._mutex = threading.RLock()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        secrets: Iterable[str] = (),
        clock: Callable[[], dt.datetime] = _now,
    ) -> Ledger:
        """Open or create the ledger at `path` (mode 0600). `secrets` are masked wherever met.

        Raises ToolFailure when the file is no ledger, or was written by a newer nodeprep.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            path.chmod(0o600)
            connection = _connect(path)
        except (OSError, sqlite3.Error) as error:
            raise ToolFailure(
                f"the ledger {path} cannot be opened: {error}",
                hint="if the file is damaged, move it away: the next run starts a new one",
            ) from error
        return cls(connection, SiteLock(path.with_suffix(".lock")), Scrubber(secrets), clock)

    def close(self) -> None:
        """Give back the lock and the file. A run that was begun and not finished stays so."""
        self._lock.release()
        self._db.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Runs

    def begin(
        self, run_id: str, verb: str, inventory: str | Path, *, exclusive: bool = True
    ) -> tuple[RunRecord, ...]:
        """Begin a run; returns the runs found dead: neither finished nor at work any more.

        `exclusive` takes the site's lock (ToolFailure names the holder); a run that only reads
        the nodes and moves none passes False.
        """
        now = self._clock()
        if exclusive:
            self._lock.acquire(verb, now)
        with self._write():
            dead = self._dead_runs()
            self._db.executemany(
                "UPDATE runs SET interrupted = 1 WHERE id = ?", [(run.id,) for run in dead]
            )
            self._db.execute(
                "INSERT INTO runs (id, verb, inventory, pid, exclusive, started) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (run_id, verb, str(inventory), os.getpid(), int(exclusive), now.isoformat()),
            )
        return dead

    def finish(self, run_id: str, exit_code: int) -> None:
        """The run came to its end, good or bad; gives back the site's lock."""
        with self._write():
            self._db.execute(
                "UPDATE runs SET finished = ?, exit_code = ?, interrupted = 0 WHERE id = ?",
                (self._clock().isoformat(), exit_code, run_id),
            )
        self._lock.release()

    def runs(self) -> tuple[RunRecord, ...]:
        """Every run, oldest first."""
        return tuple(map(rows.run, self._rows("SELECT * FROM runs ORDER BY started, rowid")))

    def save_run(self, result: RunResult) -> RunResult:
        """Keep a run's whole result; the oldest results of its verb make room.

        Returns what was kept: the result with every known secret masked.
        """
        clean = RunResult.model_validate(self._scrub.data(result.model_dump()))
        with self._write():
            self._db.execute(
                "INSERT INTO runs (id, verb, inventory, pid, exclusive, started, finished, "
                "exit_code) VALUES (?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (
                    result.id,
                    result.verb,
                    result.inventory,
                    os.getpid(),
                    result.started.isoformat(),
                    result.finished.isoformat(),
                    result.exit_code,
                ),
            )
            self._db.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?)",
                (result.id, clean.model_dump_json()),
            )
            self._db.execute(
                "DELETE FROM results WHERE run_id IN (SELECT id FROM runs JOIN results "
                "ON id = run_id WHERE verb = ? ORDER BY started DESC LIMIT -1 OFFSET ?)",
                (result.verb, RESULTS_KEPT),
            )
        return clean

    def last_run(self, verb: str | None = None, *, before: str | None = None) -> RunResult | None:
        """The newest result that was kept, of any verb or of one; `before`: than this run's id."""
        found = self._rows(
            "SELECT document FROM results JOIN runs ON id = run_id "
            "WHERE (?1 IS NULL OR verb = ?1) AND (?2 IS NULL OR "
            "runs.rowid < (SELECT rowid FROM runs WHERE id = ?2)) "
            "ORDER BY started DESC, runs.rowid DESC LIMIT 1",
            verb,
            before,
        )
        return RunResult.model_validate_json(found[0]["document"]) if found else None

    def _dead_runs(self) -> tuple[RunRecord, ...]:
        """Unfinished runs whose process is gone. Who holds the lock knows it of exclusive ones."""
        unfinished = self._rows("SELECT * FROM runs WHERE finished IS NULL AND interrupted = 0")
        return tuple(
            rows.run(row)
            for row in unfinished
            if (row["exclusive"] and self._lock.held) or not _alive(row["pid"])
        )

    # Nodes

    def move(self, node: str, event: Event, *, reason: str = "", run_id: str = "") -> State:
        """Something happened to a node: the state that follows, committed.

        `since` is kept when the state stays; `why` is kept when it stays and no reason is given.
        Raises ValueError for what the lifecycle table does not allow; nothing is written then.
        """
        reason = self._scrub.text(reason)
        with self._write():
            before = self.state(node)
            after = advance(before.state, event)
            stays = after is before.state and before.since is not None
            now = self._clock()
            since = before.since if stays and before.since else now
            why = reason or (before.why if stays else "")
            self._db.execute(
                "INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?)",
                (node, after.value, since.isoformat(), why),
            )
            self._db.execute(
                "INSERT INTO moves (node, at, event, before, after, reason, run_id) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (node, now.isoformat(), event.value, before.state.value, after.value, reason,
                 run_id),
            )  # fmt: skip
            self._void_acceptance(node, event)
        return after

    def _void_acceptance(self, node: str, event: Event) -> None:
        if event in _VOIDING:
            self._db.execute("UPDATE acceptances SET stands = 0 WHERE node = ?", (node,))
        elif event is Event.RETURNED:  # it may well be another machine under the old name
            self._db.execute("DELETE FROM acceptances WHERE node = ?", (node,))

    def state(self, node: str) -> NodeState:
        """Where a node stands; `new` when it was never seen."""
        found = self._rows("SELECT * FROM nodes WHERE name = ?", node)
        return rows.node_state(found[0]) if found else NodeState()

    def states(self) -> dict[str, NodeState]:
        """Every node that was ever seen, by name."""
        found = self._rows("SELECT * FROM nodes ORDER BY name")
        return {row["name"]: rows.node_state(row) for row in found}

    def history(self, node: str) -> tuple[Move, ...]:
        """All that happened to a node, oldest first."""
        return tuple(
            map(rows.move, self._rows("SELECT * FROM moves WHERE node = ? ORDER BY id", node))
        )

    # Hardware and acceptance

    def save_hardware(self, node: str, hardware: Hardware) -> tuple[IdentityChange, ...]:
        """Keep what stands in a node; returns what is not the machine that was accepted."""
        with self._write():
            self._db.execute(
                "INSERT OR REPLACE INTO hardware VALUES (?, ?, ?)",
                (node, self._clock().isoformat(), hardware.model_dump_json()),
            )
        return self.identity_changes(node)

    def hardware(self, node: str) -> Hardware | None:
        """What was last read of a node's hardware."""
        found = self._rows("SELECT document FROM hardware WHERE node = ?", node)
        return Hardware.model_validate_json(found[0]["document"]) if found else None

    def identity_changes(self, node: str) -> tuple[IdentityChange, ...]:
        """Board and GPUs as last read, against those last accepted, even if that stands no more."""
        last = self.last_accepted(node)
        return changes(last.identity, identity_of(self.hardware(node))) if last else ()

    def accept(
        self, node: str, digest: str, boot_id: str, measurements: Mapping[str, float]
    ) -> None:
        """Record that a node passed under the desired state `digest`, as the machine last read.

        Raises ValueError when the node's state does not allow it to be accepted.
        """
        with self._write():
            state = self.state(node).state
            if not allowed(state, Event.ACCEPTED):
                raise ValueError(f"a node that is {state} cannot be {Event.ACCEPTED}")
            identity = identity_of(self.hardware(node))
            self._db.execute(
                "INSERT OR REPLACE INTO acceptances VALUES (?, ?, ?, ?, ?, ?, 1)",
                (node, digest, boot_id, self._clock().isoformat(),
                 json.dumps(dict(measurements), allow_nan=False), identity.model_dump_json()),
            )  # fmt: skip

    def accepted(self, node: str) -> Accepted | None:
        """The acceptance that stands: none after drift, refusal, retirement or a return."""
        last = self.last_accepted(node)
        return last if last is not None and last.stands else None

    def last_accepted(self, node: str) -> Accepted | None:
        """The last acceptance, standing or not: what to compare a returning node with."""
        found = self._rows("SELECT * FROM acceptances WHERE node = ?", node)
        return rows.accepted(found[0]) if found else None

    # SQLite

    def _rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        with self._mutex, _as_tool_failure():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _write(self) -> Iterator[None]:
        """One transaction that either is in the file when the block ends, or never was."""
        with self._mutex, _as_tool_failure():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk has rolled back by itself
                    self._db.execute("ROLLBACK")
                raise


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a committed move outlives a power cut
        schema.migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _as_tool_failure() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ToolFailure(f"the ledger could not be used: {error}") from error


def _alive(pid: int) -> bool:
    """Whether another process has this pid. Our own number was an earlier process's: it is gone."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
