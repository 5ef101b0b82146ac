"""What the lab asks of the machine that it runs on, and the two things that it lends and returns:
a higher inotify limit, and the folder in which network namespaces are named."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from nodeprep.errors import LabUnavailable, ToolFailure
from nodeprep.lab import cgroups, names, recipe, shell, state

# Command -> the Debian or Ubuntu package that brings it.
COMMANDS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "apt-get": "apt",
    "apt-ftparchive": "apt-utils",
    "dpkg-deb": "dpkg",
    "cc": "gcc",
    "gpg": "gpg",
    "gpgconf": "gpgconf",
    "gpg-agent": "gpg-agent",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "mount": "mount",
    "sysctl": "procps",
    "ssh-keygen": "openssh-client",
    "systemctl": "systemd",
}
# For virtual machines.
VM_COMMANDS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mkfs.ext4": "e2fsprogs",
    "unshare": "util-linux",
}
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_WANTED = 8192  # systemd takes some in each node; at 128, 20 of 50 nodes booted
_NETNS = Path("/run/netns")


def missing_packages(tier: names.Tier = "fast") -> tuple[str, ...]:
    """Debian or Ubuntu packages to install before a lab of this tier can run here."""
    commands = COMMANDS | (VM_COMMANDS if tier == "vm" else {})
    found = {package for tool, package in commands.items() if shutil.which(tool) is None}
    if not Path("/usr/include/stdio.h").is_file():
        found.add("libc6-dev")
    if not Path(recipe.KEYRING).is_file():
        found.add("debian-archive-keyring")
    return tuple(sorted(found))


def check(tier: names.Tier = "fast") -> None:
    """LabUnavailable, naming everything that this machine lacks."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root (namespaces, mounts)")
    packages = missing_packages(tier)
    if packages:
        lacks.append(f"packages {', '.join(packages)}")
    if not _overlay():
        lacks.append("overlayfs in the kernel")
    try:
        cgroups.roots()
    except LabUnavailable as problem:
        lacks.append(problem.message)
    if lacks:
        hint = f"apt-get install -y {' '.join(packages)}" if packages else "run it as root"
        if not packages and os.geteuid() == 0:
            hint = "use a Debian 12 or Ubuntu 22.04 machine, not a container"
        raise LabUnavailable(
            f"this machine cannot run the lab; missing: {'; '.join(lacks)}", hint=hint
        )


def _overlay() -> bool:
    def known() -> bool:
        return "\toverlay\n" in Path("/proc/filesystems").read_text()

    if known():
        return True
    try:
        shell.run(["modprobe", "overlay"])
    except ToolFailure:
        return False
    return known()


def _ledger() -> Path:
    return state.labs_dir() / ".host.json"


def _mounted(folder: Path) -> bool:
    """Path.is_mount does not see a folder that is mounted onto itself."""
    return folder.exists() and folder.resolve() in shell.mounts_under(folder)


def borrow() -> None:
    """Raise the limits that labs need, remembering what was there."""
    if not _ledger().exists():
        lent = {"netns_mounted": _mounted(_NETNS)}
        shell.write_atomic(_ledger(), json.dumps(lent) + "\n")
    current = int(_INOTIFY.read_text())
    if current < _INOTIFY_WANTED:
        lent = json.loads(_ledger().read_text())
        lent["max_user_instances"] = current
        shell.write_atomic(_ledger(), json.dumps(lent) + "\n")
        _INOTIFY.write_text(f"{_INOTIFY_WANTED}\n")


def give_back() -> None:
    """Put back what `borrow` changed. For the moment when the last lab is gone."""
    if not _ledger().exists():
        return
    lent = json.loads(_ledger().read_text())
    before = lent.get("max_user_instances")
    if before is not None and int(_INOTIFY.read_text()) == _INOTIFY_WANTED:
        _INOTIFY.write_text(f"{before}\n")
    # `ip netns` mounts its folder onto itself the first time; ours was the first, and it is empty.
    if not lent.get("netns_mounted", True) and _mounted(_NETNS) and not any(_NETNS.iterdir()):
        shell.run(["umount", _NETNS])
        _NETNS.rmdir()
    _ledger().unlink()
