"""What the way to the site's chosen endpoints carries: told, and judged where the profile says so.

A WAN is nobody's part of a node: without a gate no figure, and no missing one, decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from nodeprep.accept.parsers.iperf3 import parse_iperf3
from nodeprep.accept.parsers.ping import parse_ping
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.claim import File
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile

ENDPOINTS = "/etc/nodeprep/wan-endpoints"
SECONDS = 10  # a path of 160 ms needs some for its window to open
CONTROLS = ("bbr", "cubic")
GATES = ("wan.throughput", "wan.rtt", "wan.loss")
SLOW = (
    "compare the figures of bbr and cubic, and set base_tcp_congestion_control to the better one; "
    "then ask the provider for a route trace (mtr) of the way that loses"
)


@dataclass(frozen=True)
class Way:
    """To one endpoint. Gbit/s by congestion control; None, and `why`: it was not measured."""

    host: str
    rates: dict[str, float | None]
    rtt_ms: float | None
    loss_percent: float | None
    why: tuple[str, ...] = ()

    @property
    def best(self) -> float | None:
        return max((rate for rate in self.rates.values() if rate is not None), default=None)

    @property
    def words(self) -> str:
        rates = [f"{name} {rate:.3g} Gbit/s" for name, rate in self.rates.items() if rate]
        times = [f"{self.rtt_ms:.3g} ms"] if self.rtt_ms is not None else []
        loss = [f"{self.loss_percent:g} % lost"] if self.loss_percent is not None else []
        return f"{self.host}: {', '.join([*rates, *times, *loss, *self.why])}"


@pytest.mark.proof("wan.paths", level="stress", timeout_s=300)
def test_the_way_to_the_chosen_endpoints(
    proof: Proof, profile: Profile, document: Document
) -> None:
    endpoints = _endpoints(document)
    gated = [name for name in GATES if name in profile.gates]
    if not endpoints:
        proof.holds(
            None if gated else True,
            wanted="every endpoint of base_wan_endpoints",
            read="none is chosen",
            reason=f"the profile gates {', '.join(gated)}, and no endpoint is chosen",
            action="name the endpoints in base_wan_endpoints",
        )
        return
    ways = [_way(proof, host, port) for host, port in endpoints]
    told = "; ".join(way.words for way in ways)
    proof.holds(True, wanted="figures to know; gates judge them where the profile has some",
                read=told)  # fmt: skip
    _judge(proof, gated, "wan.throughput", {w.host: w.best for w in ways}, min)
    _judge(proof, gated, "wan.rtt", {w.host: w.rtt_ms for w in ways}, max)
    _judge(proof, gated, "wan.loss", {w.host: w.loss_percent for w in ways}, max)
    for way in ways:
        _tell_the_winner(proof, way)


def _endpoints(document: Document) -> list[tuple[str, int]]:
    files = (c for c in document.claims if isinstance(c, File) and c.name == ENDPOINTS)
    text = next((c.content for c in files if c.content and c.state == "present"), "")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [(words[0], int(words[1])) for words in lines if len(words) == 2]


def _way(proof: Proof, host: str, port: int) -> Way:
    why: list[str] = []
    rates: dict[str, float | None] = {}
    for control in CONTROLS:
        command = ["iperf3", "-c", host, "-p", str(port), "-J", "-t", str(SECONDS), "-C", control]
        try:
            # It ends with 1 when it has something to complain about, and says that in its JSON.
            said = proof.run(command, sudo=False, timeout_s=SECONDS + 20, accept=(0, 1))
            rates[control] = parse_iperf3(said).bits_per_second / 1e9
        except (Unknown, ValueError) as problem:
            rates[control] = None
            why.append(f"{control} not measured: {problem}")
    rtt, loss = None, None
    try:
        echoes = ["ping", "-n", "-q", "-c", "50", "-i", "0.2", "-W", "2", host]
        found = parse_ping(proof.run(echoes, timeout_s=25, accept=(0, 1)))
        rtt, loss = found.rtt_ms, found.loss_percent
    except (Unknown, ValueError) as problem:
        why.append(f"ping: {problem}")
    return Way(host, rates, rtt, loss, tuple(why))


def _judge(
    proof: Proof, gated: Iterable[str], name: str, values: dict[str, float | None], worst: object
) -> None:
    """The worst endpoint; one that was not measured is unknown where a gate asks for it."""
    if name not in gated:
        return
    for host, value in values.items():
        if value is None:
            raise Unknown(f"{name} to {host} was not measured", action="is its iperf3 -s running?")
    host = worst(values, key=lambda host: values[host])  # type: ignore[operator]
    proof.measured(name, values[host], at=f"to {host}", action=SLOW)


def _tell_the_winner(proof: Proof, way: Way) -> None:
    bbr, cubic = way.rates.get("bbr"), way.rates.get("cubic")
    if bbr is None or cubic is None:
        return
    better = "bbr" if bbr > cubic else "cubic"
    proof.note(f"to {way.host} {better} is better: bbr {bbr:.3g}, cubic {cubic:.3g} Gbit/s")
