"""`nodeprep accept` on one node and on N: do nodes go side by side, and who logs in how often?

    python -m tests.bench.acceptance SITE.yaml     nodes of a lab that `nodeprep provision` took in

The stand-ins of the tools that measure take as long here as the tools do on a real node, so that
what is compared is the waiting, not this machine's CPUs: it is all the nodes and the controller.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from nodeprep import pipeline
from nodeprep.lab import rack as racks
from nodeprep.model.event import Event, What
from nodeprep.pipeline import Options
from tests.conftest import Rack

# Seconds of each call, as the tools take them on four A100s.
TAKES = {"all_reduce_perf": 20, "nvbandwidth": 20, "dcgmi": 60}
_BOARD = "/var/lib/nodeprep-sim/board.json"
_SLOW = """
import json, sys
path, takes = sys.argv[1], json.loads(sys.argv[2])
board = json.load(open(path))
board["tools"] = {name: {"mode": "takes", "seconds": s} for name, s in takes.items()}
json.dump(board, open(path, "w"))
"""


@dataclass(frozen=True)
class Cost:
    """Of one `accept`. `own_s`: until the last node had run its own proofs; `wall_s`: all of it."""

    nodes: int
    own_s: float
    wall_s: float
    logins: int  # the most that a node saw
    accepted: bool


def accept(inventory: Path, lab: str, limit: str | None) -> Cost:
    began: list[float] = []
    ended: dict[str, float] = {}

    def feed(event: Event) -> None:
        if event.what is What.STAGE and event.data.get("stage") == "accept":
            began.append(time.monotonic())
        elif event.what is What.DONE and event.node and event.node not in ended:
            ended[event.node] = time.monotonic()

    rack = Rack(lab)
    names = [one.name for one in racks.status(lab).nodes if limit in (None, one.name)]
    before = {name: rack.logins(name) for name in names}
    started = time.monotonic()
    result = pipeline.accept(Options(inventory=inventory, limit=limit), feed)
    wall = time.monotonic() - started
    own = max(ended[name] for name in names) - began[0]
    logins = max(rack.logins(name) - before[name] for name in names)
    return Cost(len(names), own, wall, logins, result.exit_code == 0)


def take_their_time(lab: str, takes: dict[str, int]) -> None:
    for node in racks.status(lab).nodes:
        done = racks.execute(lab, node.name, ["python3", "-c", _SLOW, _BOARD, json.dumps(takes)])
        if done.returncode:
            raise RuntimeError(f"{node.name}: {done.stderr}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.acceptance")
    parser.add_argument("inventory", type=Path)
    parser.add_argument("--one", default="gpu1", help="the node that stands for one (%(default)s)")
    options = parser.parse_args()
    lab = options.inventory.stem
    take_their_time(lab, TAKES)
    try:
        costs = [accept(options.inventory, lab, limit) for limit in (options.one, None)]
    finally:
        take_their_time(lab, {})
    for cost in costs:
        print(
            f"{cost.nodes} nodes: own proofs {cost.own_s:.1f} s, all {cost.wall_s:.1f} s, "
            f"logins a node {cost.logins}, {'accepted' if cost.accepted else 'REFUSED'}"
        )
    print(f"own proofs, all to one: {costs[1].own_s / costs[0].own_s:.2f}x")
    return 0 if all(cost.accepted for cost in costs) else 1


if __name__ == "__main__":
    sys.exit(main())
