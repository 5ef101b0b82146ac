"""Metrics for node_exporter's textfile collector."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodeprep.errors import ToolFailure
from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True)
class Metric:
    """One family. Samples of equal labels would spoil the whole file: the first one stands."""

    name: str
    help: str
    samples: list[Sample] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} gauge"
        seen: set[str] = set()
        for labels, value in self.samples:
            series = f"{self.name}{{{_labels(labels)}}}"
            if series not in seen:
                seen.add(series)
                yield f"{series} {_number(value)}"


def render(result: RunResult) -> str:
    """The run as text for the collector. What was not measured has no sample: it is not 0."""
    run = {"site": result.site, "verb": result.verb}
    metrics = (
        Metric("nodeprep_last_run_timestamp_seconds", "When the last run of the verb finished.",
               [(run, result.finished.timestamp())]),
        Metric("nodeprep_last_run_exit_code", "0 good, 1 tool, 2 drift or gate, 3 unreachable.",
               [(run, result.exit_code)]),
        Metric("nodeprep_node_state", "1 for the state that the node is in, else 0.",
               list(_states(result))),
        Metric("nodeprep_drift_claims", "Claims that do not hold on the node.",
               list(_counts(result, Outcome.FAIL))),
        Metric("nodeprep_unknown_claims", "Claims that could not be measured on the node.",
               list(_counts(result, Outcome.UNKNOWN))),
        Metric("nodeprep_gate_value", "The figure that was measured for a gate.",
               [(labels, verdict.value) for labels, verdict in _gates(result)
                if verdict.value is not None]),
        Metric("nodeprep_gate_threshold", "The figure at which the gate fails.",
               [(labels, verdict.gate) for labels, verdict in _gates(result)
                if verdict.gate is not None]),
    )  # fmt: skip
    return "".join(f"{line}\n" for metric in metrics if metric.samples for line in metric.lines())


def write(result: RunResult, path: Path) -> None:
    """Put the text at `path` in one step, readable by the exporter's user.

    Raises ToolFailure when it cannot be written.
    """
    try:
        fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
                file.write(render(result))
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ToolFailure(f"{path} cannot be written: {error}") from error


def _states(result: RunResult) -> Iterator[Sample]:
    for node in result.nodes:
        for state in State:
            yield {**_who(result, node), "state": state.value}, float(node.state is state)


def _counts(result: RunResult, outcome: Outcome) -> Iterator[Sample]:
    for node in result.nodes:
        if node.verdicts:
            yield _who(result, node), float(node.count(outcome))


def _gates(result: RunResult) -> Iterator[tuple[dict[str, str], Verdict]]:
    for node in result.nodes:
        for verdict in node.verdicts:
            if verdict.gate is not None:
                labels = {"claim": verdict.claim, "unit": verdict.unit}
                yield {**_who(result, node), **labels}, verdict


def _who(result: RunResult, node: NodeResult) -> dict[str, str]:
    return {"site": result.site, "node": node.name}


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
