"""What the plan would write to disks, and which plans are refused as a whole."""

from __future__ import annotations

import datetime as dt
from typing import Any

from nodeprep.judge.claims import judge_document
from nodeprep.judge.plan import plan
from nodeprep.judge.writes import Writes, writes
from nodeprep.model.hardware import Disk, Hardware
from nodeprep.model.plan import NodePlan
from nodeprep.model.reading import Reading
from tests.unit.judge.layouts import CACHE, FOREIGN, LVM, MD, ORIGIN, OURS
from tests.unit.judge.nodes import document, reading

XFS = "7f9619ff-8b86-5d01-b42d-00cf4fc964ff"
ARRAY = {
    "kind": "array", "role": "nvme_cache", "name": "cache", "uuid": OURS, "level": 0,
    "chunk_kib": 512, "disks": {"count": 2, "transport": "nvme", "size_gb": 1000},
}  # fmt: skip
ON_ARRAY = {
    "kind": "filesystem", "role": "nvme_cache", "name": "/cache", "uuid": XFS, "array": "cache",
}  # fmt: skip
ON_DISK = {
    "kind": "filesystem", "role": "nvme_cache", "name": "/data", "uuid": FOREIGN,
    "disks": {"count": 1, "transport": "nvme", "size_gb": 1000},
}  # fmt: skip
VOLUME = {
    "kind": "cached_volume", "role": "nvme_cache", "name": "cache", "origin_uuid": ORIGIN,
    "cache_uuid": CACHE, "origin": {"count": 1, "transport": "sata", "size_gb": 4000},
    "cache": {"count": 1, "transport": "nvme", "size_gb": 1000},
}  # fmt: skip
ON_VOLUME = {
    "kind": "filesystem", "role": "nvme_cache", "name": "/cache", "uuid": XFS, "volume": "cache",
}  # fmt: skip
RUNNING = {
    "device": "md127", "uuid": OURS, "names": ["cache"], "level": "raid0", "chunk_kib": 512,
    "raid_disks": 2, "state": "clean", "degraded": 0, "sync": None,
    "members": ["nvme0n1", "nvme1n1"],
}  # fmt: skip


def disk(number: int, *in_use: str, arrays: tuple[str, ...] = (), **other: Any) -> Disk:
    values: dict[str, Any] = {
        "name": f"nvme{number}n1", "serial": f"S{number}", "ids": (f"nvme-A_S{number}",),
        "model": "A", "size_bytes": 10**12, "transport": "nvme", "in_use": in_use,
        "arrays": arrays, **other,
    }  # fmt: skip
    return Disk(**values)


def slow(number: int, *in_use: str, **other: Any) -> Disk:
    """A big SATA disk."""
    size = {"size_bytes": 4 * 10**12, "transport": "sata", "name": f"sd{number}"}
    return disk(number, *in_use, **{**size, **other})


def lvm(**change: Any) -> dict[str, Any]:
    """The volume as it was made; `change`: of its logical volume."""
    layer = {"group": "cache", "segtype": "linear", "mode": "", "attr": "owi-aoC---", "health": "",
             "check": "", "origin": "", "cache": ""}  # fmt: skip
    whole = {
        **layer, "name": "data", "segtype": "cache", "mode": "writethrough", "attr": "Cwi-a-C---",
        "origin": "data_corig", "cache": "cache_cvol", "devices": ["data_corig"], **change,
    }  # fmt: skip
    disks = ((ORIGIN, "/dev/sda"), (CACHE, "/dev/nvme0n1"))
    return {
        "physical": [
            {"uuid": uuid, "device": device, "group": "cache", "missing": False}
            for uuid, device in disks
        ],
        "logical": [
            whole,
            {**layer, "name": "data_corig", "devices": ["/dev/sda"]},
            {**layer, "name": "cache_cvol", "devices": ["/dev/nvme0n1"]},
        ],
    }


ASLEEP = {"attr": "Cwi---C---", "check": "unknown"}
LABELLED = (
    slow(1, f"signature {LVM}", physical_volumes=(ORIGIN,)),
    disk(2, f"signature {LVM}", physical_volumes=(CACHE,)),
)


