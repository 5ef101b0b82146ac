"""A run's result as blocks for the screen, by verb."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console

from nodeprep.model.lifecycle import State
from nodeprep.model.run import Fault, NodeResult, RunResult
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
from nodeprep.report.changes import changes
from nodeprep.report.safe import one_line

OUTCOME_STYLES = {
    Outcome.PASS: GOOD,
    Outcome.FAIL: BAD,
    Outcome.UNKNOWN: UNSURE,
    Outcome.NOT_APPLICABLE: QUIET,
    Outcome.WAIVED: QUIET,
}


def render(result: RunResult, console: Console, previous: RunResult | None = None) -> None:
    """Print what the verb's reader came for. NO_COLOR is honoured, by rich.

    previous   the run of the same verb before this one, to say what changed since
    """
    show(console, blocks(result, previous))


def blocks(result: RunResult, previous: RunResult | None = None) -> Iterator[Block]:
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
    if result.verb not in ("status", "plan"):
        yield from changed(result, previous)
    yield from _simulated(result)


def list_runs(results: Iterable[RunResult], pages: Mapping[str, str], console: Console) -> None:
    """One row per run: verb, when, how it ended, nodes, and its page by the run's id."""
    rows = tuple(
        (
            Cell(result.verb, STRONG),
            Cell(words.when(result.finished)),
            Cell(str(result.exit_code), BAD if result.exit_code else GOOD),
            Cell(_summary(result)),
            Cell(pages.get(result.id, "-")),
        )
        for result in results
    )
    show(console, [Table(("verb", "finished", "exit", "nodes", "page"), rows)])


def _summary(result: RunResult) -> str:
    counts: dict[str, int] = {}
    for node in result.nodes:
        counts[node.state.value] = counts.get(node.state.value, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"


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
    """Node, claim, wanted and read of each claim that does not hold or is not known."""
    found = tuple((node, verdict) for node in result.nodes for verdict in node.blocking)
    if found:
        yield _differences(found)
    elif all(node.verdicts and node.fault is None for node in result.nodes) and result.nodes:
        yield Line("no drift", GOOD)


def _differences(found: Iterable[tuple[NodeResult, Verdict]]) -> Table:
    """Claims that do not hold. Off a terminal a line each, which grep and mail leave whole."""
    found = tuple(found)
    return Table(
        ("node", "claim", "wanted", "read"),
        tuple(_drifted(node, verdict) for node, verdict in found),
        plain=tuple(f"{one_line(node.name)} {_difference(verdict)}" for node, verdict in found),
    )


def _drifted(node: NodeResult, verdict: Verdict) -> tuple[Cell, ...]:
    style = OUTCOME_STYLES[verdict.verdict]
    read = verdict.read or "nothing"
    if verdict.verdict is Outcome.UNKNOWN:
        read = f"unknown: {verdict.reason or 'could not be measured'}"
    elif verdict.reason and not verdict.wanted:
        read = verdict.reason
    return (
        Cell(node.name, STRONG),
        Cell(verdict.claim, style),
        Cell(verdict.wanted or "-"),
        Cell(read, style),
    )


def _difference(verdict: Verdict) -> str:
    if verdict.verdict is Outcome.UNKNOWN:
        said = f"unknown: {verdict.reason or 'could not be measured'}"
    elif verdict.wanted:
        said = f"wanted {verdict.wanted}; read {verdict.read or 'nothing'}"
    else:
        said = verdict.reason or f"read {verdict.read or 'nothing'}"
    return f"{one_line(verdict.claim, CELL_WIDTH)}: {one_line(said, 2 * CELL_WIDTH)}"


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
            yield Line(f"reboots once: {node.plan.reboot}", UNSURE, indent=2)
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
    yield from _slow(result)
    others = tuple(
        (node, verdict)
        for node in result.nodes
        if node.fault is None  # that is the reason then, not the claims it never came to
        for verdict in node.blocking
        if not words.is_gate(verdict)
    )
    if others:
        yield _differences(others)


def _gate(node: NodeResult, verdict: Verdict) -> tuple[Cell, ...]:
    marks = [verdict.source or "-"]
    marks += (note for note in words.notes(verdict) if note != words.slow(verdict))
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


def _slow(result: RunResult) -> Iterator[Block]:
    """Who is behind its sisters, whatever the gate says."""
    for node in result.nodes:
        for verdict in node.verdicts:
            if words.slow(verdict):
                line = f"{node.name} {verdict.claim}: {words.slow(verdict)}"
                yield Line(one_line(line, CELL_WIDTH), UNSURE)


def changed(result: RunResult, previous: RunResult | None) -> Iterator[Block]:
    """What is not as it was in the last run of the same verb."""
    found = changes(result, previous)
    if not found:
        return
    yield Line(f"changed since {words.when(found.since.finished)}", STRONG)
    for node in found.nodes:
        name = one_line(node.name)
        if node.state:
            yield Line(f"{name}: {node.state[0]}, now {node.state[1]}", indent=2)
        if node.fault:
            yield Line(f"{name}: {one_line(node.fault, CELL_WIDTH)}", indent=2)
        for word, style, verdicts in (("red", BAD, node.red), ("green", GOOD, node.green)):
            if verdicts:
                yield Line(f"{name}: turned {word}: {_claims(verdicts)}", style, indent=2)
        for moved in node.moved:
            style = UNSURE if moved.worse else PLAIN
            yield Line(f"{name}: {one_line(str(moved), CELL_WIDTH)}", style, indent=2)


def _claims(verdicts: tuple[Verdict, ...], most: int = 5) -> str:
    names = ", ".join(one_line(verdict.claim, CELL_WIDTH) for verdict in verdicts[:most])
    return names + (f" and {len(verdicts) - most} more" if len(verdicts) > most else "")


def faults(result: RunResult) -> Iterator[Block]:
    """What stopped nodes, and what to do; what stopped many in one way is said once."""
    stopped: dict[Fault, list[str]] = {}
    for node in result.nodes:
        if node.fault is not None:
            stopped.setdefault(node.fault, []).append(node.name)
    for fault, names in stopped.items():
        stage = f" ({fault.stage})" if fault.stage else ""
        yield Line(f"{', '.join(names)}{stage}: {fault.message}", BAD)
        if fault.hint:
            yield Line(fault.hint, QUIET, indent=2)


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
