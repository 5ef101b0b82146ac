"""Filters of the role nfs_client: what one mount makes of units. Pure, for Ansible and nodeprep."""

from __future__ import annotations

import re
from typing import Any

Mount = dict[str, Any]  # path, device

MOUNT = """\
# Written by Ansible, role nfs_client.
[Unit]
Description={device} at {path}
Wants=network-online.target
After=network-online.target
# Else systemd gives up after five failures in ten seconds, for good: a dead NAS comes back one day.
StartLimitIntervalSec=0

[Mount]
What={device}
Where={path}
Type=nfs
Options={options}
TimeoutSec={timeout_s}

[Install]
WantedBy=remote-fs.target
"""
AUTOMOUNT = """\
# Written by Ansible, role nfs_client.
[Unit]
Description={device} at {path}, when it is first used

[Automount]
Where={path}

[Install]
WantedBy=remote-fs.target
"""


def unit(path: str) -> str:
    """A path as systemd-escape --path writes it: / becomes -, and what is odd its code.

    >>> unit("/data/nas-1")
    'data-nas\\\\x2d1'
    """
    parts = [part for part in path.split("/") if part]
    return "-".join(re.sub(r"[^A-Za-z0-9:_.]", _code, part) for part in parts)


def _code(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match.group().encode())


def unit_files(
    mounts: list[Mount], version: str, options: list[str], timeout_s: int
) -> list[Mount]:
    """The .mount and .automount of every mount, as claims on files."""
    joined = ",".join([f"vers={version}", *options, "_netdev", "nofail"])
    found = []
    for mount in mounts:
        values = {**mount, "options": joined, "timeout_s": timeout_s}
        name = f"/etc/systemd/system/{unit(mount['path'])}"
        found.append({"name": f"{name}.mount", "content": MOUNT.format_map(values)})
        found.append({"name": f"{name}.automount", "content": AUTOMOUNT.format_map(values)})
    return found


def services(mounts: list[Mount]) -> list[Mount]:
    """Both units of every mount, as claims on services: the automount first.

    That the other one is active is the claim on the mount, which tells a dead NAS from a fault.
    """
    return [
        {"name": f"{unit(mount['path'])}.{kind}", "source": f"mount of {mount['device']}", **active}
        for mount in mounts
        for kind, active in (("automount", {"active": True}), ("mount", {}))
    ]


def targets(mounts: list[Mount]) -> list[Mount]:
    """Every mount, as a claim on what is mounted."""
    return [{"name": mount["path"], "device": mount["device"]} for mount in mounts]


class FilterModule:
    """What Ansible finds here."""

    def filters(self) -> dict[str, Any]:
        return {
            "nfs_client_unit_files": unit_files,
            "nfs_client_services": services,
            "nfs_client_targets": targets,
        }
