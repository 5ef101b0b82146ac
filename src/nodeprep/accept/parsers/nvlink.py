"""`nvidia-smi nvlink -s`: the links of each GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number

TOOL = "nvidia-smi nvlink -s"
_GPU = re.compile(r"^GPU (\d+):\s*(.*?)\s*(?:\(UUID: (\S+?)\))?$")
_LINK = re.compile(r"^\s*Link (\d+):\s*(\S.*)$")


@dataclass(frozen=True)
class GpuLinks:
    """`links`: GB/s per direction by link; None: inactive, or no figure."""

    index: int
    name: str
    links: dict[int, float | None]

    @property
    def inactive(self) -> tuple[int, ...]:
        return tuple(link for link, speed in sorted(self.links.items()) if not speed)

    @property
    def active(self) -> tuple[int, ...]:
        return tuple(link for link, speed in sorted(self.links.items()) if speed)


def parse_nvlink(text: str) -> tuple[GpuLinks, ...]:
    """One entry per GPU; a board without links gives entries without links."""
    found: list[GpuLinks] = []
    for line in clean(text).splitlines():
        if gpu := _GPU.match(line.strip()):
            found.append(GpuLinks(int(gpu.group(1)), gpu.group(2), {}))
        elif (link := _LINK.match(line)) and found:
            found[-1].links[int(link.group(1))] = _speed(link.group(2))
    if not found:
        raise ParseError(TOOL, f"no GPU in: {excerpt(text) or 'nothing'}")
    if len({gpu.index for gpu in found}) != len(found):
        raise ParseError(TOOL, "a GPU is listed twice")
    return tuple(found)


def _speed(text: str) -> float | None:
    return number(text) if "GB/s" in text else None
