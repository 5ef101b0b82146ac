"""`osu_bw D D` of the OSU micro-benchmarks: bandwidth between two ranks' device buffers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "osu_bw"
# # Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
_BUFFERS = re.compile(r"^#\s*Send Buffer on (\w+) .*Receive Buffer on (\w+)", re.MULTILINE)
# # OSU MPI-CUDA Bandwidth Test v7.5
_TITLE = re.compile(r"^#\s*OSU MPI-CUDA Bandwidth Test v(\d+)\.(\d+)", re.MULTILINE)
# 7.2 still says where the buffers are; 7.5 does not: they are where `D D` asks for them.
_SILENT = (7, 3)


@dataclass(frozen=True)
class OsuBandwidth:
    """GB/s by size in bytes. `on_device`: both buffers were in GPU memory, by the tool's word.

    Of a tool of a release that has no such word: it is one for CUDA.
    """

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
    return OsuBandwidth(rates, _on_device(body))


def _on_device(body: str) -> bool:
    if buffers := _BUFFERS.search(body):
        return buffers.groups() == ("DEVICE", "DEVICE")
    title = _TITLE.search(body)
    return bool(title and tuple(int(part[:6]) for part in title.groups()) >= _SILENT)
