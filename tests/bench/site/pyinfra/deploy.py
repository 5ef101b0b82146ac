# The claims of the role bench as pyinfra operations. What would change is a line of BENCH_CHANGES.
import os
from pathlib import Path
from typing import Any

from pyinfra import host
from pyinfra.operations import apt, files, server, systemd

SITE = Path(os.environ["BENCH_SITE"])
SYSCTL_FILE = "/etc/sysctl.d/60-nodeprep-bench.conf"
data = host.data


def note(kind: str, name: str, operation: Any) -> None:
    if operation.will_change:
        with Path(os.environ["BENCH_CHANGES"]).open("a") as changes:
            changes.write(f"{host.name} {kind}:{name}\n")


for file in data.bench_files:
    done = files.template(
        src=str(SITE / "roles/bench/templates/etc/bench.conf.j2"),
        dest=file["name"],
        mode="644",
        user=data.bench_owner,
        group=data.bench_group,
        jinja_env_kwargs={"trim_blocks": True},  # as Ansible and nodeprep render
        bench_files=data.bench_files,
        bench_sysctls=data.bench_sysctls,
        bench_packages=data.bench_packages,
    )
    note("file", file["name"], done)
for sysctl in data.bench_sysctls:
    running = server.sysctl(key=sysctl["name"], value=sysctl["value"])
    # Its own `persist` writes `key = value`, and would call the file of roles/claims a change.
    kept = files.line(path=SYSCTL_FILE, line=f"{sysctl['name']}={sysctl['value']}")
    note("sysctl", sysctl["name"], running)
    note("sysctl", sysctl["name"], kept)
for package in data.bench_packages:
    note("package", package["name"], apt.packages(packages=[package["name"]]))
for unit in data.bench_units:
    done = systemd.service(service=unit["name"], running=True, enabled=True)
    note("service", unit["name"], done)
