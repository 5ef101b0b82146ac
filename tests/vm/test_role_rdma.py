"""RoCE on a real kernel: Soft-RoCE makes of the virtual machine's NIC one with RDMA.

A lab of its own. The module is Debian's own source, compiled in a container of the lab, because the
kernel for clouds leaves it out. Device, link, rate, addresses and what connections begin with are
the kernel's; no NIC that QEMU has knows PFC, so `dcb` is a stand-in with a memory until the next
boot, once it was seen that without it nothing passes.

The tests are one story, in order.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.conftest import Rack, standing
from tests.site import ROOT, Site, unmet
from tests.vm.conftest import reboot

pytestmark = pytest.mark.vm
NIC = "ens5f0"
SOURCE = "drivers/infiniband/sw/rxe"
BUILD = f"""
exec 3>&1 >/tmp/build.log 2>&1
trap 'code=$?; [ $code = 0 ] || tail -n 40 /tmp/build.log >&3' EXIT
set -e
apt-get update -q
apt-get install -q -y --no-install-recommends build-essential linux-headers-cloud-amd64
cd /srv/linux-source-*
make -C /usr/src/linux-headers-*-cloud-amd64 M=$PWD/{SOURCE} CONFIG_RDMA_RXE=m modules
cat {SOURCE}/rdma_rxe.ko >&3
"""
# The device is made at every boot, as a NIC with RDMA has its own.
DEVICE = f"""
install -D -m 0644 /srv/rdma_rxe.ko /lib/modules/$(uname -r)/updates/rdma_rxe.ko
depmod
cat >/etc/systemd/system/soft-roce.service <<'END'
[Unit]
Before=nodeprep-rdma.service
After=sys-subsystem-net-devices-{NIC}.device

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/modprobe rdma_rxe
ExecStart=/usr/bin/rdma link add mlx5_0 type rxe netdev {NIC}

[Install]
WantedBy=multi-user.target
END
systemctl enable --now soft-roce.service
"""
DCB = """\
#!/bin/sh
# dcb(8) on a NIC that knows PFC: sets and shows one priority and one DSCP, until the next boot.
case "$*" in
"pfc set dev "*" prio-pfc all:off "*:on) echo "${7%:on}" >/run/dcb-pfc ;;
"app replace dev "*" dscp-prio "*) echo "$6" >/run/dcb-app ;;
"pfc show dev "*)
  on=$(cat /run/dcb-pfc 2>/dev/null) all=
  for one in 0 1 2 3 4 5 6 7; do
    if [ "$one" = "$on" ]; then all="$all $one:on"; else all="$all $one:off"; fi
  done
  echo "pfc-cap 8 macsec-bypass off delay 0 "
  echo "prio-pfc$all " ;;
