"""`nodeprep lab`: the simulated rack on this machine. Parses, calls nodeprep.lab, prints."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nodeprep.errors import NodeprepError

if TYPE_CHECKING:
    from nodeprep.lab.faults import Entry
    from nodeprep.lab.rack import LabStatus

app = typer.Typer(
    help="A simulated rack on this machine: nodes that look like freshly rented servers.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Name = Annotated[str, typer.Option("--name", help="The lab's name; several can run side by side.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))


def _show(status: LabStatus, *, as_json: bool) -> None:
    if as_json:
        _print_json(status.model_dump(mode="json"))
        return
    from rich.console import Console  # noqa: PLC0415  `nodeprep --help` does not pay for it
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=f"lab {status.name} (simulated)", title_justify="left")
    for column in ("node", "address", "power", "ssh", "board", "faults"):
        table.add_column(column, no_wrap=column != "faults")
    for one in status.nodes:
        table.add_row(
            one.name,
            f"{one.host}:{one.port}",
            one.power,
            one.ssh,
            one.board,
            ", ".join(one.faults) or "-",
        )
    Console().print(table)


@app.command()
def up(
    name: Name = "lab",
    gpus: Annotated[int, typer.Option(help="GPU nodes: gpu1, gpu2, ….")] = 3,
    nas: Annotated[int, typer.Option(help="Storage nodes: nas1, ….")] = 1,
    board: Annotated[str, typer.Option(help="Hardware of the GPU nodes.")] = "a100-sxm4-40g-x4",
    tier: Annotated[
        str, typer.Option(help="fast: containers. vm: virtual machines, slow and complete.")
    ] = "fast",
    as_json: AsJson = False,
) -> None:
    """Start a rack and wait until its nodes answer. Nodes that run are left alone.

    Needs root. The first time builds the node image (a minute); then it takes seconds.

    Example: [bold]nodeprep lab up --gpus 3 --nas 1[/bold]
    """
    from nodeprep.lab import rack  # noqa: PLC0415

    if tier not in ("fast", "vm"):
        raise typer.BadParameter(f"--tier {tier}: fast or vm")
    chosen: Literal["fast", "vm"] = "vm" if tier == "vm" else "fast"
    up_now = rack.up(name, gpus=gpus, nas=nas, board=board, tier=chosen, note=_say)
    _show(up_now, as_json=as_json)
    if not as_json:
        option = "" if name == "lab" else f" --name {name}"
        _say("Nodes are known by address and root password, as after renting:")
        _say(f'  export NODEPREP_BOOTSTRAP_PASSWORD="$(nodeprep lab password{option})"')
        inventory = "inventory/lab.yaml" if name == "lab" else f"{name}.yaml"
        if name != "lab":
            _say(f"  nodeprep lab inventory{option} > {inventory}")
        _say(f"  nodeprep provision {inventory}")


@app.command()
def down(name: Name = "lab") -> None:
    """Remove a rack and everything of it, the site's host keys and ledger too.

    A lab started again has other nodes, with other host keys, as another rental would.

    Example: [bold]nodeprep lab down[/bold]
    """
    from nodeprep.lab import rack  # noqa: PLC0415

    rack.down(name)
    _say(f"lab {name} is gone")


@app.command()
def status(name: Name = "lab", as_json: AsJson = False) -> None:
    """Show the nodes: address, power, whether SSH answers, injected faults.

    Example: [bold]nodeprep lab status --json[/bold]
    """
    from nodeprep.lab import rack  # noqa: PLC0415

    _show(rack.status(name), as_json=as_json)


@app.command()
def password(name: Name = "lab") -> None:
    """Print the root password that fresh nodes have.

    Example: [bold]export NODEPREP_BOOTSTRAP_PASSWORD="$(nodeprep lab password)"[/bold]
    """
    from nodeprep.lab import rack  # noqa: PLC0415

    print(rack.password(name))


@app.command()
def inventory(
    name: Name = "lab",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it here instead of to stdout.")
    ] = None,
) -> None:
    """Print a lab's inventory (inventory/lab.yaml is the one of the lab called `lab`).

    Example: [bold]nodeprep lab inventory --name mine > mine.yaml[/bold]
    """
    from nodeprep.lab import rack  # noqa: PLC0415

    text = rack.inventory(name)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text)


@app.command("exec", context_settings={"ignore_unknown_options": True})
def exec_(
    node: Annotated[str, typer.Argument(help="gpu1, nas1, ….")],
    command: Annotated[list[str], typer.Argument(help="The command and its arguments.")],
    name: Name = "lab",
) -> None:
    """Run a command as root inside a node, past SSH. Exits as the command does.

    Example: [bold]nodeprep lab exec gpu1 -- systemctl is-system-running[/bold]
    """
    from nodeprep.lab import rack  # noqa: PLC0415

    raise typer.Exit(rack.attach(name, node, command))


@app.command()
def inject(
    node: Annotated[str | None, typer.Argument(help="gpu1, nas1, ….")] = None,
    fault: Annotated[str | None, typer.Argument(help="One of --list.")] = None,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="KEY=VALUE", help="May be repeated.")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Show the faults on offer.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Take the node's faults back.")] = False,
    name: Name = "lab",
    as_json: AsJson = False,
) -> None:
    """Make a node faulty, to see what nodeprep says of it. A reset takes everything back.

    Example: [bold]nodeprep lab inject gpu2 noisy_output --arg megabytes=5[/bold]
    """
    from nodeprep.lab import faults  # noqa: PLC0415

    if list_all:
        _list_faults(faults.catalogue(), as_json=as_json)
    elif node and clear and not fault:
        faults.clear(name, node)
    elif node and fault and not clear:
        faults.inject(name, node, fault, dict(_pair(text) for text in arg or ()))
    else:
        raise typer.BadParameter("give a node and a fault, or a node and --clear, or --list")


def _list_faults(entries: tuple[Entry, ...], *, as_json: bool) -> None:
    if as_json:
        _print_json([dataclasses.asdict(entry) for entry in entries])
        return
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        print(f"{entry.kind:5}  {entry.name:{width}}  {entry.summary}")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--arg {text}: wanted KEY=VALUE")
    return key, value


@app.command()
def reset(
    nodes: Annotated[list[str] | None, typer.Argument(help="gpu1, nas1, ….")] = None,
    all_nodes: Annotated[bool, typer.Option("--all", help="Every node of the lab.")] = False,
    name: Name = "lab",
) -> None:
    """Give nodes their fresh image again: new host keys, root password, healthy hardware.

    Example: [bold]nodeprep lab reset gpu2[/bold]
    """
    from nodeprep.lab import rack  # noqa: PLC0415

    if bool(nodes) == all_nodes:
        raise typer.BadParameter("name the nodes, or say --all")
    _show(rack.reset(name, nodes or ()), as_json=False)


def _main() -> int:
    """What `python -m nodeprep.cli.lab` runs."""
    try:
        app()
    except NodeprepError as error:
        _say(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_main())
