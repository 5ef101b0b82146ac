"""Names and addresses of a lab."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import BadInput
from nodeprep.lab import names
from nodeprep.lab.names import NodeName


def test_a_rack_has_gpu_nodes_then_nas_nodes() -> None:
    assert [str(node) for node in names.rack_nodes(2, 1)] == ["gpu1", "gpu2", "nas1"]


def test_addresses_are_the_documented_ones() -> None:
    gpu, nas = NodeName(kind="gpu", number=1), NodeName(kind="nas", number=1)
    assert (gpu.address, nas.address) == ("10.77.0.11", "10.77.0.201")
    assert (gpu.forwarded(0), nas.forwarded(3)) == ("127.77.0.11", "127.77.3.201")


@given(st.integers(0, names.MAX_GPU_NODES), st.integers(0, names.MAX_NAS_NODES))
def test_no_two_nodes_share_an_address_and_none_is_the_gateway(gpus: int, nas: int) -> None:
    if gpus + nas == 0:
        return
    addresses = [node.address for node in names.rack_nodes(gpus, nas)]
    assert len(set(addresses)) == gpus + nas
    for address in addresses:
        assert 11 <= int(address.rsplit(".", 1)[1]) <= 254


@pytest.mark.parametrize(("gpus", "nas"), [(0, 0), (-1, 1), (181, 0), (1, 51)])
def test_a_rack_that_cannot_be_is_refused(gpus: int, nas: int) -> None:
    with pytest.raises(BadInput):
        names.rack_nodes(gpus, nas)


@pytest.mark.parametrize("name", ["", "Lab", "lab-gpu1", "a" * 17, "1lab", "../lab", "lab name"])
def test_a_name_that_could_be_confused_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        names.check_lab(name)


@given(st.from_regex(r"[a-z][a-z0-9]{0,15}", fullmatch=True))
def test_namespaces_of_labs_never_collide(name: str) -> None:
    other = "lab" if name != "lab" else "lib"
    mine = {names.lab_netns(names.check_lab(name))} | {
        names.node_netns(name, node) for node in names.rack_nodes(2, 1)
    }
    theirs = {names.lab_netns(other)} | {
        names.node_netns(other, node) for node in names.rack_nodes(2, 1)
    }
    assert not mine & theirs
