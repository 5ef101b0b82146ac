"""How a ledger is made and made newer."""

from __future__ import annotations

import sqlite3

import pytest

from nodeprep.ledger import schema


@pytest.fixture
def database() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def test_an_empty_file_becomes_the_newest_version(database: sqlite3.Connection) -> None:
    schema.migrate(database)
    assert schema.version(database) == len(schema.MIGRATIONS)


def test_an_older_ledger_keeps_its_rows(
    database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.migrate(database)
    database.execute("INSERT INTO nodes VALUES ('gpu1', 'joined', '', '')")
    more = (*schema.MIGRATIONS, "ALTER TABLE nodes ADD COLUMN note TEXT")
    monkeypatch.setattr(schema, "MIGRATIONS", more)
    schema.migrate(database)
    assert database.execute("SELECT name, note FROM nodes").fetchall() == [("gpu1", None)]
    assert schema.version(database) == len(more)


def test_a_migration_that_fails_leaves_the_old_version(
    database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema.migrate(database)
    before = schema.version(database)
    bad = (*schema.MIGRATIONS, "ALTER TABLE nodes ADD COLUMN note TEXT; NOT SQL")
    monkeypatch.setattr(schema, "MIGRATIONS", bad)
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(database)
    assert schema.version(database) == before
    columns = [row[1] for row in database.execute("PRAGMA table_info(nodes)")]
    assert "note" not in columns
