"""The reader on every board that the lab simulates: the stand-ins print the real tools' formats."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep.judge.hardware import compare
from nodeprep.lab import sim
from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import models
from nodeprep.lab.sim.faults import CATALOGUE
from nodeprep.model.hardware import Hardware
from nodeprep.model.profile import Profile
from nodeprep.resources import data_dir
from tests.unit.probe.tree import Tree

TOOLS = ("lscpu", "lsblk", "lspci", "dmidecode", "ethtool", "nvidia-smi")
ENTRY = Path(sim.__file__).with_name("run")


@pytest.fixture(params=sorted(models.MODELS))
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def tree_of(
    folder: Path, model: str, *, driver: str = "535.183.01", fault: str = "", **args: Any
) -> Tree:
    tree = Tree(folder)
    board = boards.new(model)
    if fault:
        board = CATALOGUE[fault].apply(board, **args)
    kept = tree.write("/var/lib/nodeprep-sim/board.json", json.dumps(board))
    if driver:
        parts = {"kernel": driver, "loaded": driver, "library": driver}
        tree.write("/var/lib/nodeprep-sim/installed.json", json.dumps(parts))
    for tool in TOOLS if driver else TOOLS[:-1]:
        call = f"'{sys.executable}' -IS '{ENTRY}' {tool}"
        tree.tool(tool, sh=f'NODEPREP_SIM_BOARD={kept} exec {call} "$@"')
    tree.write("/etc/nodeprep-simulated", "\n".join(TOOLS) + "\n")
    for nic in board["nics"]:
        tree.write(f"/sys/class/net/{nic['name']}/mtu", "1500\n")
    return tree


def test_all_of_it_is_read(tmp_path: Path, model: str) -> None:
    spec = boards.new(model)
    found = Hardware.model_validate(tree_of(tmp_path, model).hardware())
    assert not set(found.errors) - {"gpu_driver"}
    assert found.cpu is not None
    assert found.cpu.sockets == spec["cpus"]["sockets"]
    assert found.cpu.cores_per_socket == spec["cpus"]["cores"]
    assert found.dimms is not None
    assert len(found.dimms) == len(spec["dimms"])
    assert {disk.serial for disk in found.disks or ()} == {d["serial"] for d in spec["disks"]}
    assert {nic.name for nic in found.nics or ()} == {nic["name"] for nic in spec["nics"]}
    assert all(nic.speed_mbps and nic.driver and nic.pci_address for nic in found.nics or ())
    assert len(found.nvswitches or ()) == len(spec["nvswitches"])
    assert found.board_serial
    assert found.bios_version
    assert {"cpu", "dimms", "board", "disks", "nics", "gpus", "nvswitches"} == set(found.simulated)
    gpus = found.gpus or ()
    assert len(gpus) == len(spec["gpus"])
    for gpu in gpus:
        assert gpu.pci_id
        assert gpu.uuid
        assert gpu.memory_mib
        assert gpu.power_limit_w
        assert gpu.driver_version == "535.183.01"
        assert None not in (gpu.persistence_mode, gpu.pcie_gen_max, gpu.pcie_width)


def test_before_the_driver_the_bus_tells(tmp_path: Path, model: str) -> None:
    found = Hardware.model_validate(tree_of(tmp_path, model, driver="").hardware())
    assert found.gpus is not None
    assert len(found.gpus) == len(boards.new(model)["gpus"])
    assert all(gpu.pci_id and gpu.uuid is None for gpu in found.gpus)
    assert "gpu_driver" not in found.errors


BOARD = "a100-sxm4-40g-x4"


def blocked(tree: Tree, *, driver: bool, model: str = BOARD) -> dict[str, str]:
    """What compare refuses, by claim, with the profile that the board is a simulation of."""
    path = data_dir() / "inventory" / "profiles" / f"{model}.yaml"
    profile = Profile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    found = compare(profile, Hardware.model_validate(tree.hardware()), driver=driver)
    return {v.claim.removeprefix("hardware/"): v.reason for v in found if v.verdict.blocks}


@pytest.mark.parametrize("board", sorted(set(models.MODELS) - {"nas"}))
def test_a_healthy_board_is_what_was_rented(tmp_path: Path, board: str) -> None:
    assert blocked(tree_of(tmp_path, board), driver=True, model=board) == {}


@pytest.mark.parametrize(
    ("fault", "claim", "reason"),
    [
        ("gpu_missing", "gpu:count", "3 of 4 GPUs on the bus"),
        ("gpu_off_bus", "gpu:count", "fell off the bus: 0000:"),
        ("dimm_missing", "memory:dimms", "15 of 16 memory modules; empty: P"),
        ("dimm_small", "memory:total", "rented: 512 GiB"),
        ("cpu_socket_missing", "cpu:sockets", "1 socket, rented: 2"),
        ("cpu_other_model", "cpu:model", "it is another CPU"),
        ("disk_missing", "disk:", "0 of 1x"),
        ("disk_small", "disk:", "0 of 1x"),
        ("nic_1g", "nic:ens5f0", "runs at 1000 Mb/s, rented: 10000 Mb/s"),
        ("nic_half_duplex", "nic:ens5f0", "half duplex"),
        ("nic_link_down", "nic:ens5f0", "it has no link"),
        ("nic_missing", "nic:ens5f0", "no NIC ens5f0"),
    ],
)
def test_a_fault_is_told_before_the_driver(
    tmp_path: Path, fault: str, claim: str, reason: str
) -> None:
    found = blocked(tree_of(tmp_path, BOARD, driver="", fault=fault), driver=False)
    assert any(key.startswith(claim) and reason in text for key, text in found.items()), found


@pytest.mark.parametrize(
    ("fault", "claim"),
    [
        ("gpu_lost", "gpu:"),
        ("pcie_x8", "gpu:pcie"),
        ("driver_not_loaded", "gpu:driver"),
        ("driver_library_mismatch", "gpu:driver"),
    ],
)
def test_a_fault_is_told_by_the_driver(tmp_path: Path, fault: str, claim: str) -> None:
    found = blocked(tree_of(tmp_path, BOARD, fault=fault), driver=True)
    assert any(key.startswith(claim) for key in found), found


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_prints_nothing_is_unknown(tmp_path: Path, tool: str) -> None:
    found = blocked(tree_of(tmp_path, BOARD, fault="tool_silent", tool=tool), driver=True)
    assert found
