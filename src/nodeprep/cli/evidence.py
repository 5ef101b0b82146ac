"""nodeprep evidence: an archive of one node for the provider's ticket."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodeprep.cli.common import Inventory, Vault, options

Node = Annotated[str, typer.Argument(metavar="NODE", help="A node of the inventory.")]
Out = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Left out: SITE-NODE-evidence.tar.gz."),
]


def evidence(inventory: Inventory, node: Node, output: Out = None, vault: Vault = None) -> None:
    """Pack what is known of a node, for its provider: what is wrong, serials, reports, logs.

    Reaches no node. Passwords, keys and tokens are masked.

    Example: nodeprep evidence inventory/la.yaml la-gpu02 -o ticket-4711.tar.gz
    """
    from nodeprep import pipeline  # noqa: PLC0415

    site, archive = pipeline.evidence(options(inventory, None, vault), node)
    path = output or Path(f"{site}-{node}-evidence.tar.gz")
    path.write_bytes(archive)
    typer.echo(f"wrote {path}")
