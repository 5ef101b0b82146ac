"""What a volume of the role nvme_cache makes of claims."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nodeprep.model.claim import Array, CachedVolume, Filesystem

ROOT = Path(__file__).parents[3]
PARTS = [
    {"use": "cache", "transport": "nvme", "count": 4, "size_gb": 3840, "tolerance": 0.07},
    {"use": "data", "transport": "sata", "count": 1, "size_gb": 4000},
    {"use": "os", "transport": "nvme", "count": 1, "size_gb": 2000},
    {"use": "spare", "count": 1, "size_gb": 1},
    {"use": "spare", "count": 1, "size_gb": 2},
]
PROFILE = {"parts": {"disks": PARTS}}


@cache
def module() -> Any:
    path = ROOT / "roles" / "nvme_cache" / "filter_plugins" / "nvme_cache.py"
    spec = importlib.util.spec_from_file_location("nvme_cache_under_test", path)
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def planned(*volumes: dict[str, Any], host: str = "gpu1", site: str = "la") -> Any:
    return module().planned(list(volumes), PROFILE, host, site)


CACHE = {"path": "/cache", "use": "cache", "level": 0}
DATA = {"path": "/data/cache", "use": "data", "wipe": ["W1"]}
CACHED = {**DATA, "cache": {"use": "os"}}


def test_what_is_claimed_is_valid_and_hangs_together() -> None:
    volumes = planned(CACHE, DATA)
    (array,) = module().arrays(volumes, 512)
    claim = Array(role="r", **array)
    on_array, on_disk = (Filesystem(role="r", **one) for one in module().filesystems(volumes))
    assert (claim.name, claim.disks.count, claim.chunk_kib) == ("cache", 4, 512)
    assert (on_array.array, on_array.disks) == ("cache", None)
    assert on_disk.disks is not None
    assert (on_disk.array, on_disk.disks.transport, on_disk.wipe) == (None, "sata", ("W1",))
    mounts = module().mounts(volumes)
    assert [m["device"] for m in mounts] == [f"UUID={f.uuid}" for f in (on_array, on_disk)]
    assert set(module().uuids(volumes)) == {claim.uuid, on_array.uuid, on_disk.uuid}


def test_uuids_follow_from_site_node_and_place_alone() -> None:
    def all_of(*volumes: dict[str, Any], **where: str) -> set[str]:
        return set(module().uuids(planned(*volumes, **where)))

    assert all_of(CACHE) == all_of({**CACHE, "wipe": ["S9"]})
    assert len(all_of(CACHE, DATA)) == 3
    for other in ({"host": "gpu2"}, {"site": "sh"}):
        assert not all_of(CACHE) & all_of(CACHE, **other)


def test_a_mirror_has_no_chunk() -> None:
    (array,) = module().arrays(planned({**CACHE, "level": 1}), 512)
    assert array["chunk_kib"] is None


def test_a_rule_of_its_own() -> None:
    (volume,) = planned({"path": "/x", "disks": {"ids": ["S1"]}})
    assert volume["disks"] == {"count": 1, "ids": ["S1"]}


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({"path": "/x", "use": "none"}, "0 parts of the profile"),
        ({"path": "/x", "use": "spare"}, "2 parts of the profile"),
        ({"path": "/x", "use": "cache"}, "4 disks need a level"),
        ({"path": "/x"}, "give `use`"),
        ({"path": "/x", "use": "data", "disks": {}}, "give `use`"),
        ({"path": "/x", "use": "data", "size": 1}, "keys are"),
        ({"path": "x", "use": "data"}, "path is one"),
        ({"path": "/", "use": "data"}, "path is one"),
        ({"use": "data"}, "path is one"),
        ({"path": "/x y; rm", "use": "data"}, "path is one"),
        ({"path": "/x", "use": "data", "group": "g"}, "`group` is of one with a `cache`"),
        ({**CACHED, "level": 1}, "no `level` beside it"),
        ({**CACHED, "cache": "os"}, "`cache` has"),
        ({**CACHED, "cache": {"use": "os", "size": 1}}, "`cache` has"),
        ({**CACHED, "cache": {}}, "(its cache): give `use`"),
        ({**CACHED, "cache": {"use": "cache"}}, "its cache is one disk, not 4"),
        ({**CACHED, "cache": {"use": "os", "mode": "fast"}}, "writethrough or writeback, not fast"),
        ({**CACHED, "use": "cache"}, "4 disks need a level"),
    ],
)
def test_a_volume_that_is_not_clear_is_an_error(volume: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        planned(volume)


class TestCachedVolumes:
    def test_what_is_claimed_is_valid_and_hangs_together(self) -> None:
        volumes = planned(CACHED)
        (claim,) = (CachedVolume(role="r", **one) for one in module().cached(volumes))
        (filesystem,) = (Filesystem(role="r", **one) for one in module().filesystems(volumes))
        assert (claim.name, claim.mode, claim.wipe) == ("cache", "writethrough", ("W1",))
        assert (claim.origin.transport, claim.cache.transport) == ("sata", "nvme")
        assert (filesystem.volume, filesystem.array, filesystem.disks) == ("cache", None, None)
        named = {claim.origin_uuid, claim.cache_uuid, filesystem.uuid}
        assert set(module().uuids(volumes)) == named
        assert module().arrays(volumes, 512) == module().lines(volumes) == []
        assert module().geometry(volumes, 512) == []
        # The kernel's mount table never shows LVM's volumes by another name.
        (mount,) = module().mounts(volumes)
        assert mount["device"] == "/dev/mapper/cache-data"

    def test_what_the_inventory_says_of_it(self) -> None:
        cache = {"disks": {"ids": ["S1"]}, "mode": "writeback"}
        (one,) = module().cached(planned({**CACHED, "cache": cache, "group": "big-data"}))
        assert (one["name"], one["mode"]) == ("big_data", "writeback")
        assert one["cache"] == {"count": 1, "ids": ["S1"]}

    def test_its_uuids_follow_from_site_node_and_group(self) -> None:
        def pair(**where: str) -> set[str]:
            (one,) = module().cached(planned(CACHED, **where))
            return {one["origin_uuid"], one["cache_uuid"]}

        assert len(pair()) == 2
        assert pair() == pair()
        assert not pair() & pair(host="gpu2")

    def test_none_of_it_where_no_volume_has_a_cache(self) -> None:
        assert module().cached(planned(CACHE, DATA)) == []

    def test_two_of_one_group_are_an_error(self) -> None:
        with pytest.raises(ValueError, match="one volume group"):
            planned(CACHED, {**CACHED, "path": "/other/cache"})

    def test_schedulers_by_disk_for_a_volume_has_none_of_its_own(self) -> None:
        volumes = planned(CACHED)
        read_ahead, scheduler = module().settings(volumes, "none", 4096)
        assert read_ahead["name"] == "read-ahead of /data/cache"
        assert scheduler["name"] == "scheduler of /data/cache (cache)"
        link = f"/dev/disk/by-id/lvm-pv-uuid-{volumes[0]['cache_uuid']}"
        assert link in scheduler["argv"][-1]
        assert re.search(scheduler["expect"], "[none] mq-deadline\n")
        assert not re.search(scheduler["expect"], "none [mq-deadline]\n")


def test_two_volumes_of_one_array_are_an_error() -> None:
    with pytest.raises(ValueError, match="one array"):
        planned(CACHE, {**CACHE, "path": "/other/cache"})


@pytest.mark.skipif(shutil.which("systemd-escape") is None, reason="no systemd here")
@pytest.mark.parametrize("path", ["/cache", "/data/cache", "/data/nas-1", "/srv/a.b_c/D"])
def test_units_are_named_as_systemd_names_them(path: str) -> None:
    argv = ["systemd-escape", "--path", "--suffix=mount", path]
    assert module().unit(path) == subprocess.check_output(argv, text=True).strip()


def test_a_boot_goes_on_without_the_disk() -> None:
    volumes = planned(CACHE)
    mount, device = module().unit_files(volumes, ["noatime"], 30)
    assert "Options=noatime,nofail\n" in mount["content"]
    assert f"What=/dev/disk/by-uuid/{volumes[0]['uuid']}\n" in mount["content"]
    escaped = volumes[0]["uuid"].replace("-", r"\x2d")
    assert device["name"].endswith(rf"dev-disk-by\x2duuid-{escaped}.device.d/60-nodeprep.conf")
    assert "JobRunningTimeoutSec=30" in device["content"]
    late = rf"WantedBy=local-fs.target dev-disk-by\x2duuid-{escaped}.device"
    assert late in mount["content"].splitlines()


XFS_INFO = """\
meta-data=/dev/md127             isize=512    agcount=16, agsize=122080384 blks
         =                       crc=1        finobt=1, sparse=1, rmapbt=0
