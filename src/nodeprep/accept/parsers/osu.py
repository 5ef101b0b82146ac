"""`osu_bw D D` of the OSU micro-benchmarks: bandwidth between two ranks' device buffers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "osu_bw"
# # Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
_BUFFERS = re.compile(r"^#\s*Send Buffer on (\w+) .*Receive Buffer on (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class OsuBandwidth:
    """GB/s by size in bytes. `on_device`: both buffers were in GPU memory, by the tool's word."""

    rates: dict[int, float]
    on_device: bool

    @property
    def best(self) -> float:
        return max(self.rates.values())


def parse_osu_bw(text: str) -> OsuBandwidth:
    """ParseError without any row."""
    body = clean(text)
    rates: dict[int, float] = {}
    for line in body.splitlines():
        words = line.split()
        size, rate = (whole(words[0]), number(words[1])) if len(words) >= 2 else (None, None)
        if size and size > 0 and rate is not None and rate >= 0:
            rates[size] = rate / 1000
    if not rates:
        raise ParseError(TOOL, f"no rows in: {excerpt(text) or 'nothing'}")
    buffers = _BUFFERS.search(body)
    return OsuBandwidth(rates, bool(buffers and buffers.groups() == ("DEVICE", "DEVICE")))
