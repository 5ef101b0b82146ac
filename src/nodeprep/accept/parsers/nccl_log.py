"""What NCCL says of itself with NCCL_DEBUG=INFO: version, interface, network, transports."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt

TOOL = "NCCL_DEBUG=INFO"
_INFO = re.compile(r"NCCL (INFO|WARN) (.*)$")
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)(\+cuda[\d.]+)?")
_BOOTSTRAP = re.compile(r"^Bootstrap ?: Using (\S+?):")
_SOCKET = re.compile(r"^NET/Socket ?: Using (.*)$")
_DEVICE = re.compile(r"\[\d+\](\S+?):\S*?<\d+>")
_NETWORK = re.compile(r"^Using (?:non-device net plugin version \d+|network (\S+))")
_VIA = re.compile(r"\bvia (\S+)")


@dataclass(frozen=True)
class NcclLog:
    """`transports`: channels by transport, such as P2P/IPC, P2P/CUMEM, SHM/direct, NET/Socket."""

    version: str
    bootstrap: str  # interface
    interfaces: tuple[str, ...]  # of NET/Socket
    network: str  # Socket, IB, …
    transports: dict[str, int]
    warnings: tuple[str, ...]


def parse_nccl_log(text: str) -> NcclLog:
    """ParseError when no line of NCCL is there."""
    body = clean(text)
    said = [match.groups() for line in body.splitlines() if (match := _INFO.search(line))]
    version = _VERSION.search(body)
    if not said:
        raise ParseError(TOOL, f"no line of NCCL in: {excerpt(text) or 'nothing'}")
    info = [line for level, line in said if level == "INFO"]
    sockets = next((m.group(1) for line in info if (m := _SOCKET.match(line))), "")
    return NcclLog(
        version="".join(part or "" for part in version.groups()) if version else "",
        bootstrap=next((m.group(1) for line in info if (m := _BOOTSTRAP.match(line))), ""),
        interfaces=tuple(dict.fromkeys(_DEVICE.findall(sockets))),
        network=next(
            (m.group(1) for line in info if (m := _NETWORK.match(line)) and m.group(1)), ""
        ),
        transports=dict(
            Counter(_transport(m.group(1)) for line in info if (m := _VIA.search(line)))
        ),
        warnings=tuple(dict.fromkeys(line for level, line in said if level == "WARN")),
    )


def _transport(word: str) -> str:
    """P2P/IPC/read and P2P/direct pointer are one transport each: its first two parts."""
    return "/".join(word.split("/")[:2])