def look(
    *claims: dict[str, Any],
    disks: tuple[Disk, ...] | None = (disk(1), disk(2)),
    arrays: list[dict[str, Any]] | None = None,
    filesystem: dict[str, Any] | None = None,
    volume: dict[str, Any] | None = None,
    error: str = "",
) -> tuple[Writes, NodePlan]:
    target = document(list(claims), roles=("nvme_cache",))
    data = {
        "array": {"arrays": arrays or []},
        "cached_volume": {"installed": True, "physical": [], "logical": [], **(volume or {})},
        "filesystem": {"devices": [], "below": None, "below_in_use": [], **(filesystem or {})},
    }
    found = reading(
        readings={c.id: Reading(data=data[c.kind], error=error) for c in target.claims},
        hardware=Hardware(disks=disks),
    )
    verdicts = judge_document(target, found, dt.date(2026, 1, 1))
    wanted = writes(target, verdicts, found)
    return wanted, plan(target, verdicts, (), wanted)


def test_a_new_array_and_its_filesystem() -> None:
    found, planned = look(ARRAY, ON_ARRAY)
    assert [(w.claim, w.action, [d.id for d in w.disks]) for w in found.todo] == [
        ("nvme_cache/array:cache", "create", ["nvme-A_S1", "nvme-A_S2"]),
        ("nvme_cache/filesystem:/cache", "format", []),
    ]
    assert planned.disks == (
        "nvme-A_S1 (nvme1n1, 1000 GB, serial S1) for raid0 cache",
        "nvme-A_S2 (nvme2n1, 1000 GB, serial S2) for raid0 cache",
        "array cache: xfs for /cache, where none is",
    )
    assert planned.writes == tuple(found.todo)
    assert not planned.conflicts


def test_ansible_is_told_what_must_stand_behind_the_name() -> None:
    found, _ = look(ARRAY)
    assert found.todo[0].disks[0].model_dump() == {
        "id": "nvme-A_S1", "serial": "S1", "wwn": None, "size_bytes": 10**12,
    }  # fmt: skip


def test_a_refusal_stops_the_node_before_anything_is_changed() -> None:
    found, planned = look(ARRAY, ON_ARRAY, disks=(disk(1), disk(2, "signature ext4")))
    assert not found.todo
    assert planned.disks == ()
    assert len(planned.conflicts) == 2
    assert "nvme-A_S2 (nvme2n1, 1000 GB, serial S2): signature ext4" in planned.conflicts[0]
    assert "array cache is not there, and is not made either" in planned.conflicts[1]


def test_what_is_erased_is_said() -> None:
    wiping = {**ARRAY, "wipe": ["S2"]}
    _, planned = look(wiping, disks=(disk(1), disk(2, "signature ext4")))
    assert "ERASING signature ext4" in planned.disks[1]


def test_two_claims_never_take_one_disk() -> None:
    found, _ = look(ARRAY, ON_DISK, disks=(disk(1), disk(2)))
    assert [w.claim for w in found.todo] == ["nvme_cache/array:cache"]
    assert "filesystem /data: 0 of 1x 1000 GB nvme may be written" in found.refusals[0]
    found, _ = look(ARRAY, ON_DISK, disks=(disk(1), disk(2), disk(3)))
    taken = [d.id for w in found.todo for d in w.disks]
    assert sorted(taken) == ["nvme-A_S1", "nvme-A_S2", "nvme-A_S3"]


def test_one_that_is_there_is_never_made_again() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"degraded": 1},
        {"chunk_kib": 64},
        {"state": "broken"},
        {"names": []},
    ]
    for change in changes:
        found, planned = look(ARRAY, arrays=[{**RUNNING, **change}])
        assert not found.todo, change
        assert not planned.disks
    rebuilt = {**RUNNING, "uuid": FOREIGN}
    found, _ = look(ARRAY, arrays=[rebuilt])
    assert not found.todo


def test_an_array_that_does_not_run_is_started_and_not_made() -> None:
    members = tuple(disk(n, f"signature {MD}", arrays=(OURS.upper(),)) for n in (1, 2))
    found, planned = look(ARRAY, disks=members)
    assert [(w.action, len(w.disks)) for w in found.todo] == [("assemble", 2)]
    assert planned.disks == ()


def test_a_running_array_gets_its_filesystem_only_while_nothing_is_on_it() -> None:
    there = {"below": "md127"}
    found, _ = look(ARRAY, ON_ARRAY, arrays=[RUNNING], filesystem=there)
    assert [w.action for w in found.todo] == ["format"]
    full = {**there, "below_in_use": ["signature ext4"]}
    found, _ = look(ARRAY, ON_ARRAY, arrays=[RUNNING], filesystem=full)
    assert not found.todo
    assert "carries what provision did not make: signature ext4" in found.refusals[0]


