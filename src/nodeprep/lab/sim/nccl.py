"""What NCCL does before it moves a byte: its settings, its interface, the log of its channels."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from . import driver, physics

if TYPE_CHECKING:
    from .board import Board, Gpu

CONF = "/etc/nccl.conf"
_SIOCGIFADDR = 0x8915
# What NCCL leaves alone unless nothing else is there.
_LAST = ("docker", "lo", "virbr")


def settings() -> dict[str, str]:
    """NCCL's variables: the environment, else ~/.nccl.conf, else /etc/nccl.conf."""
    found: dict[str, str] = {}
    home = os.environ.get("HOME", "")
    for place in (CONF, os.path.join(home, ".nccl.conf") if home else ""):  # noqa: PTH118
        try:
            text = Path(place).read_text(encoding="utf-8") if place else ""
        except OSError:
            continue
        for line in text.splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and not name.startswith("#"):
                found[name] = value
    found.update({name: value for name, value in os.environ.items() if name.startswith("NCCL_")})
    return found


def addresses() -> list[tuple[str, str]]:
    """(interface, IPv4 address) of this machine, in the kernel's order."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        for _, name in socket.if_nameindex():
            try:
                raw = fcntl.ioctl(query, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            found.append((name, socket.inet_ntoa(raw[20:24])))
    return found


def matches(name: str, pattern: str) -> bool:
    """NCCL_SOCKET_IFNAME: prefixes by commas, `=` for exactly, `^` for all but these."""
    excluded = pattern.startswith("^")
    pattern = pattern.lstrip("^")
    exact = pattern.startswith("=")
    words = [word for word in pattern.lstrip("=").split(",") if word]
    hit = any(name == word if exact else name.startswith(word) for word in words)
    return hit is not excluded


def interfaces(board: Board, wanted: str) -> list[tuple[str, str]]:
    """Those that NCCL would use, best first; empty when the wanted one is not there."""
    forced = board["nccl"]["interface"]
    if forced:
        known = dict(addresses())
        return [(forced, known.get(forced, "10.244.0.1"))]
    have = addresses()
    if wanted:
        return [pair for pair in have if matches(pair[0], wanted)]
    infiniband = [pair for pair in have if pair[0].startswith("ib")]
    others = [pair for pair in have if not pair[0].startswith(_LAST)]
    docker = [pair for pair in have if pair[0].startswith("docker")]
    return infiniband or others or docker or [pair for pair in have if pair[0] == "lo"]


def log(
    board: Board, gpus: list[Gpu], version: str, chosen: dict[str, str], nodes: int
) -> tuple[list[str], str]:
    """Lines of NCCL_DEBUG=INFO (or fewer), and why NCCL cannot start, if so."""
    level = chosen.get("NCCL_DEBUG", "").upper()
    pid = os.getpid()
    host = os.uname().nodename

    def info(text: str, rank: int = 0, thread: int = 0, word: str = "INFO") -> str:
        return "%s:%d:%d [%d] NCCL %s %s" % (host, pid, pid + thread, rank, word, text)

    wanted = chosen.get("NCCL_SOCKET_IFNAME", "")
    found = interfaces(board, wanted)
    rows: list[str] = []
    if wanted:
        rows.append(info("NCCL_SOCKET_IFNAME set by environment to " + wanted))
    if not found:
        text = "Bootstrap : no socket interface found"
        return [*_at(level, rows), info(text, word="WARN")], "internal error"
    using = " ".join("[%d]%s:%s<0>" % (n, name, ip) for n, (name, ip) in enumerate(found))
    rows.append(info("Bootstrap : Using %s:%s<0>" % found[0]))
    rows.append(info("NET/Plugin : No plugin found (libnccl-net.so), using internal "
                     "implementation"))  # fmt: skip
    rows.append(info("cudaDriverVersion " + driver.cuda_version(board).replace(".", "0") + "0"))
    numbers, _, build = version.partition("-1")
    banner = ["NCCL version %s%s" % (numbers, build)] if level else []
    more = [
        info("NET/IB : No device found.", thread=1),
        info("NET/Socket : Using " + using, thread=1),
        info("Using network Socket", thread=1),
        *(info(text, rank, 10 + rank) for text, rank in _channels(board, gpus, nodes)),
        info("Connected all rings", thread=10),
        info("Connected all trees", thread=10),
    ]
    more += [info("comm 0x55d0c0a%05x rank %d nranks %d cudaDev %d busId %s000 - Init COMPLETE" % (
        rank * 4096, rank, len(gpus) * nodes, rank, gpu["address"][5:7].lstrip("0")), rank,
        10 + rank) for rank, gpu in enumerate(gpus)]  # fmt: skip
    return [*_at(level, rows), *banner, *_at(level, more)], ""


def _at(level: str, rows: list[str]) -> list[str]:
    return rows if level in ("INFO", "TRACE") else []


def _channels(board: Board, gpus: list[Gpu], nodes: int) -> list[tuple[str, int]]:
    count = {"mesh": 12, "nvswitch": 24, "bridge": 4}.get(board["kind"], 2)
    ring = "   ".join(str(rank) for rank in range(len(gpus) * nodes))
    rows = [("Channel %02d/%02d :    %s" % (channel, count, ring), 0) for channel in range(count)]
    for channel in range(count):
        for rank, gpu in enumerate(gpus):
            other = (rank + 1) % len(gpus)
            if other == rank:
                continue
            way = physics.peer_path(board, gpu, gpus[other])
            via = {"nvlink": "P2P/IPC/read", "pcie": "P2P/IPC", "staged": "SHM/direct/direct"}[way]
            if nodes > 1 and other == 0:
                via = "NET/Socket/0"
            rows.append(("Channel %02d/0 : %d[%s000] -> %d[%s000] via %s" % (
                channel, rank, gpu["address"][5:7].lstrip("0"), other,
                gpus[other]["address"][5:7].lstrip("0"), via), rank))  # fmt: skip
    return rows
