"""The worker: one event per node and job, clean of secrets, whatever happens to the others."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nodeprep import errors
from nodeprep.errors import BadInput, LoginRefused
from nodeprep.model.event import Event
from nodeprep.model.reading import NodeReading
from nodeprep.probe import reader, worker
from nodeprep.remote import Result
from tests.unit import servers

CONNECTION = {
    "host": "127.0.0.1",
    "port": 22,
    "user": "ops",
    "bootstrap_user": "root",
    "key_file": "/nonexistent/id",
    "known_hosts": "/nonexistent/known_hosts",
    "connect_timeout_s": 5,
}
CLAIMS = [{"kind": "package", "role": "base", "name": "chrony"}]


class FakeRemote:
    """Answers the reader with what `answers` says of it."""

    user = "ops"

    def __init__(self, name: str, answer: Result | Exception, asked: list[bytes]) -> None:
        self.name = name
        self._answer = answer
        self._asked = asked
        self.closed = 0

    def connect(self) -> FakeRemote:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self

    def run(self, command: list[str], *, stdin: bytes, timeout_s: float) -> Result:
        assert command == ["python3", "-I", "-"]
        assert isinstance(self._answer, Result)
        self._asked.append(stdin)
        return self._answer

    def __enter__(self) -> FakeRemote:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1


def reads(program: bytes) -> Result:
    """What a node says to a reader's program: it is run here, on a tree without anything."""
    ran = subprocess.run(
        [sys.executable, "-I", "-"], input=program, capture_output=True, check=False
    )
    return Result(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


class SelfReading(FakeRemote):
    def connect(self) -> FakeRemote:
        return self

    def run(self, command: list[str], *, stdin: bytes, timeout_s: float) -> Result:
        self._asked.append(stdin)
        return reads(stdin)


Read = Callable[..., dict[str, Event]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    def run(nodes: Mapping[str, FakeRemote]) -> dict[str, Event]:
        out = io.StringIO()
        monkeypatch.setattr(worker, "remotes", lambda _: nodes)
        entries = [{"name": n, "connection": CONNECTION, "claims": CLAIMS} for n in nodes]
        worker.read({"nodes": entries}, worker.Emitter(out, []))
        events = [Event.model_validate_json(line) for line in out.getvalue().splitlines()]
        assert len(events) == len(nodes), "one event a node"
        return {event.node: event for event in events}

    return run


def said(rc: int, stderr: str = "", stdout: str = "", **more: Any) -> FakeRemote:
    return FakeRemote("n1", Result(rc, stdout, stderr, **more), [])


def test_a_node_that_answers_is_a_reading_and_its_connection_is_closed(read: Read) -> None:
    node = SelfReading("n1", Result(0, "", ""), [])
    event = read({"n1": node})["n1"]
    reading = NodeReading.model_validate(event.data)
    assert set(reading.readings) == {"base/package:chrony"}
    assert node.closed == 1


def test_one_bad_node_is_an_error_of_its_own(read: Read) -> None:
    nodes = {
        "bad": FakeRemote("bad", LoginRefused("no", hint="try"), []),
        "odd": FakeRemote("odd", RuntimeError("what"), []),
        "n1": SelfReading("n1", Result(0, "", ""), []),
    }
    events = read(nodes)
    assert events["bad"].data == {"type": "LoginRefused", "message": "no", "hint": "try"}
    assert events["odd"].data["type"] == "ToolFailure"
    assert "RuntimeError" in events["odd"].data["message"]
    assert events["n1"].what == "reading"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (said(127, "timeout: failed to run command 'python3': No such file"), "no python3"),
        (said(127, "sh: 1: sudo: not found"), "no sudo"),
        (said(1, "sudo: a password is required"), "may not use sudo"),
        (said(124, timed_out=True), "within 60 s"),
        (said(0), "gave no reading"),
        (said(1, "Traceback …", "rubbish"), "gave no reading"),
        (said(0, "", f"{reader.BEGIN} 12 00000000\n{{"), "breaks off"),
    ],
)
def test_no_answer_is_an_error_that_says_why(answer: FakeRemote, expected: str, read: Read) -> None:
    event = read({"n1": answer})["n1"]
    assert event.what == "error"
    assert expected in event.data["message"]
    assert issubclass(getattr(errors, event.data["type"]), errors.NodeprepError)


def test_a_record_that_cannot_be_read_is_an_error_of_every_node(tmp_path: Path) -> None:
    connection = CONNECTION | {"known_hosts": str(tmp_path)}  # a folder
    nodes = [{"name": name, "connection": connection} for name in ("a", "b")]
    out = io.StringIO()
    worker.read({"nodes": nodes}, worker.Emitter(out, []))
    events = [Event.model_validate_json(line) for line in out.getvalue().splitlines()]
    assert [(event.node, event.data["type"]) for event in events] == [
        ("a", "BadInput"),
        ("b", "BadInput"),
    ]


def emitted(act: Callable[[worker.Emitter], None], *secrets: str) -> dict[str, Any]:
    out = io.StringIO()
    act(worker.Emitter(out, list(secrets)))
    return Event.model_validate_json(out.getvalue()).data


@pytest.mark.parametrize("secret", ['pass"word\\', "päss", "a", "note", "}"])
def test_no_event_carries_a_secret_and_all_stay_json(secret: str) -> None:
    told = emitted(lambda emit: emit.note("n", f"login with {secret}!"), secret)
    assert told["text"] == f"login with {secret}!".replace(secret, "[hidden]")
    error = emitted(lambda emit: emit.error("n", RuntimeError(f"<{secret}>")), secret)
    assert f"<{secret}>" not in error["message"]


def test_all_problems_of_bad_input_are_told() -> None:
    data = emitted(lambda emit: emit.error("n", BadInput("wrong", problems=("this", "that"))))
    assert data["message"] == "wrong; this; that"


def child(job: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nodeprep.probe.worker"],
        input=json.dumps(job),
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


def test_as_a_process_it_speaks_events_alone(tmp_path: Path) -> None:
    servers.make_key(tmp_path / "id")
    connection = CONNECTION | {
        "port": servers.free_port(),
        "key_file": str(tmp_path / "id"),
        "known_hosts": str(tmp_path / "known_hosts"),
    }
    nodes = [{"name": f"n{i}", "connection": connection, "password": "s3cret"} for i in range(3)]
    for job in ("read", "contact"):
        ran = child({"job": job, "nodes": nodes, "concurrency": 2})
        events = [Event.model_validate_json(line) for line in ran.stdout.splitlines()]
        assert ran.returncode == 0, ran.stderr
        assert {event.node for event in events} == {"n0", "n1", "n2"}
        assert {event.data["type"] for event in events} == {"Unreachable"}
        assert "s3cret" not in ran.stdout + ran.stderr
        assert "Traceback" not in ran.stderr


def test_what_prints_goes_to_stderr(tmp_path: Path) -> None:
    code = (
        "import sys; from nodeprep.probe import worker\n"
        "worker.JOBS['noisy'] = lambda job, emit: (print('noise'), emit.note('n', 'word'))\n"
        "sys.exit(worker.main())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps({"job": "noisy", "nodes": []}),
        capture_output=True,
        check=False,
        text=True,
    )
    assert [json.loads(line)["data"] for line in ran.stdout.splitlines()] == [{"text": "word"}]
    assert "noise" in ran.stderr
