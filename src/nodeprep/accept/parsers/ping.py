"""`ping -q`: round trips and loss of a path."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number

TOOL = "ping"
_LOSS = re.compile(
    r"(\d+) packets transmitted, (\d+) (?:packets )?received.*?([\d.]+)% packet loss"
)
_TIMES = re.compile(r"= ([\d.]+)/([\d.]+)/([\d.]+)(?:/([\d.]+))? ms")


@dataclass(frozen=True)
class Pinged:
    """`rtt_ms`: the mean; None where nothing came back. `loss_percent` of the echoes."""

    rtt_ms: float | None
    loss_percent: float


def parse_ping(text: str) -> Pinged:
    """ParseError without its closing lines."""
    body = clean(text)
    loss, times = _LOSS.search(body), _TIMES.search(body)
    percent = number(loss.group(3)) if loss else None
    if percent is None or percent > 100:
        raise ParseError(TOOL, f"no closing lines in: {excerpt(text) or 'nothing'}")
    return Pinged(number(times.group(2)) if times else None, percent)
