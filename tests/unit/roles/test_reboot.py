"""One reboot a run: who asks, who does it, where it stands, and when it is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
ROLES = ROOT / "roles"
PLAYS: list[dict[str, Any]] = yaml.safe_load((ROOT / "playbooks" / "provision.yml").read_text())
TWO = {"kernel_reboot_reason": "the arguments", "other_settings_reboot_reason": "the settings"}


def test_one_file_reboots() -> None:
    found = [
        str(path.relative_to(ROLES))
        for path in ROLES.rglob("*.yml")
        if re.search(r"builtin\.reboot:|\bsystemctl reboot\b|shutdown -r", path.read_text("utf-8"))
    ]
    assert found == ["kernel/tasks/boot.yml"]


def test_who_asks_is_a_handler_that_the_plan_knows() -> None:
    """A fact set elsewhere would reboot a node of which the plan said nothing."""
    asking = {}
    for path in ROLES.rglob("*.yml"):
        text = path.read_text("utf-8")
        if path.parent.name in ("tasks", "handlers") and re.search(
            r"^ +\w+_reboot_reason:", text, re.M
        ):
            asking[path] = yaml.safe_load(text)
    assert {path.parent.name for path in asking} == {"handlers"}
    for handlers in asking.values():
        for handler in handlers:
            facts = handler.get("ansible.builtin.set_fact", {})
            if any(name.endswith("_reboot_reason") for name in facts):
                assert handler["name"].startswith("Reboot")


def test_the_playbook_reboots_once_after_the_driver_and_before_what_needs_it() -> None:
    places = [
        number
        for number, play in enumerate(PLAYS)
        for task in play.get("post_tasks", ())
        if task.get("ansible.builtin.import_role", {}).get("tasks_from") == "reboot"
    ]
    assert len(places) == 1
    before = [role["role"] for play in PLAYS[: places[0] + 1] for role in play["roles"]]
    after = [role["role"] for play in PLAYS[places[0] + 1 :] for role in play["roles"]]
    assert before.index("kernel") < before.index("nvidia_driver")
    assert {"gdrcopy", "cuda", "gpu_tools"} <= set(after)
    again = PLAYS[places[0] + 1]["pre_tasks"][0]["ansible.builtin.import_role"]
    assert again == {"name": "nvidia_driver", "tasks_from": "loaded"}


def ask(folder: Path, facts: dict[str, str], *more: str, **values: Any) -> str:
    """What Ansible says when it comes to the place. It refuses to reboot the machine it runs on."""
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"node_profile": {"parts": {"cpu": None}}, "node_os": "debian12", **values},
        "tasks": [
            *([{"name": "Ask", "ansible.builtin.set_fact": facts}] if facts else []),
            {
                "name": "Go",
                "ansible.builtin.import_role": {"name": "kernel", "tasks_from": "reboot"},
            },
        ],
    }
    path = folder / "play.yml"
    path.write_text(yaml.safe_dump([{"name": "Reboot", **play}]))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "localhost,", path, *more],
        env={**os.environ, "ANSIBLE_ROLES_PATH": str(ROLES), "ANSIBLE_CONFIG": str(folder / "none"),
             "ANSIBLE_NOCOLOR": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_nobody_asked(tmp_path: Path) -> None:
    said = ask(tmp_path, {})
    assert re.search(r"ok=1\s+changed=0\s+unreachable=0\s+failed=0", said), said


def test_check_mode_tells_all_reasons(tmp_path: Path) -> None:
    said = ask(tmp_path, TWO, "--check")
    assert "the arguments, the settings" in said
    assert re.search(r"changed=1\s+unreachable=0\s+failed=0", said), said


def test_it_is_refused_where_reboots_are_forbidden(tmp_path: Path) -> None:
    said = ask(tmp_path, TWO, "-e", '{"kernel_reboot": false}')
    assert "must be rebooted for the arguments, the settings, and kernel_reboot is false" in said


def test_it_is_refused_into_a_kernel_without_the_driver(tmp_path: Path) -> None:
    said = ask(tmp_path, TWO, "-e", '{"kernel_next_probe": "echo 9.9; echo nvidia; echo ixgbe"}')
    words = " ".join(said.split())
    assert "takes kernel 9.9, which lacks nvidia, ixgbe of the running one" in words
    assert "autoinstall --kernelver 9.9" in words


def test_otherwise_it_comes_to_the_reboot(tmp_path: Path) -> None:
    """Ansible itself refuses this machine; the role tells that as a node that did not come back."""
    said = " ".join(ask(tmp_path, TWO, "-e", '{"kernel_next_probe": "echo 9.9"}').split())
    assert "would reboot the control node" in said, said
    assert "did not come back from its reboot for the arguments, the settings" in said
