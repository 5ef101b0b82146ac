"""The worker runs a real ansible-playbook on this machine and tells how each node fared."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

ROLE = """\
- name: Touch nothing, and say so
  ansible.builtin.command: {argv: ["true"]}
  changed_when: inventory_hostname == 'good'
- name: Fail on one node
  ansible.builtin.command: {argv: [sh, -c, "echo went wrong >&2; exit 3"]}
  when: inventory_hostname == 'bad'
  changed_when: false
- name: Handle a secret badly
  ansible.builtin.fail: {msg: "{{ site_secret }}"}
  no_log: true
  when: inventory_hostname == 'leaky'
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An inventory of four names for this machine, and a playbook with two roles."""
    for role, tasks in (("one", ROLE), ("two", ROLE.replace("3", "4"))):
        folder = tmp_path / "roles" / role / "tasks"
        folder.mkdir(parents=True)
        (folder / "main.yml").write_text(tasks)
    hosts: dict[str, Any] = {name: {} for name in ("good", "bad", "leaky")}
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    everyone = {"hosts": hosts, "vars": {**variables, "site_secret": "hunter2"}}
    (tmp_path / "site.yaml").write_text(json.dumps({"all": everyone}))
    (tmp_path / "provision.yml").write_text(
        textwrap.dedent("""\
        - hosts: all
          gather_facts: false
          roles:
            - {role: one, tags: [one], when: "'one' in nodeprep_roles"}
            - {role: two, tags: [two], when: "'two' in nodeprep_roles"}
        """)
    )
    return tmp_path


def job(site: Path, roles: dict[str, list[str]], **change: Any) -> bytes:
    values = {
        "inventory": str(site / "site.yaml"),
        "playbook": str(site / "provision.yml"),
        "roles_path": [str(site / "roles")],
        "nodes": {name: {"roles": some} for name, some in roles.items()},
        "private_data_dir": str(site / "run"),
        "vault_password": None,
        "forks": 3,
        "check": False,
        **change,
    }
    return json.dumps(values).encode()


def run(given: bytes) -> tuple[list[dict[str, Any]], int]:
    command = [sys.executable, "-m", "nodeprep.converge.worker"]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=120)
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def of(events: list[dict[str, Any]], what: str) -> dict[str, Any]:
    return {event["node"]: event["data"] for event in events if event["what"] == what}


def test_each_node_fares_on_its_own(site: Path) -> None:
    events, code = run(job(site, {"good": ["one"], "bad": ["one"], "leaky": ["one"]}))
    assert code == 0
    assert of(events, "done") == {
        "good": {"changed": ["one: Touch nothing, and say so"], "failed": False},
        "bad": {"changed": [], "failed": True},
        "leaky": {"changed": [], "failed": True},
    }
    errors = of(events, "error")
    assert errors["bad"]["message"].startswith("one: Fail on one node: ")
    assert "went wrong" in errors["bad"]["message"]
    assert "hunter2" not in json.dumps(events)
    assert "hunter2" not in (site / "run" / "artifacts" / "stdout").read_text()


def test_a_role_runs_only_on_the_nodes_that_need_it(site: Path) -> None:
    events, _ = run(job(site, {"good": ["two"], "bad": [], "leaky": []}))
    assert {event["data"]["role"] for event in events if event["what"] == "task"} == {"two"}
    assert of(events, "done")["bad"] == {"changed": [], "failed": False}
    assert of(events, "error") == {}


def test_nothing_to_do_starts_no_ansible(site: Path) -> None:
    events, code = run(job(site, {"good": []}))
    assert (code, of(events, "done")) == (0, {"good": {"changed": [], "failed": False}})
    assert not (site / "run").exists()


def test_a_playbook_that_does_not_parse_fails_every_node_and_says_why(site: Path) -> None:
    (site / "roles" / "one" / "tasks" / "main.yml").write_text("- nonsense_here: {}\n")
    events, code = run(job(site, {"good": ["one"], "bad": ["one"]}))
    assert code == 0
    assert [done["failed"] for done in of(events, "done").values()] == [True, True]
    assert "nonsense_here" in of(events, "error")["good"]["message"]


def test_a_vault_is_opened_with_the_password_of_the_job(site: Path) -> None:
    secret = site / "password"
    secret.write_text("open sesame\n")
    vaulted = site / "group_vars" / "all.yml"
    vaulted.parent.mkdir()
    vaulted.write_text("site_secret: hunter3\n")
    encrypt = ["encrypt", "--vault-password-file", str(secret), str(vaulted)]
    subprocess.run([sys.executable, "-m", "ansible", "vault", *encrypt], check=True, timeout=60,
                   capture_output=True)  # fmt: skip
    secret.unlink()
    events, _ = run(job(site, {"good": ["one"]}, vault_password="open sesame"))
    assert of(events, "done")["good"]["failed"] is False
    events, _ = run(job(site, {"good": ["one"]}, vault_password="wrong"))
    assert of(events, "done")["good"]["failed"] is True
    assert "hunter3" not in json.dumps(events)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_ansible_and_every_node_gets_a_last_word(
    site: Path, sign: signal.Signals
) -> None:
    flag = site / "started"
    (site / "roles" / "one" / "tasks" / "main.yml").write_text(
        f"- ansible.builtin.command: {{argv: [sh, -c, 'touch {flag}; exec sleep 300']}}\n"
    )
    command = [sys.executable, "-m", "nodeprep.converge.worker"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(job(site, {"good": ["one"]}))
    child.stdin.close()
    while not flag.exists():
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(sign)
    assert child.stdout is not None
    events = [json.loads(line) for line in child.stdout]
    assert child.wait(timeout=30) == 0
    assert of(events, "error")["good"]["type"] == "Interrupted"
    assert of(events, "done")["good"]["failed"] is True
