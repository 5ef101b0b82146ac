"""The lab's inventory, in the repository and generated, is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nodeprep import resources
from nodeprep.lab import names, sitefile
from nodeprep.lab.state import LabState, NodeState


def lab(name: str, index: int, boards: list[str]) -> LabState:
    nodes = [
        NodeState(name=node, board=board)
        for node, board in zip(names.rack_nodes(len(boards), 0), boards, strict=True)
    ]
    return LabState(name=name, index=index, base="/b", sim="/s", nodes=tuple(nodes))


def test_the_inventory_that_is_shipped_is_the_generated_one() -> None:
    shipped = resources.data_dir() / "inventory" / "lab.yaml"
    assert shipped.read_text() == sitefile.default(), (
        "write it again: nodeprep lab inventory --output inventory/lab.yaml"
    )


def test_the_shipped_inventory_is_the_one_of_a_standing_lab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("NODEPREP_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    spec = LabState(name="lab", index=0, base="/b", sim="/s")
    for node in names.rack_nodes(3, 1):
        board = "nas" if node.kind == "nas" else "a100-sxm4-40g-x4"
        spec = spec.with_node(NodeState(name=node, board=board))
    assert sitefile.of(spec) == sitefile.default()


def test_what_a_client_needs_is_in_it() -> None:
    data = yaml.safe_load(sitefile.default())["all"]
    gpu = data["children"]["gpu_nodes"]
    assert gpu["hosts"]["gpu1"] == {"ansible_host": "127.77.0.11", "node_address": "10.77.0.11"}
    assert gpu["vars"]["nodeprep_profile"] == "lab-a100-sxm4-40g-x4"
    assert data["children"]["storage"]["vars"]["nodeprep_profile"] == "lab-nas"
    assert data["vars"]["ansible_port"] == 2222
    assert "StrictHostKeyChecking=yes" in data["vars"]["ansible_ssh_common_args"]
    assert data["vars"]["ansible_user"] == "{{ nodeprep_admin_user }}"


def test_another_lab_has_its_own_site_and_addresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path))
    text = sitefile.of(lab("mine", 4, ["a100-sxm4-40g-x4"]))
    data = yaml.safe_load(text)["all"]
    assert data["vars"]["nodeprep_site"] == "mine"
    assert data["children"]["gpu_nodes"]["hosts"]["gpu1"]["ansible_host"] == "127.77.4.11"
    assert str(tmp_path / "sites" / "mine") in data["vars"]["ansible_ssh_private_key_file"]
    assert "--name mine" in text


def test_nodes_of_unlike_boards_have_a_profile_each() -> None:
    data = yaml.safe_load(sitefile.of(lab("mine", 1, ["a100-sxm4-40g-x4", "h100-sxm5-80g-x8"])))
    hosts = data["all"]["children"]["gpu_nodes"]["hosts"]
    assert hosts["gpu2"]["nodeprep_profile"] == "lab-h100-sxm5-80g-x8"


def test_only_a_virtual_machine_has_disks_to_make_a_volume_of() -> None:
    spec = lab("mine", 1, ["a100-sxm4-40g-x4"])
    assert "nvme_cache_volumes" not in sitefile.of(spec)
    (node,) = spec.nodes
    spec = spec.model_copy(update={"nodes": (node.model_copy(update={"tier": "vm"}),)})
    group = yaml.safe_load(sitefile.of(spec))["all"]["children"]["virtual_machines"]
    assert set(group["hosts"]) == {"gpu1"}
    variables = group["vars"]
    (volume,) = variables["nvme_cache_volumes"]
    assert (volume["path"], volume["level"]) == ("/cache", 0)
