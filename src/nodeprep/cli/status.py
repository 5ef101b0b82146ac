"""nodeprep status: what the ledger knows. Works offline."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from nodeprep.cli.common import AsJson, Limit, Vault, options, show

MaybeInventory = Annotated[
    Path | None, typer.Argument(metavar="[INVENTORY]", help="Left out: every site kept here.")
]


def status(
    inventory: MaybeInventory = None,
    limit: Limit = None,
    vault: Vault = None,
    as_json: AsJson = False,
) -> None:
    """Show every node's state, since when, and why. Reaches no node.

    Example: nodeprep status inventory/la.yaml
    """
    from nodeprep import pipeline  # noqa: PLC0415
    from nodeprep.report import document  # noqa: PLC0415

    results = pipeline.status(options(inventory, limit, vault) if inventory else None)
    if as_json:
        found = [document.document(result) for result in results]
        shown = found[0] if inventory else {"sites": found}
        sys.stdout.write(json.dumps(shown, indent=1) + "\n")
        return
    for result in results:
        typer.echo(f"site {result.site}")
        show(result)
    if not results:
        typer.echo("no site is kept on this machine yet; nodeprep init writes a starter")
