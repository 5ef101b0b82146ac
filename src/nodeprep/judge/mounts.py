"""The judge of mounted filesystems: device, type, and which options are in force."""

from __future__ import annotations

from nodeprep.judge import text
from nodeprep.judge.finding import Finding
from nodeprep.judge.shapes import MountData
from nodeprep.model.claim import Mount

# What only mount(8) and systemd read: the kernel does not show it, fstab does.
_USERSPACE = frozenset(
    {"auto", "noauto", "user", "nouser", "users", "owner", "group"}
    | {"_netdev", "nofail", "defaults", "bg", "fg", "intr", "nointr"}
)
_IMPLIED = {"suid": "nosuid", "exec": "noexec", "dev": "nodev", "async": "sync"}  # unless …
_ALIASES = {"tcp": "proto=tcp", "udp": "proto=udp", "rdma": "proto=rdma"}
_AUTOMOUNT = "x-systemd.automount"
_ATTRIBUTE_CACHE = ("acregmin", "acregmax", "acdirmin", "acdirmax")


def wanted_mount(claim: Mount) -> str:
    options = f" ({','.join(claim.options)})" if claim.options else ""
    return f"{claim.device} mounted as {claim.fstype}{options}"


def judge_mount(claim: Mount, data: MountData) -> Finding:
    armed = data.automount and _AUTOMOUNT in claim.options
    if not data.mounted and data.automount and not armed:
        # It was claimed as mounted; to try whether it can be would hang with a dead server.
        reason = f"it waits for its first use: whether {claim.device} answers is not known"
        action = f"see whether the server answers, then use it: timeout 60 ls {claim.name}"
        return Finding("an automount, not mounted", (reason,), unknown=True, action=action)
    if not data.mounted and not armed:
        return Finding("not mounted", (f"nothing is mounted at {claim.name}",))
    problems = []
    if not _same_device(claim, data):
        problems.append(f"{data.device or 'another device'} is mounted, not {claim.device}")
    if not _same_fstype(claim.fstype, data.fstype):
        problems.append(f"its type is {data.fstype or 'not known'}, not {claim.fstype}")
    in_force = data.options if data.mounted else data.fstab or []
    missing = [option for option in claim.options if not _holds(option, in_force, data)]
    problems += [_missing(option, in_force) for option in missing]
    state = "" if data.mounted else ", waits for its first use"
    read = f"{data.device} as {data.fstype} ({','.join(in_force)}){state}"
    return Finding(text.line(read), tuple(problems))


def _same_device(claim: Mount, data: MountData) -> bool:
    if data.device is None:
        return False
    read = data.device.rstrip("/")
    names = {claim.device.rstrip("/"), (data.device_is or claim.device).rstrip("/")}
    return read in names


def _same_fstype(wanted: str, read: str | None) -> bool:
    return read == wanted or (wanted == "nfs" and read == "nfs4")


def _holds(option: str, in_force: list[str], data: MountData) -> bool:
    if option == _AUTOMOUNT:
        return data.automount or option in (data.fstab or [])
    if option in _USERSPACE or option.startswith(("x-", "comment=", "retry=")):
        return option == "defaults" or data.fstab is None or option in data.fstab
    if option in _IMPLIED:
        return _IMPLIED[option] not in in_force
    name, equals, value = _ALIASES.get(option, option).partition("=")
    name = "vers" if name == "nfsvers" else name
    if f"{name}{equals}{value}" in in_force:
        return True
    if name == "vers":  # the kernel shows the minor version that was agreed on
        return any(shown.startswith(f"vers={value}.") for shown in in_force)
    if name == "actimeo":
        return all(f"{part}={value}" in in_force for part in _ATTRIBUTE_CACHE)
    return False


def _missing(option: str, in_force: list[str]) -> str:
    name = option.partition("=")[0]
    shown = next((other for other in in_force if other.partition("=")[0] == name), None)
    but = f" but {shown}" if shown else ""
    if shown and name in ("rsize", "wsize"):  # the smaller of what client and server can
        but += " (a server may offer no more: its /proc/fs/nfsd/max_block_size)"
    return f"option {option} is not in force{but}"
