"""Holds one connection a node for all that a run does on it, from its reading to its last proof."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nodeprep import workers
from nodeprep.pipeline.run import Run

_MODULE = "nodeprep.remote.keeper"


@contextlib.contextmanager
def keeping(run: Run) -> Iterator[None]:
    """While this is open, the run's processes reach its nodes through one keeper.

    Nothing is connected to before it is asked for. Raises ToolFailure when the keeper does not
    start. Within another one it is that one.
    """
    if run.keeper is not None:
        yield
        return
    # Not among the run's files: the path of a socket may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="nodeprep-"))
    path = str(folder / "keeper")
    documents = [*(work.document for work in run.works.values())]
    nodes = {d.node.name: d.node.connection.model_dump(mode="json") for d in documents}
    try:
        with workers.beside(_MODULE, {"socket": path, "nodes": nodes}, log=run.log("keeper")):
            run.keeper = path
            yield
    finally:
        run.keeper = None
        shutil.rmtree(folder, ignore_errors=True)
