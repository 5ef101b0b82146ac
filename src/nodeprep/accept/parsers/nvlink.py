"""`nvidia-smi nvlink -s` and `-e`: the links of each GPU, and their errors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number, whole

TOOL = "nvidia-smi nvlink -s"
_GPU = re.compile(r"^GPU (\d+):\s*(.*?)\s*(?:\(UUID: (\S+?)\))?$")
_LINK = re.compile(r"^\s*Link (\d+):\s*(\S.*)$")
_ERRORS = re.compile(r"^(Replay|Recovery|CRC(?: FLIT)?) Errors:\s*(\S+)$", re.IGNORECASE)


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


def parse_nvlink_errors(text: str) -> dict[tuple[int, int], int]:
    """Replays, recoveries and CRC errors together, by (GPU, link), since they were last cleared.

    ParseError where a GPU tells none of its counters: then nothing is known of it. A counter that
    is not told (N/A) is left out, and a link of which none is told too.
    """
    found: dict[tuple[int, int], int] = {}
    gpus: list[int] = []
    for line in clean(text).splitlines():
        if match := _GPU.match(line.strip()):
            gpus.append(int(match.group(1)))
        elif (link := _LINK.match(line)) and gpus:
            error = _ERRORS.match(link.group(2).strip())
            count = whole(error.group(2)) if error else None
            if count is not None and count >= 0:
                key = gpus[-1], int(link.group(1))
                found[key] = found.get(key, 0) + count
    if not found:
        raise ParseError("nvidia-smi nvlink -e", f"no counter in: {excerpt(text) or 'nothing'}")
    if mute := sorted(set(gpus) - {gpu for gpu, _ in found}):
        raise ParseError("nvidia-smi nvlink -e", f"no counter of GPU {', '.join(map(str, mute))}")
    return found


def _speed(text: str) -> float | None:
    return number(text) if "GB/s" in text else None
