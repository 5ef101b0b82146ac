"""nodeprep retire: a node goes back to its provider."""

from __future__ import annotations

from typing import Annotated

import typer

from nodeprep.cli.common import Inventory, Vault, options

Names = Annotated[list[str], typer.Argument(metavar="NODE...", help="Nodes of the inventory.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept in the ledger.")]


def retire(inventory: Inventory, nodes: Names, reason: Reason = "", vault: Vault = None) -> None:
    """Take nodes out of the cluster and forget their host keys, so that they can be rented anew.

    Touches nothing on the nodes. The next provision starts them from first contact.

    Example: nodeprep retire inventory/la.yaml la-gpu03 --reason "RMA 4711"
    """
    from nodeprep import pipeline  # noqa: PLC0415

    for name in pipeline.retire(options(inventory, ",".join(nodes), vault), reason):
        typer.echo(f"{name}: retired, its host key is forgotten")
