"""How the reader finds arrays, LVM's volumes, filesystems, and all that lies on a disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.probe.tree import Tree

UUID = "6f9619ff-8b86-5d01-b42d-00cf4fc964ff"
FS = {"kind": "filesystem", "name": "/cache", "uuid": UUID, "array": "cache"}
LSBLK = {
    "blockdevices": [
        {"name": "vda", "type": "disk", "size": 10**10, "fstype": "ext4", "mountpoints": ["/"]},
        {"name": "nvme0n1", "type": "disk", "size": 10**12, "tran": "nvme", "serial": "S0"},
        {"name": "nvme1n1", "type": "disk", "size": 10**12, "tran": "nvme", "serial": "S1",
         "fstype": "linux_raid_member", "children": [
             {"name": "md127", "type": "raid0", "fstype": "xfs", "uuid": UUID}]},
        {"name": "nvme2n1", "type": "disk", "size": 10**12, "tran": "nvme", "serial": "S2",
         "fstype": "linux_raid_member", "children": [
             {"name": "md127", "type": "raid0", "fstype": "xfs", "uuid": UUID}]},
    ]
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.tool("lsblk", json.dumps(LSBLK))
    return tree


def array(tree: Tree, device: str = "md127", **other: str) -> None:
    values = {
        "array_state": "clean", "level": "raid0", "chunk_size": "524288", "raid_disks": "2",
        **other,
    }  # fmt: skip
    for name, text in values.items():
        tree.write(f"/sys/block/{device}/md/{name}", f"{text}\n")
    for number in (1, 2):
        tree.write(f"/sys/block/{device}/md/dev-nvme{number}n1/state", "in_sync\n")


def arrays(tree: Tree) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tree.data("array", "cache")["arrays"]
    return found


class TestArrays:
    def test_all_of_sysfs_and_udev(self, tree: Tree) -> None:
        array(tree)
        tree.link("/dev/md/cache", "../md127")
        tree.link("/dev/disk/by-id/md-uuid-6f9619ff:8b865d01:b42d00cf:4fc964ff", "../../md127")
        assert arrays(tree) == [
            {
                "device": "md127", "uuid": "6f9619ff:8b865d01:b42d00cf:4fc964ff",
                "names": ["cache"], "level": "raid0", "chunk_kib": 512, "raid_disks": 2,
                "state": "clean", "degraded": 0, "sync": None,
                "members": ["nvme1n1", "nvme2n1"], "faulty": [],
            }
        ]  # fmt: skip

    def test_a_mirror_that_lost_a_member(self, tree: Tree) -> None:
        array(tree, level="raid1", chunk_size="0", degraded="1", sync_action="recover", uuid=UUID)
        tree.write("/sys/block/md127/md/dev-nvme2n1/state", "faulty,write_error\n")
        (found,) = arrays(tree)
        assert (found["degraded"], found["sync"], found["uuid"]) == (1, "recover", UUID)
        assert found["faulty"] == ["nvme2n1"]

    def test_the_uuid_from_mdadm_when_udev_made_no_link(self, tree: Tree) -> None:
        array(tree)
        tree.tool("mdadm", "MD_LEVEL=raid0\nMD_UUID=6f9619ff:8b865d01:b42d00cf:4fc964ff\n")
        assert arrays(tree)[0]["uuid"] == "6f9619ff:8b865d01:b42d00cf:4fc964ff"

    def test_one_that_does_not_run_has_zeros_in_sysfs(self, tree: Tree) -> None:
        array(tree, uuid="00000000-0000-0000-0000-000000000000", array_state="inactive")
        tree.tool("mdadm", "MD_UUID=6f9619ff:8b865d01:b42d00cf:4fc964ff\n")
        assert arrays(tree)[0]["uuid"] == "6f9619ff:8b865d01:b42d00cf:4fc964ff"

    def test_a_uuid_that_nobody_tells(self, tree: Tree) -> None:
        array(tree)
        assert arrays(tree)[0]["uuid"] is None

    def test_none_and_one_that_was_stopped(self, tree: Tree) -> None:
        assert arrays(tree) == []
        array(tree, array_state="clear")
        assert arrays(tree) == []


# What LVM 2.03.16 prints, of a cache with all its disks and of one that lost the fast one.
PVS = """\
  {{
      "report": [
          {{
              "pv": [
                  {{"pv_uuid":"8f9619-ff8b-865d-01b4-2d00-cf4f-c964ff", "pv_name":"/dev/sda", \
"vg_name":"cache", "pv_missing":""}},
                  {{"pv_uuid":"7f9619-ff8b-865d-01b4-2d00-cf4f-c964ff", {lost}}}
              ]
          }}
      ]
  }}
