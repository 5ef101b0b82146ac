"""The command line: every verb, one file each. Imports nothing heavy: --help must be quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nodeprep import __version__
from nodeprep.cli import (
    accept,
    drift,
    evidence,
    inspect,
    lab,
    plan,
    provision,
    report,
    retire,
    status,
)
from nodeprep.cli import init as starter
from nodeprep.cli import validate as validation
from nodeprep.cli.common import guarded

app = typer.Typer(
    name="nodeprep",
    help=(
        "Brings rented bare-metal GPU servers into a training cluster.\n\n"
        "Exit codes: 0 good, 1 failure of the tool, 2 drift or a failed gate, 3 unreachable, "
        "4 bad input."
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"nodeprep {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


for _verb in (
    validation.validate,
    inspect.inspect,
    plan.plan,
    provision.provision,
    drift.drift,
    accept.accept,
    status.status,
    report.report,
    evidence.evidence,
    retire.retire,
    starter.init,
):
    app.command()(_verb)
app.add_typer(lab.app, name="lab", help="The simulated rack on this machine.")


def main() -> None:
    sys.exit(guarded(lambda: app(standalone_mode=False)))


if __name__ == "__main__":
    main()