def test_a_filesystem_elsewhere_is_left_alone() -> None:
    there = {"devices": [{"name": "sdz", "type": "disk", "fstype": "xfs"}]}
    found, _ = look(ON_DISK, filesystem={**there, "devices": there["devices"] * 2})
    assert not found.todo


class TestCachedVolumes:
    def test_a_new_one_and_its_filesystem(self) -> None:
        found, planned = look(VOLUME, ON_VOLUME, disks=(disk(1), slow(2)))
        assert [(w.claim, w.action, [d.id for d in w.disks]) for w in found.todo] == [
            ("nvme_cache/cached_volume:cache", "cache", ["nvme-A_S2", "nvme-A_S1"]),
            ("nvme_cache/filesystem:/cache", "format", []),
        ]
        assert planned.disks == (
            "nvme-A_S2 (sd2, 4000 GB, serial S2) for volume cache",
            "nvme-A_S1 (nvme1n1, 1000 GB, serial S1) for writethrough cache of volume cache",
            "volume cache: xfs for /cache, where none is",
        )
        assert not planned.conflicts

    def test_it_shares_no_disk_with_another_claim(self) -> None:
        found, _ = look(ON_DISK, VOLUME, disks=(disk(1), slow(2)))
        assert [w.claim for w in found.todo] == ["nvme_cache/filesystem:/data"]
        assert "cached volume cache: 0 of 1x 1000 GB nvme may be written" in found.refusals[0]

    def test_a_refused_disk_stops_the_node(self) -> None:
        found, planned = look(VOLUME, ON_VOLUME, disks=(disk(1, "signature ext4"), slow(2)))
        assert not found.todo
        assert "signature ext4" in planned.conflicts[0]
        assert "volume cache is not there, and is not made either" in planned.conflicts[1]

    def test_one_that_is_there_is_never_made_again(self) -> None:
        changes: list[dict[str, Any]] = [
            {}, {"mode": "writeback"}, {"segtype": "linear"}, {"health": "failed"},
            {"check": "check needed"}, {"name": "other"},
        ]  # fmt: skip
        for change in changes:
            found, planned = look(VOLUME, volume=lvm(**change), disks=(disk(1), slow(2)))
            assert not found.todo, change
            assert not planned.disks
        half = {**lvm(), "physical": lvm()["physical"][:1]}
        found, _ = look(VOLUME, volume=half, disks=(disk(1), slow(2)))
        assert not found.todo

    def test_one_that_is_not_active_is_started_and_not_made(self) -> None:
        for volume in (lvm(**ASLEEP), {"installed": False}):
            found, planned = look(VOLUME, volume=volume, disks=LABELLED)
            assert [(w.action, len(w.disks)) for w in found.todo] == [("activate", 2)]
            assert planned.disks == ()

    def test_what_lvm_knows_and_no_disk_carries_is_refused(self) -> None:
        found, _ = look(VOLUME, volume=lvm(**ASLEEP), disks=(disk(1), slow(2)))
        assert not found.todo
        assert "LVM knows it, and its two disks were not found" in found.refusals[0]

    def test_a_half_that_lvm_does_not_know_is_refused(self) -> None:
        found, _ = look(VOLUME, disks=(*LABELLED[:1], disk(3)))
        assert not found.todo
        assert "1 of its 2 disks are here" in found.refusals[0]

    def test_its_filesystem_only_while_nothing_is_on_it(self) -> None:
        there = {"below": "cache-data"}
        found, _ = look(VOLUME, ON_VOLUME, volume=lvm(), filesystem=there)
        assert [w.action for w in found.todo] == ["format"]
        full = {**there, "below_in_use": ["signature ext4"]}
        found, _ = look(VOLUME, ON_VOLUME, volume=lvm(), filesystem=full)
        assert not found.todo
        assert "volume cache carries what provision did not make" in found.refusals[0]


def test_what_was_not_read_is_not_written() -> None:
    found, planned = look(ARRAY, ON_ARRAY, error="/sys/block: denied")
    assert not found.todo
    assert all("could not be told" in line for line in planned.conflicts)
    found, _ = look(ARRAY, disks=None)
    assert found.refusals == ["array cache: the disks could not be read"]
    found, _ = look(VOLUME, disks=None)
    assert found.refusals == ["cached volume cache: the disks could not be read"]


def test_a_claim_that_does_not_apply_writes_nothing() -> None:
    claim = {**ARRAY, "applies": False, "why": "a container"}
    found, planned = look(claim)
    assert not found.todo
    assert planned.empty
