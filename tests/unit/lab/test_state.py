"""What a lab remembers."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeprep.errors import BadInput
from nodeprep.lab import names, state
from nodeprep.lab.state import LabDir, LabState, NodeState

ONE = names.rack_nodes(1, 0)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path))


def lab(name: str, index: int) -> LabState:
    return LabState(name=name, index=index, base="/b", sim="/s")


def test_what_is_saved_is_loaded() -> None:
    folder = LabDir("mine")
    spec = lab("mine", 1).with_node(NodeState(name=ONE[0], board="nas", faults={"x": {"a": "1"}}))
    folder.save(spec)
    assert folder.load() == spec
    assert state.all_labs() == (spec,)


def test_a_lab_that_is_not_there_says_how_to_start_it() -> None:
    with pytest.raises(BadInput) as caught:
        LabDir("mine").load()
    assert "nodeprep lab up --name mine" in caught.value.hint


def test_an_unknown_node_is_answered_with_the_known_ones() -> None:
    spec = lab("mine", 1).with_node(NodeState(name=ONE[0], board="nas"))
    with pytest.raises(BadInput, match="it has gpu1"):
        spec.node("gpu7")


def test_nodes_are_kept_in_order() -> None:
    spec = lab("mine", 1)
    for node in reversed(names.rack_nodes(11, 1)):
        spec = spec.with_node(NodeState(name=node, board="nas"))
    assert [str(node.name) for node in spec.nodes][-3:] == ["gpu10", "gpu11", "nas1"]


def test_the_password_is_made_once_and_nobody_else_reads_it() -> None:
    folder = LabDir("mine")
    first = folder.password()
    assert len(first) >= 16
    assert folder.password() == first
    assert stat.S_IMODE(folder.password_file.stat().st_mode) == 0o600
    assert LabDir("other").password() != first


def test_the_lab_called_lab_has_number_0_and_others_the_smallest_free() -> None:
    known = [lab("a", 241), lab("b", 242)]
    assert state.choose_index("lab", known, ONE) == 0
    assert state.choose_index("c", [*known, *(lab("x", n) for n in range(1, 241))], ONE) == 243


@pytest.fixture
def listener() -> Iterator[str]:
    address = ONE[0].forwarded(244)
    with socket.create_server((address, names.SSH_PORT)):
        yield address


def test_a_number_that_somebody_listens_on_is_passed_over(listener: str) -> None:
    assert listener
    known = [lab("x", n) for n in range(1, 244)]
    assert state.choose_index("c", known, ONE) == 245


def test_a_broken_state_file_hides_no_other_lab() -> None:
    LabDir("good").save(lab("good", 1))
    LabDir("bad").path.mkdir(parents=True)
    LabDir("bad").file.write_text("{")
    assert [one.name for one in state.all_labs()] == ["good"]
