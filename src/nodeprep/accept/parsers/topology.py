"""`nvidia-smi topo -m` and `topo -p2p r`: which GPU reaches which, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt

_LINK = re.compile(r"^NV(\d+)$")
_GPU = re.compile(r"^GPU(\d+)$")
_MOST_LINKS = 18  # of one GPU: 12 on an A100, 18 on an H100


@dataclass(frozen=True)
class Matrix:
    """What stands between each ordered pair of GPUs; the diagonal is left out."""

    gpus: tuple[int, ...]
    cells: dict[tuple[int, int], str]

    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple((a, b) for a in self.gpus for b in self.gpus if a != b)

    def links(self, a: int, b: int) -> int:
        """NVLinks between two GPUs; 0 when they speak over PCIe."""
        match = _LINK.match(self.cells[a, b])
        return int(match.group(1)) if match else 0


def parse_matrix(text: str, tool: str) -> Matrix:
    """The GPU-by-GPU part of a matrix. ParseError when a GPU of the heading has no whole row."""
    lines = clean(text).splitlines()
    heading = next((n for n, line in enumerate(lines) if _starts_heading(line)), None)
    if heading is None:
        raise ParseError(tool, f"no heading of GPUs in: {excerpt(text) or 'nothing'}")
    columns = _leading_gpus(lines[heading].split())
    cells: dict[tuple[int, int], str] = {}
    for line in lines[heading + 1 :]:
        row = _row(line, columns)
        if row:
            cells.update(row)
    missing = [(a, b) for a in columns for b in columns if a != b and (a, b) not in cells]
    if missing or len(set(columns)) != len(columns):
        raise ParseError(tool, f"the matrix is not whole: {len(missing)} cells of it are missing")
    return Matrix(columns, cells)


def parse_topology(text: str) -> Matrix:
    """`topo -m`: NV# (that many NVLinks), PIX, PXB, PHB, NODE or SYS."""
    return parse_matrix(text, "nvidia-smi topo -m")


def parse_p2p(text: str) -> Matrix:
    """`topo -p2p r`: OK, or why not (CNS, GNS, TNS, NS, DR, U)."""
    return parse_matrix(text, "nvidia-smi topo -p2p r")


def detect_board(topology: Matrix) -> str:
    """What the links say the board is: mesh, bridge, nvswitch, pcie, none, or irregular.

    A mesh splits a GPU's links among its peers; behind NVSwitches every pair shows all of them.
    Bridges join pairs. `irregular` is none of these: some link of the board is missing.
    """
    if len(topology.gpus) < 2:
        return "none"
    peers = {
        a: {b for b in topology.gpus if b != a and topology.links(a, b)} for a in topology.gpus
    }
    linked = {len(others) for others in peers.values()}
    widths = {topology.links(a, b) for a in peers for b in peers[a]}
    if linked == {0}:
        return "pcie"
    if linked == {1} and len(widths) == 1:
        return "bridge"
    if linked == {len(topology.gpus) - 1} and len(widths) == 1:
        return "mesh" if widths.pop() * (len(topology.gpus) - 1) <= _MOST_LINKS else "nvswitch"
    return "irregular"


def _starts_heading(line: str) -> bool:
    words = line.split()
    return bool(words) and words[0] == "GPU0" and "X" not in words


def _leading_gpus(words: list[str]) -> tuple[int, ...]:
    found: list[int] = []
    for word in words:
        match = _GPU.match(word)
        if not match:
            break
        found.append(int(match.group(1)))
    return tuple(found)


def _row(line: str, columns: tuple[int, ...]) -> dict[tuple[int, int], str]:
    words = line.split()
    match = _GPU.match(words[0]) if words else None
    if not match or int(match.group(1)) not in columns or len(words) <= len(columns):
        return {}
    me = int(match.group(1))
    values = dict(zip(columns, words[1:], strict=False))
    # The diagonal is X: anything else means that the columns are not what they seem.
    if values.get(me) != "X":
        return {}
    return {(me, other): value for other, value in values.items() if other != me}
