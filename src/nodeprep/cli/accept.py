"""nodeprep accept: the gates alone."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

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


class Level(StrEnum):
    """nodeprep.accept.job.LEVELS, without what its import costs."""

    POC = "poc"
    STRESS = "stress"
    BURNIN = "burnin"


HowFar = Annotated[
    Level,
    typer.Option(
        "--level", help="How far to go: minutes (as provision does), tens of minutes, or hours."
    ),
]


def accept(
    inventory: Inventory,
    limit: Limit = None,
    level: HowFar = Level.POC,
    vault: Vault = None,
    concurrency: Concurrency = 20,
    as_json: AsJson = False,
) -> None:
    """Run every claim and every proof as a test, and say which node passes.

    poc proves basic performance, stress exposes bottlenecks (collectives over all sizes, disks, the
    longer diagnostics), burnin lasts for hours. Each level includes the ones before it.

    JUnit, JSON and HTML are kept with the run; the last line says where.

    Example: nodeprep accept inventory/la.yaml --limit la-gpu02 --level stress
    """
    from nodeprep import pipeline  # noqa: PLC0415

    chosen = options(inventory, limit, vault, concurrency=concurrency, level=level.value)
    result = watched("accept", lambda feed: pipeline.accept(chosen, feed), as_json=as_json)
    finish(result, as_json=as_json)
