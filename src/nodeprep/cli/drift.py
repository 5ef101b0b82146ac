"""nodeprep drift: whether nodes still are what was accepted."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli.common import (
    AsJson,
    Concurrency,
    Inventory,
    Limit,
    Vault,
    Yes,
    confirmer,
    finish,
    options,
    watched,
)  # fmt: skip

Fix = Annotated[
    bool, typer.Option("--fix", help="Run the roles that own what drifted, on those nodes only.")
]


def drift(
    inventory: Inventory,
    limit: Limit = None,
    vault: Vault = None,
    fix: Fix = False,
    yes: Yes = False,
    concurrency: Concurrency = 20,
    as_json: AsJson = False,
) -> None:
    """Read every claim of every node, one round trip each, and show what does not hold.

    Exit code 0: none; 2: drift; 3: a node was not reached.

    Example: nodeprep drift inventory/la.yaml --json
    """
    from nodeprep import pipeline  # noqa: PLC0415

    chosen = options(inventory, limit, vault, concurrency=concurrency, fix=fix)
    result = watched(
        "drift", lambda feed: pipeline.drift(chosen, feed, confirmer(yes=yes)), as_json=as_json
    )
    finish(result, as_json=as_json)
