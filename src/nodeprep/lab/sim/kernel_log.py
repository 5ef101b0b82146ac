"""`dmesg`, and `journalctl` as far as it is asked for the kernel's messages: XIDs stand there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import board as boards
from . import installed
from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board

    Line = tuple[float, str]  # seconds since the epoch

_REAL_JOURNALCTL = "/usr/bin/journalctl"
_TEXTS = {
    13: "Graphics SM Warp Exception on (GPC 4, TPC 0, SM 0): Out Of Range Address",
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ "
    "0x7fb8_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at "
    "partition 6, subpartition 1.",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Failed to remap row.",
    74: "NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    92: "High single-bit ECC error rate",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: "Timeout waiting for RPC from GSP0! Expected function 76 (GSP_RM_CONTROL) "
    "(0x20802a02 0x4).",
}


def xid_line(address: str, code: int, pid: str = "'<unknown>'", name: str = "<unknown>") -> str:
    """As the driver logs it; `address` as 0000:17:00.0."""
    text = _TEXTS.get(code, "Unknown error")
    place = address.rpartition(".")[0]
    return "NVRM: Xid (PCI:%s): %d, pid=%s, name=%s, %s" % (place, code, pid, name, text)


def _booted() -> float:
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return time.time() - 3600


def messages(board: Board) -> list[Line]:
    start = _booted()
    found: list[Line] = [
        (start, "Linux version 5.15.0-113-generic (buildd@lcy02-amd64-072) #123-Ubuntu SMP"),
        (start + 0.000012, "Command line: BOOT_IMAGE=/vmlinuz-5.15.0-113-generic ro iommu=pt"),
        (start + 0.41, "DMI: %s %s, BIOS %s %s" % (
            board["host"]["vendor"], board["host"]["product"], board["host"]["bios_version"],
            board["host"]["bios_date"])),
        (start + 1.92, "systemd[1]: Detected architecture x86-64."),
    ]  # fmt: skip
    for nic in board["nics"]:
        word = "NIC Link is Up %g Gbps, Flow Control: None" % (nic["speed"] / 1000)
        text = word if nic["link"] else "NIC Link is Down"
        found.append((start + 6.2, "%s %s %s: %s" % (nic["driver"], nic["address"], nic["name"],
                                                     text)))  # fmt: skip
    version = installed.loaded(board)
    if version:
        found.append((start + 9.1, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  %s" % version))
    if boards.on_bus(board) and board["driver"].get("library"):
        found.append((time.time() - 5, "NVRM: API mismatch: the client has the version %s, but\n"
                      "NVRM: this kernel module has the version %s." % (
                          board["driver"]["library"], version)))  # fmt: skip
    found += [(xid["at"], xid_line(xid["address"], xid["code"])) for xid in board["xids"]]
    return sorted(found)


def dmesg(args: list[str], board: Board) -> Result:
    """Plain, -T and --time-format iso; other options change nothing here."""
    form = "boot"
    rest = iter(args)
    for arg in rest:
        if arg == "--time-format":
            form = next(rest, "")
        elif arg.startswith("--time-format="):
            form = arg.partition("=")[2]
        elif arg in ("-T", "--ctime"):
            form = "ctime"
    return Result(out=lines([_stamp(at, form) + text for at, text in messages(board)]))


def _stamp(at: float, form: str) -> str:
    if form == "iso":
        day = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
        zone = time.strftime("%z", time.localtime(at))
        return "%s,%06d%s:%s " % (day, at % 1 * 1e6, zone[:3], zone[3:])
    if form == "ctime":
        return time.strftime("[%a %b %e %H:%M:%S %Y] ", time.localtime(at))
    return "[%12.6f] " % max(0.0, at - _booted())


def journalctl(args: list[str], board: Board) -> Result:
    """The kernel's messages when -k asks for them; all else is the real journalctl's."""
    kernel = {"-k", "--dmesg", "_TRANSPORT=kernel"} & set(args)
    if not kernel and not any(arg.startswith("-k") for arg in args):
        os.execv(_REAL_JOURNALCTL, [_REAL_JOURNALCTL, *args])  # noqa: S606
    form = args[args.index("-o") + 1] if "-o" in args[:-1] else "short"
    count = args[args.index("-n") + 1] if "-n" in args[:-1] else "all"
    host = os.uname().nodename
    rows = [_journal_stamp(at, form) + "%s kernel: %s" % (host, text)
            for at, text in messages(board)]  # fmt: skip
    return Result(out=lines(rows[-int(count) :] if count.isdigit() else rows))


def _journal_stamp(at: float, form: str) -> str:
    if form == "short-unix":
        return "%.6f " % at
    if form in ("short-iso", "short-iso-precise"):
        return time.strftime("%Y-%m-%dT%H:%M:%S%z ", time.localtime(at))
    return time.strftime("%b %d %H:%M:%S ", time.localtime(at))
