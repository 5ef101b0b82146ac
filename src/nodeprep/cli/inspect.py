"""nodeprep inspect: what was rented against what stands there."""

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


def inspect(
    inventory: Inventory,
    limit: Limit = None,
    vault: Vault = None,
    concurrency: Concurrency = 20,
    as_json: AsJson = False,
) -> None:
    """Read the hardware of every node and compare it with its profile.

    Changes nothing: a node that was never contacted is read with the provider's password.

    Example: nodeprep inspect inventory/la.yaml --limit 'la-gpu*'
    """
    from nodeprep import pipeline  # noqa: PLC0415

    chosen = options(inventory, limit, vault, concurrency=concurrency)
    result = watched(
        "inspect", lambda feed: pipeline.inspect(chosen, feed, ask_password), as_json=as_json
    )
    finish(result, as_json=as_json)
