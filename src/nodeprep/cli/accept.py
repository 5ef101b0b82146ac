"""nodeprep accept: the gates alone."""

from __future__ import annotations

from nodeprep.cli.common import (
    AsJson,
    Concurrency,
    Inventory,
    Limit,
    Vault,
    finish,
    options,
    watched,
)  # fmt: skip


def accept(
    inventory: Inventory,
    limit: Limit = None,
    vault: Vault = None,
    concurrency: Concurrency = 20,
    as_json: AsJson = False,
) -> None:
    """Run every claim and every proof as a test, and say which node passes.

    JUnit, JSON and HTML are kept with the run; the last line says where.

    Example: nodeprep accept inventory/la.yaml --limit la-gpu02
    """
    from nodeprep import pipeline  # noqa: PLC0415

    chosen = options(inventory, limit, vault, concurrency=concurrency)
    result = watched("accept", lambda feed: pipeline.accept(chosen, feed), as_json=as_json)
    finish(result, as_json=as_json)
