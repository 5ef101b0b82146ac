"""The engines: the command line of each, and the changes that it says it would make."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.layout import Layout
from tests.bench.rack import PORT, Rack

_ROOT = Path(__file__).resolve().parents[2]
_BIN = Path(sys.executable).parent
CONCURRENCY = 20
_KEX = "curve25519-sha256,ecdh-sha2-nistp256"  # as ansible.cfg asks for

Changes = set[tuple[str, str]]  # (node, kind:name)


@dataclass(frozen=True)
class Cost:
    """What one run took, in seconds. `controller`: CPU of the engine's whole process tree."""

    wall: float
    controller: float
    targets: float


@dataclass(frozen=True)
class Engine:
    """`found`: the changes in what it printed; None for a floor, which looks at nothing."""

    name: str
    title: str
    command: Callable[[Layout, Rack], list[str]]
    found: Callable[[str, Layout], Changes] | None = None
    heavy: bool = False


def run(engine: Engine, layout: Layout, rack: Rack) -> tuple[Cost, Changes]:
    """One run as its user would start it; RuntimeError when it fails."""
    number = len(list((layout.folder / "logs").iterdir()))
    log = layout.folder / "logs" / f"{number:03}-{engine.name}.log"
    result = log.with_suffix(".json")
    changes = layout.folder / "changes"
    changes.write_text("")
    before = rack.cpu_s()
    # Fresh and short: a socket's path has a limit, and no run may find another's connections.
    with tempfile.TemporaryDirectory(prefix="bench-cp") as sockets, log.open("wb") as out:
        subprocess.run(
            [sys.executable, str(Path(__file__).with_name("measure.py")), str(result),
             *engine.command(layout, rack)],
            check=True, stdout=out, stderr=subprocess.STDOUT, cwd=layout.site,
            env=_environment(layout, changes, sockets),
        )  # fmt: skip
    time.sleep(0.5)  # the last sessions end
    used = json.loads(result.read_text())
    said = log.read_text(errors="replace")
    found = engine.found(said, layout) if engine.found else set()
    # nodeprep tells drift by its exit code; anything else that is not 0 is a failure.
    if used["rc"] != 0 and not (used["rc"] == 2 and found):
        raise RuntimeError(f"{engine.name} ended with {used['rc']}: {said[-2000:]}")
    return Cost(used["wall_s"], used["cpu_s"], rack.cpu_s() - before), found


def _environment(layout: Layout, changes: Path, sockets: str) -> dict[str, str]:
    return {
        **os.environ,
        "NODEPREP_STATE": str(layout.folder / "state"),
        "NODEPREP_CACHE": str(layout.folder / "cache"),
        "ANSIBLE_CONFIG": str(_ROOT / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": f"{layout.site / 'roles'}:{_ROOT / 'roles'}",
        "ANSIBLE_HOME": str(layout.folder / "ansible"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets,
        "ANSIBLE_NOCOLOR": "1",
        "BENCH_PYINFRA": str(layout.folder / "pyinfra.json"),
        "BENCH_SITE": str(layout.site),
        "BENCH_CHANGES": str(changes),
    }


def _nodeprep(layout: Layout, rack: Rack) -> list[str]:
    return [str(_BIN / "nodeprep"), "drift", str(layout.inventory), "--json"]


def _nodeprep_found(said: str, layout: Layout) -> Changes:
    document = json.loads(said[said.index("\n{") + 1 if not said.startswith("{") else 0 :])
    claimed = [
        (node["name"], verdict)
        for node in document["nodes"]
        for verdict in node["verdicts"]
        if verdict["claim"].startswith("bench/")
    ]
    expected = sum(len(items) for key, items in layout.claims.items() if isinstance(items, list))
    if len(claimed) != expected * len(document["nodes"]):
        raise RuntimeError(f"nodeprep judged {len(claimed)} claims, not {expected} a node")
    return {
        (name, verdict["claim"].removeprefix("bench/"))
        for name, verdict in claimed
        if verdict["verdict"] != "pass"
    }


def _ansible(layout: Layout, rack: Rack) -> list[str]:
    playbook = layout.site / "playbooks" / "provision.yml"
    return [
        str(_BIN / "ansible-playbook"), "--check", "--forks", str(CONCURRENCY),
        "-i", str(layout.inventory), str(playbook),
    ]  # fmt: skip


_ANSIBLE_CHANGED = re.compile(r"^changed: \[([^\]]+)\](?: => \(item=(.*)\))?", re.MULTILINE)


def _ansible_found(said: str, layout: Layout) -> Changes:
    kinds = {str(path): "file" for path in layout.files}
    return {
        (node, f"{kinds.get(item, 'task')}:{item}")
        for node, item in _ANSIBLE_CHANGED.findall(said)
        if item
    } | {(node, "task:?") for node, item in _ANSIBLE_CHANGED.findall(said) if not item}


def _pyinfra(layout: Layout, rack: Rack) -> list[str]:
    folder = layout.site / "pyinfra"
    return [
        str(_BIN / "pyinfra"), "--dry", "--parallel", str(CONCURRENCY),
        str(folder / "inventory.py"), str(folder / "deploy.py"),
    ]  # fmt: skip


def _pyinfra_found(said: str, layout: Layout) -> Changes:
    lines = (layout.folder / "changes").read_text().splitlines()
    return {(node, claim) for node, claim in (line.split(" ", 1) for line in lines)}


def _floor_pyinfra(layout: Layout, rack: Rack) -> list[str]:
    return [sys.executable, str(layout.site / "pyinfra" / "floor.py"), str(CONCURRENCY)]


def _floor_ssh(layout: Layout, rack: Rack) -> list[str]:
    known = layout.folder / "state" / "sites" / "bench" / "known_hosts"
    return [
        "xargs", "--arg-file", str(layout.folder / "addresses"), "-P", str(CONCURRENCY), "-I{}",
        "ssh", "-F", "/dev/null", "-i", str(rack.key_file), "-p", str(PORT), "-l", rack.user,
        "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
        "-o", f"UserKnownHostsFile={known}", "-o", f"KexAlgorithms={_KEX}", "{}", "true",
    ]  # fmt: skip


FLOOR = Engine("floor-pyinfra", "`true` over pyinfra", _floor_pyinfra)
NODEPREP = Engine("nodeprep", "`nodeprep drift`", _nodeprep, _nodeprep_found)
ANSIBLE = Engine("ansible", "`ansible-playbook --check`", _ansible, _ansible_found, heavy=True)
ENGINES = (
    FLOOR,
    Engine("floor-ssh", "`true` over ssh", _floor_ssh),
    NODEPREP,
    Engine("pyinfra", "`pyinfra --dry`", _pyinfra, _pyinfra_found, heavy=True),
    ANSIBLE,
)


def chosen(names: Iterable[str]) -> tuple[Engine, ...]:
    wanted = set(names)
    return tuple(engine for engine in ENGINES if engine.name in wanted)
