"""The pytest plugin of acceptance: what is collected, and how an item ends as a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from nodeprep.accept.findings import Finding, merge
from nodeprep.accept.fixtures import PROOF
from nodeprep.accept.items import ClaimItem, Claims, ProofFailed, show
from nodeprep.accept.job import LEVELS, Job, Level
from nodeprep.accept.proof import NotApplicable
from nodeprep.accept.session import NodeSession, Unknown
from nodeprep.model.event import Event, What
from nodeprep.model.verdict import Outcome, Verdict

MARKER = "proof(name, level='poc', timeout_s=60): a proof, its level, its seconds (or {level: s})"
_TIMEOUT_S = 60.0


@dataclass
class Ticket:
    """What the plugin knows of a proof. `problem`: why it is not to be run."""

    name: str
    role: str
    level: str
    timeout_s: float
    problem: str = ""
    verdict: Verdict | None = None
    late: str = ""  # went wrong after the verdict: in a teardown

    @property
    def claim(self) -> str:
        return f"{self.role}/proof:{self.name}"


TICKET = pytest.StashKey[Ticket]()


class Acceptance:
    """Verdicts, problems and counts of one run."""

    def __init__(self, job: Job, session: NodeSession, emit: Callable[[Event], None]) -> None:
        self._job = job
        self._session = session
        self._emit = emit
        self.verdicts: list[Verdict] = []
        self.problems: list[str] = []
        self.collected = 0

    # What is collected

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", MARKER)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            lines = report.longreprtext.strip().splitlines() or ["no word"]
            self.problems.append(f"{report.nodeid} could not be collected: {lines[-1].strip()}")
        elif report.skipped:
            self.problems.append(f"{report.nodeid} skips itself as a whole")

    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        proofs = [item for item in items if self._wanted(item)]
        _refuse_twins(proofs)
        items[:] = [*Claims.of(session, self._job.claims).collect(), *proofs]
        self.collected = len(items)

    def _wanted(self, item: pytest.Item) -> bool:
        """Of this level or an earlier one. What the marker got wrong is kept, and is unknown."""
        ticket = item.stash[TICKET] = _ticket(item, self._job.level)
        if ticket.level not in LEVELS:
            ticket.problem = f"no such level: {ticket.level!r}; one of {', '.join(LEVELS)}"
            return True
        return LEVELS.index(ticket.level) <= LEVELS.index(self._job.level)

    # How an item ends

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began = time.monotonic()
        ticket = item.stash.get(TICKET, None)
        if ticket:
            text = f"{ticket.claim} (up to {ticket.timeout_s:g} s)"
            self._tell(What.NOTE, {"text": text})
            self._session.begin(ticket.timeout_s)
        # An interruption goes through here without a verdict: nothing was found out.
        result = yield
        if isinstance(item, ClaimItem):
            self._conclude(item.verdict)
        elif ticket:
            self._conclude(self._final(item, ticket, time.monotonic() - began))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        ticket = pyfuncitem.stash[TICKET]
        error: BaseException | None = None
        result: object = True
        try:
            result = yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as raised:  # noqa: BLE001 - pytest's outcomes are no Exceptions
            error = raised
        ticket.verdict = self._judge(pyfuncitem, ticket, error)
        show(ticket.verdict, ProofFailed)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        ticket = item.stash.get(TICKET, None)
        if ticket is None:
            return (yield)
        try:
            if ticket.problem:
                raise Unknown(ticket.problem)
            return (yield)
        except Exception as raised:
            ticket.verdict = self._judge(item, ticket, raised)
            show(ticket.verdict, ProofFailed)
            raise
        except pytest.skip.Exception as raised:
            ticket.verdict = self._judge(item, ticket, raised)
            raise ProofFailed(ticket.verdict.reason) from raised

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        ticket = item.stash.get(TICKET, None)
        if ticket and call.excinfo and call.when == "teardown":
            ticket.late = f"its teardown failed: {call.excinfo.exconly()}"
        if ticket and call.excinfo and call.excinfo.errisinstance(ProofFailed):
            report.longrepr = str(call.excinfo.value)
        return report

    def pytest_internalerror(self, excrepr: object) -> None:
        self.problems.append(f"pytest broke: {str(excrepr).strip().splitlines()[-1]}")

    def _judge(self, item: pytest.Item, ticket: Ticket, error: BaseException | None) -> Verdict:
        recorded = item.stash[PROOF].findings if PROOF in item.stash else []
        findings = [*recorded, *_of_error(error)]
        return merge(
            findings,
            claim=ticket.claim,
            role=ticket.role,
            simulated=self._job.reading.host.simulated,
        )

    def _final(self, item: pytest.Item, ticket: Ticket, seconds: float) -> Verdict:
        verdict = ticket.verdict or self._judge(item, ticket, None)
        if ticket.late:
            late = Finding(outcome=Outcome.UNKNOWN, reason=ticket.late)
            recorded = item.stash[PROOF].findings if PROOF in item.stash else []
            verdict = merge(
                [*recorded, late],
                claim=ticket.claim, role=ticket.role, simulated=verdict.simulated,
            )  # fmt: skip
        told = {"level": self._job.level, "seconds": round(seconds, 3)}
        return verdict.model_copy(update={"detail": {**verdict.detail, **told}})

    def _conclude(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        self._tell(What.VERDICT, verdict.model_dump(mode="json"))

    def _tell(self, what: What, data: dict[str, Any]) -> None:
        self._emit(Event(what=what, node=self._job.document.node.name, data=data))


def _ticket(item: pytest.Item, running: Level) -> Ticket:
    role = item.path.parent.parent.name
    marker = item.get_closest_marker("proof")
    if marker is None or not marker.args:
        function = getattr(item, "originalname", None) or item.name
        problem = "has no @pytest.mark.proof(name, …): its level and time are not known"
        return Ticket(function, role, LEVELS[0], _TIMEOUT_S, problem)
    level = str(marker.kwargs.get("level", LEVELS[0]))
    name, timeout_s = str(marker.args[0]), marker.kwargs.get("timeout_s", _TIMEOUT_S)
    if isinstance(timeout_s, Mapping):
        timeout_s = timeout_s.get(running, _TIMEOUT_S)
    return Ticket(name, role, level, float(timeout_s))


def _refuse_twins(items: Sequence[pytest.Item]) -> None:
    """Two proofs of one name would hide each other; the later ones are unknown, under new names."""
    seen: dict[str, int] = {}
    for item in items:
        ticket = item.stash[TICKET]
        seen[ticket.claim] = seen.get(ticket.claim, 0) + 1
        if (times := seen[ticket.claim]) > 1:
            ticket.problem = f"{ticket.claim} is proven more than once"
            ticket.name = f"{ticket.name}#{times}"


def _of_error(error: BaseException | None) -> list[Finding]:
    match error:
        case None:
            return []
        case NotApplicable():
            return [Finding(outcome=Outcome.NOT_APPLICABLE, reason=str(error))]
        case Unknown():
            return [Finding(outcome=Outcome.UNKNOWN, reason=error.reason, action=error.action)]
        case AssertionError() if _inside_testinfra(error):
            return [Finding(outcome=Outcome.UNKNOWN, reason=str(error)[:300] or "testinfra failed")]
        case AssertionError():
            return [Finding(outcome=Outcome.FAIL, reason=str(error) or "an assertion failed")]
        case pytest.skip.Exception():
            reason = f"skipped, which is no measurement: {error}"
            return [Finding(outcome=Outcome.UNKNOWN, reason=reason)]
        case _:
            reason = f"{type(error).__name__}: {error}"
            return [Finding(outcome=Outcome.UNKNOWN, reason=reason[:600])]


def _inside_testinfra(error: BaseException) -> bool:
    """testinfra asserts that its own commands worked: then nothing about the node was asserted."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    name = str(frame.tb_frame.f_globals.get("__name__", "")) if frame else ""
    return name.partition(".")[0] == "testinfra"
