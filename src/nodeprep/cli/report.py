"""nodeprep report: the last run of a site, as HTML, JUnit, JSON or Prometheus text."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodeprep.cli.common import Inventory, Limit, Vault, options

if TYPE_CHECKING:
    from nodeprep.model.run import RunResult


class Format(StrEnum):
    HTML = "html"
    JUNIT = "junit"
    JSON = "json"
    PROMETHEUS = "prometheus"


FormatOption = Annotated[Format, typer.Option("--format", "-f", help="What to write.")]
Out = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Left out: stdout.")
]
Verb = Annotated[
    str | None, typer.Option("--verb", metavar="VERB", help="The last run of this verb.")
]
ListAll = Annotated[
    bool, typer.Option("--list", help="Show the last run of every verb, and where its page is.")
]


def report(
    inventory: Inventory,
    limit: Limit = None,
    vault: Vault = None,
    form: FormatOption = Format.HTML,
    output: Out = None,
    verb: Verb = None,
    list_all: ListAll = False,
) -> None:
    """Write the report of a site's last run: one self-contained file.

    Example: nodeprep report inventory/la.yaml -o report.html
    """
    from nodeprep import pipeline  # noqa: PLC0415

    chosen = options(inventory, limit, vault)
    if list_all:
        _list(pipeline.runs(chosen))
        return
    text = pipeline.report(chosen, form.value, verb)
    if output is None:
        sys.stdout.write(text)
        return
    output.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {output}")


def _list(runs: list[RunResult]) -> None:
    from rich.console import Console  # noqa: PLC0415

    from nodeprep.pipeline import run_folder  # noqa: PLC0415
    from nodeprep.report import text  # noqa: PLC0415

    if not runs:
        typer.echo("no run is on record yet")
        return
    pages = {run.id: run_folder(run) / "report.html" for run in runs}
    kept = {name: str(page) for name, page in pages.items() if page.exists()}
    text.list_runs(runs, kept, Console(file=sys.stdout))