data     =                       bsize=4096   blocks=1953286144, imaxpct=5
         =                       sunit=128    swidth={width} blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=521728, version=2
         =                       sectsz=512   sunit=8 blks, lazy-count=1
"""


@pytest.mark.parametrize(("level", "width"), [(0, 512), (5, 384), (10, 256)])
def test_stripes_as_xfs_info_prints_them(level: int, width: int) -> None:
    (claim,) = module().geometry(planned({**CACHE, "level": level}), 512)
    assert re.search(claim["expect"], XFS_INFO.format(width=width), re.MULTILINE)
    assert not re.search(claim["expect"], XFS_INFO.format(width=width + 128), re.MULTILINE)


def test_neither_a_mirror_nor_a_plain_disk_has_stripes() -> None:
    assert module().geometry(planned({**CACHE, "level": 1}, DATA), 512) == []


@pytest.mark.parametrize(
    ("said", "holds"),
    [
        ("[none] mq-deadline kyber\n", True),
        ("mq-deadline [none]\n", True),
        ("none\n", True),
        ("none [mq-deadline]\n", False),
        ("[none] mq-deadline\nnone [mq-deadline]\n", False),
        ("", False),
    ],
)
def test_the_scheduler_of_every_member(said: str, holds: bool) -> None:
    _, claim = module().settings(planned(CACHE), "none", 4096)
    assert bool(re.search(claim["expect"], said, re.MULTILINE)) == holds


def test_the_line_of_an_array_is_there_once() -> None:
    volumes = planned(CACHE)
    (line,) = module().lines(volumes)
    (claim,) = module().configured(volumes)
    good = f"ARRAY /dev/md/cache UUID={line['uuid']}\n"
    assert re.fullmatch(r"([0-9a-f]{8}:){3}[0-9a-f]{8}", line["uuid"])
    assert re.search(claim["expect"], good)
    assert not re.search(claim["expect"], good + good.replace("/cache", "/127"))
    assert not re.search(claim["expect"], good.replace("/cache", "/127"))
