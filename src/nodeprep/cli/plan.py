"""nodeprep plan: what provision would do."""

from __future__ import annotations

from nodeprep.cli.common import (
    AsJson,
    Concurrency,
    Inventory,
    Limit,
    Vault,
    ask_password,
    finish,
    options,
    watched,
)  # fmt: skip


def plan(
    inventory: Inventory,
    limit: Limit = None,
    vault: Vault = None,
    concurrency: Concurrency = 20,
    as_json: AsJson = False,
) -> None:
    """Show what provision would change: diffs of files, packages, reboots, disks, per node.

    Changes nothing.

    Example: nodeprep plan inventory/la.yaml --limit la-gpu01
    """
    from nodeprep import pipeline  # noqa: PLC0415

    chosen = options(inventory, limit, vault, concurrency=concurrency)
    result = watched(
        "plan", lambda feed: pipeline.plan(chosen, feed, ask_password), as_json=as_json
    )
    finish(result, as_json=as_json)
