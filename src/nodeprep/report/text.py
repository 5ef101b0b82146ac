"""A run's result as blocks for the screen, by verb."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import words
from nodeprep.report.blocks import (
    BAD,
    CELL_WIDTH,
    GOOD,
    PLAIN,
    QUIET,
    STRONG,
    UNSURE,
    Block,
    Cell,
    Line,
    Table,
    show,
)
from nodeprep.report.safe import one_line

OUTCOME_STYLES = {
    Outcome.PASS: GOOD,
    Outcome.FAIL: BAD,
    Outcome.UNKNOWN: UNSURE,
    Outcome.NOT_APPLICABLE: QUIET,
    Outcome.WAIVED: QUIET,
}


def render(result: RunResult, console: Console) -> None:
    """Print what the verb's reader came for. NO_COLOR is honoured, by rich."""
    show(console, blocks(result))


def blocks(result: RunResult) -> Iterator[Block]:
    """What `render` prints: plan, drift lines, hardware, gates; then the table of nodes."""
    views = {"plan": plan, "drift": drift, "inspect": hardware, "accept": gates, "provision": gates}
    view = views.get(result.verb)
    if view is not None:
        yield from view(result)
    if result.verb == "status":
        yield states(result)
    elif result.verb != "plan":
        yield nodes(result)
    if result.verb != "status":  # those are of an older run
        yield from faults(result)
    yield from _simulated(result)


def nodes(result: RunResult) -> Table:
    """One row per node: state, what was changed, checks, gates, why."""
    return Table(
        ("node", "state", "changed", "checks", "gates", "why"),
        tuple(
            (
                Cell(node.name, STRONG),
                _state(node),
                Cell(", ".join(words.changed_roles(node)) or "-"),
                _checks(node.verdicts),
                _checks(words.gates(node)),
                Cell(words.why(node)),
            )
            for node in result.nodes
        ),
    )


def states(result: RunResult) -> Table:
    """One row per node: state, since when, why. For `status`."""
    return Table(
        ("node", "state", "since", "why"),
        tuple(
            (
                Cell(node.name, STRONG),
                _state(node),
                Cell(words.when(node.since) or "never seen"),
                Cell(node.why or "-"),
            )
            for node in result.nodes
        ),
    )


def drift(result: RunResult) -> Iterator[Block]:
    """`node  claim  wanted …  read …`, one line per claim that does not hold or is not known."""
    rows = tuple(_drifted(node, verdict) for node in result.nodes for verdict in node.blocking)
    if rows:
        yield Table(("", "", "", ""), rows)
    elif all(node.verdicts and node.fault is None for node in result.nodes) and result.nodes:
        yield Line("no drift", GOOD)


def _drifted(node: NodeResult, verdict: Verdict) -> tuple[Cell, ...]:
    style = OUTCOME_STYLES[verdict.verdict]
    claim = Cell(verdict.claim, style)
    if verdict.verdict is Outcome.UNKNOWN:
        said = verdict.reason or "could not be measured"
        return Cell(node.name, STRONG), claim, Cell("unknown", style), Cell(said)
    wanted, read = f"wanted {verdict.wanted}", f"read {verdict.read or 'nothing'}"
    return Cell(node.name, STRONG), claim, Cell(wanted), Cell(read)


def plan(result: RunResult) -> Iterator[Block]:
    """What provision would change, per node and role, with the diffs of files."""
    for node in result.nodes:
        if node.plan is None:
            continue
        yield Line(f"{node.name}: {_intent(node)}", STRONG)
        for conflict in node.plan.conflicts:
            yield Line(f"conflict: {conflict}", BAD, indent=2)
        for disk in node.plan.disks:
            yield Line(f"writes disk {disk}", BAD, indent=2)
        if node.plan.reboot:
            yield Line(f"reboots: {node.plan.reboot}", UNSURE, indent=2)
        for role in dict.fromkeys((*node.plan.roles, *(v.role for v in node.plan.unmet))):
            yield from _planned(role, tuple(v for v in node.plan.unmet if v.role == role))


def _intent(node: NodeResult) -> str:
    if node.plan is None or node.plan.empty:
        return "nothing to do" if not node.blocking else "nothing that a role could do"
    if node.plan.conflicts:
        return "cannot be provisioned"
    count = len(node.plan.unmet)
    return (
        f"{count} claim{'s' * (count != 1)} of {len(node.plan.roles)} "
        f"role{'s' * (len(node.plan.roles) != 1)} to converge"
    )


