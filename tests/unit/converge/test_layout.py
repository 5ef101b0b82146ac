"""How a job is laid out: what each node gets, how it is reached, and what is never written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep.converge import layout
from nodeprep.converge.job import Job
from nodeprep.model.node import Connection

CONNECTION = Connection(
    host="192.0.2.11",
    port=2222,
    user="nodeprep",
    key_file="/site/id_ed25519",
    known_hosts="/site of mine/known_hosts",
)


def job(folder: Path, **change: Any) -> Job:
    values = {
        "inventory": "site/inventory/la.yaml",
        "playbook": "/book/provision.yml",
        "roles_path": ["/roles", "/more"],
        "nodes": {
            "gpu1": {
                "roles": ["base", "nccl"],
                "unmet": {"nccl": ["nccl/file:/etc/nccl.conf"]},
                "connection": CONNECTION.model_dump(),
            },
            "gpu2": {"roles": ["nccl"], "unmet": {}},
            "idle": {"roles": []},
        },
        "private_data_dir": str(folder),
        "vault_password": "hunter2-vault",
        **change,
    }
    return Job.model_validate(values)


class _Loader(yaml.SafeLoader):
    """Reads Ansible's !unsafe as text."""


_Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))  # type: ignore[arg-type]


def read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)


def test_each_node_gets_its_own_roles_and_claims(tmp_path: Path) -> None:
    hosts = read(layout.write(job(tmp_path)).selection)["all"]["hosts"]
    assert hosts["gpu1"]["nodeprep_roles"] == ["base", "nccl"]
    assert hosts["gpu1"]["claims_unmet"] == {"nccl": ["nccl/file:/etc/nccl.conf"]}
    assert hosts["gpu2"] == {"nodeprep_roles": ["nccl"], "claims_unmet": {}, "claims_disks": {}}
    assert "idle" not in hosts


def test_a_node_is_reached_strictly_by_the_sites_key_and_known_hosts(tmp_path: Path) -> None:
    host = read(layout.write(job(tmp_path)).selection)["all"]["hosts"]["gpu1"]
    assert (host["ansible_host"], host["ansible_port"]) == ("192.0.2.11", 2222)
    assert host["ansible_user"] == "nodeprep"
    assert host["ansible_ssh_private_key_file"] == "/site/id_ed25519"
    arguments = host["ansible_ssh_common_args"]
    assert "-o UserKnownHostsFile='/site of mine/known_hosts'" in arguments
    assert "-o StrictHostKeyChecking=yes" in arguments


def test_what_looks_like_a_template_is_marked_as_text(tmp_path: Path) -> None:
    nodes = {"gpu1": {"roles": ["a"], "unmet": {"a": ["a/output:{{ lookup('pipe', 'id') }}"]}}}
    written = layout.write(job(tmp_path, nodes=nodes)).selection.read_text(encoding="utf-8")
    assert "!unsafe" in written


def test_only_nodes_with_work_are_in_the_limit_and_only_needed_roles_in_the_tags(
    tmp_path: Path,
) -> None:
    wanted = job(tmp_path)
    paths = layout.write(wanted)
    assert paths.limit.read_text() == "gpu1\ngpu2\n"
    command = layout.argv(wanted, paths, None)
    assert command[command.index("--tags") + 1] == "base,nccl"
    assert command[command.index("--limit") + 1] == f"@{paths.limit}"
    assert "--check" not in command
    assert "--check" in layout.argv(job(tmp_path, check=True), paths, None)


def test_the_vault_password_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = job(tmp_path)
    paths = layout.write(wanted)
    command = layout.argv(wanted, paths, 7)
    settings = layout.environment(wanted, paths, events_fd=5, sockets=tmp_path)
    assert command[-2:] == ["--vault-password-file", "/dev/fd/7"]
    assert "hunter2-vault" not in " ".join(command) + str(settings) + repr(wanted)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert all("hunter2-vault" not in path.read_text() for path in files)


def test_the_folder_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    layout.write(job(folder))
    assert folder.stat().st_mode & 0o077 == 0


def test_the_operators_own_settings_of_ansible_have_no_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "false")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "/vault")
    monkeypatch.setenv("SITE_SECRET", "for a lookup of the inventory")
    wanted = job(tmp_path)
    settings = layout.environment(wanted, layout.write(wanted), events_fd=5, sockets=tmp_path)
    assert settings["ANSIBLE_HOST_KEY_CHECKING"] == "true"
    assert settings["ANSIBLE_VAULT_PASSWORD_FILE"] == "/vault"
    assert settings["SITE_SECRET"] == "for a lookup of the inventory"
    assert settings["ANSIBLE_ROLES_PATH"] == os.pathsep.join(["/roles", "/more"])
