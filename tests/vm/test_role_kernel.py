"""The kernel of a virtual machine: arguments, ACS, a kernel that came behind the tool's back.

In order: each test starts where the one before it ended.
"""

from __future__ import annotations

import pytest
from tests.site import Site
from tests.vm.conftest import boot_id, reboot

pytestmark = pytest.mark.vm

ARGUMENT = "kernel/kernel_argument:iommu"
NVIDIA = "nvidia_driver/module:nvidia"
GDRDRV = "gdrcopy/module:gdrdrv"
NEWER = "9.9.0-1-cloud-amd64"
ROLES = ("kernel", "nvidia_driver", "gdrcopy")
# What an upgrade leaves where DKMS failed: image, modules, headers, and nothing of DKMS.
INSTALL = """
set -e
old=$(uname -r); new={new}
cp /boot/vmlinuz-$old /boot/vmlinuz-$new
cp /boot/initrd.img-$old /boot/initrd.img-$new
cp -a /lib/modules/$old /lib/modules/$new
rm -rf /lib/modules/$new/updates
depmod $new
update-grub
"""
REMOVE = "rm -rf /boot/*-{new} /lib/modules/{new}; update-grub"


def drifted(site: Site) -> dict[str, str]:
    """Reasons by claim, of the roles that own the kernel and its modules."""
    _, nodes = site.document("drift", "--limit", "gpu1")
    return {
        v["claim"]: v["reason"]
        for v in nodes["gpu1"]["verdicts"]
        if v["verdict"] in ("fail", "unknown") and v["claim"].startswith(ROLES)
    }


def test_the_running_kernel_and_the_menu_have_the_arguments(provisioned: Site) -> None:
    assert "iommu=pt" in provisioned.rack.run("gpu1", "cat", "/proc/cmdline")
    assert "iommu=pt" in provisioned.rack.run("gpu1", "cat", "/boot/grub/grub.cfg")


def test_the_modules_are_dkms_and_loaded(provisioned: Site) -> None:
    status = provisioned.rack.run("gpu1", "dkms", "status")
    assert status.count(": installed") == 2
    assert provisioned.rack.run("gpu1", "cat", "/sys/module/nvidia/version").strip() == "535.183.01"
    assert provisioned.rack.run("gpu1", "cat", "/sys/module/gdrdrv/version").strip() == "2.4"


def test_acs_that_comes_on_is_drift_and_goes_off_at_boot(provisioned: Site) -> None:
    rack = provisioned.rack
    said = rack.run("gpu1", "/usr/local/sbin/nodeprep-acs", "check")
    if "all 0 bridges" in said:
        pytest.skip("no bridge of this machine has ACS: NOT tested")
    on = "for d in /sys/bus/pci/devices/*; do setpci -s ${d##*/} ECAP_ACS+6.w=001d; done"
    rack.run("gpu1", "sh", "-c", f"{on} 2>/dev/null; true")
    assert "ACS is on" in rack.run("gpu1", "/usr/local/sbin/nodeprep-acs", "check", check=False)
    assert "kernel/output:PCIe ACS" in drifted(provisioned)
    reboot(rack, "gpu1")
    assert rack.run("gpu1", "/usr/local/sbin/nodeprep-acs", "check") == said


def test_an_argument_that_is_taken_out_of_the_menu_is_drift(provisioned: Site) -> None:
    rack, folder = provisioned.rack, "/etc/default/grub.d"
    rack.run("gpu1", "mv", f"{folder}/60-nodeprep-kernel.cfg", "/root/")
    rack.run("gpu1", "update-grub")
    found = drifted(provisioned)
    assert found.keys() == {ARGUMENT}
    assert "the next boot has no iommu" in found[ARGUMENT]
    rack.run("gpu1", "mv", "/root/60-nodeprep-kernel.cfg", folder)
    rack.run("gpu1", "update-grub")
    assert not drifted(provisioned)


def test_a_file_of_the_driver_is_mended_where_its_module_holds(provisioned: Site) -> None:
    file = "/etc/modprobe.d/60-nodeprep-nouveau.conf"
    provisioned.rack.run("gpu1", "sh", "-c", f"echo '# changed' >>{file}")
    assert drifted(provisioned).keys() == {f"nvidia_driver/file:{file}"}
    _, nodes = provisioned.document("drift", "--fix", "--yes", "--limit", "gpu1")
    assert not nodes["gpu1"]["fault"]
    assert not drifted(provisioned)


def test_a_kernel_without_the_driver_is_drift_before_it_is_booted(provisioned: Site) -> None:
    rack, before = provisioned.rack, boot_id(provisioned.rack, "gpu1")
    rack.run("gpu1", "sh", "-c", INSTALL.format(new=NEWER))
    try:
        found = drifted(provisioned)
        assert found.keys() == {NVIDIA, GDRDRV}
        assert f"kernel {NEWER} is installed and has no module nvidia" in found[NVIDIA]

        provisioned.document("drift", "--fix", "--yes", "--limit", "gpu1")
        assert not drifted(provisioned)
        assert NEWER in rack.run("gpu1", "dkms", "status")
        assert boot_id(rack, "gpu1") == before
    finally:
        rack.run("gpu1", "sh", "-c", REMOVE.format(new=NEWER))
