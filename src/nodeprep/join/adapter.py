"""What every adapter to a scheduler does, and what it is told of a node."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Annotated, Protocol

from pydantic import Field

from nodeprep.model.base import Frozen
from nodeprep.model.lifecycle import State

# No blanks, no quotes: these words are written into other programs' files.
HostWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9._:%-]*$")]


class Member(Frozen):
    """A node as a scheduler sees it. `slots`: ranks it takes, one per GPU; 0: it runs no ranks."""

    name: HostWord
    address: HostWord
    slots: int = Field(ge=0)
    state: State = State.JOINED
    since: dt.datetime | None = None
    gpus: tuple[str, ...] = ()  # UUIDs


class Adapter(Protocol):
    """Keeps a scheduler's list of nodes equal to what was accepted.

    Both calls are idempotent, return whether anything was changed, and raise ToolFailure when the
    scheduler could not be told.
    """

    def join(self, nodes: Iterable[Member]) -> bool:
        """These nodes get work from now on; a known one is brought up to date."""

    def leave(self, nodes: Iterable[str]) -> bool:
        """The nodes of these names get no more work; a name that is not known is no error."""