def _planned(role: str, unmet: tuple[Verdict, ...]) -> Iterator[Block]:
    yield Line(role, indent=2)
    for verdict in unmet:
        sort = verdict.claim.split("/", 1)[-1]
        step = one_line(_step(verdict), CELL_WIDTH)
        yield Line(f"{sort}  {step}", OUTCOME_STYLES[verdict.verdict], indent=4)
        for line in verdict.diff.splitlines():
            yield Line(line, _diff_style(line), indent=6)


def _step(verdict: Verdict) -> str:
    if verdict.verdict is Outcome.UNKNOWN:
        return f"unknown: {verdict.reason or 'could not be measured'}"
    return f"{verdict.read or 'nothing'} -> {verdict.wanted}"


def _diff_style(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return QUIET
    return GOOD if line.startswith("+") else BAD if line.startswith("-") else QUIET


def hardware(result: RunResult) -> Iterator[Block]:
    """Rented against standing, per node; the differences by name below."""
    for node in result.nodes:
        if node.hardware is None:
            continue
        profile = f" against {node.profile.name}" if node.profile else ""
        yield Line(f"{node.name}{profile}", STRONG)
        rented = words.rented(node.profile.parts) if node.profile else {}
        wrong = words.wrong_parts(node)
        yield Table(
            ("part", "rented", "standing"),
            tuple(
                (Cell(part), Cell(rented.get(part, "-")), Cell(line, _wrong(wrong.get(part))))
                for part, line in words.standing(node.hardware).items()
            ),
        )
        for verdict in node.blocking:
            if verdict.claim.startswith("hardware/"):
                yield Line(
                    f"{verdict.claim}  {words.short(verdict)}",
                    OUTCOME_STYLES[verdict.verdict],
                    indent=2,
                )


def _wrong(outcome: Outcome | None) -> str:
    return OUTCOME_STYLES[outcome] if outcome else PLAIN


def gates(result: RunResult) -> Iterator[Block]:
    """Measurements against their thresholds, then every other check that blocks."""
    rows = tuple(_gate(node, verdict) for node in result.nodes for verdict in words.gates(node))
    if rows:
        yield Table(("node", "gate", "verdict", "measured", "threshold", "margin", "source"), rows)
    others = tuple(
        _drifted(node, verdict)
        for node in result.nodes
        if node.fault is None  # that is the reason then, not the claims it never came to
        for verdict in node.blocking
        if not words.is_gate(verdict)
    )
    if others:
        yield Table(("", "", "", ""), others)


def _gate(node: NodeResult, verdict: Verdict) -> tuple[Cell, ...]:
    marks = [verdict.source or "-"]
    marks += words.notes(verdict)
    marks += ["provisional"] * verdict.provisional + ["simulated"] * verdict.simulated
    style = OUTCOME_STYLES[verdict.verdict]
    return (
        Cell(node.name, STRONG),
        Cell(verdict.claim),
        Cell(verdict.verdict.value, style),
        Cell(words.figure(verdict.value, verdict.unit), style),
        Cell(words.figure(verdict.gate, verdict.unit) if verdict.gate is not None else "-"),
        Cell(words.margin(verdict) or "-"),
        Cell("; ".join(marks), QUIET),
    )


def faults(result: RunResult) -> Iterator[Block]:
    """What stopped a node, and what to do."""
    for node in result.nodes:
        if node.fault is not None:
            stage = f" ({node.fault.stage})" if node.fault.stage else ""
            yield Line(f"{node.name}{stage}: {node.fault.message}", BAD)
            if node.fault.hint:
                yield Line(node.fault.hint, QUIET, indent=2)


def _simulated(result: RunResult) -> Iterator[Block]:
    if any(node.simulated for node in result.nodes):
        yield Line("simulated: the GPU figures come from the lab's stand-ins", UNSURE)


def _state(node: NodeResult) -> Cell:
    if node.state in words.GOOD_STATES:
        return Cell(node.state.value, GOOD)
    if node.state in words.BAD_STATES:
        return Cell(node.state.value, BAD)
    return Cell(node.state.value, QUIET if node.state is State.RETIRED else UNSURE)


def _checks(verdicts: tuple[Verdict, ...]) -> Cell:
    if not verdicts:
        return Cell("-", QUIET)
    worst = {v.verdict for v in verdicts}
    style = BAD if Outcome.FAIL in worst else UNSURE if Outcome.UNKNOWN in worst else PLAIN
    return Cell(words.checks(verdicts), style)
