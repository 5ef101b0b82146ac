"""NIC settings and interrupts on a machine whose NIC, interrupts and NUMA nodes are its own."""

from __future__ import annotations

import re

import pytest
from tests.conftest import Rack
from tests.site import Site, unmet
from tests.vm.conftest import reboot

pytestmark = pytest.mark.vm
NODE, NIC = "gpu1", "ens5f0"
ROLES = ("access", "base", "nic_tuning")
ONLY = tuple(f"--only={role}" for role in ROLES)


def placed(rack: Rack) -> dict[str, str]:
    """Where each queue of the NIC interrupts, by the interrupt's name."""
    script = (
        f"cd -P /sys/class/net/{NIC}/device/../msi_irqs; for irq in *; do\n"
        'name=$(sed -n "s/^ *$irq:.* //p" /proc/interrupts)\n'
        "echo $name $(cat /proc/irq/$irq/smp_affinity_list); done"
    )
    words = [line.split() for line in rack.run(NODE, "sh", "-c", script).splitlines()]
    return {line[0]: line[1] for line in words if len(line) == 2 and "put" in line[0]}


def near(rack: Rack) -> set[str]:
    """The CPUs of the NIC's NUMA node, from the kernel's own list."""
    script = (
        f"node=$(cat /sys/class/net/{NIC}/device/../numa_node)\n"
        "[ $node -lt 0 ] && exec cat /sys/devices/system/cpu/online\n"
        "cat /sys/devices/system/node/node$node/cpulist"
    )
    cpus: set[str] = set()
    for part in rack.run(NODE, "sh", "-c", script).strip().split(","):
        first, _, last = part.partition("-")
        cpus |= {str(cpu) for cpu in range(int(first), int(last or first) + 1)}
    return cpus


def holds(rack: Rack) -> None:
    found, cpus = placed(rack), near(rack)
    assert found
    assert set(found.values()) <= cpus, (found, cpus)
    rx = [cpu for name, cpu in found.items() if "input" in name]
    counts = [rx.count(cpu) for cpu in sorted(cpus)]
    assert max(counts) - min(counts) <= 1, found
    for name, cpu in found.items():
        if "output" in name:
            mask = rack.run(
                NODE, "cat", f"/sys/class/net/{NIC}/queues/tx-{name[-1]}/xps_cpus", check=False
            )
            assert not mask or int(mask.replace(",", ""), 16) == 1 << int(cpu), (name, mask)


def of_nic(site: Site) -> set[str]:
    _, nodes = site.document("drift", "--limit", NODE)
    return {claim for claim in unmet(nodes[NODE]) if claim.startswith("nic_tuning/")}


def test_interrupts_sit_where_they_are_claimed(provisioned: Site) -> None:
    assert of_nic(provisioned) == set()
    holds(provisioned.rack)


def test_traffic_is_served_there(provisioned: Site) -> None:
    """Each CPU's count grows only where the interrupt was put."""
    text = "grep virtio.*put /proc/interrupts; ping -q -c 200 -i 0.01 {0} >/dev/null; echo ----\n"
    gateway = provisioned.rack.run(
        NODE, "sh", "-c", "ip route | sed -n 's/^default via //p' | cut -d' ' -f1"
    )
    said = provisioned.rack.run(
        NODE, "sh", "-c", text.format(gateway.strip()) + "grep virtio.*put /proc/interrupts"
    )
    before, after = (
        [line.split() for line in part.strip().splitlines()] for part in said.split("----")
    )
    where = placed(provisioned.rack)
    grown = 0
    for old, new in zip(before, after, strict=True):
        if new[-1] not in where:
            continue
        for cpu, (was, now) in enumerate(zip(old[1:-3], new[1:-3], strict=True)):
            if was.isdigit() and now.isdigit() and int(now) > int(was) + 1:
                assert str(cpu) == where[new[-1]], (new[-1], cpu, was, now)
                grown += int(now) - int(was)
    assert grown > 0


def test_after_a_reboot_too(provisioned: Site) -> None:
    reboot(provisioned.rack, NODE)
    assert of_nic(provisioned) == set()
    holds(provisioned.rack)


def test_what_somebody_else_changed_is_seen_and_mended(provisioned: Site) -> None:
    rack = provisioned.rack
    script = (
        f"for one in /sys/class/net/{NIC}/device/../msi_irqs/*; do\n"
        "echo 0-1 > /proc/irq/${one##*/}/smp_affinity_list || :; done 2>/dev/null\n"
        f"echo 0 > /sys/class/net/{NIC}/queues/tx-0/xps_cpus\n"
        f"ethtool -K {NIC} tso off"
    )
    rack.run(NODE, "sh", "-c", script)
    assert {"nic_tuning/nic:ens5f0", "nic_tuning/interrupts:ens5f0"} <= of_nic(provisioned)
    provisioned.run("provision", "--yes", "--limit", NODE, *ONLY)
    assert of_nic(provisioned) == set()
    holds(rack)


def test_a_setting_that_kills_the_link_is_taken_back_and_reported(provisioned: Site) -> None:
    rack = provisioned.rack
    rack.inject(NODE, "nic_setting_kills_link")
    plain = provisioned.inventory.read_text()
    try:
        provisioned.inventory.write_text(
            plain.replace(
                "    nccl_socket_ifname:", "    nic_tuning_rings: {rx: 64}\n    nccl_socket_ifname:"
            )
        )
        done = provisioned.run("provision", "--yes", "--limit", NODE, *ONLY)
    finally:
        provisioned.inventory.write_text(plain)
        rack.clear(NODE)
    said = done.stdout + done.stderr
    assert re.search(r"reverted \(rings\.rx \d+ -> 64\)", said), said
    assert rack.run(NODE, "cat", f"/sys/class/net/{NIC}/carrier").strip() == "1"
    provisioned.run("provision", "--yes", "--limit", NODE, *ONLY)
    assert of_nic(provisioned) == set()
