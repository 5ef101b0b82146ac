"""Words for verdicts: free of escape codes, capped, and one way to say each sort of value."""

from __future__ import annotations

import difflib
import re

LINE_LIMIT = 400  # characters of `wanted`, `read`, `reason`
DIFF_LINES = 200
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])"
)
# Control characters, and the marks that turn the direction of text around.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Without escape codes and control characters; lines and tabs stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def line(text: str, limit: int = LINE_LIMIT) -> str:
    """One clean line of at most `limit` characters."""
    text = " ".join(clean(text[: limit * 8]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def diff(read: str, wanted: str, path: str, *, limit: int = DIFF_LINES) -> str:
    """A unified diff from what is on the node to what is wanted, of `limit` lines at most."""
    lines = list(
        difflib.unified_diff(
            clean(read).splitlines(),
            clean(wanted).splitlines(),
            f"{path} (on the node)",
            f"{path} (wanted)",
            lineterm="",
        )
    )
    if len(lines) > limit:
        lines = [*lines[:limit], f"… {len(lines) - limit} more lines"]
    return "\n".join(text if len(text) <= LINE_LIMIT else text[:LINE_LIMIT] + "…" for text in lines)


def switch(value: object) -> str:
    """A setting's value as a technician says it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def listed(items: list[str], limit: int = 8) -> str:
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def plural(count: int, noun: str) -> str:
    """`2 cores a socket` of `core a socket`."""
    first, _, rest = noun.partition(" a ")
    more = "" if count == 1 else "es" if first.endswith("ch") else "s"
    return f"{count} {first}{more}{f' a {rest}' if rest else ''}"
