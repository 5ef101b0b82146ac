"""`dmidecode`: BIOS, system, base board, processors and memory modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .result import Result, lines

if TYPE_CHECKING:
    from .board import Board

    Section = tuple[int, str, list[tuple[str, str]]]

_KEYWORDS = {"bios": (0,), "system": (1,), "baseboard": (2,), "processor": (4,),
             "memory": (16, 17)}  # fmt: skip
_LENGTHS = {0: 26, 1: 27, 2: 15, 4: 48, 16: 23, 17: 92}
_STRINGS = {
    "bios-vendor": "bios_vendor",
    "bios-version": "bios_version",
    "bios-release-date": "bios_date",
    "system-manufacturer": "vendor",
    "system-product-name": "product",
    "system-serial-number": "serial",
    "system-uuid": "uuid",
    "baseboard-manufacturer": "vendor",
    "baseboard-product-name": "board",
    "baseboard-serial-number": "board_serial",
}


def sections(board: Board) -> list[Section]:
    host = board["host"]
    found: list[Section] = [
        (0, "BIOS Information", [
            ("Vendor", host["bios_vendor"]),
            ("Version", host["bios_version"]),
            ("Release Date", host["bios_date"]),
            ("Address", "0xF0000"),
            ("Runtime Size", "64 kB"),
            ("ROM Size", "32 MB"),
            ("BIOS Revision", "5.22"),
        ]),
        (1, "System Information", [
            ("Manufacturer", host["vendor"]),
            ("Product Name", host["product"]),
            ("Version", "0123456789"),
            ("Serial Number", host["serial"]),
            ("UUID", host["uuid"]),
            ("Wake-up Type", "Power Switch"),
            ("SKU Number", "To be filled by O.E.M."),
            ("Family", "Family"),
        ]),
        (2, "Base Board Information", [
            ("Manufacturer", host["vendor"]),
            ("Product Name", host["board"]),
            ("Version", "1.10"),
            ("Serial Number", host["board_serial"]),
            ("Asset Tag", "Base Board Asset Tag"),
            ("Type", "Motherboard"),
        ]),
    ]  # fmt: skip
    found += [_processor(board["cpus"], number) for number in range(2)]
    found.append((16, "Physical Memory Array", [
        ("Location", "System Board Or Motherboard"),
        ("Use", "System Memory"),
        ("Error Correction Type", "Single-bit ECC"),
        ("Maximum Capacity", "12 TB"),
        ("Error Information Handle", "Not Provided"),
        ("Number Of Devices", str(len(board["dimms"]))),
    ]))  # fmt: skip
    return found + [_dimm(dimm) for dimm in board["dimms"]]


def _processor(cpus: dict[str, Any], number: int) -> Section:
    socket = [("Socket Designation", "CPU%d" % (number + 1)), ("Type", "Central Processor")]
    if number >= cpus["sockets"]:
        return (4, "Processor Information", [*socket, ("Status", "Unpopulated")])
    cores, threads = cpus["cores"], cpus["cores"] * cpus["threads"]
    return (4, "Processor Information", [
        *socket,
        ("Family", "Xeon"),
        ("Manufacturer", "Intel(R) Corporation"),
        ("Version", cpus["model"]),
        ("Voltage", "1.6 V"),
        ("External Clock", "100 MHz"),
        ("Max Speed", "4000 MHz"),
        ("Current Speed", "%d MHz" % cpus["mhz"]["base"]),
        ("Status", "Populated, Enabled"),
        ("Core Count", str(cores)),
        ("Core Enabled", str(cores)),
        ("Thread Count", str(threads)),
    ])  # fmt: skip


def _dimm(dimm: dict[str, Any]) -> Section:
    place = [("Form Factor", "DIMM"), ("Set", "None"), ("Locator", dimm["slot"]),
             ("Bank Locator", dimm["bank"])]  # fmt: skip
    if not dimm["size_mib"]:
        return (17, "Memory Device", [
            ("Total Width", "Unknown"), ("Data Width", "Unknown"),
            ("Size", "No Module Installed"), *place,
            ("Type", "Unknown"), ("Type Detail", "Unknown"),
        ])  # fmt: skip
    return (17, "Memory Device", [
        ("Total Width", "72 bits"),
        ("Data Width", "64 bits"),
        ("Size", "%d GB" % (dimm["size_mib"] // 1024)),
        *place,
        ("Type", dimm["type"]),
        ("Type Detail", "Synchronous Registered (Buffered)"),
        ("Speed", "%d MT/s" % dimm["mts"]),
        ("Manufacturer", dimm["manufacturer"]),
        ("Serial Number", dimm["serial"]),
        ("Asset Tag", dimm["slot"] + "_AssetTag (date:23/14)"),
        ("Part Number", dimm["part"]),
        ("Rank", "2"),
        ("Configured Memory Speed", "%d MT/s" % dimm["mts"]),
        ("Minimum Voltage", "1.2 V"),
        ("Maximum Voltage", "1.2 V"),
        ("Configured Voltage", "1.2 V"),
        ("Memory Technology", "DRAM"),
    ])  # fmt: skip


def run(args: list[str], board: Board) -> Result:
    """All of it, `-t TYPE[,TYPE]` by number or keyword, or `-s KEYWORD`."""
    types: set[int] = set()
    rest = iter(args)
    for arg in rest:
        if arg in ("-s", "--string"):
            return _string(next(rest, ""), board)
        if arg in ("-t", "--type"):
            types |= _types(next(rest, ""))
        elif arg.startswith("-t"):
            types |= _types(arg[2:])
    rows = ["# dmidecode 3.3", "Getting SMBIOS data from sysfs.", "SMBIOS 3.3.0 present.", ""]
    for number, (kind, title, values) in enumerate(sections(board)):
        if types and kind not in types:
            continue
        rows.append("Handle 0x%04X, DMI type %d, %d bytes" % (number, kind, _LENGTHS[kind]))
        rows.append(title)
        rows += ["\t%s: %s" % pair for pair in values]
        rows.append("")
    return Result(out=lines(rows))


def _types(text: str) -> set[int]:
    found: set[int] = set()
    for word in text.split(","):
        found |= {int(word)} if word.isdigit() else set(_KEYWORDS.get(word, ()))
    return found


def _string(keyword: str, board: Board) -> Result:
    if keyword not in _STRINGS:
        return Result(2, err="Invalid string keyword: %s\n" % keyword)
    return Result(out=str(board["host"][_STRINGS[keyword]]) + "\n")
