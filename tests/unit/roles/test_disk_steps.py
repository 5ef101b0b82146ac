"""What plain ansible-playbook, or nodeprep's plan, makes the node do to its disks."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from nodeprep.probe import reader
from tests.unit.judge.layouts import FOREIGN, OURS
from tests.unit.judge.test_choice import ansible
from tests.unit.judge.test_claims import CASES, load
from tests.unit.judge.test_writes import (
    ARRAY,
    ASLEEP,
    LABELLED,
    ON_ARRAY,
    ON_DISK,
    ON_VOLUME,
    RUNNING,
    VOLUME,
    XFS,
    disk,
    look,
    lvm,
    slow,
)

Data = dict[str, Any]
ROOT = Path(__file__).parents[3]
DISKS = [disk(1), disk(2)]


def steps(*claims: Data, planned: Any = None, check: bool = False, **found: Any) -> list[Data]:
    seen: Data = {
        "disks": DISKS, "arrays": [], "volumes": [], "devices": [],
        "lvm": {"installed": True, "physical": [], "logical": []}, **found,
    }  # fmt: skip
    seen["disks"] = [one.model_dump(mode="json") for one in seen["disks"]]
    raw = [{**claim, "notify": []} for claim in claims]
    made: list[Data] = ansible().disk_steps(raw, "nvme_cache", seen, planned, check)
    return made


def refusal(*claims: Data, **found: Any) -> str:
    (step,) = steps(*claims, **found)
    return str(step["refused"])


def running(**change: Any) -> Data:
    return {**RUNNING, "in_use": [], **change}


def test_what_is_planned_is_what_both_decide() -> None:
    found, _ = look(ARRAY, ON_DISK, disks=(disk(1), disk(2), disk(3)))
    made = steps(ARRAY, ON_DISK, disks=[disk(1), disk(2), disk(3)])
    assert [(s["claim"], s["action"], s["disks"]) for s in made] == [
        (w.claim, w.action, [d.model_dump() for d in w.disks]) for w in found.todo
    ]


def test_a_step_says_all_that_the_node_is_told() -> None:
    (step,) = steps({**ARRAY, "wipe": ["S9"]})
    assert step["name"] == "cache"
    assert (step["uuid"], step["level"], step["chunk_kib"]) == (OURS, 0, 512)
    assert step["wipe"] == ["S9"]


class TestUnderNodeprep:
    PLAN = {"nvme_cache/array:cache": {"action": "create", "disks": [
        {"id": "nvme-A_S7", "serial": "S7", "wwn": None, "size_bytes": 1}]}}  # fmt: skip

    def test_the_planned_disks_are_taken_whatever_the_rule_would_say_now(self) -> None:
        (step,) = steps(ARRAY, planned=self.PLAN)
        assert [one["id"] for one in step["disks"]] == ["nvme-A_S7"]

    def test_what_nobody_confirmed_is_not_done(self) -> None:
        assert "when the plan was made" in refusal(ARRAY, planned={})
        other = {"nvme_cache/array:cache": {"action": "assemble", "disks": []}}
        assert "the plan was to assemble it" in refusal(ARRAY, planned=other)


class TestWhatIsThere:
    def test_is_left_alone(self) -> None:
        assert steps(ARRAY, arrays=[running()]) == []
        there = {"name": "md127", "type": "raid0", "fstype": "xfs", "uuid": XFS}
        assert steps(ON_ARRAY, arrays=[running()], devices=[there]) == []

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"degraded": 1}, "1 members missing"),
            ({"chunk_kib": 64}, "('raid0', 64, 2)"),
            ({"level": "raid5"}, "raid5"),
            ({"state": "broken"}, "state broken"),
            ({"names": []}, "runs as md127"),
            ({"uuid": FOREIGN}, "another array has its name"),
        ],
    )
    def test_and_not_as_claimed_is_refused(self, change: Data, why: str) -> None:
        assert why in refusal(ARRAY, arrays=[running(**change)])

    def test_a_filesystem_elsewhere(self) -> None:
        there = {"name": "sdz", "type": "disk", "fstype": "xfs", "uuid": XFS}
        assert "xfs on sdz" in refusal(ON_ARRAY, arrays=[running()], devices=[there])
        twice = [{**there, "name": name, "uuid": FOREIGN} for name in ("sdy", "sdz")]
        assert "not as claimed" in refusal(ON_DISK, devices=twice)


class TestFilesystems:
    def test_only_on_an_array_that_is_there_and_empty(self) -> None:
        (step,) = steps(ON_ARRAY, arrays=[running()])
        assert (step["action"], step["disks"]) == ("format", [])
        assert "is not there" in refusal(ON_ARRAY)
        full = [running(in_use=["signature ext4"])]
        assert "carries signature ext4" in refusal(ON_ARRAY, arrays=full)

    def test_in_check_mode_the_array_would_be_there(self) -> None:
        (step,) = steps(ON_ARRAY, check=True)
        assert step["refused"] == ""


class TestCachedVolumes:
    PAIR = [disk(1), slow(2)]

    def test_what_is_planned_is_what_both_decide(self) -> None:
        found, _ = look(VOLUME, disks=tuple(self.PAIR))
        (step,) = steps({**VOLUME, "mode": "writethrough"}, disks=self.PAIR)
        assert (step["action"], step["disks"]) == (
            "cache", [d.model_dump() for d in found.todo[0].disks],
        )  # fmt: skip
        assert [step[k] for k in ("name", "origin_uuid", "cache_uuid", "mode")] == [
            "cache", VOLUME["origin_uuid"], VOLUME["cache_uuid"], "writethrough",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "path", [c for c in CASES if c.parent.name == "cached_volume"], ids=lambda path: path.stem
    )
    def test_what_is_there_is_judged_as_nodeprep_judges_it(self, path: Any) -> None:
        """Left alone when it passes, started when it is only not active, else refused."""
        case = load(path)
        data = (case["reading"] or {}).get("data") or {}
        if not data.get("physical"):
            pytest.skip("nothing of it is there")
        made = steps(case["claim"], lvm=data, disks=[])
        refused = made[0]["refused"] if made else ""
        if path.stem == "inactive":
            assert refused == "LVM knows it, and its two disks were not found"
        elif path.stem == "none":
            assert "may be written" in refused
        else:
            assert bool(refused) == (case["verdict"] != "pass"), made

    def test_one_that_is_not_active_is_started(self) -> None:
        unknown: Data = {"installed": False, "physical": [], "logical": []}
        for known in ({"installed": True, **lvm(**ASLEEP)}, unknown):
            (step,) = steps(VOLUME, lvm=known, disks=LABELLED)
            assert (step["action"], len(step["disks"])) == ("activate", 2)

    def test_a_half_is_never_completed(self) -> None:
        why = refusal({**VOLUME, "wipe": ["S1"]}, disks=[LABELLED[0], *self.PAIR[:1], slow(4)])
        assert "1 of its 2 disks are here" in why

    def test_its_filesystem_only_on_one_that_is_there_and_empty(self) -> None:
        there = {"device": "cache-data", "kernel": "dm-2", "in_use": []}
        (step,) = steps(ON_VOLUME, volumes=[there])
        assert (step["action"], step["disks"], step["volume"]) == ("format", [], "cache")
        assert "volume cache is not there" in refusal(ON_VOLUME)
        assert "carries xfs" in refusal(ON_VOLUME, volumes=[{**there, "in_use": ["xfs"]}])
        made = {"name": "cache-data", "type": "lvm", "fstype": "xfs", "uuid": XFS}
        assert steps(ON_VOLUME, volumes=[there], devices=[made]) == []
        assert "xfs on sdz" in refusal(ON_VOLUME, devices=[{**made, "name": "sdz"}])


def on_the_node() -> Any:
    """roles/claims/files/disks.py, which runs alone there."""
    spec = importlib.util.spec_from_file_location("g", ROOT / "roles/claims/files/disks.py")
    assert spec
    assert spec.loader
    guard = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guard)
    return guard


@pytest.mark.parametrize(
    ("name", "told", "file", "text", "way"),
    [
        ("sda", "sas", "vendor", "ATA", "sata"),
        ("sda", "sas", "vendor", "SEAGATE", "sas"),
        ("nvme0n1", "nvme", "transport", "pcie", "nvme"),
        ("nvme4n1", "nvme", "nvme7/transport", "tcp", "tcp"),
    ],
)
def test_the_node_asks_disks_how_they_are_reached_as_the_reader_does(
    tmp_path: Path, name: str, told: str, file: str, text: str, way: str
) -> None:
    path = tmp_path / "sys/block" / name / "device" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    guard = on_the_node()
    word, names = guard.word, guard.names
    guard.word, guard.names = lambda p: word(f"{tmp_path}{p}"), lambda p: names(f"{tmp_path}{p}")
    assert guard.way(name, told) == way


def test_the_node_looks_at_disks_as_the_reader_does() -> None:
    """Two programs, one view: what lsblk prints means the same to both."""
    guard = on_the_node()
    report = json.loads((ROOT / "tests/data/lsblk/server.json").read_text())
    zeros = {"serial": "0000-0000", "wwn": "0x0000000000000000"}
    report["blockdevices"].append({"name": "sdy", "type": "disk", "size": 4096, **zeros})
    ids = {"sdb": ["wwn-0x5000c500"]}
    theirs = guard.parse(report["blockdevices"], ids)
    ours = reader.parse_lsblk(report, ids)
    keys = ("name", "ids", "serial", "wwn", "model", "size_bytes", "transport", "in_use")
    assert [{k: d[k] for k in keys} for d in theirs] == [{k: d[k] for k in keys} for d in ours]
