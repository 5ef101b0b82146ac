"""Takes known secrets out of what is about to be remembered. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

MASK = "********"
_SHORTEST = 4  # a shorter one would tear holes into ordinary words


class Scrubber:
    """Masks secrets in texts and in the leaves of nested data. Keys and enums stay as they are."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        long_enough = {secret for secret in secrets if len(secret) >= _SHORTEST}
        self._secrets = tuple(sorted(long_enough, key=len, reverse=True))

    def text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def data(self, value: Any) -> Any:
        if not self._secrets or isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.data(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(each) for each in value]
        return value
