"""The hardware profiles that the project carries: valid, consistent with the field, and sourced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pydantic import ValidationError

from nodeprep import inventory
from nodeprep.model.profile import Gate, Profile
from nodeprep.resources import data_dir

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = data_dir() / "inventory" / "profiles"
FILES = sorted(FOLDER.glob("*.yaml"))
BOARDS = ("a100-sxm4-40g-x4", "a100-pcie-40g-x4", "a100-sxm4-80g-x8", "h100-sxm5-80g-x8")

LAB = tuple(f"lab-{name}" for name in BOARDS)
VM = ("lab-vm-a100-sxm4-40g-x4", "lab-vm-nas")
# What QEMU's disks, CPUs and network owe; all else a virtual machine's profile has from the board.
EMULATED = ("cpu.", "storage.", "nfs.", "network.")


def document(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def profile(name: str) -> Profile:
    return Profile.model_validate(document(name))


def test_the_four_boards_the_plain_server_and_the_lab_are_carried() -> None:
    assert {*BOARDS, *LAB, *VM, "server", "lab-nas"} == {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_profile_is_valid_and_named_as_its_file(path: Path) -> None:
    assert profile(path.stem).name == path.stem


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_role_compiles_for_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no GPUs were rented: what is about them is then not applicable, or not claimed."""
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODEPREP_CACHE", str(tmp_path / "cache"))
    settings = {"nodeprep_site": "x", "nodeprep_profile": path.stem, "node_os": "debian12"}
    hosts = {"node1": {"ansible_host": "192.0.2.7", "nccl_socket_ifname": "ens5f0"}}
    site = tmp_path / "x.yaml"
    site.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts, "vars": settings}}))
    (found,) = inventory.load(site).documents
    assert len(found.claims) > 100


@pytest.mark.parametrize("name", BOARDS)
def test_every_gate_says_where_its_figure_comes_from(name: str) -> None:
    gates = profile(name).gates
    assert "nccl.all_reduce.busbw" in gates
    assert "nvbandwidth.host_to_device" in gates
    assert [key for key, gate in gates.items() if len(gate.source) < 20] == []


@pytest.mark.parametrize("name", BOARDS)
def test_only_an_nvswitch_board_has_nvswitches(name: str) -> None:
    gpus = profile(name).parts.gpus
    assert gpus is not None
    assert (gpus.board == "nvswitch") == (gpus.nvswitches > 0) == bool(gpus.nvswitch_pci_id)


def test_the_mesh_and_the_bridged_board_are_told_apart_by_pci_id_and_gate() -> None:
    mesh, bridged = profile("a100-sxm4-40g-x4"), profile("a100-pcie-40g-x4")
    assert mesh.parts.gpus and bridged.parts.gpus
    assert (mesh.parts.gpus.pci_id, bridged.parts.gpus.pci_id) == ("10de:20b0", "10de:20f1")
    fast, slow = (p.gates["nccl.all_reduce.busbw"].fail for p in (mesh, bridged))
    assert fast > 5 * slow


def test_derived_figures_of_the_mesh_are_marked_provisional() -> None:
    gates = profile("a100-sxm4-40g-x4").gates
    assert {name for name, gate in gates.items() if gate.provisional} == {
        "nccl.all_reduce.busbw",
        "nccl.all_reduce.inter_node.busbw",
        "nccl.all_gather.busbw",
        "nccl.reduce_scatter.busbw",
        "nccl.alltoall.busbw",
        "nvbandwidth.p2p_read",
        "gpu.pcie_replays",
        "gpu.gemm_fp16",
        "gpu.gemm_tf32",
        "gpu.gemm_spread",
        "gpu.memory_bandwidth",
        "gpu.memory_spread",
        "gpu.nvlink_errors",
        "nvbandwidth.p2p_write",
        "nvbandwidth.p2p_bidirectional",
        "gdrcopy.write_bw",
        "gdrcopy.read_bw",
        "dcgm.spread",
        "storage.random_read_iops_per_member",
        "nfs.read_throughput",
        "nic.errors_per_million",
        "memory.bandwidth",
        "openmpi.device_bw",
        "nic.drops_per_million",
        "network.tcp",
        "network.udp.loss",
        "network.clock.offset",
    }


def board(model: str) -> dict[str, Any]:
    """The simulated server of that model, healthy."""
    from nodeprep.lab.sim import board as simulator

    return simulator.new(model)


@pytest.mark.parametrize("name", [*BOARDS, *LAB])
def test_the_healthy_simulated_board_has_the_parts_that_the_profile_wants(name: str) -> None:
    parts, stands = profile(name).parts, board(name.removeprefix("lab-"))
    assert parts.gpus
    assert len(stands["gpus"]) == parts.gpus.count
    assert stands["kind"] == parts.gpus.board
    assert len(stands["nvswitches"]) == parts.gpus.nvswitches
    assert {switch["id"] for switch in stands["nvswitches"]} <= {
        parts.gpus.nvswitch_pci_id.removeprefix("10de:")
    }
    if parts.gpus.pci_addresses:
        assert [gpu["address"] for gpu in stands["gpus"]] == list(parts.gpus.pci_addresses)
    assert {(gpu["power"]["limit"], gpu["pcie"]["gen"]) for gpu in stands["gpus"]} == {
        (parts.gpus.power_limit_w, parts.gpus.pcie_gen)
    }


