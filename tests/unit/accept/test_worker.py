"""The worker as the pipeline starts it: a job in, events out, and nothing else on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from nodeprep.accept.job import Job
from nodeprep.model.event import Event, What
from nodeprep.model.node import Connection
from tests.unit.accept.nodes import Outcomes, document, job

PROOF = """
import pytest
print("printed while it is collected")

@pytest.mark.proof("it", timeout_s=9)
def test_it(proof):
    print("printed by a proof")
    proof.run("true")
"""


def run(text: str) -> tuple[int, list[Event]]:
    done = subprocess.run(
        [sys.executable, "-m", "nodeprep.accept.worker"],
        input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, [Event.model_validate_json(line) for line in done.stdout.splitlines()]


def unreachable(tmp_path: Path) -> Job:
    """A node at a port of this machine that nothing listens on."""
    folder = tmp_path / "roles" / "demo" / "acceptance"
    folder.mkdir(parents=True)
    (folder / "test_demo.py").write_text(PROOF)
    key, known = tmp_path / "key", tmp_path / "known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    known.write_text(f"[127.0.0.1]:1 {key.with_suffix('.pub').read_text()}")
    connection = Connection(
        host="127.0.0.1", port=1, user="ops", key_file=str(key), known_hosts=str(known)
    )
    wanted = document("demo")
    node = wanted.node.model_copy(update={"connection": connection})
    return job(wanted.model_copy(update={"node": node}), tmp_path / "roles")


def test_a_node_that_does_not_answer_is_told_in_events(tmp_path: Path) -> None:
    code, events = run(unreachable(tmp_path).model_dump_json())
    found = Outcomes(events)
    assert code == 0
    assert found.proof("it").verdict == "unknown"
    assert [e.data["type"] for e in events if e.what is What.ERROR] == ["Unreachable"]
    assert events[-1].what is What.DONE
    assert not found.done["accepted"]


def test_a_job_that_is_none_is_bad_input() -> None:
    code, events = run('{"document": {}, "password": "hunter2"}')
    assert code == 4
    assert [e.data["type"] for e in events] == ["BadInput"]
    assert "hunter2" not in json.dumps([e.model_dump(mode="json") for e in events])


def test_an_unexpected_end_is_a_tool_failure(tmp_path: Path) -> None:
    values: dict[str, Any] = json.loads(unreachable(tmp_path).model_dump_json())
    values["document"]["node"]["connection"]["key_file"] = str(tmp_path / "absent")
    code, events = run(json.dumps(values))
    assert code == 0
    assert Outcomes(events).proof("it").verdict == "unknown"
    assert "no private key" in Outcomes(events).errors[0]
