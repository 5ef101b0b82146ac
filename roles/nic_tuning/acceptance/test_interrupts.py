"""Proof of the interrupts: while the NIC works, they arrive on the CPUs that they were given."""

from __future__ import annotations

import re

import pytest

from nodeprep.accept.parsers.interrupts import parse_interrupts
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.claim import Interrupts
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile

# Both tables, the load between them, which interrupts are the NIC's, and where each may go.
LOOK = """\
cat /proc/interrupts; echo ----
ping -q -n -c {count} -i 0.002 -w 20 {host} >/dev/null; cat /proc/interrupts; echo ----
ls /sys/class/net/{nic}/device/msi_irqs /sys/class/net/{nic}/device/../msi_irqs 2>/dev/null
echo ----; grep -H . /proc/irq/[0-9]*/smp_affinity_list"""
PINGS = 1000
# One that is to move moves when it next fires, from where it was.
MOVING = 1


@pytest.mark.proof("nic.interrupts", timeout_s=60)
def test_interrupts_arrive_where_they_were_put(
    proof: Proof, document: Document, profile: Profile
) -> None:
    claims = [c for c in document.claims_of("nic_tuning") if isinstance(c, Interrupts)]
    names = [claim.name for claim in claims if claim.applies]
    if not profile.parts.nics:
        proof.not_applicable("no NIC is told of in the order", profile="parts.nics")
    if not profile.platform.own_interrupts:
        proof.not_applicable(profile.platform.why, profile="platform.own_interrupts")
    if not names:
        raise Unknown("no claim says where interrupts go (nic_tuning_interfaces)")
    route = re.search(r"^default via (\S+)", proof.run(["ip", "route"]), re.MULTILINE)
    if not route:
        raise Unknown("the node has no default route, so no neighbour to send to")
    for name in names:
        command = LOOK.format(nic=name, host=route.group(1), count=PINGS)
        strays, served = _strays(proof.run(command, timeout_s=45, accept=(0, 1)))
        proof.holds(
            not strays if served else None,
            wanted=f"{name} interrupts the CPUs of smp_affinity_list, and no other",
            read=", ".join(strays) or f"{name}: {served} interrupts, each where it belongs",
            source=f"/proc/interrupts before and after {PINGS} pings",
            action="is irqbalance stopped? then nodeprep drift --fix, and reboot",
        )


def _strays(text: str) -> tuple[list[str], int]:
    """What was served elsewhere, in words, and how many interrupts were served at all."""
    parts = text.split("----\n")
    if len(parts) != 4:
        raise Unknown(f"the node answered in {len(parts)} parts, not in 4")
    before, after = parse_interrupts(parts[0]), parse_interrupts(parts[1])
    mine = {int(word) for word in re.findall(r"^\d{1,9}$", parts[2], re.MULTILINE)}
    allowed = {
        int(irq): _cpus(cpus)
        for irq, cpus in re.findall(
            r"^/proc/irq/(\d+)/smp_affinity_list:([\d,-]+)$", parts[3], re.M
        )
    }
    strays, served = [], 0
    for irq in sorted(mine & before.keys() & after.keys() & allowed.keys()):
        for cpu, count in after[irq].items():
            grown = count - before[irq].get(cpu, 0)
            served += max(grown, 0)
            if grown > MOVING and cpu not in allowed[irq]:
                strays.append(f"interrupt {irq}: {grown} on CPU {cpu}")
    return strays, served


def _cpus(text: str) -> set[int]:
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
