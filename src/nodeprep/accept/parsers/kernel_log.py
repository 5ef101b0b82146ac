"""The kernel's log, as `journalctl -k` or `dmesg` prints it, and NVIDIA's XID lines in it."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt

TOOL = "kernel log"
_UNIX = re.compile(r"^(\d{9,11}\.\d+) ")  # journalctl -o short-unix
_ISO = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,]\d+)?([+-]\d\d:?\d\d|Z)?\s")
_BOOT = re.compile(r"^\[\s*\d+\.\d+\]")  # dmesg without a time of day
# `(PCI:0000:17:00 GPU-I:05)`: of a GPU that MIG has split, the instance is told too.
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\):?\s*(\d+)(?:,\s*(.*))?")
# Some GPUs leave without an XID, and NVSwitches have numbers of their own.
_FALLEN = re.compile(r"NVRM: (.*fallen off the bus.*)")
# The driver breaks this message into lines, and names the GPU in the first.
_NAMED = re.compile(r"NVRM: The NVIDIA GPU ([0-9A-Fa-f:.]+)")
_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?")
_SXID = re.compile(r"nvidia-nvswitch\d+: SXid \(PCI:([0-9A-Fa-f:.]+)\): (\d+), (Fatal\b.*)")
FALLEN = 79


@dataclass(frozen=True)
class Xid:
    """An error that the driver reported. `at`: seconds since the epoch; None: the log has none."""

    code: int
    bus: str
    at: float | None
    text: str


@dataclass(frozen=True)
class KernelLog:
    """`switches`: the fatal errors of NVSwitches; theirs that are not fatal are left out."""

    lines: int
    xids: tuple[Xid, ...]
    switches: tuple[Xid, ...] = ()

    def since(self, moment: float) -> tuple[Xid, ...]:
        """XIDs at or after `moment`; one without a time counts, for it cannot be ruled out."""
        return tuple(xid for xid in self.xids if xid.at is None or xid.at >= moment)

    def switches_since(self, moment: float) -> tuple[Xid, ...]:
        return tuple(xid for xid in self.switches if xid.at is None or xid.at >= moment)


def parse_kernel_log(text: str) -> KernelLog:
    """ParseError when no line looks like the log's own: then nothing is known."""
    count = 0
    xids: list[Xid] = []
    switches: list[Xid] = []
    before, named = None, "?"
    for line in clean(text).splitlines():
        known, at = _moment(line)
        count += known
        # Further lines of one message are indented, and have the time of its first.
        at = before = at if known or not line[:1].isspace() else before
        if match := _NAMED.search(line):
            named = match.group(1).lower()
        if match := _XID.search(line):
            bus, code, rest = match.groups()
            xids.append(Xid(int(code[:6]), bus.lower(), at, (rest or "").strip()))
        elif match := _FALLEN.search(line):
            address = _ADDRESS.search(line)
            bus = address.group().lower() if address else named
            xids.append(Xid(FALLEN, bus, at, match.group(1)))
        elif match := _SXID.search(line):
            bus, code, rest = match.groups()
            switches.append(Xid(int(code[:6]), bus.lower(), at, rest.strip()))
    if not count and not xids and not switches:
        raise ParseError(TOOL, f"no line of the kernel in: {excerpt(text) or 'nothing'}")
    return KernelLog(count, tuple(xids), tuple(switches))


def _moment(line: str) -> tuple[bool, float | None]:
    """(is a line of the log, seconds since the epoch)"""
    if match := _UNIX.match(line):
        return True, float(match.group(1))
    if match := _ISO.match(line):
        try:
            stamp = dt.datetime.fromisoformat(match.group(1) + _zone(match.group(2)))
        except ValueError:
            return False, None
        return True, stamp.timestamp()
    return bool(_BOOT.match(line)), None


def _zone(zone: str | None) -> str:
    if not zone or zone == "Z":
        return "+00:00"
    return zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
