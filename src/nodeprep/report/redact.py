"""Takes out what looks like a secret, known or not, before it leaves the house. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

MASK = "********"
# Every repetition has a bound: these meet megabytes that a node printed.
_WORD = (
    r"""(?:passw(?:or)?d|passphrase|(?<=[_.\-"'])pass|\bpass(?==)|secret|token|api[_-]?key"""
    r"|access[_-]?key|private[_-]?key|credentials?|authkey)"
)
_NAME = rf"[\w.-]{{0,40}}{_WORD}"
_QUOTED = r""""[^"\n]*"|'[^'\n]*'"""
# A sentence about passwords is none: "password is off".
_ADJECTIVE = (
    r"(?:off|on|not|no|never|still|required|needed|disabled|enabled|wrong|refused|accepted)\b"
)
_KEY_BLOCK = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
_KEY_END = re.compile(
    r"^(?:[A-Za-z0-9+/=]{16,}\s{1,4}){1,200}-----END [A-Z0-9 ]{0,40}PRIVATE KEY", re.MULTILINE
)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(_KEY_BLOCK, re.DOTALL), MASK),
    (re.compile(r"\$ANSIBLE_VAULT;[\d.]+;\w+[^\n]*(?:(?:\\n|\s){1,20}[0-9a-fA-F]{16,})*"), MASK),
    # {"password": "…"}, also inside a text that was quoted once more
    (re.compile(rf"""(\\?["']{_NAME}\\?["']\s{{0,9}}:\s{{0,9}})(\\?["']).*?\2""", re.I),
     rf"\1\2{MASK}\2"),
    # password=…, api_key: …, --token …
    (re.compile(rf"({_WORD}\s{{0,9}}[=:]\s{{0,9}})(?:{_QUOTED}|[^\s\"'<>]+)", re.I),
     rf"\1{MASK}"),
    (re.compile(rf"({_WORD} is )(?!{_ADJECTIVE})(?:{_QUOTED}|[^\s\"'<>]+)", re.I),
     rf"\1{MASK}"),
    (re.compile(rf"(--{_NAME} )(?:{_QUOTED}|[^\s\"'<>]+)", re.I), rf"\1{MASK}"),
    (re.compile(r"(\bsshpass\b[^\n]{0,80}?-p\s{0,9})\S+"), rf"\1{MASK}"),
    (re.compile(r"(\bauthorization\s{0,9}[:=]\s{0,9}(?:basic |bearer |digest )?)[^\s\"'<>]+", re.I),
     rf"\1{MASK}"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s:/@]{1,100}:)[^\s/@]{1,300}@", re.I),
     rf"\1{MASK}@"),
    (re.compile(r"\$(?:1|2[aby]|5|6|7|y)\$[./A-Za-z0-9$=,]{8,}"), MASK),  # hashes of shadow
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), MASK),
    (re.compile(r"\b(?:gh[pousr]|glpat|hf|xox[abps])[_-][A-Za-z0-9_-]{16,}"), MASK),
    (re.compile(r"\beyJ[\w-]{8,4000}\.[\w-]{8,4000}\.[\w-]{8,4000}"), MASK),  # JSON web tokens
)  # fmt: skip


def redact(text: str) -> str:
    """The text with all masked that has the look of a secret; rather too much than too little."""
    for pattern, mask in _PATTERNS:
        text = pattern.sub(mask, text)
    if "PRIVATE KEY" in text:  # what is left of a key whose head was cut off
        text = _KEY_END.sub(MASK, text)
    return text


def leaves(value: Any, mask: Callable[[str], str]) -> Any:
    """Nested data with each text masked. Also what stands under a telling key: `password: …`."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: _under(key, each, mask) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [leaves(each, mask) for each in value]
    return value


_TELLING = re.compile(rf"(?:{_NAME}|pass)\Z", re.I)


def _under(key: object, value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str) and value and _TELLING.match(str(key)):
        return MASK
    return leaves(value, mask)


def secrets_in(value: Any) -> set[str]:
    """The texts that stand under a telling key, anywhere in nested data."""
    if isinstance(value, Mapping):
        own = {v for k, v in value.items() if isinstance(v, str) and _TELLING.match(str(k))}
        return own.union(*map(secrets_in, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(secrets_in, value))
    return set()
