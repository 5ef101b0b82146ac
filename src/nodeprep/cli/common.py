"""Options that the verbs share, and the one place where an error meets the terminal."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nodeprep.model.plan import NodePlan
    from nodeprep.model.run import RunResult
    from nodeprep.pipeline import Feed, Options

Inventory = Annotated[
    Path,
    typer.Argument(metavar="INVENTORY", help="An Ansible inventory, such as inventory/la.yaml."),
]
Limit = Annotated[
    str | None,
    typer.Option("--limit", "-l", metavar="PATTERN", help="Only these hosts (Ansible's patterns)."),
]
Vault = Annotated[
    Path | None,
    typer.Option(
        "--vault-password-file", metavar="FILE", help="Opens vaulted variables, as for Ansible."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before disks and reboots.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="ROLE", help="Only this role; may be repeated."),
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", "-c", min=1, max=500, help="Nodes at a time.")
]


def options(
    inventory: Path,
    limit: str | None,
    vault: Path | None,
    *,
    only: list[str] | None = None,
    concurrency: int = 20,
    **more: Any,
) -> Options:
    """The pipeline's options. The import is what costs: it is made here, not for --help."""
    from nodeprep.pipeline import Options  # noqa: PLC0415

    return Options(
        inventory=inventory,
        limit=limit,
        vault_password_file=vault,
        only=tuple(only or ()),
        concurrency=concurrency,
        **more,
    )


def watched(verb: str, call: Callable[[Feed], RunResult], *, as_json: bool) -> RunResult:
    """Run a verb while its events are shown: on stderr when stdout is for a machine."""
    from rich.console import Console  # noqa: PLC0415

    from nodeprep.report.live import Screen  # noqa: PLC0415

    with Screen(Console(stderr=as_json), verb=verb) as screen:
        return call(screen.feed)


def finish(result: RunResult, *, as_json: bool) -> None:
    """Print the result for its reader, and leave with the run's exit code."""
    if as_json:
        from nodeprep.report import document  # noqa: PLC0415

        sys.stdout.write(document.dumps(result) + "\n")
    else:
        show(result)
    raise typer.Exit(result.exit_code)


def show(result: RunResult) -> None:
    """The result as blocks on stdout, and where its report is."""
    from rich.console import Console  # noqa: PLC0415

    from nodeprep.errors import EXIT_GOOD  # noqa: PLC0415
    from nodeprep.pipeline import previous_run, run_folder  # noqa: PLC0415
    from nodeprep.report import text  # noqa: PLC0415

    # Who looks every few minutes and finds all well is not told that nothing changed.
    quiet = result.verb == "status" or (result.verb == "drift" and result.exit_code == EXIT_GOOD)
    text.render(result, Console(file=sys.stdout), None if quiet else previous_run(result))
    page = run_folder(result) / "report.html"
    if page.exists():
        typer.echo(f"report: {page}")


def ask_password() -> str | None:
    """The provider's password, typed; None where nobody is there to type it."""
    if not sys.stdin.isatty():
        return None
    import getpass  # noqa: PLC0415

    return getpass.getpass("password of new nodes (nothing is shown; Enter: none): ") or None


def confirmer(*, yes: bool) -> Callable[[Any], bool]:
    """Asks before a plan that writes disks or reboots nodes."""

    def confirm(plans: list[NodePlan]) -> bool:
        if yes:
            return True
        for plan in plans:
            for disk in plan.disks:
                typer.echo(f"{plan.node}: writes disk {disk}", err=True)
            if plan.reboot:
                typer.echo(f"{plan.node}: reboots once: {plan.reboot}", err=True)
        return sys.stdin.isatty() and typer.confirm("Go on?", default=False, err=True)

    return confirm


# typer brings click along in some releases and asks for it in others: its own names hold for both.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
_CLICK_ERROR: Any = typer.BadParameter.__mro__[2]


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def guarded(run: Callable[[], Any]) -> int:
    """Call the command line; every error becomes words on stderr and a stable exit code."""
    from nodeprep.errors import (  # noqa: PLC0415
        EXIT_BAD_INPUT,
        EXIT_TOOL_FAILURE,
        Interrupted,
        NodeprepError,
    )

    # Newer Typer carries a click of its own: its errors are reached through what it exports.
    said_wrongly: Any = typer.BadParameter.__base__  # UsageError
    signal.signal(signal.SIGTERM, _as_interrupt)  # a stopped timer ends as Ctrl-C does
    try:
        code = run()
    except NodeprepError as error:
        typer.echo(f"nodeprep: {error}", err=True)
        return error.exit_code
    except said_wrongly as error:
        error.show()
        return EXIT_BAD_INPUT
    except said_wrongly.__base__ as error:  # ClickException
        error.show()
        return EXIT_TOOL_FAILURE
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("nodeprep: stopped; nothing was under way", err=True)
        return Interrupted.exit_code
    except BrokenPipeError:  # `nodeprep … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_TOOL_FAILURE
    except Exception as error:  # a bug of ours: say so, and spare the traceback
        if os.environ.get("NODEPREP_DEBUG"):
            raise
        typer.echo(
            f"nodeprep: a bug in nodeprep: {type(error).__name__}: {error}\n"
            "  set NODEPREP_DEBUG=1 and run it again to see where",
            err=True,
        )
        return EXIT_TOOL_FAILURE
    return code if isinstance(code, int) else 0
