"""The result as Markdown and JSON: medians, and ratios to the floor and to nodeprep."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench.engines import ENGINES, FLOOR, NODEPREP, Cost

Costs = Mapping[str, Sequence[Cost]]  # by engine

_HEAD = (
    "| engine | runs | wall s | controller CPU s | targets CPU s | wall/floor | CPU/nodeprep |\n"
    "|---|---|---|---|---|---|---|\n"
)


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.controller for cost in costs),
        statistics.median(cost.targets for cost in costs),
    )


def summary(costs: Costs) -> dict[str, Any]:
    """By engine: the medians in seconds, the ratios and every run."""
    middle = {name: median(runs) for name, runs in costs.items() if runs}
    floor, own = middle.get(FLOOR.name), middle.get(NODEPREP.name)
    return {
        name: {
            "wall_s": cost.wall,
            "controller_cpu_s": cost.controller,
            "targets_cpu_s": cost.targets,
            "wall_to_floor": cost.wall / floor.wall if floor else None,
            "controller_cpu_to_nodeprep": cost.controller / own.controller if own else None,
            "runs": [vars(run) for run in costs[name]],
        }
        for name, cost in middle.items()
    }


def markdown(summaries: Mapping[int, Mapping[str, Any]]) -> str:
    """A table for each number of nodes."""
    parts = []
    for nodes, engines in summaries.items():
        rows = [_row(e.title, engines[e.name]) for e in ENGINES if e.name in engines]
        parts.append(f"### {nodes} nodes\n\n{_HEAD}{''.join(rows)}")
    return "\n".join(parts)


def _row(title: str, entry: Mapping[str, Any]) -> str:
    cells = (
        title, str(len(entry["runs"])), f"{entry['wall_s']:.2f}",
        f"{entry['controller_cpu_s']:.2f}", f"{entry['targets_cpu_s']:.1f}",
        _ratio(entry["wall_to_floor"]), _ratio(entry["controller_cpu_to_nodeprep"]),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}x" if value >= 10 else f"{value:.2f}x"
