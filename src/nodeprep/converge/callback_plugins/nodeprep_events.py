"""Ansible's callback plugin: writes what happens to the descriptor NODEPREP_EVENTS_FD, as JSON.

Runs inside ansible-playbook. One object a line, raw; `nodeprep.converge.stream` makes events of
them. The results that reach a callback are already censored where a task has `no_log`. It stands in
for Ansible's own screen output, which in 2.19 prints the error of such a task all the same.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: nodeprep_events
    type: stdout
    short_description: Writes events for nodeprep
    description:
      - One JSON object a line, to the file descriptor in the environment variable
        E(NODEPREP_EVENTS_FD).
"""

_KEPT = ("msg", "stderr", "stdout", "module_stderr", "module_stdout", "censored", "rc")
_CAP = 4000  # characters of each text


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """A line for each result of a task on a host, and one at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "nodeprep_events"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        descriptor = os.environ.get("NODEPREP_EVENTS_FD")
        self.disabled = descriptor is None
        self._stream = None if descriptor is None else os.fdopen(int(descriptor), "w")
        self._started: dict[tuple[str, str], float] = {}

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self._started[host.get_name(), task._uuid] = time.monotonic()

    def v2_runner_on_ok(self, result: Any) -> None:
        self._result(result, "changed" if result.result.get("changed") else "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._result(result, "ok" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._result(result, "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        hosts = {host: stats.summarize(host) for host in stats.processed}
        self._write({"what": "stats", "hosts": hosts})

    def _result(self, result: Any, status: str) -> None:
        task, host = result.task, result.host.get_name()
        started = self._started.pop((host, task._uuid), None)
        self._write(
            {
                "what": "result",
                "node": host,
                "status": status,
                "role": _role(task),
                "task": task.name or task.action,
                "action": task.action.rpartition(".")[2],
                "seconds": 0.0 if started is None else round(time.monotonic() - started, 3),
                **_texts(result.result),
                "items": _items(result.result),
            }
        )

    def _write(self, line: dict[str, Any]) -> None:
        if self._stream is not None:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()


def _role(task: Any) -> str:
    """The role that a task works for: the shared role `claims` works for the one that called."""
    role = task._role.get_name() if task._role else ""
    return str(task.get_vars().get("claims_role", role)) if role == "claims" else role


def _texts(result: Any) -> dict[str, str]:
    """The texts of a result that a person reads, capped at both ends."""
    return {key: _capped(str(result[key])) for key in _KEPT if result.get(key) not in (None, "")}


def _capped(text: str) -> str:
    return text if len(text) <= _CAP else text[: _CAP // 2] + " […] " + text[-_CAP // 2 :]


def _items(result: Any) -> list[dict[str, Any]]:
    """The items of a loop that changed something or failed."""
    items = []
    for one in result.get("results") or ():
        if isinstance(one, dict) and (one.get("changed") or one.get("failed")):
            label = one.get("_ansible_item_label", "")
            shown = "" if "censored" in one or not isinstance(label, str) else _capped(str(label))
            items.append({"label": shown, "failed": bool(one.get("failed")), **_texts(one)})
    return items
