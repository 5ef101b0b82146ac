"""`iperf3 -J`: TCP and UDP results of a client."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from nodeprep.accept.parsers.text import ParseError, clean, excerpt

TOOL = "iperf3"


@dataclass(frozen=True)
class Iperf3:
    """Bits/s as received; `loss_percent` and `jitter_ms` for UDP, `retransmits` for TCP."""

    protocol: str
    bits_per_second: float
    retransmits: int | None
    loss_percent: float | None
    jitter_ms: float | None


def parse_iperf3(text: str) -> Iperf3:
    """ParseError for the tool's own `error` too: then nothing was measured."""
    report = load_json(text, TOOL)
    if report.get("error"):
        raise ParseError(TOOL, excerpt(str(report["error"])))
    end = _part(report, "end")
    start = _part(report, "start")
    test = start.get("test_start")
    protocol = test.get("protocol") if isinstance(test, dict) else None
    if protocol == "UDP":
        return _udp(end)
    if protocol != "TCP":
        raise ParseError(TOOL, "says no protocol")
    sent, received = _part(end, "sum_sent"), _part(end, "sum_received")
    lost = _optional(sent, "retransmits")
    rate = _figure(received, "bits_per_second")
    return Iperf3("TCP", rate, None if lost is None else int(lost), None, None)


def _udp(end: dict[str, Any]) -> Iperf3:
    """`sum` is what was sent; from 3.12 on `sum_received` is told beside it."""
    total, received = _part(end, "sum"), end.get("sum_received")
    loss = _figure(total, "lost_percent")
    rate = _figure(total, "bits_per_second") * (1 - loss / 100)
    if isinstance(received, dict):
        rate = _figure(received, "bits_per_second")
    return Iperf3("UDP", rate, None, loss, _optional(total, "jitter_ms"))


def load_json(text: str, tool: str) -> dict[str, Any]:
    """The JSON object in `text`, after whatever warnings stand before it."""
    body = clean(text)
    line = re.search(r"^\{", body, re.MULTILINE)
    start = line.start() if line else body.find("{")
    if start < 0:
        raise ParseError(tool, f"no JSON in: {excerpt(text) or 'nothing'}")
    try:
        value, _ = json.JSONDecoder().raw_decode(body[start:])
    except (ValueError, RecursionError) as problem:
        raise ParseError(tool, f"broken or truncated JSON ({excerpt(str(problem))})") from None
    if not isinstance(value, dict):
        raise ParseError(tool, "JSON that is not an object")
    return value


def _part(value: dict[str, Any], key: str) -> dict[str, Any]:
    part = value.get(key)
    if not isinstance(part, dict):
        raise ParseError(TOOL, f"no `{key}`: the test did not end")
    return part


def _optional(value: dict[str, Any], key: str) -> float | None:
    found = value.get(key)
    good = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 1e18
    return float(found) if good else None  # type: ignore[arg-type]


def _figure(value: dict[str, Any], key: str) -> float:
    found = _optional(value, key)
    if found is None:
        raise ParseError(TOOL, f"no figure for `{key}`")
    return found
