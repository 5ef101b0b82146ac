"""`ethtool NAME`, `-S NAME`, `-m NAME`: what a NIC negotiated, counts, and what its module sees."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number

TOOL = "ethtool"
_SETTING = re.compile(r"^\s*(Speed|Duplex|Link detected):\s*(.*?)\s*$", re.MULTILINE)
_NO_SPEED = (0, 0xFFFF, 0xFFFFFFFF)  # "unknown" to the kernel; old tools print it as a speed
_COUNTER = re.compile(r"^[ \t]*(\S.*?):[ \t]*(\d{1,20})[ \t]*$", re.MULTILINE)
# Every driver has its own names: rx_crc_errors, port.rx_crc_errors, rx_crc_errors_phy,
# rx_fcs_err_frames, rx_symbol_err_phy; and for drops rx_dropped, rx_discards_phy,
# rx_out_of_buffer, rx_missed_errors, rx_no_dma_resources, rx_fifo_errors.
_DROPS = re.compile(
    r"drop|discard|missed|out_of_buffer|no_dma|no_buf|alloc_err|fifo|over_err|overrun"
)
_ERRORS = re.compile(r"err(?:or)?s?(?:_|$|\b)|crc|fcs|collision|jabber|timeout_count")
# What others sent wrongly, or what is not an error of the link, whatever its name says: bits that
# FEC corrected (rx_err_lane_0_phy), frames that were for nobody here (rx_steer_missed_packets), the
# BMC's, what was to be sent while there was no link, what a program of XDP chose to drop. Bytes are
# counted beside the packets that they were (rx_discard_bytes_cos0).
_HARMLESS = re.compile(
    r"csum|checksum|fdir|fcoe|vlan|filter|unknown|no_proto|ptp|hwtstamp|ipsec|tls"
    r"|err_lane|steer|smbus|link_down|missed_irq|arfs|xdp|_bytes"
)
# The kernel's own: frames of protocols that nobody listens to (LLDP, spanning tree) count here too.
_KERNELS = ("rx_dropped", "tx_dropped")
# rx_packets, rx_packets_phy, rx_ucast_frames, rx_unicast, port.rx_unicast, rx_unicast.nic, …
_PACKETS = re.compile(
    r"^(?:port[._])?(?:rx|tx)_(?:packets(?:_phy)?|(?:ucast|unicast)(?:_packets|_pkts|_frames)?)"
    r"(?:\.nic)?$"
)
_TOLD = re.compile(r"^[ \t]*(\S.*?)[ \t]*:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_FLAG = re.compile(r"\b(?:alarm|warning|fault|LOS|LOL|loss of (?:signal|lock))\b(?!.*implemented)")
_ON = re.compile(r"\b(?:On|Yes)\b")
# SFP, QSFP (by channel) and CMIS name them differently.
_RX = re.compile(r"(?:Receiver signal average optical power|Rcvr signal avg optical power)")
_TX = re.compile(r"(?:Laser output power|Transmit avg optical power)(?! (?:high|low))")
_DBM = re.compile(r"(-?[\d.]+|-inf) dBm")
_DARK = -40.0  # dBm: 0.1 uW, the least that a module can tell; it calls less than that -inf


@dataclass(frozen=True)
class NicSettings:
    """`speed_mbps` and `duplex` (full or half) are None where the NIC does not know them."""

    speed_mbps: int | None
    duplex: str | None
    link: bool | None


@dataclass(frozen=True)
class NicCounters:
    """Counters since the driver was loaded, by the driver's own names."""

    values: dict[str, int]

    def errors(self) -> dict[str, int]:
        """What the link did wrong: bad frames, late collisions, resets of the transmitter."""
        return {k: v for k, v in self.values.items() if _kind(k) == "error"}

    def drops(self) -> dict[str, int]:
        """What the NIC received well and had no room for."""
        return {k: v for k, v in self.values.items() if _kind(k) == "drop"}

    @property
    def packets(self) -> int:
        """Received or sent, whichever is known and more. 0: not told."""
        return max((v for k, v in self.values.items() if _PACKETS.match(k.lower())), default=0)


@dataclass(frozen=True)
class NicModule:
    """The module in a NIC's cage. Powers in dBm, the worst lane's; None where none is told, or
    every lane is dark: copper shows that, too.

    `raised`: alarms and warnings that are on, by the module's own names.
    """

    kind: str
    vendor: str
    rx_dbm: float | None
    tx_dbm: float | None
    celsius: float | None
    raised: tuple[str, ...]


def parse_module(text: str) -> NicModule:
    """ParseError when nothing is told of a module. A cable of copper tells no power: None."""
    told = _TOLD.findall(clean(text))
    values: dict[str, str] = dict(reversed(told))
    if "Identifier" not in values:
        raise ParseError(TOOL, f"no module in: {excerpt(text) or 'nothing'}")
    raised = [
        name for name, value in told
        if _FLAG.search(name) and "threshold" not in name and _ON.search(value)
    ]  # fmt: skip
    return NicModule(
        kind=values.get("Transceiver type", values["Identifier"]),
        vendor=" ".join(values.get(f"Vendor {part}", "") for part in ("name", "PN")).strip(),
        rx_dbm=_least_dbm(told, _RX),
        tx_dbm=_least_dbm(told, _TX),
        celsius=number(values.get("Module temperature")),
        raised=tuple(raised),
    )


def _least_dbm(told: list[tuple[str, str]], what: re.Pattern[str]) -> float | None:
    found = [
        dbm.group(1) for name, value in told if what.match(name) and (dbm := _DBM.search(value))
    ]
    lit = [value for text in found if (value := number(text)) is not None]
    return min([*lit, *([_DARK] if "-inf" in found else [])]) if lit else None


def parse_settings(text: str) -> NicSettings:
    """ParseError when neither speed nor link is told at all."""
    told = dict(_SETTING.findall(clean(text)))
    if not told.keys() & {"Speed", "Link detected"}:
        raise ParseError(TOOL, f"no settings in: {excerpt(text) or 'nothing'}")
    found = re.match(r"(\d{1,10})\s*Mb/s", told.get("Speed", ""))
    speed = int(found.group(1)) if found else 0
    duplex = told.get("Duplex", "").lower()
    word = told.get("Link detected", "").lower().partition(" ")[0]  # no (No cable)
    return NicSettings(
        None if speed in _NO_SPEED else speed,
        duplex if duplex in ("full", "half") else None,
        {"yes": True, "no": False}.get(word),
    )


def parse_statistics(text: str) -> NicCounters:
    """ParseError without any counter. Also what `name: value` lines of sysfs say."""
    found = {name.strip(): int(value) for name, value in _COUNTER.findall(clean(text))}
    if not found:
        raise ParseError(TOOL, f"no counters in: {excerpt(text) or 'nothing'}")
    return NicCounters(found)


def worst(counts: dict[str, int]) -> tuple[str, int]:
    """The largest: drivers count one event under several names, so they are not added up."""
    return max(counts.items(), key=lambda pair: pair[1], default=("", 0))


def _kind(name: str) -> str:
    lower = name.lower()
    if lower in _KERNELS or _HARMLESS.search(lower):
        return ""
    if _DROPS.search(lower):
        return "drop"
    return "error" if _ERRORS.search(lower) else ""