"""
HERE = '"pv_name":"/dev/nvme0n1", "vg_name":"cache", "pv_missing":""'
LOST = '"pv_name":"[unknown]", "vg_name":"cache", "pv_missing":"missing"'
LVS = """\
  {
      "report": [
          {
              "lv": [
                  {"vg_name":"cache", "lv_name":"[cache_cvol]", "segtype":"linear", \
"cache_mode":"", "lv_attr":"Cwi-aoC---", "lv_health_status":"", "lv_check_needed":"", \
"origin":"", "pool_lv":"", "devices":"/dev/nvme0n1(0)"},
                  {"vg_name":"cache", "lv_name":"data", "segtype":"cache", \
"cache_mode":"writethrough", "lv_attr":"Cwi-a-C---", "lv_health_status":"", \
"lv_check_needed":"", "origin":"[data_corig]", "pool_lv":"[cache_cvol]", \
"devices":"data_corig(0)"},
                  {"vg_name":"other", "lv_name":"root", "segtype":"linear", "cache_mode":"", \
"lv_attr":"-wi-ao----", "lv_health_status":"", "lv_check_needed":"unknown", "origin":"", \
"pool_lv":"", "devices":"/dev/sdb(0),/dev/sdc(1024)"}
              ]
          }
      ]
  }
