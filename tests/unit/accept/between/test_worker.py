"""The worker as the pipeline starts it: a job in, events out; one lost node ends nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from nodeprep.accept.between.job import SECONDS
from nodeprep.accept.job import LEVELS
from nodeprep.model.event import Event, What


def run(text: str) -> tuple[int, list[Event]]:
    done = subprocess.run(
        [sys.executable, "-m", "nodeprep.accept.between.worker"],
        input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, [Event.model_validate_json(line) for line in done.stdout.splitlines()]


def member(name: str, folder: Path) -> dict[str, Any]:
    """A node at a port of this machine that nothing listens on."""
    key = folder / "key"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    connection = {
        "host": "127.0.0.1", "port": 1, "user": "ops", "key_file": str(key),
        "known_hosts": str(folder / "known_hosts"),
    }  # fmt: skip
    return {"name": name, "address": "127.0.0.1", "connection": connection, "udp_mbps": 100}


def test_nodes_that_do_not_answer_are_told_and_it_ends(tmp_path: Path) -> None:
    members = [member("gpu1", tmp_path), member("gpu2", tmp_path)]
    code, events = run(json.dumps({"members": members, "rounds": [[["gpu1", "gpu2"]]]}))
    assert code == 0
    errors = [event for event in events if event.what is What.ERROR]
    assert {event.node for event in errors} == {"gpu1", "gpu2"}
    assert not any("pair" in event.data for event in events)
    assert events[-1].data == {"ended": True}


def test_every_level_says_how_long_it_sends() -> None:
    assert tuple(SECONDS) == LEVELS
    assert not SECONDS["poc"].ceiling
    assert all(SECONDS[level].ceiling for level in LEVELS[1:])


def test_a_job_that_is_none_is_bad_input() -> None:
    assert run('{"members": 1}') == (4, [])
