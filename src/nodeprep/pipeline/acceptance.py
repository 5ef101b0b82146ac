"""The acceptance stage: a node's own proofs, its links to the others, and the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodeprep import workers
from nodeprep.accept import gate
from nodeprep.errors import ToolFailure
from nodeprep.judge import fleet
from nodeprep.judge.claims import waive
from nodeprep.model.event import Event, What
from nodeprep.model.lifecycle import Event as Happened
from nodeprep.model.lifecycle import State
from nodeprep.model.verdict import Verdict
from nodeprep.pipeline.between import between
from nodeprep.pipeline.keeping import keeping
from nodeprep.pipeline.run import Run, Work, today

_ACCEPTED_AT_ONCE = 8  # a child process each, of about 60 MB


def stands(run: Run, work: Work) -> bool:
    """Whether the node was accepted as it is: same desired state, same boot, nothing changed."""
    accepted = run.ledger.accepted(work.name)
    return (
        accepted is not None
        and not work.changed
        and not run.options.again
        and work.before in (State.ACCEPTED, State.JOINED)
        and accepted.digest == work.document.digest
        and accepted.boot_id == work.found.host.boot_id
        and not run.ledger.identity_changes(work.name)
    )


def accept(run: Run, works: Sequence[Work]) -> None:
    """The gates: every claim and every proof as a test; a node passes as a whole or not at all."""
    works = [work for work in works if not stands(run, work)]
    if works:
        with keeping(run):
            _accept(run, works)


def _accept(run: Run, works: Sequence[Work]) -> None:
    run.enter("accept", works)
    jobs = [_acceptance(run, work) for work in works]
    told = {work.name: _Told() for work in works}
    failures = workers.run_each(
        "nodeprep.accept.worker",
        jobs,
        [told[work.name].feed(run, work) for work in works],
        logs=[run.log(f"accept-{work.name}") for work in works],
        limit=_ACCEPTED_AT_ONCE,
    )
    for work, failure in zip(works, failures, strict=True):
        if failure is not None and work.fault is None:
            run.fail(work, failure)
        claimed = {v.claim for v in (*work.hardware, *work.claims)}
        proofs = [v for v in told[work.name].verdicts if v.claim not in claimed]
        node = work.document.node
        work.proofs = waive(proofs, node.waivers, node.name, today())
    _compare_sisters(works)
    _between(run, works)
    for work in works:
        if work.going:
            _decide(run, work, ended=told[work.name].ended)


def _between(run: Run, works: Sequence[Work]) -> None:
    """What no node can prove alone: its links to the others."""
    for name, found in between(run, works).items():
        work = run.works[name]
        node = work.document.node
        judged = waive(found, node.waivers, name, today())
        work.proofs = (*work.proofs, *judged)
        for verdict in judged:
            run.feed(Event(what=What.VERDICT, node=name, data=verdict.model_dump(mode="json")))


def _compare_sisters(works: Sequence[Work]) -> None:
    """Beside the gates: who is slower than its sisters is named."""
    told = fleet.compare(
        {work.name: (work.document.node.profile.name, work.proofs) for work in works}
    )
    for work in works:
        work.proofs = told[work.name]


class _Told:
    """What the acceptance of one node told so far."""

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []
        self.ended = False

    def feed(self, run: Run, work: Work) -> workers.Feed:
        def fed(event: Event) -> None:
            event = event.model_copy(update={"node": work.name})
            if event.what is What.VERDICT:
                self.verdicts.append(Verdict.model_validate(event.data))
            elif event.what is What.DONE:
                self.ended = True
            elif event.what is What.ERROR:
                run.failed(work, event.data)
            run.feed(event)

        return fed


def _acceptance(run: Run, work: Work) -> dict[str, Any]:
    last = run.ledger.last_accepted(work.name)
    return {
        "document": work.document.model_dump(mode="json"),
        "reading": work.found.model_dump(mode="json"),
        "claims": [v.model_dump(mode="json") for v in (*work.hardware, *work.claims)],
        "roles_path": [str(path) for path in run.site.roles_path],
        "level": run.options.level,
        "junit": str(run.folder / f"junit-{work.name}.xml"),
        "raw": str(run.folder / "raw" / work.name / "proofs.txt"),
        "keeper": run.keeper,
        "baseline": last.measurements if last else None,
    }


def _decide(run: Run, work: Work, *, ended: bool) -> None:
    if not ended:
        run.fail(work, ToolFailure(f"{work.name}: acceptance did not come to its end"))
        return
    accepted, reasons = gate.decide(work.verdicts, work.document.node.profile)
    if not accepted:
        blocking = [v for v in work.verdicts if v.verdict.blocks]
        if blocking:
            run.refuse(work, blocking)
        else:
            run.fail(work, ToolFailure(f"{work.name}: not accepted: {'; '.join(reasons)}"))
        return
    state = run.ledger.state(work.name).state
    if state in (State.CONVERGED, State.ACCEPTED, State.JOINED):
        measured = {v.claim: v.value for v in work.proofs if v.value is not None}
        boot = work.found.host.boot_id
        run.ledger.accept(work.name, work.document.digest, boot, measured)
        run.move(work, Happened.ACCEPTED)