"""
VOLUME = {"kind": "cached_volume", "name": "cache"}


class TestCachedVolumes:
    @pytest.fixture(autouse=True)
    def tools(self, tree: Tree) -> None:
        tree.tool("pvs", PVS.format(lost=HERE), err="  WARNING: something that LVM noticed")
        tree.tool("lvs", LVS)

    def test_all_of_its_group_and_every_physical_volume(self, tree: Tree) -> None:
        found = tree.data(**VOLUME)
        assert found["installed"]
        assert [(one["device"], one["group"]) for one in found["physical"]] == [
            ("/dev/sda", "cache"), ("/dev/nvme0n1", "cache"),
        ]  # fmt: skip
        assert [one["name"] for one in found["logical"]] == ["cache_cvol", "data"]
        assert found["logical"][1] == {
            "group": "cache", "name": "data", "segtype": "cache", "mode": "writethrough",
            "attr": "Cwi-a-C---", "health": "", "check": "", "origin": "data_corig",
            "cache": "cache_cvol", "devices": ["data_corig"],
        }  # fmt: skip
        assert found["logical"][0]["devices"] == ["/dev/nvme0n1"]
        (other,) = tree.data(**{**VOLUME, "name": "other"})["logical"]
        assert other["devices"] == ["/dev/sdb", "/dev/sdc"]

    def test_what_is_no_physical_volume_is_left_out(self, tree: Tree) -> None:
        tree.tool(
            "pvs", PVS.format(lost=HERE).replace("7f9619-ff8b-865d-01b4-2d00-cf4f-c964ff", "")
        )
        assert len(tree.data(**VOLUME)["physical"]) == 1

    def test_a_disk_that_is_missing(self, tree: Tree) -> None:
        tree.tool("pvs", PVS.format(lost=LOST))
        assert tree.data(**VOLUME)["physical"][1] == {
            "uuid": "7f9619-ff8b-865d-01b4-2d00-cf4f-c964ff", "device": None, "group": "cache",
            "missing": True,
        }  # fmt: skip

    def test_neither_lock_nor_change(self, tree: Tree) -> None:
        tree.tool("pvs", sh='case " $* " in *" --nolocking --reportformat json "*) exit 7;; esac')
        assert "exit status 7" in tree.error(**VOLUME)

    def test_a_node_without_lvm(self, tree: Tree) -> None:
        (tree.bin / "pvs").unlink()
        assert tree.data(**VOLUME) == {"installed": False, "physical": [], "logical": []}

    @pytest.mark.parametrize(
        "out",
        ["", "garbage", "[]", "{}", '{"report": []}', '{"report": [{"pv": 1}]}',
         '{"report": [{"pv": [1]}]}', '{"report": [{"pv": [{"pv_uuid": "x"}]}]}',
         PVS.format(lost='"pv_name": "/dev/sdb", "vg_name": ')],
    )  # fmt: skip
    def test_an_answer_that_makes_no_sense_is_an_error(self, tree: Tree, out: str) -> None:
        tree.tool("pvs", out)
        assert tree.error(**VOLUME).startswith("pvs")

    def test_half_of_the_tools_is_an_error(self, tree: Tree) -> None:
        (tree.bin / "lvs").unlink()
        assert tree.error(**VOLUME) == "lvs: not found"

    def test_its_filesystem(self, tree: Tree) -> None:
        on_volume = {"kind": "filesystem", "name": "/cache", "uuid": UUID, "volume": "cache"}
        assert tree.data(**on_volume)["below"] is None
        for number, name in enumerate(("cache-data_corig", "cache-data")):
            tree.write(f"/sys/block/dm-{number}/dm/name", f"{name}\n")
            tree.write(f"/sys/block/dm-{number}/dm/uuid", f"LVM-abc{number}\n")
        tree.tool("wipefs", '{"signatures": [{"type": "xfs", "uuid": "x"}]}')
        found = tree.data(**on_volume)
        assert (found["below"], found["below_in_use"]) == ("cache-data", ["signature xfs"])
        tree.write("/sys/block/dm-1/dm/uuid", "CRYPT-LUKS2-abc\n")
        assert tree.data(**on_volume)["below"] is None


class TestFilesystems:
    def test_on_its_array(self, tree: Tree) -> None:
        tree.link("/dev/md/cache", "../md127")
        tree.tool("wipefs", '{"signatures": [{"device": "md127", "type": "xfs", "uuid": "x"}]}')
        found = tree.data(**FS)
        assert found["devices"] == [{"name": "md127", "type": "raid0", "fstype": "xfs", "ids": []}]
        assert found["below"] == "md127"
        assert found["below_in_use"] == ["signature xfs"]

    def test_a_uuid_in_capitals_and_one_that_is_nowhere(self, tree: Tree) -> None:
        assert tree.data(**{**FS, "uuid": UUID.upper()})["devices"]
        nowhere = tree.data(**{**FS, "uuid": "0" + UUID[1:]})
        assert (nowhere["devices"], nowhere["below"]) == ([], None)

    def test_an_array_whose_content_cannot_be_read(self, tree: Tree) -> None:
        tree.link("/dev/md/cache", "../md127")
        tree.tool("wipefs", rc=1, err="error: I/O error")
        (use,) = tree.data(**FS)["below_in_use"]
        assert use.startswith("content that could not be read")


def disks(tree: Tree, *claims: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = tree.read(*claims, hardware=True)["hardware"]["disks"]
    return {disk["name"]: disk for disk in found}


class TestDisks:
    def test_every_signature_counts_where_a_claim_is_about_disks(self, tree: Tree) -> None:
        both = [{"type": "ext4", "uuid": "e"}, {"type": "linux_raid_member", "uuid": UUID}]
        tree.tool("wipefs", json.dumps({"signatures": both}))
        found = disks(tree, FS)["nvme0n1"]
        assert found["in_use"] == ["signature ext4", "signature linux_raid_member"]
        assert found["arrays"] == [UUID]
        assert found["physical_volumes"] == []
        label = [{"type": "LVM2_member", "uuid": "8f9619-ff8b-865d-01b4-2d00-cf4f-c964ff"}]
        tree.tool("wipefs", json.dumps({"signatures": label}))
        found = disks(tree, VOLUME)["nvme0n1"]
        assert found["physical_volumes"] == [label[0]["uuid"]]
        assert found["in_use"] == ["signature LVM2_member"]

    def test_nobody_is_asked_where_none_is(self, tree: Tree) -> None:
        tree.tool("wipefs", sh="echo asked >&2; exit 9")
        found = disks(tree)["nvme0n1"]
        assert found["in_use"] == []
        assert "arrays" not in found

    @pytest.mark.parametrize("out", ["", '{"signatures": []}', '{"signatures": [\n\n]}'])
    def test_a_clean_disk(self, tree: Tree, out: str) -> None:
        tree.tool("wipefs", out)
        assert disks(tree, FS)["nvme0n1"]["in_use"] == []

    @pytest.mark.parametrize("out", ["garbage", "[]", '{"signatures": 1}', "{}"])
    def test_an_answer_that_makes_no_sense_keeps_the_disk(self, tree: Tree, out: str) -> None:
        tree.tool("wipefs", out)
        (use,) = disks(tree, FS)["nvme0n1"]["in_use"]
        assert use.startswith("content that could not be read")

    def test_no_wipefs_keeps_every_disk(self, tree: Tree) -> None:
        (use,) = disks(tree, FS)["nvme0n1"]["in_use"]
        assert use == "content that could not be read: wipefs: not found"

    def test_a_holder_that_lsblk_does_not_show(self, tree: Tree) -> None:
        tree.tool("wipefs", '{"signatures": []}')
        tree.write("/sys/block/nvme0n1/holders/dm-3", "")
        assert disks(tree, FS)["nvme0n1"]["in_use"] == ["holder dm-3"]
