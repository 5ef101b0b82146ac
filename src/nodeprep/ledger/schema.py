"""The tables of the ledger, and how an older ledger becomes a newer one."""

from __future__ import annotations

import sqlite3

from nodeprep.errors import ToolFailure

# One script per version; a released one is never changed, a new one is added at the end.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, verb TEXT NOT NULL, inventory TEXT NOT NULL, pid INTEGER NOT NULL,
        exclusive INTEGER NOT NULL, started TEXT NOT NULL, finished TEXT, exit_code INTEGER,
        interrupted INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE results (run_id TEXT PRIMARY KEY REFERENCES runs (id), document TEXT NOT NULL)
    STRICT;
    CREATE TABLE nodes (
        name TEXT PRIMARY KEY, state TEXT NOT NULL, since TEXT NOT NULL, why TEXT NOT NULL
    ) STRICT;
    CREATE TABLE moves (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, at TEXT NOT NULL, event TEXT NOT NULL,
        before TEXT NOT NULL, after TEXT NOT NULL, reason TEXT NOT NULL, run_id TEXT NOT NULL
    ) STRICT;
    CREATE INDEX moves_of_a_node ON moves (node, id);
    CREATE TABLE hardware (node TEXT PRIMARY KEY, at TEXT NOT NULL, document TEXT NOT NULL) STRICT;
    CREATE TABLE acceptances (
        node TEXT PRIMARY KEY, digest TEXT NOT NULL, boot_id TEXT NOT NULL, at TEXT NOT NULL,
        measurements TEXT NOT NULL, identity TEXT NOT NULL, stands INTEGER NOT NULL
    ) STRICT;
    """,
)


def version(connection: sqlite3.Connection) -> int:
    """The schema version that the file has; 0: empty."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest version. One transaction: killed in it, nothing happened."""
    if version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = version(connection)  # again: another process may have been first
        if found > len(MIGRATIONS):
            raise ToolFailure(
                f"the ledger has schema version {found}, this nodeprep knows {len(MIGRATIONS)}",
                hint="use the nodeprep that wrote it, or a newer one",
            )
        for script in MIGRATIONS[found:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