"-N app show dev "*" dscp-prio") [ ! -e /run/dcb-app ] || echo "dscp-prio $(cat /run/dcb-app) " ;;
*) echo "the stand-in of dcb knows no: $*" >&2; exit 1 ;;
esac
"""
FABRIC = {
    f"rdma/output:flow control by priority of {NIC}",
    f"rdma/output:DSCP of {NIC}",
    f"rdma/output:RoCE defaults of {NIC}",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's source of the module, of the version that machines have."""
    folder = tmp_path_factory.mktemp("source")
    apt = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "linux-source-6.1"]
    subprocess.run(apt, cwd=folder, check=True, timeout=600)
    unpack = (
        "dpkg-deb --fsys-tarfile linux-source*.deb | tar xO ./usr/src/linux-source-6.1.tar.xz"
        f" | tar xJ linux-source-6.1/{SOURCE} && rm linux-source*.deb"
    )
    subprocess.run(["sh", "-c", unpack], cwd=folder, check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def module(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module, compiled against the headers of the machine's kernel."""
    built = tmp_path_factory.mktemp("module") / "rdma_rxe.ko"
    with standing("roce", gpus=1, nas=0) as lab:
        lab.bring("gpu1", source, "/srv")
        done = subprocess.run(
            lab.inside("gpu1", "sh", "-c", BUILD), capture_output=True, check=False, timeout=900
        )
    assert done.returncode == 0, done.stdout[-4000:]
    built.write_bytes(done.stdout)
    return built


@pytest.fixture(scope="module")
def machine(module: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A virtual machine whose NIC has RDMA, of a site whose profile says so."""
    with standing("roce", gpus=1, nas=0, tier="vm") as lab:
        site = Site(lab, tmp_path_factory.mktemp("roce"), timeout_s=3600)
        say(site)
        code, nodes = site.document("provision", "--yes", "--to", "reach")
        assert code == 0, nodes["gpu1"]["fault"]
        site.copy(module, "gpu1", "/srv/rdma_rxe.ko")
        yield site


def say(site: Site) -> None:
    """The machine's profile with RDMA in it. Its driver is a stand-in, without nvidia_peermem."""
    data = yaml.safe_load(site.inventory.read_text())
    group = data["all"]["children"]["gpu_nodes"]["vars"]
    shipped = ROOT / "inventory" / "profiles" / f"{group['nodeprep_profile']}.yaml"
    profile = yaml.safe_load(shipped.read_text())
    (nic,) = profile["parts"]["nics"]
    nic["rdma"], profile["name"] = True, "roce"
    folder = site.inventory.parent / "profiles"
    folder.mkdir()
    (folder / "roce.yaml").write_text(yaml.safe_dump(profile))
    group |= {"nodeprep_profile": "roce", "rdma_gpudirect": "dmabuf"}
    site.inventory.write_text(yaml.safe_dump(data))


def ours(site: Site) -> dict[str, str]:
    """What was read of each claim of the role that does not hold."""
    _, nodes = site.document("drift")
    assert not nodes["gpu1"]["fault"], nodes["gpu1"]["fault"]
    missing = unmet(nodes["gpu1"])
    return {
        v["claim"]: f"{v['read']} {v['reason']}"
        for v in nodes["gpu1"]["verdicts"]
        if v["claim"] in missing and v["claim"].startswith("rdma/")
    }


def converged(site: Site) -> str:
    """What the run says went wrong with the role, if anything."""
    _, nodes = site.document("provision", "--yes", "--to", "converge", "--only", "rdma")
    fault = nodes["gpu1"]["fault"]
    return fault["message"] if fault else ""


def stand_in_for_dcb(rack: Rack) -> None:
    real = rack.run("gpu1", "sh", "-c", "command -v dcb").strip()
    script = f"dpkg-divert --rename {real}\ncat >{real} <<'END'\n{DCB}END\nchmod 755 {real}"
    rack.run("gpu1", "sh", "-e", "-c", script)


def test_a_nic_without_rdma_where_it_was_rented_is_refused(machine: Site) -> None:
    assert converged(machine)
    found = ours(machine)
    assert {f"rdma/output:link of {NIC}", f"rdma/output:rate of {NIC}"} <= found.keys()


def test_a_nic_that_knows_no_pfc_never_passes(machine: Site) -> None:
    machine.rack.run("gpu1", "sh", "-e", "-c", DEVICE)
    assert converged(machine)
    found = ours(machine)
    assert found.keys() >= FABRIC
    assert not {f"rdma/output:link of {NIC}", f"rdma/output:rate of {NIC}"} & found.keys()


def test_with_pfc_the_role_sets_all_of_it(machine: Site) -> None:
    stand_in_for_dcb(machine.rack)
    assert converged(machine) == ""
    assert ours(machine) == {}


def test_two_programs_on_the_node_talk_over_it(machine: Site) -> None:
    talk = "ip=$(hostname -I | cut -d' ' -f1); rping -s -C 3 & sleep 5; rping -c -a $ip -C 3 -v"
    said = machine.rack.run("gpu1", "timeout", "120", "sh", "-c", talk)
    assert len(re.findall("ping data: rdma-ping", said)) == 3


def test_after_a_boot_it_is_all_there(machine: Site) -> None:
    reboot(machine.rack, "gpu1")
    assert ours(machine) == {}


def test_what_somebody_else_changes_is_drift_and_mended(machine: Site) -> None:
    script = (
        f"dcb pfc set dev {NIC} prio-pfc all:off 5:on; dcb app replace dev {NIC} dscp-prio 26:0;"
        " echo 0 >/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
    )
    machine.rack.run("gpu1", "sh", "-e", "-c", script)
    assert ours(machine).keys() == FABRIC
    assert converged(machine) == ""
    assert ours(machine) == {}


def test_a_link_that_is_slower_or_down_is_drift(machine: Site) -> None:
    machine.rack.run("gpu1", "ethtool", "-s", NIC, "speed", "1000", "duplex", "full")
    assert f"rdma/output:rate of {NIC}" in ours(machine)
    machine.rack.run("gpu1", "ethtool", "-s", NIC, "speed", "10000", "duplex", "full")
    assert ours(machine) == {}
    machine.rack.run("gpu1", "rdma", "link", "delete", "mlx5_0")
    assert f"rdma/output:link of {NIC}" in ours(machine)
