"""The screen while a run is at work: fed by events, one line a node."""

from __future__ import annotations

import datetime as dt
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import IO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nodeprep.model.event import Event, What
from nodeprep.model.verdict import Outcome
from nodeprep.report.blocks import BAD, GOOD, PLAIN, QUIET, STRONG, UNSURE
from nodeprep.report.safe import one_line
from nodeprep.report.words import lasted

_REFRESHES_PER_S = 4
_RESERVED_LINES = 4  # heading, summary, and room for the prompt
_TEXT_WIDTH = 200


@dataclass
class _Row:
    """Where one node is."""

    stage: str = ""
    doing: str = "waiting"
    style: str = QUIET
    since: float = 0.0
    ended: float | None = None
    changed: int = 0
    failed: int = 0

    def seconds(self, now: float) -> float:
        return (now if self.ended is None else self.ended) - self.since


class Screen:
    """`with Screen(sys.stdout) as screen:`, then `stage` and `feed`; from any thread.

    On a terminal a table is drawn over and over; elsewhere each thing worth a line is one, with
    the time. Both are quiet about readings and passed verdicts: those belong to the report.
    """

    def __init__(
        self,
        out: Console | IO[str] | None = None,
        *,
        verb: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._console = out if isinstance(out, Console) else Console(file=out or sys.stderr)
        self._verb = verb
        self._clock = clock
        self._rows: dict[str, _Row] = {}
        self._stage = ""
        self._since = clock()
        self._mutex = threading.RLock()
        self._live: Live | None = None

    def __enter__(self) -> Screen:
        self._since = self._clock()
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self.draw,
                console=self._console,
                refresh_per_second=_REFRESHES_PER_S,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def stage(self, name: str, nodes: Iterable[str]) -> None:
        """The run enters a stage with these nodes; the others stay as they are."""
        names = tuple(nodes)
        with self._mutex:
            self._stage = name
            for node in names:
                row = self._rows.setdefault(node, _Row())
                row.stage, row.doing, row.style = name, "", PLAIN
                row.since, row.ended, row.failed = self._clock(), None, 0
        self._say("", f"{name}: {len(names)} node{'s' * (len(names) != 1)}", STRONG)

    def feed(self, event: Event) -> None:
        """Show one event. What it does not know, or finds malformed, it passes over."""
        with self._mutex:
            if event.what is What.STAGE:
                nodes = event.data.get("nodes", ())
                self.stage(str(event.data.get("stage", "")), map(str, nodes))
            elif event.what is What.NOTE:
                self._note(event, str(event.data.get("text", "")), PLAIN)
            elif event.what is What.TASK:
                self._task(event)
            elif event.what is What.VERDICT:
                self._verdict(event)
            elif event.what is What.ERROR:
                self._error(event)
            elif event.what is What.DONE and event.node:
                self._done(event)

    def _task(self, event: Event) -> None:
        status = str(event.data.get("status", ""))
        words = f"{event.data.get('role', '')}: {event.data.get('task', '')}"
        row = self._row(event.node)
        row.doing, row.style = words, BAD if status == "failed" else PLAIN
        if status == "changed":
            row.changed += 1
            self._say(event.node, f"{words}: changed", PLAIN)
        elif status == "failed":
            row.failed += 1
            self._say(event.node, f"{words}: failed {event.data.get('text', '')}", BAD)

    def _verdict(self, event: Event) -> None:
        claim, outcome = str(event.data.get("claim", "")), str(event.data.get("verdict", ""))
        row = self._row(event.node)
        row.doing = claim
        if outcome in (Outcome.FAIL, Outcome.UNKNOWN):
            row.failed += 1
            row.style = BAD if outcome == Outcome.FAIL else UNSURE
            reason = event.data.get("reason") or f"read {event.data.get('read') or 'nothing'}"
            self._say(event.node, f"{claim}: {outcome}: {reason}", row.style)

    def _error(self, event: Event) -> None:
        message = str(event.data.get("message", "")).removeprefix(f"{event.node}: ")
        if event.node:
            row = self._row(event.node)
            row.doing, row.style, row.ended = message, BAD, self._clock()
            row.failed += 1
        self._say(event.node, message, BAD)

    def _done(self, event: Event) -> None:
        row = self._row(event.node)
        row.ended = self._clock()
        if not row.failed:
            row.doing, row.style = "done", GOOD
        if self._live is None:
            self._say(event.node, f"{row.stage} done in {lasted(row.seconds(self._clock()))}", GOOD)

    def _note(self, event: Event, text: str, style: str) -> None:
        if event.node:
            self._row(event.node).doing = text
        if not event.node or self._live is None:
            self._say(event.node, text, style)

    def _row(self, node: str) -> _Row:
        return self._rows.setdefault(node, _Row(stage=self._stage, since=self._clock()))

    def _say(self, node: str, text: str, style: str) -> None:
        """A line of its own: above the table on a terminal, and only if it is bad news there."""
        text = one_line(text, _TEXT_WIDTH)
        if self._live is None:
            at = f"{dt.datetime.fromtimestamp(self._clock(), dt.UTC):%H:%M:%S}"
            line = f"{at} {node} {text}" if node else f"{at} {text}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif style in (BAD, UNSURE) or not (node or style == STRONG):
            self._live.console.print(Text(f"{node}  {text}" if node else text, style=style))

    def draw(self) -> Group:
        """The table as it stands: bad nodes and busy ones first when not all of them fit."""
        with self._mutex:
            now = self._clock()
            table = Table.grid(padding=(0, 2))
            for column in ("node", "stage", "doing", "for"):
                table.add_column(no_wrap=True, overflow="ellipsis", ratio=column == "doing" or None)
            shown = self._shown()
            for name in shown:
                self._draw_row(table, name, now)
            heading = Text(f"nodeprep {self._verb}".rstrip(), style=STRONG)
            heading.append(f"  {self._stage}  {lasted(now - self._since)}", style=QUIET)
            left = len(self._rows) - len(shown)
            more = [Text(f"and {left} more", style=QUIET)] if left else []
            return Group(heading, table, *more)

    def _draw_row(self, table: Table, name: str, now: float) -> None:
        row = self._rows[name]
        doing = Text(one_line(row.doing, _TEXT_WIDTH), style=row.style)
        if row.changed:
            doing.append(f"  {row.changed} changed", style=QUIET)
        table.add_row(
            Text(name, style=STRONG),
            Text(row.stage, style=QUIET),
            doing,
            Text(lasted(row.seconds(now)), style=QUIET),
        )

    def _shown(self) -> list[str]:
        room = max(1, self._console.height - _RESERVED_LINES)
        if len(self._rows) <= room:
            return list(self._rows)
        ranked = sorted(self._rows, key=lambda n: (not self._rows[n].failed,
                                                   self._rows[n].ended is not None))  # fmt: skip
        chosen = set(ranked[:room])
        return [name for name in self._rows if name in chosen]
