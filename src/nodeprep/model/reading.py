"""Readings: what the reader brought back from one node in one round trip. It never judges."""

from __future__ import annotations

from typing import Any

from nodeprep.model.base import Frozen
from nodeprep.model.hardware import Hardware


class Reading(Frozen):
    """What was found about one claim. `error` is set when it could not be measured: unknown.

    `data`, by kind (a key is absent or None when it does not exist on the node):

        package    version: str | None (None: not installed), held: bool, error of dpkg if any
                   (`half-configured`, …)
        file       exists, type (file, directory, link, …), sha256, mode "0644", owner, group,
                   content (text up to 64 KiB, only when sha256 differs from the wanted one and the
                   claim is not secret)
        directory  exists, type, mode, owner, group
        link       exists, type, target
        sysctl     running: str | None, persisted: str | None, persisted_in: path
        service    load_state, enabled (is-enabled's word), active (ActiveState), sub
        module     loaded: bool, builtin: bool; where `built` is claimed: running: release,
                   kernels: {release: whether it has the module} of every kernel that is installed
        kernel_argument  running, persisted: list[str], its values (a bare flag's is empty);
                   persisted_in: GRUB's menu and the entry that the next boot takes;
                   configured_in: files of /etc/default that name it
        array      arrays: every md array of the node: device (md127), uuid or None, names (of its
                   links under /dev/md), level (raid0), chunk_kib, raid_disks, state (md's
                   array_state), degraded: members that are missing, sync (what runs: idle,
                   resync, recover, …), members and faulty: names of disks
        cached_volume  installed: whether LVM is; physical: every physical volume of the node: uuid,
                   device or None, group (empty: of none), missing; logical: of the claim's group:
                   group, name, segtype, mode, attr (lvs' lv_attr), health, check (needed), origin,
                   cache, devices: what it lies on
        filesystem devices: those that carry the claim's UUID: name, type (disk, part, raid0, lvm),
                   fstype, ids; below: the device of the claim's array or volume, or None;
                   below_in_use: its signatures and users
        mount      mounted: bool, device, fstype, options: list[str], automount: bool,
                   fstab: its options there, or None; device_is: what the claim's device (a UUID,
                   an id) resolves to
        governor   values: {"performance": 64, …}; empty when there is no cpufreq
        gpu        values: {pci_address: value}
        nic        exists, driver: str | None, settings: {"rings.rx": {now, max, offered}} (`mtu`
                   too), not_supported: groups that the driver refuses as a whole, errors: {group:
                   why it could not be read}, cores: of its own NUMA node, or None
        interrupts exists, numa_node: int | None, cores: [[cpu, its siblings], …] of that node,
                   queues: [{irq, name, way (rx, tx, both), index, cpus, effective}], others: names
                   of its other interrupts, xps: [[cpu, …] | None for each queue it sends from]
        output     rc, text (64 KiB at most, escape codes removed)

    gpu, nic and output carry `simulated: true` when a stand-in answered.
    """

    data: dict[str, Any] = {}
    error: str = ""


class Host(Frozen):
    """Who answered."""

    hostname: str = ""
    os_id: str = ""  # debian, ubuntu
    os_version: str = ""  # 12, 22.04
    kernel: str = ""
    boot_id: str = ""
    machine_id: str = ""
    python: str = ""
    clock: float = 0.0  # seconds since the epoch, when the reader ran
    simulated: bool = False


class NodeReading(Frozen):
    """All that one node said.

    `packages`: version by name of what is installed of GPU stack and kernel, claimed or not.
    """

    node: str
    host: Host
    readings: dict[str, Reading] = {}  # by claim id
    hardware: Hardware | None = None
    packages: dict[str, str] = {}
    seconds: float = 0.0
