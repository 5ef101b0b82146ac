"""A lab comes, stands beside others, and goes without a trace."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeprep import resources
from nodeprep.errors import BadInput, LabUnavailable
from nodeprep.lab import cgroups, host, image, network, shell, state
from nodeprep.lab import rack as racks
from nodeprep.lab.sim import board

pytestmark = pytest.mark.lab
LAB = "testlife"
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")


@pytest.fixture(autouse=True)
def _ends(rack: object) -> Iterator[None]:
    """`rack` decides whether a lab can run here, and stands beside the one under test."""
    del rack
    racks.down(LAB)
    yield
    racks.down(LAB)


def traces(lab: str) -> list[str]:
    """Whatever of a lab is on this machine: namespaces, mounts, groups, processes, files."""
    found = [f"netns {name}" for name in network.namespaces_of(lab)]
    folder = state.labs_dir() / lab
    found += [f"mount {path}" for path in shell.mounts_under(folder)]
    found += [f"group {path}" for root in cgroups.roots() for path in root.glob(f"nodeprep-{lab}")]
    marks = (f"np-{lab}-", f"np-{lab}\0", f"labs/{lab}/")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text()
        except OSError:
            continue
        if any(mark in words for mark in marks):
            found.append(f"process {process.name} {words!r:.80}")
    found += [f"file {path}" for path in (folder, resources.site_dir(lab)) if path.exists()]
    lockers = Path("/run/systemd/nspawn")
    found += [f"nspawn {path}" for path in lockers.rglob(f"*np-{lab}-*")]
    return found


def machine() -> dict[str, object]:
    """What the lab must leave as it is."""
    return {
        "links": shell.run(["ip", "-br", "link"]),
        "addresses": shell.run(["ip", "-br", "address"]),
        "routes": shell.run(["ip", "route"]),
        "resolver": Path("/etc/resolv.conf").read_bytes(),
    }


def test_down_leaves_nothing() -> None:
    before = machine()
    racks.up(LAB, gpus=1, nas=1)
    resources.site_dir(LAB).mkdir(parents=True)
    kinds = {line.split()[0] for line in traces(LAB)}
    assert {"netns", "mount", "group", "process", "file"} <= kinds, "the counting is blind"
    assert machine() == before, "the machine's own network changed"
    racks.down(LAB)
    assert traces(LAB) == []
    assert machine() == before


@pytest.mark.parametrize("when", ["network.make_node", "node.make", "node.start", "servers.start"])
def test_down_cleans_up_after_a_crash_halfway(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("halfway")

    monkeypatch.setattr(f"nodeprep.lab.{when}", crash)
    with pytest.raises(RuntimeError, match="halfway"):
        racks.up(LAB, gpus=1, nas=0)
    monkeypatch.undo()
    assert traces(LAB) != []
    racks.down(LAB)
    assert traces(LAB) == []


def test_up_goes_on_after_a_crash_halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("halfway")

    monkeypatch.setattr("nodeprep.lab.container.write_board", crash)
    with pytest.raises(RuntimeError, match="halfway"):
        racks.up(LAB, gpus=1, nas=0)
    monkeypatch.undo()
    (one,) = racks.up(LAB, gpus=1, nas=0).nodes
    assert one.ssh == "answers"
    assert racks.execute(LAB, "gpu1", ["test", "-s", board.STATE]).returncode == 0


def test_labs_stand_side_by_side_with_the_same_addresses_inside(rack: object) -> None:
    other = racks.status(getattr(rack, "name", ""))
    mine = racks.up(LAB, gpus=1, nas=0)
    assert mine.index != other.index
    assert mine.nodes[0].address == other.nodes[0].address
    assert mine.nodes[0].host != other.nodes[0].host
    assert racks.password(LAB) != racks.password(other.name)
    racks.down(LAB)
    assert racks.status(other.name).nodes[0].ssh == "answers"


def test_a_rack_grows_without_disturbing_its_nodes() -> None:
    racks.up(LAB, gpus=1, nas=0)
    boot = ["cat", "/proc/sys/kernel/random/boot_id"]
    before = racks.execute(LAB, "gpu1", boot).stdout
    with socket.create_connection((racks.status(LAB).nodes[0].host, 2222), 5) as kept:
        assert kept.recv(4) == b"SSH-"
        grown = racks.up(LAB, gpus=2, nas=0)
        assert [one.ssh for one in grown.nodes] == ["answers", "answers"]
        kept.sendall(b"SSH-2.0-still_here\r\n")
        assert kept.recv(4)
    assert racks.execute(LAB, "gpu1", boot).stdout == before


def test_the_inotify_limit_is_lent_and_returned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")
    monkeypatch.setattr(host, "_INOTIFY", limit)
    monkeypatch.setattr(host, "_ledger", lambda: tmp_path / "host.json")
    host.borrow()
    host.borrow()
    assert limit.read_text() == "8192\n"
    host.give_back()
    assert limit.read_text() == "128\n"


def test_another_state_folders_lab_of_that_name_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    racks.up(LAB, gpus=1, nas=0)
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path))
    with pytest.raises(Exception, match="another state folder"):
        racks.up(LAB, gpus=1, nas=0)
    racks.down(LAB)
    monkeypatch.undo()
    assert racks.status(LAB).nodes[0].ssh == "answers"


def test_layers_under_running_nodes_are_known_to_be_in_use() -> None:
    racks.up(LAB, gpus=1, nas=0)
    spec = state.LabDir(LAB).load()
    assert {Path(spec.base), Path(spec.sim)} <= image._running(image.cache_dir())


def test_a_lab_that_is_not_there_is_said_to_be_so() -> None:
    with pytest.raises(BadInput, match="no lab"):
        racks.status(LAB)


def test_a_machine_without_the_tools_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LabUnavailable, match="systemd-container") as caught:
        racks.up(LAB)
    assert "apt-get install -y" in caught.value.hint
