"""`nvidia-smi`: reads its options and hands over to what answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import board as boards
from . import driver, smi_links, smi_mig, smi_query, smi_report, smi_settings, smi_table
from .result import Result, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board, Gpu

# Options that take a value, under one name.
_VALUED = {
    "-i": "id", "--id": "id",
    "-pm": "pm", "--persistence-mode": "pm",
    "-e": "ecc", "--ecc-config": "ecc",
    "-mig": "mig", "--multi-instance-gpu": "mig",
    "-pl": "pl", "--power-limit": "pl",
    "-lgc": "lgc", "--lock-gpu-clocks": "lgc",
    "-ac": "ac", "--applications-clocks": "ac",
    "-c": "compute", "--compute-mode": "compute",
    "-p": "clear", "--reset-ecc-errors": "clear",
    "--query-gpu": "gpu", "--query-compute-apps": "apps", "--query-remapped-rows": "rows",
    "--format": "format",
    "-d": "display", "--display": "display",
    "-f": "file", "--filename": "file", "-l": "loop", "--loop": "loop",
}  # fmt: skip
_SWITCHES = {
    "-q": "query", "--query": "query", "-x": "xml", "--xml-format": "xml",
    "-L": "list", "--list-gpus": "list", "-rgc": "rgc", "--reset-gpu-clocks": "rgc",
    "-rac": "rac", "--reset-applications-clocks": "rac",
    "-r": "reset", "--gpu-reset": "reset", "-h": "help", "--help": "help",
    "--version": "version",
}  # fmt: skip
_HELP = "NVIDIA System Management Interface -- v%s\n\nnvidia-smi [OPTION1 [ARG1]] ...\n"


def run(args: list[str], board: Board) -> Result:
    options = None if args[:1] in (["topo"], ["nvlink"], ["mig"]) else _parse(args)
    if options is not None and "help" in options:
        return Result(out=_HELP % (driver.version(board) or "535"))
    fault = driver.problem(board)
    if fault:
        return fault
    if not boards.enumerated(board):
        return Result(6, "No devices were found\n")
    if args[:1] == ["mig"]:
        return smi_mig.run(args[1:], board, boards.enumerated(board))
    if options is None:
        return smi_links.topo(args[1:], board) if args[0] == "topo" else smi_links.nvlink(
            args[1:], board)  # fmt: skip
    result = _answer(options, board, select(board, options.get("id", "")))
    lost = any(gpu["state"] == "lost" for gpu in boards.enumerated(board))
    return Result(15, result.out, result.err) if lost and result.rc == 0 else result


def _parse(args: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if name in _VALUED:
            found = value if equals else next(rest, None)
            if found is None:
                raise Usage(Result(1, "Missing value for option %s\n" % arg))
            options[_VALUED[name]] = found
        elif arg in _SWITCHES:
            options[_SWITCHES[arg]] = ""
        else:
            text = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"
            raise Usage(Result(1, text + "\n"))
    return options


def select(board: Board, ids: str) -> list[Gpu]:
    """The GPUs that `-i` names: indices, UUIDs, serials or bus ids, by commas; all when empty."""
    gpus = boards.enumerated(board)
    if not ids:
        return gpus
    chosen = []
    for word in ids.split(","):
        match = [gpu for index, gpu in enumerate(gpus)
                 if word in (str(index), gpu["uuid"], gpu["serial"])
                 or word.lower().endswith(gpu["address"])]  # fmt: skip
        if not match:
            raise Usage(Result(6, "No devices were found\n"))
        chosen += match
    return chosen


def _answer(options: dict[str, str], board: Board, gpus: list[Gpu]) -> Result:
    for name, change in _SETTINGS.items():
        if name in options:
            return change(board, gpus, options[name])
    for name in ("gpu", "apps", "rows"):
        if name in options:
            return smi_query.run(board, gpus, name, options[name], options.get("format", ""))
    if "list" in options:
        rows = ["GPU %d: %s (UUID: %s)\n" % (boards.enumerated(board).index(gpu),
                                            boards.spec(board)["name"], gpu["uuid"])
                + smi_mig.listed(gpu) for gpu in gpus]  # fmt: skip
        return Result(out="".join(rows))
    if "version" in options:
        return Result(out=smi_table.versions(board))
    if "query" in options:
        render = smi_report.as_xml if "xml" in options else smi_report.as_text
        return Result(out=render(board, gpus))
    return Result(out=smi_table.table(board, gpus))


_SETTINGS: dict[str, Callable[[Board, list[Gpu], str], Result]] = {
    "pm": smi_settings.persistence,
    "ecc": smi_settings.ecc,
    "mig": smi_settings.mig,
    "pl": smi_settings.power_limit,
    "lgc": smi_settings.lock_clocks,
    "rgc": smi_settings.reset_clocks,
    "ac": smi_settings.application_clocks,
    "rac": smi_settings.reset_application_clocks,
    "compute": smi_settings.compute_mode,
    "clear": smi_settings.clear_ecc,
    "reset": smi_settings.reset,
}
