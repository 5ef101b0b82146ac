"""A no-change check on N nodes by every engine, in one run: `scripts/bench --help`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench import engines, table
from tests.bench.engines import ENGINES, NODEPREP, Cost, Engine
from tests.bench.layout import Counts, Layout, describe, prepare
from tests.bench.rack import Rack, isolated, rack


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the targets must end, too
    chosen = engines.chosen(options.engines.split(","))
    costs: dict[int, dict[str, list[Cost]]] = {}
    cold: dict[int, float] = {}
    for nodes in map(int, options.nodes.split(",")):
        with tempfile.TemporaryDirectory(prefix="nodeprep-bench-") as name:
            layout = prepare(Path(name), Counts())
            with rack(layout.folder, nodes) as targets:
                describe(layout, targets)
                cold[nodes] = _run(NODEPREP, layout, targets).wall
                costs[nodes] = _rounds(chosen, layout, targets, options.repeat, options.heavy)
    summaries = {nodes: table.summary(by_engine) for nodes, by_engine in costs.items()}
    text = table.markdown(summaries)
    print(f"\n{text}")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "bench.md").write_text(text)
        document = {**_machine(), "cold_compile_wall_s": cold, "nodes": summaries}
        (options.out / "bench.json").write_text(json.dumps(document, indent=1))
    return 0


def _rounds(
    chosen: tuple[Engine, ...], layout: Layout, targets: Rack, repeat: int, heavy: int
) -> dict[str, list[Cost]]:
    """Engines take turns, so that a busy minute of the machine does not meet one alone."""
    costs: dict[str, list[Cost]] = {engine.name: [] for engine in chosen}
    for turn in range(max(repeat, heavy)):
        for engine in chosen:
            if turn < (heavy if engine.heavy else repeat):
                costs[engine.name].append(_run(engine, layout, targets))
    return costs


def _run(engine: Engine, layout: Layout, targets: Rack) -> Cost:
    cost, changes = engines.run(engine, layout, targets)
    if changes:
        raise RuntimeError(f"{engine.name} would change what holds: {sorted(changes)[:5]}")
    print(
        f"{len(targets.targets):3} nodes  {engine.name:14} wall {cost.wall:7.2f} s  "
        f"controller {cost.controller:7.2f} s  targets {cost.targets:7.2f} s",
        flush=True,
    )
    return cost


def _machine() -> dict[str, Any]:
    names = ("nodeprep", "ansible-core", "pyinfra", "paramiko", "gevent")
    return {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in names},
        "own_namespaces": isolated(),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="A no-change check on N nodes by every engine, in one run, as ratios.",
        epilog="Example: scripts/bench --nodes 20,50 --out build/bench",
    )
    names = ",".join(engine.name for engine in ENGINES)
    parser.add_argument(
        "--nodes", default="20,50", help="numbers of nodes, with commas (%(default)s)"
    )
    parser.add_argument("--engines", default=names, help="which (%(default)s)")
    parser.add_argument(
        "--repeat", type=int, default=5, help="runs of the light ones (%(default)s)"
    )
    parser.add_argument("--heavy", type=int, default=1, help="of pyinfra and Ansible (%(default)s)")
    parser.add_argument("--out", type=Path, help="a folder for bench.md and bench.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
