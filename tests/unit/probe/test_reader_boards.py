"""The reader on every board that the lab simulates: the stand-ins print the real tools' formats."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nodeprep.lab import sim
from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import models
from nodeprep.model.hardware import Hardware
from tests.unit.probe.tree import Tree

TOOLS = ("lscpu", "lsblk", "lspci", "dmidecode", "ethtool", "nvidia-smi")
ENTRY = Path(sim.__file__).with_name("run")


@pytest.fixture(params=sorted(models.MODELS))
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def tree_of(folder: Path, model: str, *, driver: str = "535.183.01") -> Tree:
    tree = Tree(folder)
    kept = tree.write("/var/lib/nodeprep-sim/board.json", json.dumps(boards.new(model)))
    if driver:
        parts = {"kernel": driver, "loaded": driver, "library": driver}
        tree.write("/var/lib/nodeprep-sim/installed.json", json.dumps(parts))
    for tool in TOOLS if driver else TOOLS[:-1]:
        call = f"'{sys.executable}' -IS '{ENTRY}' {tool}"
        tree.tool(tool, sh=f'NODEPREP_SIM_BOARD={kept} exec {call} "$@"')
    tree.write("/etc/nodeprep-simulated", "\n".join(TOOLS) + "\n")
    for nic in boards.new(model)["nics"]:
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
