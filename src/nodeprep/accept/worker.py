"""`python -m nodeprep.accept.worker`: one node's acceptance, from a job on stdin to events.

Events go to the stdout that the process was started with; whatever else prints goes to stderr.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nodeprep.errors import (
    EXIT_BAD_INPUT,
    EXIT_GOOD,
    EXIT_TOOL_FAILURE,
    BadInput,
    Interrupted,
    NodeprepError,
    ToolFailure,
    told,
)
from nodeprep.model.event import Event, What

if TYPE_CHECKING:
    from nodeprep.accept.job import Job
    from nodeprep.accept.session import NodeSession, Runs


def main() -> int:
    """0 when the acceptance ran to its end, whatever the verdicts; 1 when it broke; 4: bad job."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    emit = _events()
    try:
        job = _read_job(sys.stdin.read())
    except ValueError as problem:
        # pydantic's messages can repeat the input: only the places are told.
        _fail(emit, BadInput(f"the job is not one: {_places(problem)}"))
        return EXIT_BAD_INPUT
    try:
        return _accept(job, emit)
    except (Interrupted, KeyboardInterrupt):
        _fail(emit, Interrupted("the acceptance was interrupted"))
        return EXIT_TOOL_FAILURE
    except Exception as problem:  # noqa: BLE001 - a worker's last word is an event
        _fail(emit, ToolFailure(f"acceptance broke: {type(problem).__name__}: {problem}"))
        return EXIT_TOOL_FAILURE


def _accept(job: Job, emit: Callable[[Event], None]) -> int:
    # A site's pytest plugins (xdist, …) must not change what acceptance does.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ.pop("PYTEST_PLUGINS", None)
    sys.dont_write_bytecode = True  # roles may lie where nothing is to be written
    from nodeprep.accept.run import accept  # noqa: PLC0415 - after the environment is set

    accept(job, _session(job), emit)
    return EXIT_GOOD


def _session(job: Job) -> NodeSession:
    from nodeprep.accept.session import NodeSession  # noqa: PLC0415
    from nodeprep.accept.transcript import Transcript  # noqa: PLC0415

    return NodeSession(
        keep=Transcript(Path(job.raw)).keep if job.raw else None,
        connect=lambda: _connect(job),
        offers=lambda user: _offers(job, user),
    )


# Each loads what it needs when it is needed: paramiko and pyinfra take longer than most proofs.
def _connect(job: Job) -> Runs:
    from nodeprep import remote  # noqa: PLC0415

    node = job.document.node
    if job.keeper:
        return remote.kept({node.name: node.connection.user}, job.keeper)[node.name].connect()
    return remote.remotes({node.name: node.connection})[node.name].connect()


def _offers(job: Job, user: str) -> tuple[str, ...]:
    from nodeprep.accept.login import methods_offered  # noqa: PLC0415

    return methods_offered(job.document.node.connection, user)


def _read_job(text: str) -> Job:
    from nodeprep.accept.job import Job  # noqa: PLC0415

    return Job.model_validate_json(text)


def _events() -> Callable[[Event], None]:
    """Keep stdout for events, and send what anything else prints to stderr."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(event: Event) -> None:
        stream.write(event.line())
        stream.flush()

    return emit


def _fail(emit: Callable[[Event], None], error: NodeprepError) -> None:
    emit(Event(what=What.ERROR, data=told(error)))


def _places(problem: ValueError) -> str:
    errors = getattr(problem, "errors", None)
    if errors is None:
        return type(problem).__name__
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['type']}" for e in errors()[:5])


if __name__ == "__main__":
    sys.exit(main())
