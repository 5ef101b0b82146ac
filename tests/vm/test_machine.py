"""What a virtual machine of the lab is: a kernel, disks, interrupts, a boot loader of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Rack
from tests.vm.conftest import boot_id, power_on, reboot

from nodeprep.lab import network, node, state

pytestmark = pytest.mark.vm
GRUB_FILE = "/etc/default/grub.d/10-test.cfg"


def sh(rack: Rack, node: str, script: str) -> str:
    return rack.run(node, "sh", "-e", "-c", script)


def test_it_has_a_disk_for_the_system_and_four_more_two_of_them_in_use(vms: Rack) -> None:
    told = json.loads(vms.run("gpu1", "lsblk", "-J", "-o", "NAME,TYPE,SERIAL,FSTYPE,LABEL"))
    disks = {d["serial"].strip(): d for d in told["blockdevices"] if d["type"] == "disk"}
    assert set(disks) == {"OS-DISK", *(f"NVME-GPU1-{n}" for n in range(1, 5))}
    assert (disks["NVME-GPU1-1"]["fstype"], disks["NVME-GPU1-2"]["fstype"]) == (None, None)
    assert (disks["NVME-GPU1-3"]["fstype"], disks["NVME-GPU1-3"]["label"]) == ("ext4", "home")
    assert disks["NVME-GPU1-4"]["fstype"] == "linux_raid_member"
    assert disks["NVME-GPU1-4"]["label"] == "oldhost:scratch"


def test_it_has_two_numa_nodes_and_a_card_with_four_queues_on_the_first(vms: Rack) -> None:
    assert vms.run("gpu1", "cat", "/sys/devices/system/node/online").strip() == "0-1"
    card = sh(vms, "gpu1", "readlink -f /sys/class/net/ens5f0/device/..").strip()
    assert vms.run("gpu1", "cat", f"{card}/numa_node").strip() == "0"
    queues = sh(vms, "gpu1", "ls -d /sys/class/net/ens5f0/queues/rx-*").split()
    interrupts = sh(vms, "gpu1", f"ls {card}/msi_irqs").split()
    assert len(queues) == 4
    assert len(interrupts) == 9  # one for the settings, two for each queue


def test_it_loads_modules_and_sets_kernel_parameters(vms: Rack) -> None:
    assert "raid0" in sh(vms, "gpu1", "modprobe raid0 && lsmod")
    sh(vms, "gpu1", "sysctl -q -w vm.swappiness=7")
    assert vms.run("gpu1", "cat", "/proc/sys/vm/swappiness").strip() == "7"


def test_the_nas_exports_nfs_and_the_other_mounts_it(vms: Rack) -> None:
    sh(vms, "gpu1", "mount -t nfs4 nas1:/export/training /mnt")
    try:
        size = sh(vms, "gpu1", "stat -c %s /mnt/shard-0000").strip()
        assert size == "4194304"
        assert " nfs4 " in vms.run("gpu1", "cat", "/proc/self/mountinfo")
    finally:
        sh(vms, "gpu1", "umount /mnt")


def test_its_hardware_can_be_made_faulty_and_healthy_again(vms: Rack) -> None:
    count = "lspci -n -d 10de: | grep -c ' 0302: '"
    assert sh(vms, "gpu1", count).strip() == "4"
    vms.inject("gpu1", "gpu_missing", gpu="3")
    assert sh(vms, "gpu1", count).strip() == "3"
    vms.clear("gpu1")
    assert sh(vms, "gpu1", count).strip() == "4"


def test_kernel_arguments_are_the_boot_loaders_and_hold_after_a_reboot(vms: Rack) -> None:
    before = boot_id(vms, "gpu1")
    line = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nodeprep.test=1"'
    sh(vms, "gpu1", f"mkdir -p {Path(GRUB_FILE).parent}; echo '{line}' > {GRUB_FILE}; update-grub")
    assert "nodeprep.test" not in vms.run("gpu1", "cat", "/proc/cmdline")
    reboot(vms, "gpu1")
    assert boot_id(vms, "gpu1") != before
    assert "nodeprep.test=1" in vms.run("gpu1", "cat", "/proc/cmdline").split()
    assert vms.status("gpu1").ssh == "answers"
    sh(vms, "gpu1", f"rm {GRUB_FILE}; update-grub")


def test_what_was_written_outlives_the_power(vms: Rack) -> None:
    sh(vms, "nas1", "echo kept > /root/kept; sync")
    lab, one = node.find(vms.name, "nas1")
    node.stop(lab, one)
    assert vms.status("nas1").power == "off"
    power_on(vms)
    assert vms.status("nas1").power == "running"
    assert vms.run("nas1", "cat", "/root/kept").strip() == "kept"


def test_a_reset_is_another_machine_with_the_same_disks_as_rented(vms: Rack) -> None:
    key = "ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub"
    before = sh(vms, "gpu1", key)
    sh(vms, "gpu1", "mkswap -q /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_NVME-GPU1-1 >/dev/null")
    vms.fresh("gpu1")
    assert sh(vms, "gpu1", key) != before
    disk = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_NVME-GPU1-1"
    assert sh(vms, "gpu1", f"udevadm settle; lsblk -ndo FSTYPE {disk}").strip() == ""


def test_it_has_a_port_in_the_labs_network_and_none_in_the_machines(vms: Rack) -> None:
    spec = state.LabDir(vms.name).load()
    assert {str(one.name) for one in spec.nodes if one.tier == "vm"} == {"gpu1", "nas1"}
    assert "gpu1" not in Path("/proc/net/dev").read_text()
    assert network.namespaces_of(vms.name) == {f"np-{vms.name}"}
