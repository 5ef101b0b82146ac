"""What each measurement between nodes is called, gated by, and made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from nodeprep.accept.between.figures import (
    NOTHING,
    Both,
    ClockFigures,
    GroupFigures,
    PairFigures,
    Trouble,
)
from nodeprep.accept.between.rounds import Pair
from nodeprep.model.profile import Gate

Gates = Mapping[str, Mapping[str, Gate]]  # by node, by measurement
_SILENT = Trouble(why="not measured")


@dataclass(frozen=True)
class Line:
    """One pair by one measurement. `ways`: a to b, b to a, where the two were told apart.

    `wrong` says why it is bad whatever the gate says.
    """

    pair: Pair
    value: float | None
    ways: Both = NOTHING
    trouble: Trouble = _SILENT
    wrong: str = ""


class Figures(Protocol):
    """All that was measured."""

    @property
    def pairs(self) -> Sequence[PairFigures]: ...
    @property
    def clocks(self) -> Sequence[ClockFigures]: ...
    @property
    def groups(self) -> Sequence[GroupFigures]: ...


@dataclass(frozen=True)
class Measurement:
    """`what`: in a sentence. `node_action`, `link_action`: what to do about a bad one.

    `needs`: the tools, where something was not measured.
    """

    proof: str
    gate: str
    what: str
    node_action: str
    link_action: str
    lines: Callable[[Figures], tuple[Line, ...]]
    needs: str = "is iperf3 installed and its port free, and no firewall between the nodes?"

    def gate_of(self, pair: Pair, gates: Gates) -> Gate | None:
        """Two nodes of unlike classes owe each other what the lesser one owes."""
        both = [found for name in pair if (found := gates.get(name, {}).get(self.gate))]
        if len(both) < 2:
            return None
        return (min if both[0].better == "higher" else max)(both, key=lambda gate: gate.fail)


def bad(line: Line, gate: Gate | None) -> bool:
    """False for what was not measured, or has no gate: that is unknown, which is another thing."""
    if line.value is None or gate is None:
        return False
    missed = line.value < gate.fail if gate.better == "higher" else line.value > gate.fail
    return missed or bool(line.wrong)


def beside_loss(pairs: Sequence[PairFigures]) -> dict[str, str]:
    """What UDP told besides its loss, in words: no gate judges it."""
    jitter = [way for pair in pairs for way in pair.jitter if way is not None]
    offered = [pair.offered for pair in pairs if pair.offered is not None]
    ceiling = [way for pair in pairs for way in pair.ceiling if way is not None]
    said: dict[str, str] = {}
    if offered:
        said["sent at"] = f"{min(offered):.4g} Gbit/s"
    if jitter:
        said["jitter"] = f"{max(jitter):.3g} ms at most"
    if ceiling:
        said["ceiling"] = (
            f"{min(ceiling):.4g} to {max(ceiling):.4g} Gbit/s arrived of all that fits"
        )
    return said


def _tcp(found: Figures) -> tuple[Line, ...]:
    return tuple(
        Line(p.pair, _least(p.tcp), p.tcp, p.troubles.get("tcp", _SILENT), "") for p in found.pairs
    )


def _loss(found: Figures) -> tuple[Line, ...]:
    return tuple(
        Line(p.pair, _most(p.loss), p.loss, p.troubles.get("loss", _SILENT), "")
        for p in found.pairs
    )


def _path_mtu(found: Figures) -> tuple[Line, ...]:
    return tuple(
        Line(p.pair, p.path_mtu, NOTHING, p.troubles.get("path_mtu", _SILENT), _black_hole(p))
        for p in found.pairs
    )


def _clock(figures: Figures) -> tuple[Line, ...]:
    found = []
    for a, b in combinations(figures.clocks, 2):
        silent = next((c for c in (a, b) if c.source_ms is None), None)
        trouble = Trouble(why=silent.trouble, node=silent.node) if silent else _SILENT
        found.append(Line((a.node, b.node), _apart(a, b), NOTHING, trouble))
    return tuple(found)


def _all_reduce(found: Figures) -> tuple[Line, ...]:
    """The groups of two; the last figure of each counts."""
    pairs = {g.group: g for g in found.groups if len(g.group) == 2}
    return tuple(
        Line((a, b), g.busbw, NOTHING, g.trouble or _SILENT, wrong_values(g))
        for (a, b), g in pairs.items()
    )


def wrong_values(group: GroupFigures) -> str:
    return f"{group.wrong} wrong values" if group.wrong else ""


def _apart(a: ClockFigures, b: ClockFigures) -> float | None:
    """By what chrony says, or by what was seen from here where that is surely more."""
    if a.source_ms is None or b.source_ms is None:
        return None
    seen = 0.0
    if a.here_ms is not None and b.here_ms is not None:
        seen = abs(a.here_ms - b.here_ms) - a.error_ms - b.error_ms
    return max(abs(a.source_ms - b.source_ms), seen)


def _black_hole(pair: PairFigures) -> str:
    """A path that carries less than both ends' interfaces say swallows full packets."""
    known = [mtu for mtu in pair.mtu if mtu is not None]
    if len(known) < 2 or pair.path_mtu is None or pair.path_mtu >= min(known):
        return ""
    return f"the interfaces say {min(known)}, the path carries {pair.path_mtu}"


def _least(ways: Both) -> float | None:
    known = _known(ways)
    return min(known) if len(known) == 2 else None


def _most(ways: Both) -> float | None:
    known = _known(ways)
    return max(known) if len(known) == 2 else None


def _known(ways: Iterable[float | None]) -> list[float]:
    return [value for value in ways if value is not None]


_WAIVE = "until then a waiver of {claim} for one of the two lets that one in"

ALL: tuple[Measurement, ...] = (
    Measurement(
        "tcp.pairs", "network.tcp", "TCP between nodes",
        "look at this node's end: negotiated speed and duplex (ethtool), error counters, cable, "
        "transceiver, switch port",
        "look at what only these two share: switch ports, a member of a bundle, a route",
        _tcp,
    ),
    Measurement(
        "udp.loss", "network.udp.loss", "loss of UDP between nodes",
        "find where datagrams die: ethtool -S (drops, errors), nstat (UdpRcvbufErrors: the "
        "receiver is too slow), then the switch port",
        "look at the counters of the switch ports between these two",
        _loss,
    ),
    Measurement(
        "path_mtu", "network.path_mtu", "path MTU between nodes",
        "set one MTU on every hop: this node's switch port, bond, VLAN or tunnel carries less "
        "than its interface says",
        "set one MTU on every hop between these two",
        _path_mtu,
    ),
    Measurement(
        "clock.offset", "network.clock.offset", "clocks of the nodes",
        "see why this node's clock is another: chronyc -n sources; chronyc tracking",
        "give both nodes the same time sources: chronyc -n sources",
        _clock,
    ),
    Measurement(
        "nccl.all_reduce", "nccl.all_reduce.inter_node.busbw", "all_reduce between nodes",
        "TCP alone is good: look at NCCL's interface (/etc/nccl.conf), its sockets "
        "(NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD), and whether NIC and GPUs share a NUMA node",
        "compare nccl.conf and the NCCL version of both; then what only these two share",
        _all_reduce,
        "are mpirun, nccl-tests (built with MPI=1) and NCCL there, and no firewall between the "
        "nodes?",
    ),
)  # fmt: skip


def waive(claim: str) -> str:
    return _WAIVE.format(claim=claim)
