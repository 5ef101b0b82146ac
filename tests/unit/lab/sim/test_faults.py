"""Every fault is seen by the tools that would see it on hardware, and by none before."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim.faults import CATALOGUE
from tests.unit.lab.sim.conftest import Node

QUERY = "nvidia-smi --format=csv,noheader --query-gpu="
REDUCE = "all_reduce_perf -b 1G -e 1G -g 4"
LINKS = "nvidia-smi nvlink -s"

# fault -> (arguments, command, what its output holds then and did not before)
SEEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "gpu_swapped": ({"gpu": 1}, QUERY + "serial,index", r"13\d+, 1"),
    "nvlink_down": ({"gpu": 0, "link": 3}, LINKS, r"Link 3: <inactive>"),
    "nvlink_half": ({"gpu": 0}, "nvidia-smi topo -m", r"GPU0\t X \tNV2\tNV2\tNV2"),
    "nvlink_errors": ({"link": 1}, "nvidia-smi nvlink -e", r"Link 1: CRC Errors: 4711"),
    "p2p_off": ({}, "nvidia-smi topo -p2p r", r"GPU0\tX\tCNS"),
    "slow_pair": ({}, "nvbandwidth -t device_to_device_memcpy_read_ce", r" 2\d\.\d\d"),
    "pcie_gen1": ({"gpu": 2}, QUERY + "index,pcie.link.gen.current", "2, 1"),
    "pcie_x8": ({"gpu": 2}, QUERY + "index,pcie.link.width.current", "2, 8"),
    "pcie_replays": ({"gpu": 2}, "nvidia-smi -q", r"Replays Since Reset +: 9000"),
    "ecc_volatile_uncorrectable": (
        {}, QUERY + "index,ecc.errors.uncorrected.volatile.total", "0, 1"),
    "ecc_corrected": ({}, QUERY + "index,ecc.errors.corrected.volatile.total", "0, 3"),
    "ecc_sram_aggregate": ({}, QUERY + "index,ecc.errors.uncorrected.aggregate.sram", "0, 5"),
    "ecc_disabled": ({}, QUERY + "ecc.mode.current", "Disabled"),
    "remap_pending": ({}, "nvidia-smi -q", r"Pending +: Yes"),
    "remap_failed": ({}, "nvidia-smi -q", r"Remapping Failure Occurred +: Yes"),
    "remapped_rows": ({}, "nvidia-smi -q", r"Correctable Error +: 2"),
    "retired_pages": ({}, QUERY + "retired_pages.double_bit.count", "12"),
    "xid": ({"code": 62}, "dmesg", r"Xid \(PCI:0000:17:00\): 62,"),
    "thermal_throttle": (
        {"gpu": 3}, QUERY + "index,clocks_event_reasons.hw_thermal_slowdown", "3, Active"),
    "hw_slowdown": ({"gpu": 3}, QUERY + "index,clocks_event_reasons.hw_slowdown", "3, Active"),
    "power_brake": (
        {"gpu": 3}, QUERY + "index,clocks_event_reasons.hw_power_brake_slowdown", "3, Active"),
    "power_cap": ({}, QUERY + "power.limit", "250.00 W"),
    "clocks_locked": ({}, QUERY + "clocks.sm", "765 MHz"),
    "gpu_computes_wrongly": ({"gpu": 2}, "cublas", r"\ngpu 1\d\d\.\d+ 1\n"),
    "mig_enabled": ({}, QUERY + "index,mig.mode.current", "0, Enabled"),
    "mixed_vbios": ({}, QUERY + "index,vbios_version", r"3, 92\.00\.19"),
    "compute_exclusive": ({}, QUERY + "compute_mode", "Exclusive_Process"),
    "zombie_process": ({}, "nvidia-smi", "41213      C   python3"),
    "dimm_small": ({}, "dmidecode -t memory", "Size: 16 GB"),
    "dimm_slow": ({}, "dmidecode -t memory", "Configured Memory Speed: 2666 MT/s"),
    "cpu_socket_missing": ({}, "lscpu", r"Socket\(s\): +1\n"),
    "cpu_other_model": ({}, "lscpu", "Gold 6326"),
    "disk_small": ({}, "lsblk -b -o NAME,SIZE", r"nvme0n1 +960197124096"),
    "disk_used": ({}, "lsblk -o NAME,FSTYPE", "nvme0n1p1 xfs"),
    "disks_renumbered": ({}, "lsblk -o NAME,TRAN,SIZE", r"sda +sata +3\.6T"),
    "nic_1g": ({}, "ethtool ens5f0", "Speed: 1000Mb/s"),
    "nic_half_duplex": ({}, "ethtool ens5f0", "Duplex: Half"),
    "nic_drops": ({}, "ethtool -S ens5f0", r"rx_dropped: [1-9]"),
    "nic_errors": ({}, "ethtool -S ens5f0", r"rx_crc_errors: [1-9]"),
    "module_rx_power_low": ({}, "ethtool -m ens5f0", r"rx power low alarm +: On"),
    "nic_link_down": ({}, "ethtool ens5f0", "Link detected: no"),
    "nic_other_driver": ({}, "ethtool -i ens5f0", "driver: igb\n"),
    "bios_old": ({}, "dmidecode -s bios-version", r"1\.1"),
    "nccl_validation_off": ({}, REDUCE, "N/A"),
    "tool_warns": ({}, "nvidia-smi -L", "infoROM is corrupted at gpu 0000:17:00.0"),
    **{
        f"xid_{code}": ({}, "dmesg", rf"Xid \(PCI:0000:17:00\): {code},")
        for code in (13, 31, 48, 63, 64, 74, 79, 94, 95, 119)
    },
}  # fmt: skip
# Seen by an exit status, by what is gone, or by a figure: each has a test of its own below.
ELSEWHERE = {
    "gpu_missing", "gpu_off_bus", "gpu_lost", "persistence_off", "dimm_missing", "disk_missing",
    "disk_replaced",
    "nic_missing", "slow_network", "slow_path", "board_swapped", "driver_library_mismatch",
    "driver_not_loaded", "fabric_manager_missing", "fabric_manager_mismatch",
    "nccl_wrong_interface", "slow_busbw", "slow_host_link", "nccl_wrong_values", "gdrcopy_fails",
    "tool_silent", "tool_hangs", "tool_dies", "gpu_computes_slowly", "gpu_memory_slow",
}  # fmt: skip


def test_every_fault_is_tested() -> None:
    assert set(SEEN) | ELSEWHERE == set(CATALOGUE)
    assert not set(SEEN) & ELSEWHERE


@pytest.mark.parametrize("name", sorted(set(SEEN) - {"gpu_swapped"}))
def test_a_fault_is_seen_and_was_not_there_before(node: Node, name: str) -> None:
    args, command, pattern = SEEN[name]
    assert not re.search(pattern, node.run(command).out)
    assert re.search(pattern, node.inject(name, **args).run(command).out)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_fault_leaves_the_board_that_it_was_given_alone(name: str) -> None:
    board = boards.new("a100-sxm4-80g-x8")
    board["gpus"][0]["persistence"] = True
    before = copy.deepcopy(board)
    faulty = CATALOGUE[name].apply(board, **({"code": "48"} if name == "xid" else {}))
    assert board == before
    assert faulty["faults"][-1]["name"] == name
    assert json.loads(json.dumps(faulty)) == faulty
    assert {**faulty, "faults": []} != before


@pytest.mark.parametrize("name", ["gpu_missing", "nvlink_down", "power_cap", "slow_busbw"])
def test_a_server_without_gpus_refuses_faults_of_gpus(name: str) -> None:
    with pytest.raises(ValueError, match="GPU"):
        CATALOGUE[name].apply(boards.new("nas"))


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("gpu_lost", {"gpu": "9"}, "there is no GPU 9: this board has 4"),
        ("gpu_lost", {"colour": "red"}, "no argument colour: gpu_lost takes gpu=1$"),
        ("p2p_off", {"gpu": "1"}, "no argument gpu: p2p_off takes no arguments"),
        ("disk_missing", {"name": "sdz"}, "there is no sdz: sda, sdb, nvme0n1"),
        ("nvlink_down", {"link": "77"}, "there is no link 77"),
        ("nvlink_errors", {"link": "77"}, "there is no link 77"),
        ("nvlink_down", {"link": "third"}, "'third' is no number"),
        ("slow_busbw", {"factor": "half"}, "'half' is no number"),
        ("fabric_manager_missing", {}, "no NVSwitch"),
        ("xid", {}, "argument code is missing: xid takes code, gpu=0, age_s=600"),
    ],
)
def test_wrong_arguments_are_named(name: str, args: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CATALOGUE[name].apply(boards.new(), **args)


def _busbw(node: Node) -> float:
    found = re.search(r"Avg bus bandwidth +: ([\d.]+)", node.run(REDUCE).out)
    assert found
    return float(found.group(1))


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("nvlink_down", 0.75), ("nvlink_half", 0.5), ("p2p_off", 0.063), ("slow_pair", 0.3),
        ("slow_busbw", 0.5), ("thermal_throttle", 0.74), ("clocks_locked", 0.74),
        ("gpu_swapped", 1.0), ("ecc_corrected", 1.0), ("pcie_x8", 1.0),
    ],
)  # fmt: skip
def test_what_is_broken_is_slow(node: Node, name: str, share: float) -> None:
    healthy = _busbw(node)
    assert _busbw(node.inject(name)) == pytest.approx(healthy * share, rel=0.04)


def test_a_link_that_is_down_is_down_everywhere(node: Node) -> None:
    node.inject("nvlink_down", gpu=0, link=3)
    status = node.out(LINKS)
    assert status.count("<inactive>") == 2, "at both of its ends"
    matrix = [row.split("\t")[1:5] for row in node.out("nvidia-smi topo -m").splitlines()[1:5]]
    assert sum(cell == "NV3" for row in matrix for cell in row) == 2


def test_without_p2p_nccl_goes_through_the_host(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    assert "SHM" not in node.out(REDUCE)
    assert "via SHM/direct/direct" in node.inject("p2p_off").out(REDUCE)


def test_a_missing_gpu_is_missing_everywhere(node: Node) -> None:
    address = node.board["gpus"][1]["address"]
    assert address in node.out("lspci -D -n -mm")
    node.inject("gpu_missing", gpu=1)
    assert address not in node.out("lspci -D -n -mm")
    assert len(node.out("nvidia-smi -L").splitlines()) == 3
    assert "GPU3" not in node.out("nvidia-smi topo -m")
    assert node.run(REDUCE).rc == 1
    assert node.out(LINKS).count("<inactive>") == 3 * 4


def test_a_gpu_off_the_bus_stops_nvidia_smi(node: Node) -> None:
    node.inject("gpu_off_bus", gpu=2)
    assert node.run("nvidia-smi -L").rc == 15
    assert "0000:b1:00.0 3D controller [0302]" in node.out("lspci -D -nn")
    assert node.out("lspci -D -nn").count("(rev ff)") == 1
    assert '-rff "10de"' in node.out("lspci -D -n -mm")
    assert re.search(r"Xid \(PCI:0000:b1:00\): 79", node.out("dmesg"))


def test_a_lost_gpu_leaves_the_others(node: Node) -> None:
    result = node.inject("gpu_lost", gpu=0).run(QUERY + "index,temperature.gpu")
    assert result.rc == 15
    assert result.out.splitlines()[0] == "0, [GPU is lost]"
    assert "unknown error" in node.run(REDUCE).out


def test_persistence_can_be_lost(node: Node) -> None:
    node.out("nvidia-smi -pm 1")
    assert node.out(QUERY + "persistence_mode") == "Enabled\n" * 4
    assert node.inject("persistence_off").out(QUERY + "persistence_mode") == "Disabled\n" * 4


@pytest.mark.parametrize(
    ("name", "command"),
    [("disk_missing", "lsblk"), ("nic_missing", "lspci"), ("disk_replaced", "lsblk -o SERIAL,WWN"),
     ("board_swapped", "dmidecode -t baseboard"), ("gpu_swapped", "nvidia-smi -L")],
)  # fmt: skip
def test_what_is_gone_or_replaced_reads_otherwise(node: Node, name: str, command: str) -> None:
    before = node.out(command)
    assert node.out(command) == before
    assert node.inject(name).out(command) != before


def test_a_missing_module_leaves_its_slot_empty(node: Node) -> None:
    empty = "Size: No Module Installed"
    assert node.out("dmidecode -t memory").count(empty) == 16
    text = node.inject("dimm_missing", slot="P1-DIMMA1").out("dmidecode -t memory")
    assert text.count(empty) == 17


@pytest.mark.parametrize(
    ("name", "rc"), [("driver_library_mismatch", 18), ("driver_not_loaded", 9)]
)
def test_driver_faults_end_nvidia_smi(node: Node, name: str, rc: int) -> None:
    assert node.inject(name).run("nvidia-smi").rc == rc
    assert node.run(REDUCE).rc == 2


@pytest.mark.parametrize("name", ["fabric_manager_missing", "fabric_manager_mismatch"])
def test_fabric_faults_keep_cuda_from_starting(node: Node, name: str) -> None:
    board = node.become("h100-sxm5-80g-x8").board
    board["fabric_manager"]["running"] = "535.183.01"
    node.write(board)
    assert node.out(QUERY + "fabric.state").splitlines()[0] == "Completed"
    assert node.run("all_reduce_perf -g 8").rc == 0
    node.inject(name)
    assert node.out(QUERY + "fabric.state").splitlines()[0] == "In Progress"
    assert "system not yet initialized" in node.run("all_reduce_perf -g 8").out


def test_nccl_on_another_interface(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    assert "cni0" not in node.run(REDUCE).out
    assert "Using [0]cni0:" in node.inject("nccl_wrong_interface").out(REDUCE)


def test_slow_host_links(node: Node) -> None:
    test = "nvbandwidth -t host_to_device_memcpy_ce"
    assert re.search(r" 2[56]\.\d\d", node.out(test))
    assert re.search(r" 1[23]\.\d\d", node.inject("slow_host_link").out(test))


def test_a_slow_network_between_nodes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SIZE", "4"), ("LOCAL_SIZE", "1"), ("RANK", "0")):
        monkeypatch.setenv("OMPI_COMM_WORLD_" + name, value)
    healthy = _busbw(node)
    for fault in ("slow_network", "nic_1g", "nic_drops", "nic_half_duplex"):
        spoilt = Node(node.folder).inject(fault)
        assert _busbw(spoilt) < healthy * 0.7, fault


def test_a_silent_tool_says_nothing_and_is_content(node: Node) -> None:
    assert node.inject("tool_silent", tool="lspci").run("lspci") == (0, "", "")
    assert node.out("nvidia-smi -L"), "the others answer"
