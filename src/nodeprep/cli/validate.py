"""nodeprep validate: checks an inventory before anything is reached."""

from __future__ import annotations

import json
import sys

import typer

from nodeprep.cli.common import AsJson, Inventory, Limit, Vault, options


def validate(
    inventory: Inventory, limit: Limit = None, vault: Vault = None, as_json: AsJson = False
) -> None:
    """Check inventory, profiles and claims: all errors at once.

    Example: nodeprep validate inventory/la.yaml
    """
    from nodeprep import pipeline  # noqa: PLC0415

    site = pipeline.validate(options(inventory, limit, vault))
    if as_json:
        nodes = [
            {
                "name": document.node.name,
                "profile": document.node.profile.name,
                "roles": list(document.roles),
                "claims": len(document.claims),
                "digest": document.digest,
            }
            for document in site.documents
        ]
        sys.stdout.write(json.dumps({"site": site.name, "nodes": nodes}, indent=1) + "\n")
        return
    for document in site.documents:
        node = document.node
        typer.echo(
            f"{node.name}: profile {node.profile.name}, {len(document.roles)} roles, "
            f"{len(document.claims)} claims"
        )
    typer.echo(f"{inventory}: site {site.name}, {len(site.documents)} nodes, no problem found")
