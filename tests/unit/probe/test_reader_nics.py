"""How the reader reads network interfaces: ethtool's texts, interrupts, XPS, NUMA nodes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.judge.claims import judge
from nodeprep.model.claim import CLAIM, NIC_GROUPS
from nodeprep.model.reading import Reading
from nodeprep.model.verdict import Outcome
from nodeprep.probe import reader
from tests.unit.probe.tree import Tree

DATA = Path(__file__).resolve().parents[2] / "data" / "ethtool"
TEXTS = {path.stem: path.read_text() for path in sorted(DATA.glob("*.txt"))}
REFUSED = "netlink error: Operation not supported"


def parsed(name: str) -> dict[str, Any]:
    return reader.parse_nic(name.partition("-")[2], TEXTS[name])


class TestParsers:
    def test_channels(self) -> None:
        found = parsed("ixgbe-channels")
        assert found["combined"] == {"now": 63, "max": 63, "offered": True}
        assert found["rx"] == {"now": None, "max": None, "offered": False}

    def test_rings(self) -> None:
        assert parsed("ixgbe-rings")["rx"] == {"now": 512, "max": 4096, "offered": True}
        assert parsed("ixgbe-rings")["rx-mini"]["offered"] is False
        found = parsed("mlx5-rings")
        assert (found["tx"]["now"], found["tx"]["max"]) == (1024, 8192)
        assert "tx-push" not in found, "it has no maximum: no ring's size"

    def test_coalescing(self) -> None:
        found = parsed("mlx5-coalesce")
        assert found["adaptive-rx"] == {"now": True, "max": None, "offered": True}
        assert (found["rx-usecs"]["now"], found["tx-frames"]["now"]) == (8, 128)
        assert (found["cqe-mode-rx"]["now"], found["cqe-mode-tx"]["now"]) == (True, False)
        assert found["sample-interval"] == {"now": None, "max": None, "offered": False}
        assert parsed("ixgbe-coalesce")["adaptive-rx"]["offered"] is False

    def test_features(self) -> None:
        found = parsed("ixgbe-features")
        assert found["tcp-segmentation-offload"] == {"now": True, "max": None, "offered": True}
        assert found["large-receive-offload"]["now"] is False, "requested is not in force"
        assert found["tx-checksum-ipv4"] == {"now": False, "max": None, "offered": False}

    def test_flow_control(self) -> None:
        found = parsed("ixgbe-pause")
        assert {name: found[name]["now"] for name in ("autoneg", "rx", "tx")} == {
            "autoneg": True,
            "rx": True,
            "tx": False,
        }

    def test_virtio_as_ethtool_6_1_printed_it(self) -> None:
        assert parsed("virtio-channels")["combined"] == {"now": 4, "max": 4, "offered": True}
        assert parsed("virtio-rings")["rx"] == {"now": 256, "max": 256, "offered": True}
        assert parsed("virtio-coalesce")["rx-frames"]["now"] == 1
        assert parsed("virtio-coalesce")["adaptive-rx"]["offered"] is False
        assert parsed("virtio-features")["rx-checksumming"]["offered"] is False
        assert parsed("virtio-features")["tcp-segmentation-offload"]["offered"] is True

    @given(st.sampled_from(NIC_GROUPS), st.text())
    def test_no_text_crashes_them(self, group: str, text: str) -> None:
        try:
            found = reader.parse_nic(group, text)
        except reader.Failed:
            return
        for setting in found.values():
            assert set(setting) == {"now", "max", "offered"}

    @given(st.sampled_from(sorted(TEXTS)), st.data())
    def test_a_torn_text_never_makes_a_value_up(self, name: str, data: st.DataObject) -> None:
        group, whole = name.partition("-")[2], TEXTS[name]
        torn = whole[: data.draw(st.integers(0, len(whole)))]
        full = parsed(name)
        try:
            found = reader.parse_nic(group, torn)
        except reader.Failed:
            return
        last = torn.rpartition("\n")[2]
        for word, setting in found.items():
            assert word in full
            if full[word] != setting:  # only the line that was torn may read differently
                assert word.split("-")[0] in last.lower() or "auto" in last.lower()


class TestNic:
    @pytest.fixture
    def tree(self, tmp_path: Path) -> Tree:
        tree = Tree(tmp_path)
        machine(tree)
        files = {f"-{letter}": DATA / f"ixgbe-{group}.txt" for letter, group in
                 zip("lgcka", NIC_GROUPS, strict=True)}  # fmt: skip
        cases = "".join(f"{option}) cat {path};;" for option, path in files.items())
        tree.tool("ethtool", sh=f'case $1 in {cases} -i) echo "driver: ixgbe";; *) exit 1;; esac')
        return tree

    def read(self, tree: Tree, **claim: Any) -> dict[str, Any]:
        found = tree.read({"kind": "nic", "name": "ens5f0", **claim}, system=True)
        data: dict[str, Any] = found["readings"]["r/nic:ens5f0"]
        return data

    def test_all_that_is_claimed_is_read(self, tree: Tree) -> None:
        data = self.read(tree, rings={"rx": 4096}, features={"generic-receive-offload": True})
        found = data["data"]
        assert (found["exists"], found["driver"], found["cores"]) == (True, "ixgbe", 2)
        assert found["settings"]["rings.rx"]["max"] == 4096
        assert found["settings"]["mtu"]["now"] == 1500
        assert not any(name.startswith("channels") for name in found["settings"]), "not claimed"

    def test_what_the_driver_refuses_is_told_apart_from_what_failed(self, tree: Tree) -> None:
        tree.tool("ethtool", rc=75, err=REFUSED)
        found = self.read(tree, rings={"rx": 1})["data"]
        assert (found["not_supported"], found["errors"]) == (["rings"], {})
        tree.tool("ethtool", rc=1, err="Device busy")
        found = self.read(tree, rings={"rx": 1})["data"]
        assert found["not_supported"] == []
        assert "Device busy" in found["errors"]["rings"]
        tree.tool("ethtool", out="")
        assert "nothing" in self.read(tree, rings={"rx": 1})["data"]["errors"]["rings"]

    def test_no_interface(self, tree: Tree) -> None:
        assert tree.data("nic", "ens9", rings={"rx": 1})["exists"] is False
        assert "no interface's name" in tree.error("nic", "../../etc")

    def test_no_ethtool_is_unknown(self, tree: Tree) -> None:
        (tree.bin / "ethtool").unlink()
        assert "not found" in self.read(tree, rings={"rx": 1})["error"]

    @given(st.text(), st.sampled_from(NIC_GROUPS))
    def test_garbage_never_passes(self, text: str, group: str) -> None:
        value: Any = True if group in ("features", "pause") else 7
        claim = CLAIM.validate_python({"kind": "nic", "name": "x", group: {"rx": value}})
        try:
            settings = {f"{group}.{k}": v for k, v in reader.parse_nic(group, text).items()}
            errors = {}
        except reader.Failed as error:
            settings, errors = {}, {group: str(error)}
        data = {"exists": True, "settings": settings, "not_supported": [], "errors": errors}
        if "7" not in text and "on" not in text:
            verdict = judge(claim, Reading(data={**data, "cores": 2, "driver": None}))
            assert verdict.verdict in (Outcome.UNKNOWN, Outcome.FAIL)


def machine(tree: Tree, numa: str = "0") -> None:
    """A NIC on NUMA node 0, which has the cores 0 and 1 with two threads each; CPU 7 is off."""
    device = "/sys/devices/pci0000:00/0000:05:00.0"
    tree.write(f"{device}/numa_node", f"{numa}\n")
    tree.write(f"{device}/local_cpulist", "0-1,4-5\n")
    tree.write("/sys/devices/system/node/node0/cpulist", "0-1,4-5,7\n")
    tree.write("/sys/devices/system/cpu/online", "0-6\n")
    for cpu in range(8):
        pair = f"{cpu % 4},{cpu % 4 + 4}\n"
        tree.write(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", pair)
    tree.write("/sys/class/net/ens5f0/mtu", "1500\n")
    tree.link("/sys/class/net/ens5f0/device", str(tree.path(device)))
    for irq in (40, 41, 42):
        tree.write(f"{device}/msi_irqs/{irq}", "msix\n")
    tree.write(
        "/proc/interrupts",
        "            CPU0       CPU1\n"
        "   0:        112          0   IO-APIC    2-edge      timer\n"
        "  40:       9999          1   PCI-MSI 2621440-edge      ens5f0-TxRx-0\n"
        "  41:          0          0   PCI-MSIX-0000:05:00.0    1-edge      ens5f0-TxRx-1\n"
        "  42:          3          0   PCI-MSI 2621442-edge      ens5f0\n"
        " NMI:          0          0   Non-maskable interrupts\n",
    )
    for number in (0, 1):
        tree.write(f"/proc/irq/{40 + number}/smp_affinity_list", f"{number}\n")
        tree.write(
            f"/sys/class/net/ens5f0/queues/tx-{number}/xps_cpus", f"00000000,0000000{number + 1}\n"
        )
        tree.write(f"/sys/class/net/ens5f0/queues/rx-{number}/rps_cpus", "0\n")


class TestInterrupts:
    @pytest.fixture
    def tree(self, tmp_path: Path) -> Tree:
        tree = Tree(tmp_path)
        machine(tree)
        return tree

    def test_queues_cores_and_xps(self, tree: Tree) -> None:
        data = tree.data("interrupts", "ens5f0")
        assert (data["numa_node"], data["cores"]) == (0, [[0, 4], [1, 5]])
        assert [(one["irq"], one["way"], one["index"], one["cpus"]) for one in data["queues"]] == [
            (40, "both", 0, [0]),
            (41, "both", 1, [1]),
        ]
        assert (data["others"], data["xps"]) == (["ens5f0"], [[0], [1]])
        claim = CLAIM.validate_python({"kind": "interrupts", "name": "ens5f0"})
        assert judge(claim, Reading(data=data)).verdict is Outcome.PASS

    def test_where_there_is_no_numa_node_all_cpus_are_near(self, tmp_path: Path) -> None:
        tree = Tree(tmp_path)
        machine(tree, numa="-1")
        tree.write("/sys/devices/pci0000:00/0000:05:00.0/local_cpulist", "0-6\n")
        data = tree.data("interrupts", "ens5f0")
        assert data["numa_node"] is None
        assert data["cores"] == [[0, 4], [1, 5], [2, 6], [3]]

    def test_a_virtio_devices_interrupts_are_its_parents(self, tree: Tree) -> None:
        parent = "/sys/devices/pci0000:00/0000:06:00.0"
        tree.write(f"{parent}/numa_node", "0\n")
        tree.write(f"{parent}/virtio3/uevent", "")
        tree.write("/sys/class/net/eth0/mtu", "1500\n")
        tree.link("/sys/class/net/eth0/device", str(tree.path(f"{parent}/virtio3")))
        lines = "  CPU0\n"
        for irq, name in ((50, "config"), (51, "input.0"), (52, "output.0")):
            tree.write(f"{parent}/msi_irqs/{irq}", "msix\n")
            tree.write(f"/proc/irq/{irq}/smp_affinity_list", "0\n")
            tree.write(f"/proc/irq/{irq}/effective_affinity_list", "4\n")
            lines += f" {irq}:  0  PCI-MSIX-0000:06:00.0  {irq - 50}-edge  virtio3-{name}\n"
        tree.write("/proc/interrupts", lines)
        data = tree.data("interrupts", "eth0")
        assert [(one["way"], one["index"]) for one in data["queues"]] == [("rx", 0), ("tx", 0)]
        assert data["queues"][0]["effective"] == [4]
        assert (data["numa_node"], data["others"]) == (0, ["virtio3-config"])

    def test_the_only_interrupt_of_a_simple_nic_is_its_queues(self, tree: Tree) -> None:
        tree.write("/proc/interrupts", "  CPU0\n 42: 3 PCI-MSI 5-edge ens5f0\n")
        tree.write("/proc/irq/42/smp_affinity_list", "0-6\n")
        (queue,) = tree.data("interrupts", "ens5f0")["queues"]
        assert (queue["name"], queue["way"], queue["cpus"]) == ("ens5f0", "both", list(range(7)))

    def test_no_such_interface(self, tree: Tree) -> None:
        assert tree.data("interrupts", "ens9")["exists"] is False

    def test_what_cannot_be_read_is_an_error(self, tree: Tree) -> None:
        tree.path("/proc/irq/40/smp_affinity_list").unlink()
        assert "smp_affinity_list" in tree.error("interrupts", "ens5f0")
        tree.write("/proc/irq/40/smp_affinity_list", "what\n")
        assert "no list of CPUs" in tree.error("interrupts", "ens5f0")


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("ens5f0-TxRx-12", ("both", 12)),
        ("i40e-ens5f0-TxRx-0", ("both", 0)),
        ("ens5-Tx-Rx-3", ("both", 3)),
        ("virtio0-input.2", ("rx", 2)),
        ("virtio0-output.2", ("tx", 2)),
        ("mlx5_comp7@pci:0000:17:00.0", ("both", 7)),
        ("eth0-rx-1", ("rx", 1)),
        ("eth0-rxtx-1", ("both", 1)),
        ("eth0-fp-2", ("both", 2)),
        ("gve-ntfy-blk4@pci:0000:00:04.0", ("both", 4)),
        ("ice-em3-TxRx-126", ("both", 126)),
        ("mana_q3@pci:7870:00:00.0", ("both", 3)),
        ("eth0-31", ("both", 31)),
        ("mlx4-16@0000:09:00.0", ("both", 16)),
        ("mlx4-async@pci:0000:09:00.0", None),
        ("irdma-0000:31:00.0-CEQ-3", None),
        ("bnxt_re-nq-0@pci:0000:31:00.0", None),
        ("ens5f0", None),
        ("virtio0-config", None),
        ("mlx5_async0@pci:0000:17:00.0", None),
        ("i40e-0000:05:00.0:misc", None),
        ("", None),
    ],
)
def test_names_of_interrupts(name: str, queue: Any) -> None:
    assert reader.queue_of(name) == queue


@given(st.sets(st.integers(0, 1000)))
def test_cpus_in_lists_and_masks(cpus: set[int]) -> None:
    assert reader.cpu_list(",".join(map(str, sorted(cpus)))) == sorted(cpus)
    mask = sum(1 << cpu for cpu in cpus)
    digits = f"{mask:x}"
    groups = [digits[max(0, at - 8) : at] for at in range(len(digits), 0, -8)][::-1]
    assert reader.cpu_mask(",".join(groups)) == sorted(cpus)


@given(st.text(max_size=12))
def test_no_text_crashes_the_lists(text: str) -> None:
    for parse in (reader.cpu_list, reader.cpu_mask):
        with contextlib.suppress(reader.Failed):
            assert all(isinstance(cpu, int) for cpu in parse(text))
