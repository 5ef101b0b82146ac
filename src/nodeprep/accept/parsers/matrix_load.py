"""What `accept/matrix_load.py` prints on a node: a line for each round of each GPU."""

from __future__ import annotations

import re
from typing import NamedTuple

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number

TOOL = "matrix_load"
_ROUND = re.compile(r"^gpu (\d+) TFLOPS ([\d.]+) result ([0-9a-f]{8})$", re.MULTILINE)


class Round(NamedTuple):
    """`result`: the checksum of what came out."""

    tflops: float
    result: str


def parse_rounds(text: str) -> dict[int, tuple[Round, ...]]:
    """Rounds by GPU, in the order of time. ParseError without any."""
    found: dict[int, list[Round]] = {}
    for gpu, rate, result in _ROUND.findall(clean(text)):
        tflops = number(rate)
        if tflops is not None:
            found.setdefault(int(gpu), []).append(Round(tflops, result))
    if not found:
        raise ParseError(TOOL, f"no rounds in: {excerpt(text) or 'nothing'}")
    return {gpu: tuple(rounds) for gpu, rounds in found.items()}
