"""`ethtool`: the network interfaces of the board; `-L`, `-G`, `-C`, `-K` and `-A` change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .result import Result, Usage, lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board

    Nic = dict[str, Any]

_FEATURES = {
    "rx-checksumming": True,
    "tx-checksumming": True,
    "scatter-gather": True,
    "tcp-segmentation-offload": True,
    "generic-segmentation-offload": True,
    "generic-receive-offload": True,
    "large-receive-offload": False,
    "rx-vlan-offload": True,
    "tx-vlan-offload": True,
    "ntuple-filters": False,
    "receive-hashing": True,
}
_SHORT = {"rx": "rx-checksumming", "tx": "tx-checksumming", "sg": "scatter-gather",
          "tso": "tcp-segmentation-offload", "gso": "generic-segmentation-offload",
          "gro": "generic-receive-offload", "lro": "large-receive-offload",
          "ntuple": "ntuple-filters", "rxhash": "receive-hashing"}  # fmt: skip
_FIXED = ("rx-fcs", "tx-lockless", "netns-local")


def run(args: list[str], board: Board) -> Result:
    if not args or args[0] in ("-h", "--help"):
        return Result(1, err="ethtool: bad command line argument(s)\nFor more information run "
                             "ethtool -h\n")  # fmt: skip
    if args[0] == "--version":
        return Result(out="ethtool version 5.16\n")
    option = args[0] if args[0].startswith("-") else ""
    name = (args[1] if len(args) > 1 else "") if option else args[0]
    nic = next((nic for nic in board["nics"] if nic["name"] == name), None)
    if nic is None:
        return Result(75, err="netlink error: No such device\n")
    if option and option not in _OPTIONS:
        return Result(1, err="ethtool: bad command line argument(s)\nFor more information run "
                             "ethtool -h\n")  # fmt: skip
    return _OPTIONS[option](nic, args[2:])


def _settings(nic: Nic, _: list[str]) -> Result:
    full = "%dbaseT/Full" % nic["max_speed"]
    modes = ["1000baseT/Full", full] if nic["max_speed"] > 1000 else [full]
    rows = ["Settings for %s:" % nic["name"], "\tSupported ports: [ FIBRE ]"]
    rows += _modes("Supported link modes:   ", modes)
    rows += ["\tSupported pause frame use: Symmetric", "\tSupports auto-negotiation: Yes",
             "\tSupported FEC modes: Not reported"]  # fmt: skip
    rows += _modes("Advertised link modes:  ", modes)
    rows += [
        "\tAdvertised pause frame use: Symmetric",
        "\tAdvertised auto-negotiation: Yes",
        "\tAdvertised FEC modes: Not reported",
        "\tSpeed: %dMb/s" % nic["speed"] if nic["link"] else "\tSpeed: Unknown!",
        "\tDuplex: " + (nic["duplex"] if nic["link"] else "Unknown! (255)"),
        "\tAuto-negotiation: on",
        "\tPort: FIBRE",
        "\tPHYAD: 0",
        "\tTransceiver: internal",
        "\tSupports Wake-on: d",
        "\tWake-on: d",
        "        Current message level: 0x00000007 (7)",
        "                               drv probe link",
        "\tLink detected: " + ("yes" if nic["link"] else "no"),
    ]
    return Result(out=lines(rows))


def _modes(title: str, modes: list[str]) -> list[str]:
    indent = "\t" + " " * len(title)
    return ["\t" + title + modes[0]] + [indent + mode for mode in modes[1:]]


def _driver(nic: Nic, _: list[str]) -> Result:
    return Result(out=lines([
        "driver: " + nic["driver"],
        "version: " + nic["driver_version"],
        "firmware-version: " + nic["firmware"],
        "expansion-rom-version: ",
        "bus-info: " + nic["address"],
        "supports-statistics: yes",
        "supports-test: yes",
        "supports-eeprom-access: yes",
        "supports-register-dump: yes",
        "supports-priv-flags: yes",
    ]))  # fmt: skip


def _statistics(nic: Nic, _: list[str]) -> Result:
    stats = {"rx_packets": 184467440, "tx_packets": 122333444, "rx_bytes": 201326592000,
             "tx_bytes": 98765432100, "tx_errors": 0, "tx_dropped": 0, "multicast": 4211,
             "collisions": 0, "tx_timeout_count": 0}  # fmt: skip
    stats.update(nic["stats"])
    for queue in range(nic["channels"]["combined"]):
        stats["rx_queue_%d_packets" % queue] = stats["rx_packets"] // nic["channels"]["combined"]
    rows = ["NIC statistics:"] + ["     %s: %d" % pair for pair in stats.items()]
    return Result(out=lines(rows))


def _rings(nic: Nic, _: list[str]) -> Result:
    rings = nic["rings"]
    return Result(out=lines([
        "Ring parameters for %s:" % nic["name"],
        "Pre-set maximums:",
        "RX:\t\t%d" % rings["max"], "RX Mini:\tn/a", "RX Jumbo:\tn/a", "TX:\t\t%d" % rings["max"],
        "Current hardware settings:",
        "RX:\t\t%d" % rings["rx"], "RX Mini:\tn/a", "RX Jumbo:\tn/a", "TX:\t\t%d" % rings["tx"],
        "",
    ]))  # fmt: skip


def _channels(nic: Nic, _: list[str]) -> Result:
    channels = nic["channels"]
    return Result(out=lines([
        "Channel parameters for %s:" % nic["name"],
        "Pre-set maximums:",
        "RX:\t\tn/a", "TX:\t\tn/a", "Other:\t\t1", "Combined:\t%d" % channels["max"],
        "Current hardware settings:",
        "RX:\t\tn/a", "TX:\t\tn/a", "Other:\t\t1", "Combined:\t%d" % channels["combined"],
        "",
    ]))  # fmt: skip


def _coalescing(nic: Nic, _: list[str]) -> Result:
    values = nic["coalesce"]
    state = {True: "on", False: "off"}
    return Result(out=lines([
        "Coalesce parameters for %s:" % nic["name"],
        "Adaptive RX: %s  TX: %s" % (state[values["adaptive-rx"]], state[values["adaptive-tx"]]),
        "stats-block-usecs:\tn/a", "sample-interval:\tn/a", "pkt-rate-low:\t\tn/a",
        "pkt-rate-high:\t\tn/a", "",
        "rx-usecs:\t%d" % values["rx-usecs"], "rx-frames:\tn/a", "rx-usecs-irq:\tn/a",
        "rx-frames-irq:\tn/a", "",
        "tx-usecs:\t%d" % values["tx-usecs"], "tx-frames:\tn/a", "tx-usecs-irq:\tn/a",
        "tx-frames-irq:\tn/a", "",
    ]))  # fmt: skip


def _features(nic: Nic, _: list[str]) -> Result:
    values = dict(_FEATURES, **nic["features"])
    rows = ["Features for %s:" % nic["name"]]
    rows += ["%s: %s" % (name, "on" if on else "off") for name, on in values.items()]
    return Result(out=lines(rows + [name + ": off [fixed]" for name in _FIXED]))


def _pause(nic: Nic, _: list[str]) -> Result:
    values = nic["pause"]
    state = {True: "on", False: "off"}
    return Result(out=lines([
        "Pause parameters for %s:" % nic["name"],
        "Autonegotiate:\t" + state[values["autoneg"]],
        "RX:\t\t" + state[values["rx"]],
        "TX:\t\t" + state[values["tx"]],
        "",
    ]))  # fmt: skip


def _changes(words: list[str]) -> list[tuple[str, str]]:
    if len(words) % 2 or not words:
        raise Usage(Result(1, err="ethtool: bad command line argument(s)\n"))
    return list(zip(words[::2], words[1::2]))


def _number(name: str, text: str, most: int) -> int:
    if not text.isdigit():
        raise Usage(Result(1, err="ethtool: bad command line argument(s)\n"))
    if int(text) > most:
        message = "netlink error: requested %s exceeds maximum\n" % name
        raise Usage(Result(1, err=message + "netlink error: Invalid argument\n"))
    return int(text)


def _set_rings(nic: Nic, words: list[str]) -> Result:
    for name, text in _changes(words):
        nic["rings"][name] = _number("ring size", text, nic["rings"]["max"])
    return Result()


def _set_channels(nic: Nic, words: list[str]) -> Result:
    for name, text in _changes(words):
        if name != "combined":
            return Result(1, err="netlink error: Invalid argument\n")
        nic["channels"][name] = _number("channel count", text, nic["channels"]["max"])
    return Result()


def _set_coalescing(nic: Nic, words: list[str]) -> Result:
    for name, text in _changes(words):
        if name.startswith("adaptive"):
            nic["coalesce"][name] = text == "on"
        else:
            nic["coalesce"][name] = _number(name, text, 1000)
    return Result()


def _set_features(nic: Nic, words: list[str]) -> Result:
    for name, text in _changes(words):
        nic["features"][_SHORT.get(name, name)] = text == "on"
    return Result()


def _set_pause(nic: Nic, words: list[str]) -> Result:
    for name, text in _changes(words):
        if name not in nic["pause"] or text not in ("on", "off"):
            return Result(1, err="ethtool: bad command line argument(s)\n")
        nic["pause"][name] = text == "on"
    return Result()


# What the module's maker calls too little and too much: alarm, warning, warning, alarm.
_LIMITS = {
    "Laser output power": (-12.0, -8.0, 0.0, 2.0),
    "Module temperature": (-10.0, -5.0, 75.0, 80.0),
    "Laser rx power": (-20.0, -18.0, 0.0, 2.0),
}


def _module(nic: Nic, _: list[str]) -> Result:
    """An SFP+ for multimode fibre, with diagnostics of its own."""
    module = nic.get("module")
    if not module:
        return Result(1, err="netlink error: Operation not supported\n")
    now = {
        "Laser output power": module["tx_dbm"],
        "Module temperature": module["celsius"],
        "Laser rx power": module["rx_dbm"],
    }
    rows = [
        ("Identifier", "0x03 (SFP)"),
        ("Extended identifier", "0x04 (GBIC/SFP defined by 2-wire interface ID)"),
        ("Connector", "0x07 (LC)"),
        ("Transceiver type", "10G Ethernet: 10G Base-SR"),
        ("BR, Nominal", "10300MBd"),
        ("Length (OM3)", "300m"),
        ("Laser wavelength", "850nm"),
        ("Vendor name", "FINISAR CORP."),
        ("Vendor PN", "FTLX8574D3BCL"),
        ("Vendor SN", "A" + nic["mac"].replace(":", "").upper()[:7]),
        ("Optical diagnostics support", "Yes"),
        ("Laser bias current", "7.636 mA"),
        ("Laser output power", _power(module["tx_dbm"])),
        ("Receiver signal average optical power", _power(module["rx_dbm"])),
        ("Module temperature", _heat(module["celsius"])),
        ("Module voltage", "3.2984 V"),
        ("Alarm/warning flags implemented", "Yes"),
    ]
    for what, (low, lower, higher, high) in _LIMITS.items():
        value = now[what]
        flags = (value > high, value < low, value > higher, value < lower)
        names = ("high alarm", "low alarm", "high warning", "low warning")
        rows += [(what + " " + name, "On" if on else "Off") for name, on in zip(names, flags)]
    for what, limits in _LIMITS.items():
        told = _heat if what == "Module temperature" else _power
        for name, limit in zip(("low alarm", "low warning", "high warning", "high alarm"), limits):
            rows.append(("%s %s threshold" % (what, name), told(limit)))
    return Result(out=lines(["\t%-41s : %s" % row for row in rows]))


def _power(dbm: float) -> str:
    return "%.4f mW / %.2f dBm" % (10 ** (dbm / 10), dbm)


def _heat(celsius: float) -> str:
    return "%.2f degrees C / %.2f degrees F" % (celsius, celsius * 1.8 + 32)


_OPTIONS: dict[str, Callable[[Nic, list[str]], Result]] = {
    "": _settings,
    "-i": _driver, "--driver": _driver,
    "-m": _module, "--module-info": _module,
    "-S": _statistics, "--statistics": _statistics,
    "-g": _rings, "--show-ring": _rings, "-G": _set_rings, "--set-ring": _set_rings,
    "-l": _channels, "--show-channels": _channels,
    "-L": _set_channels, "--set-channels": _set_channels,
    "-c": _coalescing, "--show-coalesce": _coalescing,
    "-C": _set_coalescing, "--coalesce": _set_coalescing,
    "-k": _features, "--show-features": _features, "--show-offload": _features,
    "-a": _pause, "--show-pause": _pause, "-A": _set_pause, "--pause": _set_pause,
    "-K": _set_features, "--features": _set_features, "--offload": _set_features,
}  # fmt: skip
