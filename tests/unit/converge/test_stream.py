"""What Ansible tells becomes events: who did what, why it failed, and how each node fared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep import errors
from nodeprep.converge.stream import Stream
from nodeprep.model.event import Event, What


def result(**change: Any) -> dict[str, Any]:
    return {
        "what": "result",
        "node": "gpu1",
        "status": "ok",
        "role": "nccl",
        "task": "Install packages",
        "action": "apt",
        "seconds": 1.5,
        "items": [],
        **change,
    }


def fed(*lines: dict[str, Any], nodes: tuple[str, ...] = ("gpu1", "gpu2")) -> list[Event]:
    stream = Stream(nodes)
    events = [event for line in lines for event in stream.feed(line)]
    return [*events, *stream.done()]


def of(events: list[Event], what: What, node: str = "gpu1") -> list[dict[str, Any]]:
    return [event.data for event in events if event.what is what and event.node == node]


def stats(**hosts: dict[str, int]) -> dict[str, Any]:
    return {"what": "stats", "hosts": hosts}


def test_a_task_that_changed_something_says_what() -> None:
    items = [{"label": "/etc/nccl.conf", "failed": False}, {"label": "/etc/x", "failed": False}]
    events = fed(result(status="changed", items=items), stats(gpu1={"changed": 1}))
    assert of(events, What.TASK) == [
        {
            "role": "nccl",
            "task": "Install packages",
            "status": "changed",
            "text": "/etc/nccl.conf, /etc/x",
            "seconds": 1.5,
        }
    ]
    assert of(events, What.DONE) == [{"changed": ["nccl: Install packages"], "failed": False}]


def test_a_task_that_changed_nothing_is_not_among_the_changes() -> None:
    assert of(fed(result()), What.DONE) == [{"changed": [], "failed": False}]


def test_a_word_for_the_person_is_a_note_and_no_task() -> None:
    events = fed(result(action="debug", msg="another apt holds the lock"))
    assert of(events, What.NOTE) == [{"text": "another apt holds the lock"}]
    assert of(events, What.TASK) == []


def test_a_failed_task_is_an_error_with_the_last_lines_of_what_was_said() -> None:
    said = "\n".join(f"line {number}" for number in range(100)) + "\nE: it is odd"
    events = fed(result(status="failed", msg="non-zero return code", stderr=said))
    error = of(events, What.ERROR)[0]
    assert error["type"] == "ToolFailure"
    assert error["message"].startswith("nccl: Install packages: non-zero return code")
    assert error["message"].endswith("E: it is odd")
    assert "line 10\n" not in error["message"]
    assert of(events, What.DONE) == [{"changed": [], "failed": True}]
    assert of(events, What.DONE, "gpu2") == [{"changed": [], "failed": False}]


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("write /x: No space left on device", "disk is full"),
        ("Failed to lock apt for exclusive operation: E:Could not get lock", "did not end in time"),
        ("No package matching 'libnccl2' is available", "no repository"),
        ("no repository of this node has a=1 (there: 2)", "set a version that is there"),
        ("Failed to update cache: E:Temporary failure resolving 'mirror'", "DNS"),
    ],
)
def test_what_a_node_lacks_is_told_with_what_to_do(said: str, hint: str) -> None:
    error = of(fed(result(status="failed", msg=said)), What.ERROR)[0]
    assert error["type"] == "NodeFault"
    assert hint in error["hint"]


def test_ansibles_own_preface_is_left_out() -> None:
    preface = 'Task failed: Data could not be sent to remote host "x". Make sure over ssh: '
    error = of(fed(result(status="unreachable", msg=preface + "ssh: refused")), What.ERROR)[0]
    assert error["message"] == "ssh: refused"


def test_the_items_that_failed_speak_for_a_loop() -> None:
    items = [
        {"label": "/ok", "failed": False},
        {"label": "/bad", "failed": True, "msg": "No space left on device"},
    ]
    error = of(fed(result(status="failed", msg="All items completed", items=items)), What.ERROR)[0]
    assert "/bad: No space left on device" in error["message"]
    assert "/ok" not in error["message"]


def test_what_a_task_with_a_secret_said_stays_hidden() -> None:
    events = fed(result(status="failed", censored="the output has been hidden", msg=""))
    assert "hidden" in of(events, What.ERROR)[0]["message"]


def test_escape_codes_and_megabytes_do_not_get_through() -> None:
    said = "\x1b[31mred\x1b[0m\x07 " + "x" * 1_000_000 + " \x1b]0;title\x07end"
    error = of(fed(result(status="failed", msg=said)), What.ERROR)[0]
    assert "\x1b" not in error["message"]
    assert "red" in error["message"]
    assert len(error["message"]) <= 2000


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Failed to connect: WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", "HostKeyChanged"),
        ("No ED25519 host key is known for [192.0.2.1]:22 and you have", "HostKeyUnknown"),
        ("nodeprep@192.0.2.1: Permission denied (publickey).", "LoginRefused"),
        ("ssh: connect to host 192.0.2.1 port 22: Connection timed out", "Unreachable"),
    ],
)
def test_a_node_that_is_not_reached_says_which_way(said: str, kind: str) -> None:
    events = fed(result(status="unreachable", msg=said))
    error = of(events, What.ERROR)[0]
    assert error["type"] == kind
    assert issubclass(getattr(errors, kind), errors.Unreachable)
    assert of(events, What.DONE)[0]["failed"]


def test_the_final_count_decides_when_no_task_did() -> None:
    assert of(fed(stats(gpu1={"failures": 1}, gpu2={"ok": 1})), What.DONE)[0]["failed"]
    assert of(fed(stats(gpu1={"unreachable": 1})), What.DONE)[0]["failed"]


def test_a_node_of_which_no_word_came_has_not_finished() -> None:
    stream = Stream(["gpu1", "gpu2", "gpu3"])
    for line in (result(), stats(gpu1={"ok": 1}), result(node="gpu2", status="failed", msg="x")):
        list(stream.feed(line))
    assert stream.unfinished == ("gpu3",)


def test_words_about_nodes_that_are_not_ours_are_dropped() -> None:
    events = fed(result(node="localhost", status="failed", msg="x"))
    assert {event.node for event in events} == {"gpu1", "gpu2"}


@given(st.text(), st.text(), st.sampled_from(["ok", "changed", "failed", "unreachable"]))
def test_whatever_was_said_every_event_is_whole(msg: str, stderr: str, status: str) -> None:
    for event in fed(result(status=status, msg=msg, stderr=stderr)):
        assert Event.model_validate_json(event.line()) == event
        assert "\x1b" not in str(event.data.get("message", ""))
