"""`lsblk`: block devices, plain, `-J` or `-P`, with the columns that were asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .result import Result, Usage, lines

if TYPE_CHECKING:
    from .board import Board

    Row = dict[str, Any]

_DEFAULT = "name,maj:min,rm,size,ro,type,mountpoints"
_UNITS = "BKMGTP"
_SWITCHES = {"-J": "json", "--json": "json", "-b": "bytes", "--bytes": "bytes", "-d": "nodeps",
             "--nodeps": "nodeps", "-n": "bare", "--noheadings": "bare", "-P": "pairs",
             "--pairs": "pairs", "-p": "paths", "--paths": "paths", "-l": "list",
             "--list": "list"}  # fmt: skip


def rows(board: Board) -> list[Row]:
    """Whole disks with their partitions under `children`; every column that is known."""
    found = []
    for number, disk in enumerate(board["disks"]):
        row = _common(disk["name"], disk["size"], "%d:%d" % (259 if disk["tran"] == "nvme" else 8,
                                                             16 * number))  # fmt: skip
        row.update({
            "type": "disk", "model": disk["model"], "serial": disk["serial"],
            "wwn": _wwn(disk), "tran": disk["tran"], "rota": disk["rota"], "rev": disk["rev"],
            "vendor": None if disk["tran"] == "nvme" else "ATA     ",
            "hctl": None if disk["tran"] == "nvme" else "%d:0:0:0" % number,
            "state": "live" if disk["tran"] == "nvme" else "running",
            "fstype": disk.get("fstype"), "uuid": disk.get("uuid"),
            "pttype": "gpt" if disk["children"] else None,
        })  # fmt: skip
        row["children"] = [_child(disk, child, index) for index, child in
                           enumerate(disk["children"], 1)]  # fmt: skip
        found.append(row)
    return found


def _common(name: str, size: int, numbers: str) -> Row:
    empty = dict.fromkeys((
        "model", "serial", "wwn", "tran", "rev", "vendor", "hctl", "state", "fstype", "fsver",
        "fssize", "fsused", "fsavail", "fsuse%", "label", "uuid", "ptuuid", "pttype", "partuuid",
        "partlabel", "parttype", "parttypename", "mountpoint", "pkname", "subsystems",
    ))  # fmt: skip
    return dict(
        empty, name=name, kname=name, path="/dev/" + name, size=size, rm=False, ro=False,
        rota=False, mountpoints=[None], hotplug=False, sched="none",
        **{"maj:min": numbers, "log-sec": 512, "phy-sec": 512, "min-io": 512, "opt-io": 0,
           "alignment": 0, "rq-size": 64, "ra": 128, "disc-gran": 512},
    )  # fmt: skip


def _child(disk: dict[str, Any], child: dict[str, Any], index: int) -> Row:
    row = _common(child["name"], child["size"], "8:%d" % index)
    mount = child.get("mountpoint")
    row.update(type=child.get("type", "part"), rota=disk["rota"], wwn=_wwn(disk),
               fstype=child.get("fstype"), uuid=child.get("uuid"), mountpoint=mount,
               mountpoints=[mount], pkname=disk["name"])  # fmt: skip
    return row


def _wwn(disk: dict[str, Any]) -> str:
    return str(disk["wwn"])


def run(args: list[str], board: Board) -> Result:
    switches, columns, names = _options(args)
    found = [row for row in rows(board) if not names or row["name"] in names]
    missing = sorted(names - {row["name"] for row in found})
    if missing:
        return Result(32, err=lines(["lsblk: %s: not a block device" % n for n in missing]))
    unknown = [column for column in columns if column not in _common("", 0, "") and
               column != "type"]  # fmt: skip
    if unknown:
        return Result(1, err="lsblk: unknown column: %s\n" % unknown[0].upper())
    if "json" in switches:
        tree = [_select(row, columns, switches) for row in found]
        return Result(out=json.dumps({"blockdevices": tree}, indent=3) + "\n")
    flat = [(0, row) for row in found]
    if "nodeps" not in switches:
        flat = [pair for row in found
                for pair in [(0, row), *((1, child) for child in row["children"])]]  # fmt: skip
    if "pairs" in switches:
        return Result(out=lines([_pairs(row, columns, switches) for _, row in flat]))
    return Result(out=_table(flat, columns, switches))


def _options(args: list[str]) -> tuple[set[str], list[str], set[str]]:
    switches: set[str] = set()
    columns, names = _DEFAULT, set()
    rest = iter(args)
    for arg in rest:
        if arg in ("-o", "--output"):
            columns = next(rest, "")
        elif arg.startswith("--output="):
            columns = arg[9:]
        elif arg in ("-O", "--output-all"):
            columns = ",".join([*sorted(_common("", 0, "")), "type"])
        elif arg in ("-e", "-I", "--exclude", "--include"):
            next(rest, "")
        elif arg in _SWITCHES:
            switches.add(_SWITCHES[arg])
        elif arg.startswith("-o"):
            columns = arg[2:]
        elif arg.startswith("-") and not arg.startswith("--"):
            inner, more, _ = _options(_split(arg, rest))
            switches |= inner
            columns = ",".join(more) if "o" in arg else columns
        elif arg.startswith("-"):
            message = "lsblk: unrecognized option '%s'\n" % arg
            raise Usage(Result(1, err=message + "Try 'lsblk --help' for more information.\n"))
        else:
            names.add(arg.rpartition("/")[2])
    return switches, columns.lower().split(","), names


def _split(arg: str, rest: Any) -> list[str]:
    """`-Jbo X` as `-J -b -o X`."""
    words = ["-" + letter for letter in arg[1:]]
    if any(len(arg) == 2 and word not in _SWITCHES for word in words):
        message = "lsblk: invalid option -- '%s'\n" % arg[1:]
        raise Usage(Result(1, err=message + "Try 'lsblk --help' for more information.\n"))
    return words + ([next(rest, "")] if words[-1] == "-o" else [])


def _value(row: Row, column: str, switches: set[str]) -> Any:
    value = row[column]
    if column == "size" and "bytes" not in switches:
        return _human(value)
    if column == "name" and "paths" in switches:
        return row["path"]
    return value


def _select(row: Row, columns: list[str], switches: set[str]) -> Row:
    chosen = {column: _value(row, column, switches) for column in columns}
    if row.get("children") and "nodeps" not in switches and "list" not in switches:
        chosen["children"] = [_select(child, columns, switches) for child in row["children"]]
    return chosen


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list):
        return "\\n".join(str(item) for item in value if item is not None)
    return "" if value is None else str(value).rstrip()


def _pairs(row: Row, columns: list[str], switches: set[str]) -> str:
    return " ".join('%s="%s"' % (column.upper(), _text(_value(row, column, switches)))
                    for column in columns)  # fmt: skip


def _table(flat: list[tuple[int, Row]], columns: list[str], switches: set[str]) -> str:
    table = [] if "bare" in switches else [[column.upper() for column in columns]]
    for depth, row in flat:
        cells = [_text(_value(row, column, switches)) for column in columns]
        if depth and columns[0] == "name" and "list" not in switches:
            last = row is flat[-1][1] or flat[[r for _, r in flat].index(row) + 1][0] == 0
            cells[0] = ("`-" if last else "|-") + cells[0]
        table.append(cells)
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    return lines([" ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                  for row in table])  # fmt: skip


def _human(size: int) -> str:
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return ("%.1f" % value).rstrip("0").rstrip(".") + _UNITS[unit]
