"""nodeprep report: the last run of a site, as HTML, JUnit, JSON or Prometheus text."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nodeprep.cli.common import Inventory, Limit, Vault, options


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


def report(
    inventory: Inventory,
    limit: Limit = None,
    vault: Vault = None,
    form: FormatOption = Format.HTML,
    output: Out = None,
    verb: Verb = None,
) -> None:
    """Write the report of a site's last run: one self-contained file.

    Example: nodeprep report inventory/la.yaml -o report.html
    """
    from nodeprep import pipeline  # noqa: PLC0415

    text = pipeline.report(options(inventory, limit, vault), form.value, verb)
    if output is None:
        sys.stdout.write(text)
        return
    output.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {output}")
