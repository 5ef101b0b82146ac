"""Ranks of one MPI job tell the first one what their boards are like, over the nodes' own network.

Open MPI gives each rank the address of the node that launched the job (`orte_hnp_uri`), and a name
of the job (`PMIX_NAMESPACE`) that all share: the port follows from it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .board import Board

WAIT_S = 20.0
_PORTS = (21000, 10000)  # the first, and how many
_URI = re.compile(r"tcp://([0-9.]+)")
_KEPT: dict[str, list[dict[str, Any]]] = {}  # a tool that changes the board is run twice


def spread() -> bool:
    """Whether this process is of a job over several nodes that can be found."""
    return bool(_launcher()) and "PMIX_NAMESPACE" in os.environ


def report(board: Board) -> dict[str, Any]:
    """GB/s that this node's NIC carries in a collective, and shares of it by the peer's name."""
    return {
        "rank": int(os.environ.get("OMPI_COMM_WORLD_RANK", "0")),
        "host": os.uname().nodename,
        "rate": line_rate(board),
        "peers": board["performance"].get("peers", {}),
    }


def line_rate(board: Board) -> float:
    """GB/s of bus bandwidth between nodes: 90 % of the line, less what is wrong with the NIC."""
    nic = board["nics"][0]
    line = nic["speed"] / 8000 * 0.9 * (1.0 if nic["duplex"] == "Full" else 0.5)
    lossy = 0.6 if nic["stats"]["rx_dropped"] else 1.0
    return float(line * lossy * board["performance"]["factors"].get("network", 1.0))


def slowest(reports: list[dict[str, Any]]) -> float:
    """GB/s of a ring over these nodes, in the order of their ranks."""
    found = min(float(one["rate"]) for one in reports)
    for one, other in zip(reports, [*reports[1:], reports[0]]):
        share = min(one["peers"].get(other["host"], 1.0), other["peers"].get(one["host"], 1.0))
        found = min(found, share * min(float(one["rate"]), float(other["rate"])))
    return found


def gather(board: Board, size: int) -> list[dict[str, Any]]:
    """All reports, to the first rank; an empty list to the others, or when somebody is missing."""
    job = os.environ["PMIX_NAMESPACE"]
    if job not in _KEPT:
        _KEPT[job] = _gather(board, size)
    return _KEPT[job]


def _gather(board: Board, size: int) -> list[dict[str, Any]]:
    mine = report(board)
    if mine["rank"]:
        _send(mine)
        return []
    found = {0: mine}
    deadline = time.monotonic() + WAIT_S
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((_launcher(), _port()))
        server.listen(size)
        while len(found) < size and time.monotonic() < deadline:
            server.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                peer, _ = server.accept()
            except OSError:
                break
            with peer, peer.makefile("r", encoding="utf-8") as stream:
                one = json.loads(stream.readline())
            found[one["rank"]] = one
    return [found[rank] for rank in sorted(found)] if len(found) == size else []


def _send(mine: dict[str, Any]) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((_launcher(), _port()), 5) as first:
                first.sendall(json.dumps(mine).encode() + b"\n")
                return
        except OSError:
            time.sleep(0.1)


def _launcher() -> str:
    found = _URI.search(os.environ.get("OMPI_MCA_orte_hnp_uri", ""))  # noqa: SIM112
    return found.group(1) if found else ""


def _port() -> int:
    first, many = _PORTS
    digits = re.sub(r"\D", "", os.environ["PMIX_NAMESPACE"]) or "0"
    return first + int(digits) % many
