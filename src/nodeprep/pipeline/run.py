"""One run: its nodes, what is known of each so far, its place in the ledger and on disk."""

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodeprep import __version__, errors
from nodeprep.errors import (
    EXIT_BAD_INPUT,
    EXIT_DRIFT,
    EXIT_GOOD,
    Interrupted,
    NodeprepError,
    ToolFailure,
    told,
)
from nodeprep.inventory import Site
from nodeprep.ledger import Ledger
from nodeprep.model import lifecycle
from nodeprep.model.event import Event, What
from nodeprep.model.lifecycle import State
from nodeprep.model.node import Document
from nodeprep.model.plan import NodePlan
from nodeprep.model.reading import NodeReading
from nodeprep.model.run import Fault, NodeResult, RunResult
from nodeprep.model.verdict import Verdict

Feed = Callable[[Event], None]
Confirm = Callable[[Sequence[NodePlan]], bool]
STAGES = ("reach", "inspect", "plan", "converge", "accept", "join")
_WORST_FIRST = (1, 2, 3, 4)


@dataclass(frozen=True)
class Options:
    """What a verb was asked to do."""

    inventory: Path
    limit: str | None = None
    vault_password_file: Path | None = None
    only: tuple[str, ...] = ()
    to: str = STAGES[-1]
    level: str = "poc"
    concurrency: int = 20
    again: bool = False  # run the proofs even of a node whose acceptance stands
    fix: bool = False


@dataclass
class Work:
    """One node in a run. `refused`: its verdicts keep it out; `fault`: it could not go on."""

    document: Document
    before: State
    reading: NodeReading | None = None
    hardware: tuple[Verdict, ...] = ()
    claims: tuple[Verdict, ...] = ()
    proofs: tuple[Verdict, ...] = ()
    plan: NodePlan | None = None
    changed: list[str] = field(default_factory=list)
    fault: Fault | None = None
    refused: str = ""

    @property
    def name(self) -> str:
        return self.document.node.name

    @property
    def found(self) -> NodeReading:
        """What was read of the node; a stage that needs it comes after one that reads."""
        if self.reading is None:
            raise ToolFailure(f"{self.name}: used before it was read")
        return self.reading

    @property
    def going(self) -> bool:
        return self.fault is None and not self.refused

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return (*self.hardware, *self.claims, *self.proofs)

    @property
    def unmet(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.claims if v.verdict.blocks)


