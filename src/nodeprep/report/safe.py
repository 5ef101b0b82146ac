"""Makes text from nodes fit to be shown: no escape codes, no control characters. Pure."""

from __future__ import annotations

import re

# CSI, OSC (ended by BEL or ST), other two-character escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Controls but tab and newline, surrogates, what turns the reading direction, non-characters.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def clean(text: str) -> str:
    """The text without escape codes; any other character that is unfit becomes U+FFFD."""
    return _UNFIT.sub("\ufffd", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, width: int = 0) -> str:
    """The text on one line; cut with an ellipsis when it is longer than `width` (0: never)."""
    line = " ".join(clean(text).split())
    return line if not width or len(line) <= width else line[: width - 1].rstrip() + "…"


def encodable(text: str) -> str:
    """The text with lone surrogates replaced: what undecodable bytes become in Python."""
    return text.encode("utf-8", "replace").decode("utf-8")
