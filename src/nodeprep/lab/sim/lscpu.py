"""`lscpu`, plain and `-J`: the processors of the board."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board

_FLAGS = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse "
    "sse2 ss ht tm syscall nx pdpe1gb rdtscp lm constant_tsc aes avx avx2 avx512f avx512_vnni"
)


def ranges(board: Board, node: int) -> str:
    """The CPUs of one NUMA node (a socket), as `0-31,64-95`."""
    cpus = board["cpus"]
    cores = cpus["cores"]
    total = cores * cpus["sockets"]
    return ",".join(
        "%d-%d" % (thread * total + node * cores, thread * total + (node + 1) * cores - 1)
        for thread in range(cpus["threads"])
    )


def fields(board: Board) -> list[tuple[str, str]]:
    cpus = board["cpus"]
    sockets, cores, threads = cpus["sockets"], cpus["cores"], cpus["threads"]
    count = sockets * cores * threads
    rows = [
        ("Architecture", "x86_64"),
        ("CPU op-mode(s)", "32-bit, 64-bit"),
        ("Address sizes", "46 bits physical, 57 bits virtual"),
        ("Byte Order", "Little Endian"),
        ("CPU(s)", str(count)),
        ("On-line CPU(s) list", "0-%d" % (count - 1)),
        ("Vendor ID", "GenuineIntel"),
        ("Model name", cpus["model"]),
        ("CPU family", str(cpus["family"])),
        ("Model", str(cpus["cpu_model"])),
        ("Thread(s) per core", str(threads)),
        ("Core(s) per socket", str(cores)),
        ("Socket(s)", str(sockets)),
        ("Stepping", str(cpus["stepping"])),
        ("CPU max MHz", "%.4f" % cpus["mhz"]["max"]),
        ("CPU min MHz", "%.4f" % cpus["mhz"]["min"]),
        ("BogoMIPS", "%.2f" % (2 * cpus["mhz"]["base"])),
        ("Flags", _FLAGS),
        ("Virtualization", "VT-x"),
    ]
    for name, kib in cpus["caches"].items():
        instances = sockets if name == "L3" else sockets * cores
        rows.append((name + " cache", _size(kib * instances, instances)))
    rows.append(("NUMA node(s)", str(sockets)))
    rows += [("NUMA node%d CPU(s)" % node, ranges(board, node)) for node in range(sockets)]
    rows.append(("Vulnerability Meltdown", "Not affected"))
    return rows


def _size(kib: int, instances: int) -> str:
    mib = kib / 1024
    text = "%d MiB" % mib if mib == int(mib) else "%.1f MiB" % mib
    return "%s (%d instance%s)" % (text, instances, "" if instances == 1 else "s")


def run(args: list[str], board: Board) -> Result:
    rows = fields(board)
    if "-J" in args or "--json" in args:
        document = {"lscpu": [{"field": name + ":", "data": data} for name, data in rows]}
        return Result(out=json.dumps(document, indent=3) + "\n")
    width = max(len(name) for name, _ in rows) + 2
    return Result(out=lines([(name + ":").ljust(width) + data for name, data in rows]))
