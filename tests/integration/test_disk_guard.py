"""What the node itself checks just before a byte is written, on real block devices (loop).

mdadm, LVM and mkfs.xfs are only recorded here; wipefs, blkid, lsblk, mounts and exclusive opens are
real.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
UUID = "6f9619ff-8b86-5d01-b42d-00cf4fc964ff"
ORIGIN = "8f9619-ff8b-865d-01b4-2d00-cf4f-c964ff"
CACHE = "7f9619-ff8b-865d-01b4-2d00-cf4f-c964ff"
LVM = ("pvcreate", "vgcreate", "lvcreate", "lvconvert", "vgchange")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists(),
    reason="needs root and loop devices",
)


def sh(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


class Bench:
    """Loop devices with names, serials and what is on them; remembers who was asked to write."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = ROOT / "roles" / "claims" / "files" / "disks.py"
        spec = importlib.util.spec_from_file_location("disk_guard_under_test", path)
        assert spec
        assert spec.loader
        self.guard = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.guard)
        self.folder = folder
        self.by_id = folder / "by-id"
        self.by_id.mkdir()
        self.serials: dict[str, str] = {}
        self.devices: list[str] = []
        self.blocks: list[dict[str, Any]] | None = None  # what lsblk tells, for once
        self.wrote: list[list[str]] = []
        self.physical: list[dict[str, str]] = []  # what pvs tells
        self.real: Callable[..., str] = self.guard.run
        monkeypatch.setattr(self.guard, "BY_ID", f"{self.by_id}/")
        monkeypatch.setattr(self.guard, "run", self.run)
        monkeypatch.setitem(self.guard.ENVIRONMENT, "HOME", str(folder))

    def run(self, argv: list[str], timeout: float = 20, fine: int = 0) -> str:
        if argv[0] in ("mdadm", "mkfs.xfs", *LVM):
            self.wrote.append(argv)
            return "MD_UUID=" + UUID
        if argv[0] in ("pvs", "lvs"):
            part = argv[0].rstrip("s")
            rows = self.physical if part == "pv" else []
            return json.dumps({"report": [{part: rows}]})
        if argv[0] == "lsblk" and "UUID" in argv[-1] and self.blocks is not None:
            return json.dumps({"blockdevices": self.blocks})
        if argv[0] in ("udevadm", "modprobe"):
            return ""
        if "SERIAL,WWN" in argv:
            entry = {"serial": self.serials[Path(argv[-1]).name], "wwn": None}
            return json.dumps({"blockdevices": [entry]})
        return self.real(argv, timeout, fine)

    def disk(self, serial: str, size: int = 64 * MIB) -> str:
        """A device named nvme-A_<serial>; its path."""
        file = self.folder / f"{serial}.img"
        with file.open("wb") as image:
            image.truncate(size)
        device = sh("losetup", "--find", "--show", "--partscan", str(file))
        self.devices.append(device)
        self.serials[Path(device).name] = serial
        (self.by_id / f"nvme-A_{serial}").symlink_to(device)
        return device

    def step(self, *serials: str, **other: Any) -> dict[str, Any]:
        disks = [
            {"id": f"nvme-A_{s}", "serial": s, "wwn": None, "size_bytes": 64 * MIB} for s in serials
        ]
        one = {"action": "format", "name": "/cache", "uuid": UUID, "disks": disks}
        return {**one, **other}

    def write(self, step: dict[str, Any]) -> str:
        done: str = self.guard.ACTIONS[step["action"]](step)
        return done

    def refused(self, step: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
        """Why; and nothing was written, byte for byte."""
        before = self.content()
        with pytest.raises(SystemExit) as ended:
            self.write(step)
        assert ended.value.code == 3
        assert self.content() == before
        assert self.wrote == []
        return capsys.readouterr().err

    def content(self) -> list[str]:
        os.sync()
        return [hashlib.sha256(f.read_bytes()).hexdigest() for f in self.folder.glob("*.img")]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench(tmp_path, monkeypatch)
    yield bench
    for device in bench.devices:
        sh("losetup", "--detach", device)


Capture = pytest.CaptureFixture[str]


def test_a_clean_disk_is_written_by_the_device_behind_its_name(bench: Bench) -> None:
    device = bench.disk("S1")
    assert bench.write(bench.step("S1")) == f"made xfs on {device}"
    assert bench.wrote == [["mkfs.xfs", "-q", "-m", f"uuid={UUID}", device]]
    assert not any("-f" in argv or "--run" in argv for argv in bench.wrote)


def test_what_is_on_a_disk_is_named(bench: Bench, capsys: Capture) -> None:
    sh("mkfs.ext4", "-q", bench.disk("S1"))
    assert "nvme-A_S1" in bench.refused(bench.step("S1"), capsys)
    sh("mkswap", bench.disk("S2"))
    assert "carries swap" in bench.refused(bench.step("S2"), capsys)


def test_a_partition_table(bench: Bench, capsys: Capture) -> None:
    device = bench.disk("S1")
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") * 2
    with Path(device).open("r+b") as disk:
        disk.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")
    assert "carries dos" in bench.refused(bench.step("S1"), capsys)


@pytest.fixture
def mounted(bench: Bench) -> Iterator[str]:
    device = bench.disk("S1")
    sh("mkfs.ext4", "-q", device)
    point = bench.folder / "mounted"
    point.mkdir()
    sh("mount", "-o", "ro,noload", device, str(point))  # ext4 itself writes nothing
    yield device
    sh("umount", str(point))


@pytest.mark.usefixtures("mounted")
def test_a_mounted_disk_even_when_it_is_listed(bench: Bench, capsys: Capture) -> None:
    assert "is mounted at" in bench.refused(bench.step("S1", wipe=["S1"]), capsys)


@pytest.mark.usefixtures("mounted")
def test_one_that_its_mount_table_does_not_show(
    bench: Bench, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mounted in another namespace, or held by a driver of which nothing here knows."""
    monkeypatch.setattr(bench.guard, "names", lambda _: [])
    monkeypatch.setattr(bench.guard, "word", lambda path: "131072" if "size" in path else "9:9")
    monkeypatch.setattr(bench.guard, "table", lambda _: [])
    assert "cannot be opened alone" in bench.refused(bench.step("S1", wipe=["S1"]), capsys)


@pytest.mark.usefixtures("mounted")
def test_wipefs_refuses_by_itself_what_is_in_use(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sabotaged twin: with the guard's own eyes shut, the tools still refuse."""
    before = bench.content()
    monkeypatch.setattr(bench.guard, "busy", lambda _: "")
    with pytest.raises(bench.guard.Failed, match="wipefs"):
        bench.write(bench.step("S1", wipe=["S1"]))
    assert bench.wrote == []
    assert bench.content() == before


def test_a_disk_that_a_program_has_open(bench: Bench, capsys: Capture) -> None:
    device = bench.disk("S1")
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import sys; f = open(sys.argv[1]); print(); input()", device],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert sleeper.stdout
        sleeper.stdout.readline()
        said = bench.refused(bench.step("S1"), capsys)
        assert f"is open in process {sleeper.pid}" in said
    finally:
        sleeper.kill()
        sleeper.wait()


def test_numbers_that_moved_change_nothing(bench: Bench, capsys: Capture) -> None:
    """Between plan and write the name came to lead elsewhere: the serial tells."""
    bench.disk("S1")
    other = bench.disk("S2")
    link = bench.by_id / "nvme-A_S1"
    link.unlink()
    link.symlink_to(other)
    assert "has the serial S2, not S1" in bench.refused(bench.step("S1"), capsys)


def test_a_disk_of_another_size_or_none(bench: Bench, capsys: Capture) -> None:
    bench.disk("S1", 32 * MIB)
    assert "bytes, not" in bench.refused(bench.step("S1"), capsys)
    assert "is not there" in bench.refused(bench.step("S9"), capsys)
    sneaky = bench.step("S1")
    sneaky["disks"][0]["id"] = "../nvme-A_S1"
    assert "is not there" in bench.refused(sneaky, capsys)


def test_two_names_of_one_disk(bench: Bench, capsys: Capture) -> None:
    device = bench.disk("S1")
    (bench.by_id / "wwn-1").symlink_to(device)
    step = bench.step("S1", action="create", name="cache", level=0, chunk_kib=512)
    step["disks"] = [step["disks"][0], {**step["disks"][0], "id": "wwn-1"}]
    assert "lead to one disk" in bench.refused(step, capsys)


def test_one_dirty_disk_keeps_its_clean_sisters(bench: Bench, capsys: Capture) -> None:
    bench.disk("S1")
    sh("mkfs.ext4", "-q", bench.disk("S2"))
    step = bench.step(
        "S1", "S2", action="create", name="cache", level=0, chunk_kib=512, wipe=["S1"]
    )
    assert "carries ext4" in bench.refused(step, capsys)


def test_what_is_listed_is_erased_and_its_signatures_are_kept(bench: Bench) -> None:
    device = bench.disk("S1")
    sh("mkfs.ext4", "-q", device)
    bench.write(bench.step("S1", wipe=["S1"]))
    assert bench.wrote[-1][0] == "mkfs.xfs"
    assert sh("wipefs", device) == ""
    assert list(bench.folder.glob("wipefs-*.bak"))


def test_a_filesystem_of_that_uuid_is_never_made_again(bench: Bench, capsys: Capture) -> None:
    bench.disk("S1")
    bench.blocks = [{"name": "sdz", "type": "disk", "fstype": "xfs", "uuid": UUID.upper()}]
    assert "carries that UUID already" in bench.refused(bench.step("S1"), capsys)


def test_an_array_that_is_not_there_gets_no_filesystem(bench: Bench, capsys: Capture) -> None:
    step = bench.step(action="format", array="cache")
    assert "array cache is not there" in bench.refused(step, capsys)


def volume(bench: Bench, *serials: str, **other: Any) -> dict[str, Any]:
    named = {"name": "nodeprep_t", "origin_uuid": ORIGIN, "cache_uuid": CACHE}
    return bench.step(*serials, **{"action": "cache", "mode": "writethrough", **named, **other})


class TestCachedVolumes:
    def test_of_the_devices_behind_two_names(self, bench: Bench) -> None:
        slow, fast = bench.disk("S1"), bench.disk("S2")
        made = bench.write(volume(bench, "S1", "S2"))
        assert made.startswith("made /dev/nodeprep_t/data on ")
        assert [(argv[0], argv[-1]) for argv in bench.wrote] == [
            ("pvcreate", slow), ("pvcreate", fast), ("vgcreate", fast), ("lvcreate", slow),
            ("lvcreate", fast), ("lvconvert", "nodeprep_t/data"),
        ]  # fmt: skip
        assert [argv[3] for argv in bench.wrote[:2]] == [ORIGIN, CACHE]
        forced = [argv[0] for argv in bench.wrote if {"-f", "--force", "-y", "--yes"} & set(argv)]
        assert forced == ["lvconvert"]  # asks of what was made a line before

    def test_one_dirty_disk_keeps_its_clean_sister(self, bench: Bench, capsys: Capture) -> None:
        sh("mkfs.ext4", "-q", bench.disk("S1"))
        bench.disk("S2")
        assert "carries ext4" in bench.refused(volume(bench, "S1", "S2", wipe=["S2"]), capsys)
        assert "carries ext4" in bench.refused(volume(bench, "S2", "S1", wipe=["S2"]), capsys)

    @pytest.mark.usefixtures("mounted")
    def test_a_mounted_disk_even_when_it_is_listed(self, bench: Bench, capsys: Capture) -> None:
        bench.disk("S2")
        step = volume(bench, "S2", "S1", wipe=["S1", "S2"])
        assert "is mounted at" in bench.refused(step, capsys)

    def test_one_disk_is_never_its_own_cache(self, bench: Bench, capsys: Capture) -> None:
        bench.disk("S1")
        step = volume(bench, "S1", "S1")
        assert "lead to one disk" in bench.refused(step, capsys)

    def test_what_lies_behind_a_lost_table(self, bench: Bench, capsys: Capture) -> None:
        """LVM would ask about it when the disk is half taken already."""
        device = bench.disk("S1")
        sh("mkfs.ext4", "-q", "-E", f"offset={MIB}", device, "60M")
        assert sh("wipefs", device) == ""
        bench.disk("S2")
        step = volume(bench, "S1", "S2")
        assert "carries ext4 at 1 MiB" in bench.refused(step, capsys)

    def test_nothing_is_begun_that_lvm_would_not_end(
        self, bench: Bench, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.disk("S1")
        second = Path(bench.disk("S2")).name
        real = bench.guard.word
        other = f"/sys/block/{second}/queue/logical_block_size"
        monkeypatch.setattr(
            bench.guard, "word", lambda path: "4096" if path == other else real(path)
        )
        assert "blocks of 4096 and 512 bytes" in bench.refused(volume(bench, "S1", "S2"), capsys)

    def test_one_that_is_there_is_never_made_again(self, bench: Bench, capsys: Capture) -> None:
        bench.disk("S1")
        bench.disk("S2")
        row = {"pv_name": "/dev/sdz", "pv_missing": "", "vg_name": "x", "pv_uuid": "y"}
        for known in ({"vg_name": "nodeprep_t"}, {"pv_uuid": CACHE}):
            bench.physical = [{**row, **known}]
            assert "is there already" in bench.refused(volume(bench, "S1", "S2"), capsys)
        bench.physical = []
        step = volume(bench, "S1", "S2", name="null")
        assert "no volume group can have that name" in bench.refused(step, capsys)

    def test_only_what_carries_its_labels_is_started(self, bench: Bench, capsys: Capture) -> None:
        bench.disk("S1")
        bench.disk("S2")
        step = volume(bench, "S1", "S2", action="activate")
        assert "is not the physical volume" in bench.refused(step, capsys)

    def test_its_filesystem_only_where_it_is(self, bench: Bench, capsys: Capture) -> None:
        step = bench.step(action="format", volume="nodeprep_t")
        assert "volume nodeprep_t is not there" in bench.refused(step, capsys)


def test_it_looks_without_touching(bench: Bench) -> None:
    sh("mkfs.ext4", "-q", bench.disk("S1"))
    before = bench.content()
    found = bench.guard.look()
    assert found.keys() == {"disks", "arrays", "lvm", "volumes", "devices"}
    assert bench.guard.look("cached_volume")["lvm"] == {
        "installed": True, "physical": [], "logical": [],
    }  # fmt: skip
    assert bench.content() == before
