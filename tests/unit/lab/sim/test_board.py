"""A healthy board: the same for the same seed, whole in every model."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import models, physics

MODELS = sorted(models.MODELS)
WITH_GPUS = [name for name in MODELS if models.MODELS[name]["gpu"]]


@given(st.sampled_from(MODELS), st.text(max_size=20))
def test_the_seed_decides_everything(model: str, seed: str) -> None:
    assert boards.new(model, seed) == boards.new(model, seed)


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_seeds_are_two_servers(one: str, other: str) -> None:
    if one != other:
        first, second = boards.new(seed=one), boards.new(seed=other)
        assert first["host"]["serial"] != second["host"]["serial"]
        assert {gpu["uuid"] for gpu in first["gpus"]}.isdisjoint(
            gpu["uuid"] for gpu in second["gpus"]
        )


@pytest.mark.parametrize("model", MODELS)
def test_a_board_is_json(model: str) -> None:
    board = boards.new(model)
    assert json.loads(json.dumps(board)) == board


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(KeyError):
        boards.new("dgx-9000")


def test_the_default_is_the_reference_node() -> None:
    board = boards.new()
    assert board["model"] == "a100-sxm4-40g-x4"
    assert (board["cpus"]["sockets"], board["cpus"]["cores"]) == (2, 32)
    assert sum(dimm["size_mib"] for dimm in board["dimms"]) == 512 * 1024
    assert [disk["size"] // 10**9 for disk in board["disks"]] == [480, 4000, 1920]
    assert [(nic["name"], nic["speed"]) for nic in board["nics"]] == [("ens5f0", 10000)]


@pytest.mark.parametrize("model", MODELS)
def test_serial_numbers_are_unique(model: str) -> None:
    board = boards.new(model)
    for parts in (board["dimms"], board["disks"], board["gpus"]):
        serials = [part["serial"] for part in parts]
        assert len(set(serials)) == len(serials)


@pytest.mark.parametrize("model", WITH_GPUS)
def test_every_link_of_a_mesh_or_bridge_has_two_ends(model: str) -> None:
    board = boards.new(model)
    by_address = {gpu["address"]: gpu for gpu in board["gpus"]}
    switches = {switch["address"] for switch in board["nvswitches"]}
    for gpu in board["gpus"]:
        for link in gpu["nvlinks"]:
            if link["peer"] in switches:
                continue
            ends = [end["peer"] for end in by_address[link["peer"]]["nvlinks"]]
            assert ends.count(gpu["address"]) == len(
                [end for end in gpu["nvlinks"] if end["peer"] == link["peer"]]
            )


@pytest.mark.parametrize(
    ("model", "low", "high"),
    [
        ("a100-sxm4-40g-x4", 200, 240),
        ("a100-pcie-40g-x4", 20, 25),
        ("a100-sxm4-80g-x8", 228, 240),
        ("h100-sxm5-80g-x8", 450, 500),
    ],
)
@given(seed=st.text(max_size=10))
def test_healthy_boards_are_as_fast_as_such_boards_are(
    model: str, low: float, high: float, seed: str
) -> None:
    board = boards.new(model, seed)
    assert low < physics.bus_bandwidth(board, "all_reduce", board["gpus"]) < high


def test_half_of_a_mesh_has_a_third_of_its_ring() -> None:
    board = boards.new()
    whole = physics.bus_bandwidth(board, "all_reduce", board["gpus"])
    assert physics.bus_bandwidth(board, "all_reduce", board["gpus"][:2]) == pytest.approx(whole / 3)
