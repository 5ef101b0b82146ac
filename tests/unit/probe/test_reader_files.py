"""How the reader reads files, directories, links and mounts, and what it never touches."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from nodeprep.probe import reader
from tests.unit.probe.tree import MOUNTINFO, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class TestFile:
    def test_one_that_is_as_wanted_sends_no_content(self, tree: Tree) -> None:
        tree.write("/etc/x.conf", "a\n", 0o640)
        data = tree.data("file", "/etc/x.conf", sha256=sha(b"a\n"))
        assert data["exists"] is True
        assert data["type"] == "file"
        assert data["mode"] == "0640"
        assert data["sha256"] == sha(b"a\n")
        assert "content" not in data

    def test_one_that_differs_sends_its_text(self, tree: Tree) -> None:
        tree.write("/etc/x.conf", "grün\n")
        assert tree.data("file", "/etc/x.conf", sha256="0" * 64)["content"] == "grün\n"

    @pytest.mark.parametrize(
        "content",
        [b"a\0b", b"\xff\xfe", b"x" * (reader.TEXT_LIMIT + 1)],
        ids=["nul", "latin", "big"],
    )
    def test_what_is_no_short_text_stays_there(self, tree: Tree, content: bytes) -> None:
        tree.write("/etc/x.conf", content)
        data = tree.data("file", "/etc/x.conf", sha256="0" * 64)
        assert data["sha256"] == sha(content)
        assert "content" not in data

    def test_a_secret_stays_there(self, tree: Tree) -> None:
        tree.write("/etc/key", "hunter2\n")
        answer = tree.read({"kind": "file", "name": "/etc/key", "sha256": "0" * 64, "secret": True})
        assert "hunter2" not in str(answer)

    def test_nothing_there(self, tree: Tree) -> None:
        assert tree.data("file", "/etc/no/such") == {"exists": False}
        tree.write("/etc/x", "")
        assert tree.data("file", "/etc/x/below") == {"exists": False}

    def test_a_link_is_a_link(self, tree: Tree) -> None:
        tree.write("/etc/real", "a")
        tree.link("/etc/x.conf", "real")
        assert tree.data("file", "/etc/x.conf")["type"] == "link"

    def test_a_fifo_does_not_hang(self, tree: Tree) -> None:
        os.mkfifo(tree.path("/etc/pipe"))
        assert tree.data("file", "/etc/pipe")["type"] == "fifo"

    def test_links_on_the_way_are_followed_inside_the_tree(self, tree: Tree) -> None:
        tree.write("/usr/lib/conf/x", "a")
        tree.link("/etc/conf", "/usr/lib/conf")
        assert tree.data("file", "/etc/conf/x")["sha256"] == sha(b"a")

    def test_all_texts_together_are_limited(self, tree: Tree) -> None:
        big = "x" * reader.TEXT_LIMIT
        for number in range(70):
            tree.write(f"/etc/{number}", big)
        claims = [{"kind": "file", "name": f"/etc/{n}", "sha256": "0" * 64} for n in range(70)]
        readings = tree.read(*claims)["readings"].values()
        sent = sum("content" in found["data"] for found in readings)
        assert 60 <= sent <= 64
        assert all(found["data"]["sha256"] for found in readings)


class TestRemote:
    """A dead server must not hang the reader, so nothing asks it."""

    NFS = MOUNTINFO + "90 22 0:50 / /data rw - nfs4 nas:/export rw,vers=4.2,addr=10.0.0.9\n"

    @pytest.mark.parametrize(
        "fstype",
        ["nfs", "nfs4", "cifs", "autofs", "fuse.sshfs", "fuse", "lustre", "wekafs", "virtiofs"],
    )
    def test_is_refused(self, tree: Tree, fstype: str) -> None:
        tree.write("/proc/self/mountinfo", self.NFS.replace("nfs4", fstype))
        tree.write("/data/x", "never read")
        for kind in ("file", "directory", "link"):
            assert f"lies on /data ({fstype})" in tree.error(kind, "/data/x")
        assert "lies on /data" in tree.error("directory", "/data")

    def test_also_behind_links(self, tree: Tree) -> None:
        tree.write("/proc/self/mountinfo", self.NFS)
        tree.link("/opt/shared", "/srv/../data")
        tree.write("/srv/x", "")
        assert "lies on /data" in tree.error("file", "/opt/shared/x")
        assert tree.data("link", "/opt/shared")["target"] == "/srv/../data"

    def test_a_neighbour_with_the_same_beginning_is_local(self, tree: Tree) -> None:
        tree.write("/proc/self/mountinfo", self.NFS)
        tree.write("/database/x", "a")
        assert tree.data("file", "/database/x")["exists"]

    def test_links_that_go_in_circles(self, tree: Tree) -> None:
        tree.link("/etc/a", "/etc/b")
        tree.link("/etc/b", "/etc/a")
        assert "too many links" in tree.error("file", "/etc/a/x")

    def test_without_a_mount_table_nothing_is_touched(self, tree: Tree) -> None:
        tree.write("/proc/self/mountinfo", "")
        tree.write("/etc/x", "a")
        assert "mountinfo" in tree.error("file", "/etc/x")


def test_a_directory_and_the_link_to_it(tree: Tree) -> None:
    tree.write("/srv/real/x", "")
    tree.path("/srv/real").chmod(0o750)
    tree.link("/srv/link", "real")
    for name in ("/srv/real", "/srv/link"):
        data = tree.data("directory", name)
        assert (data["type"], data["mode"]) == ("directory", "0750")
    assert tree.data("link", "/srv/link")["target"] == "real"
    assert "target" not in tree.data("link", "/srv/real")


def test_owners_come_from_the_files_alone(tree: Tree) -> None:
    path = tree.write("/etc/x", "")
    data = tree.data("file", "/etc/x")
    owner = path.stat().st_uid
    assert data["owner"] == ("root" if owner == 0 else str(owner))


class TestMount:
    LINES = (
        MOUNTINFO
        + "80 22 0:40 / /data rw,relatime - autofs systemd-1 rw,fd=57\n"
        + "90 80 0:50 / /data rw,noatime - nfs4 nas:/export/my\\040data rw,vers=4.2,nconnect=8\n"
        + "95 22 9:0 / /cache rw,noatime - xfs /dev/md127 rw,attr2\n"
    )

    def test_automounted_nfs(self, tree: Tree) -> None:
        tree.write("/proc/self/mountinfo", self.LINES)
        tree.write("/etc/fstab", "# x\nnas:/export/my\\040data /data/ nfs4 nofail,vers=4.2 0 0\n")
        data = tree.data("mount", "/data", device="nas:/export/my data")
        assert data["mounted"] is True
        assert data["automount"] is True
        assert data["device"] == "nas:/export/my data"
        assert data["fstype"] == "nfs4"
        assert data["options"] == ["rw", "noatime", "vers=4.2", "nconnect=8"]
        assert data["fstab"] == ["nofail", "vers=4.2"]

    def test_an_automount_that_waits(self, tree: Tree) -> None:
        waiting = "".join(line for line in self.LINES.splitlines(True) if "nfs4" not in line)
        tree.write("/proc/self/mountinfo", waiting)
        tree.write("/etc/fstab", "nas:/export /data nfs4 nofail,x-systemd.automount 0 0\n")
        data = tree.data("mount", "/data", device="nas:/export")
        assert (data["mounted"], data["automount"]) == (False, True)
        assert (data["device"], data["fstype"]) == ("nas:/export", "nfs4")

    def test_not_mounted(self, tree: Tree) -> None:
        data = tree.data("mount", "/data", device="nas:/export")
        assert (data["mounted"], data["automount"], data["device"]) == (False, False, None)

    def test_a_device_by_uuid(self, tree: Tree) -> None:
        tree.write("/proc/self/mountinfo", self.LINES)
        tree.write("/dev/md127", "")
        tree.link("/dev/disk/by-uuid/6e0f", "../../md127")
        data = tree.data("mount", "/cache", device="UUID=6e0f")
        assert data["device"] == data["device_is"] == "/dev/md127"