class Run:
    """Shared by the stages of one verb."""

    def __init__(self, verb: str, options: Options, site: Site, ledger: Ledger, feed: Feed) -> None:
        self.verb = verb
        self.options = options
        self.site = site
        self.ledger = ledger
        self.feed = feed
        self.started = dt.datetime.now(dt.UTC)
        self.id = f"{self.started:%Y%m%dT%H%M%S}-{verb}-{secrets.token_hex(2)}"
        self.folder = site.folder / "runs" / self.id
        self.stage = ""
        self.keeper: str | None = None  # the socket of who holds the connections, if anybody does
        self.works = {
            document.node.name: Work(document, ledger.state(document.node.name).state)
            for document in site.documents
        }

    def going(self) -> list[Work]:
        return [work for work in self.works.values() if work.going]

    def enter(self, stage: str, works: Iterable[Work]) -> None:
        """Tell everybody that these nodes enter a stage."""
        self.stage = stage
        names = [work.name for work in works]
        self.feed(Event(what=What.STAGE, data={"stage": stage, "nodes": names}))

    def note(self, text: str, node: str = "") -> None:
        self.feed(Event(what=What.NOTE, node=node, data={"text": text}))

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def fail(self, work: Work, error: NodeprepError) -> None:
        """The node cannot go on; the others do."""
        data = told(error)
        self.feed(Event(what=What.ERROR, node=work.name, data=data))
        self.failed(work, data)

    def failed(self, work: Work, data: dict[str, Any]) -> None:
        """The same, as a worker told it; it is on the screen already.

        What went wrong first is the reason. The rest may follow from it: after a package that was
        not installed, a handler finds no service to restart.
        """
        work.fault = work.fault or Fault(
            type=str(data.get("type", "ToolFailure")),
            message=str(data.get("message", "")).removeprefix(f"{work.name}: "),
            hint=str(data.get("hint", "")),
            stage=self.stage,
        )

    def move(self, work: Work, event: lifecycle.Event, reason: str = "") -> None:
        """Record what happened, where the table allows it from where the node stands."""
        if lifecycle.allowed(self.ledger.state(work.name).state, event):
            self.ledger.move(work.name, event, reason=reason, run_id=self.id)

    def refuse(self, work: Work, verdicts: Iterable[Verdict]) -> None:
        """Keep the node out, with the reasons as its state's reason."""
        lines = [f"{v.claim}: {v.reason or v.read or v.verdict}" for v in verdicts]
        shown = "; ".join(lines[:3]) + (f"; and {len(lines) - 3} more" if len(lines) > 3 else "")
        work.refused = shown
        self.move(work, lifecycle.Event.REFUSED, shown)
        self.note(f"refused: {shown}", work.name)

    def result(self, *, finished: bool = True) -> RunResult:
        return RunResult(
            id=self.id,
            verb=self.verb,
            site=self.site.name,
            inventory=str(self.site.inventory),
            version=__version__,
            started=self.started,
            finished=dt.datetime.now(dt.UTC),
            exit_code=self.exit_code() if finished else Interrupted.exit_code,
            nodes=tuple(self.node_result(work) for work in self.works.values()),
        )

    def node_result(self, work: Work) -> NodeResult:
        now = self.ledger.state(work.name)
        reading = work.reading
        return NodeResult(
            name=work.name,
            state=now.state,
            since=now.since,
            why=now.why,
            verdicts=work.verdicts,
            fault=work.fault,
            plan=work.plan,
            changed=tuple(work.changed),
            host=reading.host if reading else None,
            hardware=reading.hardware if reading else None,
            profile=work.document.node.profile,
            simulated=bool(reading and reading.host.simulated),
        )

    def exit_code(self) -> int:
        """The worst that happened to a node: 1 the tool, 2 a gate, 3 unreachable, 4 bad input."""
        codes = {_code(work, self.verb) for work in self.works.values()} - {EXIT_GOOD}
        return next((code for code in _WORST_FIRST if code in codes), EXIT_GOOD)

    def save(self, result: RunResult) -> RunResult:
        """Keep the result; what comes back has every known secret masked."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.ledger.save_run(result)


def _code(work: Work, verb: str) -> int:
    if work.fault is not None:
        kind = getattr(errors, work.fault.type, errors.ToolFailure)
        return int(kind.exit_code)
    if work.refused:
        return EXIT_DRIFT
    if verb == "plan":
        return EXIT_BAD_INPUT if work.plan and work.plan.conflicts else EXIT_GOOD
    return EXIT_DRIFT if any(v.verdict.blocks for v in work.verdicts) else EXIT_GOOD


@contextmanager
def begun(
    verb: str, options: Options, site: Site, feed: Feed, *, exclusive: bool, masked: Iterable[str]
) -> Iterator[Run]:
    """A run in the ledger from its begin to its end, whatever that end is."""
    with Ledger.open(site.folder / "ledger.sqlite", secrets=masked) as ledger:
        run = Run(verb, options, site, ledger, feed)
        for dead in ledger.begin(run.id, verb, site.inventory, exclusive=exclusive):
            run.note(f"the run {dead.id} was cut off; this one goes on from the nodes' states")
        code = Interrupted.exit_code
        try:
            yield run
            code = run.exit_code()
        except KeyboardInterrupt:
            run.save(run.result(finished=False))
            raise Interrupted(*_last_word(run)) from None
        except NodeprepError as error:
            code = error.exit_code
            raise
        finally:
            ledger.finish(run.id, code)


def _last_word(run: Run) -> tuple[str]:
    counts: dict[str, int] = {}
    for name in run.works:
        state = run.ledger.state(name).state.value
        counts[state] = counts.get(state, 0) + 1
    shown = ", ".join(f"{number} {state}" for state, number in counts.items())
    return (
        f"stopped by Ctrl-C in stage {run.stage or 'load'}: {shown}. "
        f"Run the same command again: it goes on from there",
    )


def today() -> dt.date:
    """The day that waivers are held against."""
    return dt.datetime.now(dt.UTC).date()


def keep_json(path: Path, document: Any) -> None:
    """Write a JSON file that a reader never meets half-written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(document), encoding="utf-8")  # indented it takes Python's encoder
    draft.replace(path)
