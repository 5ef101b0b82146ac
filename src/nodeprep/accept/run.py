"""Runs the acceptance of one node through pytest, in this process."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeprep.accept.fixtures import Fixtures
from nodeprep.accept.gate import Decision, decide, is_proof
from nodeprep.accept.job import Job
from nodeprep.accept.plugin import Acceptance
from nodeprep.accept.session import NodeSession
from nodeprep.errors import Interrupted, NodeprepError, ToolFailure, told
from nodeprep.model.event import Event, What

Emit = Callable[[Event], None]


def accept(job: Job, session: NodeSession, emit: Emit) -> Decision:
    """Emits a VERDICT per item, an ERROR per problem, and DONE; closes the session.

    DONE carries `collected`, `counts` by outcome, `accepted` and, where not, `reasons`.
    Interrupted, without DONE, when it was.
    """
    acceptance = Acceptance(job, session, emit)
    try:
        with tempfile.TemporaryDirectory(prefix="nodeprep-accept-") as empty:
            code = pytest.main(
                arguments(job, Path(empty)), plugins=[Fixtures(job, session), acceptance]
            )
    finally:
        session.close()
    if code == pytest.ExitCode.INTERRUPTED:
        raise Interrupted("the acceptance was interrupted")
    problems = [*acceptance.problems, *_shortfall(acceptance, job, code)]
    decision = decide(acceptance.verdicts, job.document.node.profile)
    reasons = (*problems, *decision.reasons)
    node = job.document.node.name
    for error in (*_of_session(session), *(ToolFailure(problem) for problem in problems)):
        emit(Event(what=What.ERROR, node=node, data=told(error)))
    counts = Counter(str(verdict.verdict) for verdict in acceptance.verdicts)
    done = {
        "collected": acceptance.collected,
        "counts": dict(counts),
        "accepted": not reasons,
        "reasons": list(reasons),
    }
    emit(Event(what=What.DONE, node=node, data=done))
    return Decision(not reasons, reasons)


def arguments(job: Job, empty: Path) -> list[str]:
    """pytest's. `empty`: a folder for its root, so that no configuration of a site's is read."""
    (empty / "pytest.ini").write_text("[pytest]\n")
    folders = [str(folder) for folder in proof_folders(job)]
    return [
        *(folders or [str(empty)]),
        "--config-file", str(empty / "pytest.ini"),
        "--rootdir", str(empty),
        "--import-mode", "importlib",
        "--noconftest",
        "--strict-markers",
        "--continue-on-collection-errors",
        "-p", "no:cacheprovider",
        # Of no use here, and the first collects all garbage five times a run.
        "-p", "no:unraisableexception", "-p", "no:threadexception",
        "-p", "no:doctest", "-p", "no:faulthandler",
        "-q", "-rN", "--tb", "short", "--color", "no", "--show-capture", "no",
        *([f"--junit-xml={job.junit}", "-o", "junit_suite_name=nodeprep"] if job.junit else []),
    ]  # fmt: skip


def proof_folders(job: Job) -> tuple[Path, ...]:
    """`acceptance/` of the node's roles, in their order; those without one are left out."""
    found: list[Path] = []
    for role in job.document.roles:
        homes = (Path(path) / role for path in job.roles_path)
        home = next((path for path in homes if path.is_dir()), None)
        if home is not None and any((home / "acceptance").glob("test_*.py")):
            found.append(home / "acceptance")
    return tuple(found)


def _shortfall(acceptance: Acceptance, job: Job, code: int) -> list[str]:
    found: list[str] = []
    if not acceptance.collected:
        found.append("nothing was collected: neither claims nor proofs")
    elif len(acceptance.verdicts) != acceptance.collected:
        found.append(f"{acceptance.collected} items, {len(acceptance.verdicts)} verdicts")
    proofs = [verdict for verdict in acceptance.verdicts if is_proof(verdict)]
    if job.document.node.profile.parts.gpus and not proofs:
        found.append("the node has GPUs, and no proof was collected")
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not acceptance.problems:
        found.append(f"pytest ended with {int(code)}")
    return found


def _of_session(session: NodeSession) -> tuple[NodeprepError, ...]:
    return () if session.fault is None else (session.fault,)
