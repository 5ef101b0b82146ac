"""`lspci`: every device on the bus, a GPU that fell off it as `(rev ff)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import board as boards
from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board

_CLASSES = {
    "0604": "PCI bridge",
    "0302": "3D controller",
    "0680": "Bridge",
    "0200": "Ethernet controller",
    "0108": "Non-Volatile memory controller",
    "0106": "SATA controller",
    "0300": "VGA compatible controller",
    "0880": "System peripheral",
}
_SPEEDS = {1: "2.5GT/s", 2: "5GT/s", 3: "8GT/s", 4: "16GT/s", 5: "32GT/s"}


class Device(NamedTuple):
    address: str
    pci_class: str
    vendor: str
    device: str
    revision: str
    subsystem: tuple[str, str]
    name: str
    prog: str = "00"
    driver: str = ""
    link: tuple[int, int, int, int] | None = None  # gen now, gen most, width now, width most


def devices(board: Board) -> list[Device]:
    found = [
        Device("0000:00:00.0", "0880", "8086", "09a2", "04", ("8086", "0000"),
               "Intel Corporation Ice Lake Memory Map/VT-d"),
        Device("0000:00:17.0", "0106", "8086", "a182", "09", ("15d9", "1b1d"),
               "Intel Corporation C620 Series Chipset Family SATA Controller [AHCI mode]", "01",
               "ahci"),
        Device("0000:03:00.0", "0300", "1a03", "2000", "41", ("15d9", "1b1d"),
               "ASPEED Technology, Inc. ASPEED Graphics Family", driver="ast"),
    ]  # fmt: skip
    found += [
        Device(nic["address"], "0200", "8086", nic["device"], "01", ("8086", "7b11"),
               "Intel Corporation " + nic["lspci"], driver=nic["driver"])
        for nic in board["nics"]
    ]  # fmt: skip
    nvmes = [disk for disk in board["disks"] if disk["tran"] == "nvme"]
    found += [
        Device("0000:%02x:00.0" % (0x01 + number), "0108", "144d", "a80a", "00", ("144d", "aa8b"),
               "Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO", "02", "nvme")
        for number in range(len(nvmes))
    ]  # fmt: skip
    for gpu in boards.on_bus(board):
        found += [_root_port(gpu["address"]), _gpu(board, gpu)]
    found += [
        Device(switch["address"], "0680", "10de", switch["id"], "a1", ("10de", "1463"),
               "NVIDIA Corporation Device", driver="nvidia-nvswitch")
        for switch in board["nvswitches"]
    ]  # fmt: skip
    return sorted(found)


def _root_port(address: str) -> Device:
    bus = int(address[5:7], 16) - 1
    return Device("0000:%02x:02.0" % bus, "0604", "8086", "347a", "04", ("8086", "0000"),
                  "Intel Corporation Device", driver="pcieport")  # fmt: skip


def _gpu(board: Board, gpu: dict[str, object]) -> Device:
    kind = boards.spec(board)
    pcie = gpu["pcie"]
    assert isinstance(pcie, dict)  # noqa: S101
    return Device(
        str(gpu["address"]), "0302", "10de", kind["device"],
        "ff" if gpu["state"] == "off_bus" else "a1",
        ("10de", kind["subsystem"][:4]), "NVIDIA Corporation " + kind["lspci"], driver="nvidia",
        link=(pcie["gen"], kind["gen"], pcie["width"], 16),
    )  # fmt: skip


def run(args: list[str], board: Board) -> Result:
    """-D, -n, -nn, -m/-mm, -v…, -k, -d VENDOR:DEVICE[:CLASS], -s SLOT."""
    flags, wanted, slot = _options(args)
    domain = "D" in flags
    rows = []
    for device in devices(board):
        if not _matches(device, wanted, slot):
            continue
        place = device.address if domain else device.address[5:]
        if "m" in flags:
            rows.append(_machine(place, device, flags.count("n")))
            continue
        rows.append(_human(place, device, flags.count("n")))
        if "v" in flags:
            rows += _verbose(device, flags.count("v"))
        if "v" in flags or "k" in flags:
            rows += ["\tKernel driver in use: " + device.driver] if device.driver else []
        if "v" in flags:
            rows.append("")
    return Result(out=lines(rows))


def _options(args: list[str]) -> tuple[str, str, str]:
    flags, wanted, slot = "", "", ""
    rest = iter(args)
    for arg in rest:
        if arg.startswith("-d"):
            wanted = arg[2:] or next(rest, "")
        elif arg.startswith("-s"):
            slot = arg[2:] or next(rest, "")
        else:
            flags += arg.lstrip("-")
    return flags, wanted.lower(), slot.lower()


def _matches(device: Device, wanted: str, slot: str) -> bool:
    asked = [*wanted.split(":"), "", "", ""]
    have = (device.vendor, device.device, device.pci_class)
    if wanted and any(want and want != has for want, has in zip(asked, have)):
        return False
    return not slot or device.address.endswith(slot) or device.address == slot


def _machine(place: str, device: Device, numeric: int) -> str:
    values = (device.pci_class, device.vendor, device.device)
    if numeric == 0:
        vendor, _, name = device.name.partition(" Corporation ")
        values = (_CLASSES[device.pci_class], vendor + (" Corporation" if name else ""), name)
    row = '%s "%s" "%s" "%s"' % ((place, *values))
    row += "" if device.revision == "00" else " -r" + device.revision
    row += "" if device.prog == "00" else " -p" + device.prog
    return row + ' "%s" "%s"' % device.subsystem


def _human(place: str, device: Device, numeric: int) -> str:
    ids = device.vendor + ":" + device.device
    revision = "" if device.revision == "00" else " (rev %s)" % device.revision
    if numeric == 1:
        return "%s %s: %s%s" % (place, device.pci_class, ids, revision)
    title, name = _CLASSES[device.pci_class], device.name
    if numeric:
        title += " [%s]" % device.pci_class
        name += " [%s]" % ids
    elif name.endswith(" Device"):
        name += " " + device.device
    return "%s %s: %s%s" % (place, title, name, revision)


def _verbose(device: Device, level: int) -> list[str]:
    rows = ["\tSubsystem: %s:%s" % device.subsystem]
    if device.revision == "ff":
        return ["\t!!! Unknown header type 7f"]
    if device.link and level > 1:
        gen, gen_most, width, width_most = device.link
        rows += [
            "\t\tLnkCap:\tPort #0, Speed %s, Width x%d, ASPM not supported"
            % (_SPEEDS[gen_most], width_most),
            "\t\tLnkSta:\tSpeed %s%s, Width x%d%s"
            % (_SPEEDS[gen], _degraded(gen, gen_most), width, _degraded(width, width_most)),
        ]
    if device.pci_class == "0604" and level > 1:
        rows.append("\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- "
                    "EgressCtrl- DirectTrans-")  # fmt: skip
    return rows


def _degraded(value: int, most: int) -> str:
    return " (downgraded)" if value < most else " (ok)"
