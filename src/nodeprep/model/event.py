"""The one schema of events: what worker processes write, a JSON object a line.

The screen, the ledger and the report are all fed by it. A worker never prints anything else on
its event descriptor, and no event ever carries a secret.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any

from pydantic import Field

from nodeprep.model.base import Frozen


class What(StrEnum):
    STAGE = "stage"  # data: {"stage", "nodes"}: the run enters a stage
    NOTE = "note"  # data: {"text"}: a word for the person who watches
    TASK = "task"  # data: {"role", "task", "status": ok|changed|failed|skipped, "text", "seconds"}
    READING = "reading"  # data: a NodeReading
    VERDICT = "verdict"  # data: a Verdict
    DONE = "done"  # data: what the worker's job returns for this node
    ERROR = "error"  # data: {"type": name in nodeprep.errors, "message", "hint"}


class Event(Frozen):
    what: What
    node: str = ""  # empty: the whole run
    at: float = Field(default_factory=time.time)  # seconds since the epoch
    data: dict[str, Any] = {}

    def line(self) -> str:
        return self.model_dump_json() + "\n"
