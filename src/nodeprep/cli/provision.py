"""nodeprep provision: the main job."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli.common import (
    AsJson,
    Concurrency,
    Inventory,
    Limit,
    Only,
    Vault,
    Yes,
    ask_password,
    confirmer,
    finish,
    options,
    watched,
)  # fmt: skip

To = Annotated[
    str,
    typer.Option(
        "--to", metavar="STAGE", help="Stop after: reach, inspect, plan, converge, accept, join."
    ),
]
Again = Annotated[
    bool, typer.Option("--again", help="Run the proofs even where an acceptance stands.")
]


def provision(
    inventory: Inventory,
    limit: Limit = None,
    vault: Vault = None,
    only: Only = None,
    to: To = "join",
    yes: Yes = False,
    again: Again = False,
    concurrency: Concurrency = 20,
    as_json: AsJson = False,
) -> None:
    """From a root password to a member of the cluster, or to the reason why not.

    Reach, inspect, plan, converge, read again, accept, join. Each stage is idempotent: after a
    failure or Ctrl-C, run the same command again.

    The password of new nodes comes from the inventory's vault (nodeprep_bootstrap_password), from
    NODEPREP_BOOTSTRAP_PASSWORD, or is asked for.

    Example: nodeprep provision inventory/la.yaml --limit la-gpu01
    """
    from nodeprep import pipeline  # noqa: PLC0415

    chosen = options(
        inventory, limit, vault, only=only, to=to, again=again, concurrency=concurrency
    )
    result = watched(
        "provision",
        lambda feed: pipeline.provision(chosen, feed, ask_password, confirmer(yes=yes)),
        as_json=as_json,
    )
    finish(result, as_json=as_json)
