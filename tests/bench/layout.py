"""The site of the benchmark on disk: one set of claims that hold, told to each engine its way."""

from __future__ import annotations

import getpass
import grp
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from tests.bench.rack import PORT, Rack, isolated

_SITE = Path(__file__).parent / "site"
_PACKAGES = (
    "base-files", "bash", "coreutils", "dpkg", "grep", "gzip", "hostname", "sed", "tar",
    "util-linux",
)  # fmt: skip
_SYSCTLS = (
    "net.core.somaxconn", "net.core.netdev_max_backlog", "net.core.rmem_max", "net.core.wmem_max",
    "net.core.rmem_default", "net.core.wmem_default", "net.ipv4.ip_forward",
    "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_sack", "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps", "net.ipv4.tcp_window_scaling",
)  # fmt: skip
_UNITS = ("chrony", "cron", "nvidia-persistenced", "rpcbind", "ssh")


@dataclass(frozen=True)
class Counts:
    """How many claims of each kind a target has."""

    files: int = 30
    sysctls: int = 10
    packages: int = 10
    units: int = 5


@dataclass(frozen=True)
class Layout:
    """A site under `folder`; `claims` are the variables of the role bench."""

    folder: Path
    claims: dict[str, Any]

    @property
    def site(self) -> Path:
        return self.folder / "site"

    @property
    def inventory(self) -> Path:
        return self.site / "inventory" / "bench.yaml"

    @property
    def files(self) -> list[Path]:
        return [Path(file["name"]) for file in self.claims["bench_files"]]


def prepare(folder: Path, counts: Counts) -> Layout:
    """Everything but the inventories: before the targets start, whose namespaces show it."""
    shutil.copytree(_SITE, folder / "site")
    shutil.copytree(_SITE / "bin", folder / "bin")
    for name in ("sysctl.d", "etc", "remote", "state", "cache", "logs"):
        (folder / name).mkdir()
    layout = Layout(folder, _claims(folder, counts))
    text = _rendered(layout.claims)
    for path in layout.files:
        path.write_text(text)
        path.chmod(0o644)
    lines = [f"{s['name']}={s['value']}\n" for s in layout.claims["bench_sysctls"]]
    kept = folder / "sysctl.d" / "60-nodeprep-bench.conf"  # as roles/claims writes it
    kept.write_text("# Written by Ansible, role bench.\n" + "".join(lines))
    kept.chmod(0o644)
    return layout


def _claims(folder: Path, counts: Counts) -> dict[str, Any]:
    sysctls = [{"name": name, "value": value} for name in _SYSCTLS if (value := _sysctl(name))]
    own = isolated()
    return {
        "bench_owner": getpass.getuser(),
        "bench_group": grp.getgrgid(os.getegid()).gr_name,
        "bench_files": [
            {"name": str(folder / "etc" / f"{number:02}.conf")} for number in range(counts.files)
        ],
        "bench_sysctls": sysctls[: counts.sysctls] if own else [],
        "bench_packages": [{"name": name} for name in _PACKAGES[: counts.packages]],
        "bench_units": [{"name": f"{n}.service"} for n in _UNITS[: counts.units]] if own else [],
    }


def _sysctl(name: str) -> str:
    path = Path("/proc/sys") / name.replace(".", "/")
    return path.read_text().strip() if path.exists() else ""


def _rendered(claims: dict[str, Any]) -> str:
    template = _SITE / "roles/bench/templates/etc/bench.conf.j2"
    # As Ansible and nodeprep render: block lines leave no empty line behind.
    made = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    return made.from_string(template.read_text()).render(claims)


def describe(layout: Layout, rack: Rack) -> None:
    """Write the inventories of all engines, and the host keys on record."""
    known = layout.folder / "state" / "sites" / "bench" / "known_hosts"
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(rack.known_hosts())
    layout.inventory.parent.mkdir(exist_ok=True)
    layout.inventory.write_text(yaml.safe_dump(_ansible(layout, rack, known), sort_keys=False))
    data = [
        [
            target.name,
            {
                "ssh_hostname": target.address,
                "ssh_port": PORT,
                "ssh_user": rack.user,
                "ssh_key": str(rack.key_file),
                "ssh_known_hosts_file": str(known),
                "ssh_strict_host_key_checking": "yes",
                "ssh_allow_agent": False,
                "ssh_look_for_keys": False,
                **layout.claims,
            },
        ]
        for target in rack.targets
    ]
    (layout.folder / "pyinfra.json").write_text(json.dumps(data))
    addresses = "".join(f"{target.address}\n" for target in rack.targets)
    (layout.folder / "addresses").write_text(addresses)


def _ansible(layout: Layout, rack: Rack, known: Path) -> dict[str, Any]:
    variables = {
        "nodeprep_site": "bench",
        "nodeprep_profile": "server",
        "nodeprep_admin_user": rack.user,
        "node_os": "debian12",
        "ansible_user": rack.user,
        "ansible_port": PORT,
        "ansible_ssh_private_key_file": str(rack.key_file),
        "ansible_ssh_common_args": f"-F /dev/null -o UserKnownHostsFile={known}",
        "ansible_remote_tmp": str(layout.folder / "remote"),
        "ansible_python_interpreter": "/usr/bin/python3",
        **layout.claims,
    }
    hosts = {target.name: {"ansible_host": target.address} for target in rack.targets}
    return {"all": {"vars": variables, "children": {"bench": {"hosts": hosts}}}}
