"""Lays a job out on disk as ansible-runner does, so that runner or AWX could take it over.

    inventory/selection.yml   per node: its roles, unmet claims, disks to write, how to log in
    env/limit                 the nodes, a line each
    env/ansible.cfg           empty: the operator's own has no say
    artifacts/stdout, rc      what Ansible said beside its events: warnings, why it could not start

No secret is ever written: the vault password goes through a pipe.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nodeprep.converge.job import Job, NodeJob
from nodeprep.model.node import Connection

_PLUGINS = Path(__file__).resolve().parent / "callback_plugins"
# curve25519 first: OpenSSH's default key exchange costs this side five times the CPU.
_SSH_ARGS = (
    "-o ControlMaster=auto -o ControlPersist=60s "
    "-o KexAlgorithms=curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256 "
    "-o PreferredAuthentications=publickey -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
)


@dataclass(frozen=True)
class Layout:
    """Where things lie in the private_data_dir."""

    root: Path

    @property
    def selection(self) -> Path:
        return self.root / "inventory" / "selection.yml"

    @property
    def limit(self) -> Path:
        return self.root / "env" / "limit"

    @property
    def config(self) -> Path:
        return self.root / "env" / "ansible.cfg"

    @property
    def stdout(self) -> Path:
        return self.root / "artifacts" / "stdout"

    @property
    def rc(self) -> Path:
        return self.root / "artifacts" / "rc"


def write(job: Job) -> Layout:
    """Write the job's folder, readable by its owner alone."""
    layout = Layout(job.private_data_dir.absolute())
    for folder in ("inventory", "env", "artifacts", "tmp"):
        (layout.root / folder).mkdir(parents=True, exist_ok=True)
    layout.root.chmod(0o700)
    layout.config.write_text("", encoding="utf-8")
    layout.selection.write_text(_dump(selection(job.busy)), encoding="utf-8")
    layout.limit.write_text("".join(f"{name}\n" for name in job.busy), encoding="utf-8")
    return layout


def selection(nodes: Mapping[str, NodeJob]) -> dict[str, Any]:
    """The second inventory: what nodeprep adds to the site's own, by host."""
    return {"all": {"hosts": {name: _host(node) for name, node in nodes.items()}}}


def _host(node: NodeJob) -> dict[str, Any]:
    return {
        "nodeprep_roles": list(node.roles),
        "claims_unmet": {role: list(ids) for role, ids in node.unmet.items()},
        "claims_disks": node.disks,
        **(_login(node.connection) if node.connection else {}),
    }


def _login(connection: Connection) -> dict[str, Any]:
    """Strict host keys from the site's own file; the one key, and no agent's others."""
    options = {
        "UserKnownHostsFile": shlex.quote(connection.known_hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
        "ConnectTimeout": connection.connect_timeout_s,
    }
    return {
        "ansible_host": connection.host,
        "ansible_port": connection.port,
        "ansible_user": connection.user,
        "ansible_ssh_private_key_file": connection.key_file,
        "ansible_ssh_common_args": " ".join(f"-o {key}={value}" for key, value in options.items()),
    }


class _Unsafe(str):
    """Text that Ansible must not take for a template."""


def _dump(value: Any) -> str:
    return yaml.dump(_marked(value), Dumper=_Dumper, sort_keys=False)


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return _Unsafe(value) if isinstance(value, str) and "{" in value else value


class _Dumper(yaml.SafeDumper):
    """YAML with Ansible's !unsafe."""


_Dumper.add_representer(_Unsafe, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text)))


def argv(job: Job, layout: Layout, vault_fd: int | None) -> list[str]:
    """The command. Names of nodes stand in a file: there may be thousands."""
    command = [
        sys.executable, "-m", "ansible", "playbook", str(job.playbook.absolute()),
        "--inventory", str(job.inventory.absolute()),
        "--inventory", str(layout.selection),
        "--limit", f"@{layout.limit}",
        "--tags", ",".join(job.roles),
        "--forks", str(job.forks),
    ]  # fmt: skip
    if job.check:
        command.append("--check")
    if vault_fd is not None:
        command += ["--vault-password-file", f"/dev/fd/{vault_fd}"]
    return command


def environment(job: Job, layout: Layout, *, events_fd: int, sockets: Path) -> dict[str, str]:
    """Ansible's settings. The operator's own ansible.cfg and ANSIBLE_* have no say in a run.

    What an inventory looks up in the environment stays there; so does a vault password file.
    """
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("ANSIBLE_") or key.startswith("ANSIBLE_VAULT_")
    }
    return {
        **kept,
        "ANSIBLE_CONFIG": str(layout.config),
        "ANSIBLE_HOME": str(layout.root / "tmp"),
        "ANSIBLE_LOCAL_TEMP": str(layout.root / "tmp"),
        "ANSIBLE_ROLES_PATH": os.pathsep.join(str(path.absolute()) for path in job.roles_path),
        "ANSIBLE_CALLBACK_PLUGINS": str(_PLUGINS),
        "ANSIBLE_STDOUT_CALLBACK": "nodeprep_events",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_HOST_KEY_CHECKING": "true",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_SSH_ARGS": _SSH_ARGS,
        "ANSIBLE_SSH_RETRIES": "2",
        "ANSIBLE_TIMEOUT": "60",  # also how long sudo may take to ask: 10 s are few on a busy node
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "NODEPREP_EVENTS_FD": str(events_fd),
    }
