"""Proofs of the NICs that were rented: what they negotiated, and what they lose."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from nodeprep.accept.parsers.ethtool import (
    NicCounters,
    NicModule,
    NicSettings,
    parse_module,
    parse_settings,
    parse_statistics,
    worst,
)
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import NicPart, Profile

CABLE = "clean or change the cable or module; try another switch port; then RMA the NIC"
ROOM = "raise the receive ring (ethtool -G) and spread its queues; look for a full PCIe link"
# Not every driver has a total of packets, and some virtual NICs have no counters of their own; the
# kernel's do for those.
COUNT = (
    "for f in rx_packets tx_packets; do"
    ' echo "$f: $(cat /sys/class/net/{nic}/statistics/$f 2>/dev/null)"; done;'
    " ethtool -S {nic} 2>/dev/null || for f in /sys/class/net/{nic}/statistics/*;"
    ' do echo "${{f##*/}}: $(cat $f)"; done'
)
# To whoever is next, at a few Mbit/s: enough for a bad cable to show, too little to disturb.
LOAD = "ping -q -n -c {count} -i 0.002 -s 1400 -w 30 {host}"
PINGS = 2000
# What has no module says so in one of these ways; any other end is a tool that did not work.
NO_MODULE = "no diagnostics"
# Alarms stay up until they are read, also those of the time when the other end was not there yet.
MODULE = (
    "ethtool -m {nic} >/dev/null 2>&1; "
    'said=$(ethtool -m {nic} 2>&1) && echo "$said" && exit; rc=$?; case $said in'
    ' *"not supported"*|*"Invalid argument"*|*"No such device or address"*)'
    f" echo {NO_MODULE}; exit;;"
    ' esac; echo "$said" >&2; exit $rc'
)
RX_POWER = "nic.module.rx_power"  # dBm
LEAST = 1_000_000  # packets; among fewer a single error would be a rate


@pytest.fixture
def nics(proof: Proof, profile: Profile) -> tuple[NicPart, ...]:
    if not profile.parts.nics:
        proof.not_applicable("no NIC is told of in the order", profile="parts.nics")
    return profile.parts.nics


@pytest.mark.proof("nic.link", timeout_s=60)
def test_each_nic_runs_at_its_speed(proof: Proof, nics: tuple[NicPart, ...]) -> None:
    for nic in nics:
        found = parse_settings(proof.run(["ethtool", nic.name]))
        good = found.link and found.duplex == "full" and (found.speed_mbps or 0) >= nic.speed_mbps
        told = None not in (found.link, found.speed_mbps, found.duplex) or found.link is False
        proof.holds(
            bool(good) if told else None,
            wanted=f"{nic.name} at {nic.speed_mbps} Mb/s, full duplex",
            read=f"{nic.name} {_words(found)}",
            source="the profile",
            action=f"let both ends negotiate by themselves; {CABLE}",
        )


@pytest.mark.proof("nic.module", timeout_s=60)
def test_no_module_raises_an_alarm(
    proof: Proof, profile: Profile, nics: tuple[NicPart, ...]
) -> None:
    """By the thresholds of the module's own maker. What it sees is gated where the profile asks.

    Copper, backplanes and virtual NICs have no diagnostics, and so nothing that could be raised:
    that is said, and is unknown only where the profile has a gate for it.
    """
    for nic in nics:
        said = proof.run(MODULE.format(nic=nic.name), or_nothing=True)
        if said.startswith(NO_MODULE):
            gated = RX_POWER in profile.gates
            proof.holds(
                None if gated else True,
                wanted=f"{nic.name}'s module raises no alarm",
                read=f"{nic.name} has a module without diagnostics, or none",
                reason=f"{nic.name} offers no diagnostics, and the profile has a gate for them",
                action=f"take gates.{RX_POWER} out of the profile if the cable is copper",
            )
            continue
        module = parse_module(said)
        proof.holds(
            not module.raised,
            wanted=f"{nic.name}'s module raises no alarm",
            read=f"{nic.name}: {', '.join(module.raised) or 'none'} ({_light(module)})",
            source="the module's own thresholds",
            action=f"clean both ends of the fibre; {CABLE}",
        )
        if RX_POWER in profile.gates:
            proof.measured(RX_POWER, module.rx_dbm, at=f"at {nic.name}", action=CABLE)


@pytest.mark.proof("nic.errors", timeout_s=60)
def test_nics_received_what_was_sent(proof: Proof, nics: tuple[NicPart, ...]) -> None:
    counted = {nic.name: _counters(proof, nic) for nic in nics}
    _rate(proof, "nic.errors_per_million", counted, NicCounters.errors, CABLE)
    _rate(proof, "nic.drops_per_million", counted, NicCounters.drops, ROOM)


@pytest.mark.proof("nic.errors_under_load", level="stress", timeout_s=120)
def test_no_nic_counts_errors_while_it_works(proof: Proof, nics: tuple[NicPart, ...]) -> None:
    before = {nic.name: _counters(proof, nic) for nic in nics}
    host = _gateway(proof)
    said = proof.run(LOAD.format(count=PINGS, host=host), timeout_s=45, accept=(0, 1))
    for nic in nics:
        after = _counters(proof, nic).errors()
        # A driver that was loaded anew counts from zero.
        grown = {
            name: count - old
            for name, count in after.items()
            if (old := before[nic.name].values.get(name, 0)) < count
        }
        proof.holds(
            not grown,
            wanted=f"{nic.name} counts no error more",
            read=", ".join(f"{nic.name} {name} +{count}" for name, count in sorted(grown.items()))
            or f"{nic.name} none more, {PINGS} frames sent",
            action=CABLE,
        )
    answered = re.search(r"(\d+) received", said)
    if answered and int(answered.group(1)) < PINGS:
        proof.note(f"{host} answered {answered.group(1)} of {PINGS} pings, which decides nothing")


def _counters(proof: Proof, nic: NicPart) -> NicCounters:
    return parse_statistics(proof.run(COUNT.format(nic=nic.name)))


def _rate(
    proof: Proof,
    measurement: str,
    counted: dict[str, NicCounters],
    kind: Callable[[NicCounters], dict[str, int]],
    action: str,
) -> None:
    rates = {
        nic: (1e6 * worst(kind(counters))[1] / max(counters.packets, LEAST), counters)
        for nic, counters in counted.items()
    }
    nic, (rate, counters) = max(rates.items(), key=lambda item: item[1][0])
    name, count = worst(kind(counters))
    read = f"{name} {count} in {counters.packets} packets" if count else "none"
    proof.measured(measurement, rate, at=f"at {nic}", read=read, action=action)


def _gateway(proof: Proof) -> str:
    found = re.search(r"^default via (\S+)", proof.run(["ip", "route"]), re.MULTILINE)
    if not found:
        raise Unknown("the node has no default route, so no neighbour to send to")
    return found.group(1)


def _light(module: NicModule) -> str:
    figures = [("rx", module.rx_dbm, "dBm"), ("tx", module.tx_dbm, "dBm")]
    told = [f"{way} {value:g} {unit}" for way, value, unit in figures if value is not None]
    told += [f"{module.celsius:g} C"] if module.celsius is not None else []
    return ", ".join([module.kind, module.vendor, *told])


def _words(found: NicSettings) -> str:
    if found.link is False:
        return "has no link"
    speed = "unknown speed" if found.speed_mbps is None else f"{found.speed_mbps} Mb/s"
    return f"{speed}, {found.duplex or 'unknown'} duplex"