def test_the_healthy_simulated_mesh_has_the_rest_of_what_was_rented() -> None:
    parts, stands = profile("lab-a100-sxm4-40g-x4").parts, board("a100-sxm4-40g-x4")
    assert parts.memory
    assert parts.cpu
    full = [dimm["size_mib"] for dimm in stands["dimms"] if dimm["size_mib"]]
    assert (len(full), sum(full) / 1024) == (parts.memory.dimms, parts.memory.total_gib)
    assert re.search(parts.cpu.model, stands["cpus"]["model"])
    assert (stands["cpus"]["sockets"], stands["cpus"]["cores"]) == (2, 32)
    for wanted in parts.disks:
        fitting = [
            disk
            for disk in stands["disks"]
            if disk["tran"] == wanted.transport
            and disk["use"] == wanted.use
            and abs(disk["size"] / 1e9 - wanted.size_gb) <= wanted.tolerance * wanted.size_gb
        ]
        assert len(fitting) == wanted.count
    assert {(nic["name"], nic["speed"]) for nic in stands["nics"]} == {
        (nic.name, nic.speed_mbps) for nic in parts.nics
    }


@pytest.mark.parametrize("name", BOARDS)
def test_the_healthy_simulated_board_meets_the_gates_of_its_links(name: str) -> None:
    gates, speed = profile(name).gates, board(name)["performance"]
    assert speed["busbw"] > (gates["nccl.all_reduce.busbw"].warn or 0)
    assert speed["busbw"] > gates["nccl.all_reduce.busbw"].fail
    assert speed["h2d"] > gates["nvbandwidth.host_to_device"].fail
    if "nvbandwidth.p2p_read" in gates:
        assert speed["p2p"] > gates["nvbandwidth.p2p_read"].fail


def without_slots(document: dict[str, Any]) -> dict[str, Any]:
    """The parts of a profile but for the PCI addresses, which only the lab's board fixes."""
    gpus = {k: v for k, v in document["parts"]["gpus"].items() if k != "pci_addresses"}
    return {**document["parts"], "gpus": gpus}


def without_network(document: dict[str, Any]) -> dict[str, Any]:
    """The gates but for what is between nodes: the lab's network is its own, and real."""
    gates = document["gates"].items()
    return {name: gate for name, gate in gates if not name.startswith("network.")}


@pytest.mark.parametrize("name", BOARDS)
def test_the_lab_stands_in_for_the_real_board_part_by_part_and_gate_by_gate(name: str) -> None:
    real, lab = document(name), document(f"lab-{name}")
    assert without_slots(lab) == without_slots(real)
    assert without_network(lab) == without_network(real)
    assert lab["gates"].keys() == real["gates"].keys()


@pytest.mark.parametrize("name", [*LAB, "lab-nas"])
def test_a_lab_node_lacks_a_kernel_of_its_own_and_says_why(name: str) -> None:
    platform = profile(name).platform
    answers = platform.model_dump(exclude={"why"}).values()
    assert not any(answers)
    assert "kernel" in platform.why


def test_a_virtual_machine_has_the_gpus_and_the_gates_of_the_board() -> None:
    real, emulated = document(BOARDS[0]), document(VM[0])
    gpus = {k: v for k, v in emulated["parts"]["gpus"].items() if k != "pci_addresses"}
    assert gpus == {k: v for k, v in real["parts"]["gpus"].items() if k != "pci_addresses"}
    assert emulated["gates"].keys() == real["gates"].keys()
    for name, gate in real["gates"].items():
        assert emulated["gates"][name] == gate or name.startswith(EMULATED)


@pytest.mark.parametrize("name", VM)
def test_a_virtual_machine_lacks_nothing_but_cpu_frequencies(name: str) -> None:
    platform = profile(name).platform.model_dump(exclude={"why", "cpufreq"})
    assert all(platform.values())


@pytest.mark.parametrize("name", BOARDS)
def test_a_real_board_lacks_nothing(name: str) -> None:
    assert "platform" not in document(name)


@pytest.mark.parametrize(
    ("where", "value", "complaint"),
    [
        (("parts", "gpus", "pci_id"), "20b0", "pattern"),
        (("parts", "gpus", "cuont"), 4, "Extra inputs"),
        (("gates", "nccl.all_reduce.busbw", "warn"), 150, "warn"),
        (("platform",), {"cpufreq": False}, "why"),
    ],
)
def test_a_spoiled_profile_is_refused(
    where: tuple[str, ...], value: object, complaint: str
) -> None:
    spoiled = document("a100-sxm4-40g-x4")
    target = spoiled
    for key in where[:-1]:
        target = target[key]
    target[where[-1]] = value
    with pytest.raises(ValidationError, match=complaint):
        Profile.model_validate(spoiled)


def test_a_temperature_gate_counts_downwards() -> None:
    gate = profile("a100-sxm4-40g-x4").gates["gpu.temperature_max"]
    assert gate.better == "lower"
    assert gate.warn is not None
    assert gate.warn < gate.fail
    with pytest.raises(ValidationError, match="warn"):
        Gate(fail=83, warn=86, unit="C", better="lower", source="turned round")
