"""The adapter that keeps accepted.json and a hostfile."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nodeprep.errors import ToolFailure
from nodeprep.join import Adapter, HostfileAdapter, Member

AT = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
GPU1 = Member(name="gpu1", address="10.0.0.1", slots=4, since=AT, gpus=("GPU-a",))
GPU2 = Member(name="gpu2", address="10.0.0.2", slots=8)
NAS = Member(name="nas1", address="10.0.0.9", slots=0)


@pytest.fixture
def adapter(tmp_path: Path) -> HostfileAdapter:
    return HostfileAdapter("la", tmp_path / "la")


def hosts(adapter: HostfileAdapter) -> list[str]:
    return adapter.hostfile_path.read_text().splitlines()[1:]


def test_it_is_an_adapter(adapter: HostfileAdapter) -> None:
    generic: Adapter = adapter
    assert generic.join([GPU1])


def test_joined_nodes_stand_in_both_files(adapter: HostfileAdapter) -> None:
    assert adapter.join([GPU2, GPU1, NAS])
    assert hosts(adapter) == ["gpu1 slots=4", "gpu2 slots=8"]
    roster = json.loads(adapter.roster_path.read_text())
    assert roster["site"] == "la"
    assert [(n["name"], n["slots"]) for n in roster["nodes"]] == [
        ("gpu1", 4), ("gpu2", 8), ("nas1", 0),
    ]  # fmt: skip
    assert roster["nodes"][0] == {
        "name": "gpu1", "address": "10.0.0.1", "slots": 4, "state": "joined",
        "since": "2026-11-30T00:00:00Z", "gpus": ["GPU-a"],
    }  # fmt: skip


def test_a_hostfile_by_address(tmp_path: Path) -> None:
    adapter = HostfileAdapter("la", tmp_path, by="address")
    adapter.join([GPU1])
    assert hosts(adapter) == ["10.0.0.1 slots=4"]


def test_a_node_that_leaves_is_gone_from_both(adapter: HostfileAdapter) -> None:
    adapter.join([GPU1, GPU2])
    assert adapter.leave(["gpu1"])
    assert hosts(adapter) == ["gpu2 slots=8"]
    assert adapter.members() == (GPU2,)


def test_nothing_changed_nothing_written(adapter: HostfileAdapter) -> None:
    adapter.join([GPU1])
    before = [(p.stat().st_ino, p.read_bytes()) for p in files(adapter)]
    assert not adapter.join([GPU1])
    assert not adapter.leave(["gpu7"])
    assert before == [(p.stat().st_ino, p.read_bytes()) for p in files(adapter)]


def files(adapter: HostfileAdapter) -> tuple[Path, Path]:
    return adapter.roster_path, adapter.hostfile_path


def test_a_run_killed_between_the_two_files_is_mended(adapter: HostfileAdapter) -> None:
    adapter.join([GPU1])
    adapter.hostfile_path.unlink()
    assert adapter.join([GPU1])
    assert hosts(adapter) == ["gpu1 slots=4"]


def test_no_half_written_file_is_left_behind(adapter: HostfileAdapter) -> None:
    adapter.join([GPU1])
    names = {path.name for path in adapter.roster_path.parent.iterdir()}
    assert names == {"accepted.json", "hostfile"}


def test_a_damaged_roster_is_an_error_and_not_an_empty_cluster(adapter: HostfileAdapter) -> None:
    adapter.join([GPU1])
    adapter.roster_path.write_text("{")
    with pytest.raises(ToolFailure, match=r"accepted\.json"):
        adapter.leave(["gpu2"])


@pytest.mark.parametrize("word", ["gpu1 slots=64", "gpu1\ngpu2", "", "#gpu1", "gpu1\n"])
def test_a_name_that_would_break_the_hostfile_is_no_member(word: str) -> None:
    with pytest.raises(ValidationError):
        Member(name=word, address="10.0.0.1", slots=1)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=12))
def test_the_files_always_hold_exactly_those_who_joined_and_did_not_leave(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, str]]
) -> None:
    adapter = HostfileAdapter("la", tmp_path_factory.mktemp("site"))
    inside: set[str] = set()
    for joins, name in steps:
        if joins:
            adapter.join([Member(name=name, address=name, slots=1)])
        else:
            adapter.leave([name])
        inside = inside | {name} if joins else inside - {name}
        assert {m.name for m in adapter.members()} == inside
        assert hosts(adapter) == [f"{name} slots=1" for name in sorted(inside)]
