"""The sabotage step of the scenarios: break every claim that can be broken by itself, see it red.

    python molecule/sabotage.py LAB NODE INVENTORY

Breaks them all at once on a node of the lab, past SSH, then asks `nodeprep drift` and compares: a
broken claim that drift does not name fails the scenario. What cannot be broken without cutting the
node off, or has no means of its own, is listed with the reason. Every kind of claim that the node
has must have been broken at least once, but for those that say why not.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nodeprep import inventory
from nodeprep.lab import rack
from nodeprep.model.claim import Claim

# Without these nothing could be read or mended any more.
VITAL = {
    "sudo", "python3", "python3-apt", "openssh-server", "ethtool", "dmidecode", "pciutils",
    "procps",  # openssh-server depends on it: its reload is a /bin/kill
}  # fmt: skip
# Tools that the rest of the system runs on: nothing may stand in their way.
BASIC = {"apt-config", "cat", "find", "grep", "ls", "modinfo", "sh", "stat", "systemctl", "test"}
MARK = "sabotaged"
Break = str | None  # shell, or None: not this one


def file(claim: Any) -> Break:
    if claim.state == "absent":
        return f"mkdir -p $(dirname {claim.name}) && echo {MARK} > {shlex.quote(claim.name)}"
    return f"echo '# {MARK}' >> {shlex.quote(claim.name)}"


def package(claim: Any) -> Break:
    name = shlex.quote(claim.name)
    if claim.state == "absent" or claim.name in VITAL:
        return None
    if claim.held:
        return f"echo {name} install | dpkg --set-selections"
    return f"dpkg --remove --force-depends {name}"


def service(claim: Any) -> Break:
    name = shlex.quote(claim.name)
    if claim.name.startswith("ssh") or not (claim.active or claim.enabled):
        return None
    return f"systemctl disable --now {name}; systemctl stop {name}"


def sysctl(claim: Any) -> Break:
    return f"sed -i '/^{claim.name} *=/d' /etc/sysctl.d/60-nodeprep-{claim.role}.conf"


def link(claim: Any) -> Break:
    return f"ln -sfn /nonexistent {shlex.quote(claim.name)}"


def directory(claim: Any) -> Break:
    return f"chmod 0700 {shlex.quote(claim.name)}"


def gpu(claim: Any) -> Break:
    """ECC and MIG change at the next reset of the GPU only."""
    return "nvidia-smi -pm 0" if claim.name == "persistence_mode" else None


def output(claim: Any) -> Break:
    """Something else answers in the tool's place."""
    tool = claim.argv[0].rpartition("/")[2]
    if tool in BASIC or claim.argv[0].startswith("/"):
        return None
    path = f"/usr/local/sbin/{tool}"
    return f"rm -f {path}; printf '#!/bin/sh\\necho {MARK}\\n' > {path}; chmod 755 {path}"


def module(claim: Any) -> Break:
    """After the modules that use it."""
    users = f"$(ls /sys/module/{claim.name}/holders)"
    return f"rmmod {users} {claim.name}" if claim.loaded else None


def mount(claim: Any) -> Break:
    return f"umount {shlex.quote(claim.name)}"


def kernel_argument(claim: Any) -> Break:
    return f"sed -i 's/ {claim.name}\\(=[^ ]*\\)\\?//' /boot/grub/grub.cfg"


def interrupts(claim: Any) -> Break:
    mask = f"/sys/class/net/{claim.name}/queues/tx-0/xps_cpus"
    return f"echo 0 > {mask}"


def nic(claim: Any) -> Break:
    words = ("-L {0} combined 1", "-G {0} rx 128", "-C {0} rx-usecs 7", "-K {0} gro off")
    return "; ".join(f"ethtool {one.format(claim.name)}" for one in words)


BREAKERS: dict[str, Callable[[Any], Break]] = {
    function.__name__: function
    for function in (file, package, service, sysctl, link, directory, gpu, output, module, mount,
                     kernel_argument, interrupts, nic)
}  # fmt: skip
# Kinds whose claims cannot be broken without harm, and where that is shown instead.
ELSEWHERE = {
    "array": "a degraded array is broken in tests/vm",
    "cached_volume": "it holds data; a cache that is lost is shown in tests/vm",
    "filesystem": "it holds data; a foreign one is refused in tests/vm",
    "governor": "no lab node has CPU frequencies",
}


def plan(claims: tuple[Claim, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Claim -> how it is broken, and claim -> why it is not."""
    how: dict[str, str] = {}
    why: dict[str, str] = {}
    for claim in claims:
        if not claim.applies:
            continue
        breaker = BREAKERS.get(claim.kind)
        command = breaker(claim) if breaker else None
        if command:
            how[claim.id] = command
        else:
            why[claim.id] = ELSEWHERE.get(claim.kind, "nothing of its own can be broken safely")
    return how, why


def _turn(claim: str) -> int:
    """What takes tools away comes after what is broken with them; other answers come last."""
    if "/module:" in claim:
        return 0
    if "/package:" in claim:
        return 1
    return 3 if "/output:" in claim else 2


def red(node: str, file: Path) -> set[str]:
    """The claims that drift names."""
    words = ["nodeprep", "drift", str(file), "--limit", node, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 2:
        sys.exit(f"drift ended with {done.returncode} instead of 2: {done.stderr[-2000:]}")
    found = {one["name"]: one for one in json.loads(done.stdout)["nodes"]}[node]
    return {v["claim"] for v in found["verdicts"] if v["verdict"] in ("fail", "unknown")}


def main(lab: str, node: str, file: Path) -> None:
    document = inventory.load(file, limit=node).documents[0]
    how, why = plan(document.claims)
    order = sorted(how, key=_turn)
    script = "".join(f"({how[claim]}) >/dev/null 2>&1\n" for claim in order)
    rack.execute(lab, node, ["sh", "-s"], text=script, timeout_s=900)
    seen = red(node, file)
    for claim, reason in sorted(why.items()):
        print(f"not broken  {claim}: {reason}")
    missed = sorted(set(how) - seen)
    kinds = {claim.kind for claim in document.claims if claim.applies}
    untouched = kinds - {name.partition("/")[2].partition(":")[0] for name in how}
    print(f"{len(how)} claims broken, {len(how) - len(missed)} of them seen red")
    if missed or untouched - ELSEWHERE.keys():
        sys.exit(f"broken and not seen: {missed}; kinds never broken: {sorted(untouched)}")
    restore = f"grep -lsx 'echo {MARK}' /usr/local/sbin/* | xargs -r rm"
    rack.execute(lab, node, ["sh", "-c", restore])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
