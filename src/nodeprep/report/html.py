"""One self-contained HTML page of a run: no network, no script, light and dark, printable."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import charts, curves, fleet, words
from nodeprep.report.changes import changes
from nodeprep.report.safe import clean

# With so few nodes all are open; with more, only those that want attention.
OPEN_NODES = 8
# By other means than a line of their own.
_SHOWN = (
    "matrix", "curve", "better", "notes", "slow", "fleet", "baseline", "measurement", "seconds",
    "level",
)  # fmt: skip
_LONGEST = 20_000  # characters of one text: a node may have printed megabytes
_ORDER = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WAIVED, Outcome.NOT_APPLICABLE, Outcome.PASS)
_EXITS = {
    0: "good",
    1: "the tool failed",
    2: "drift, or a gate failed",
    3: "a node was not reached",
    4: "bad input",
}


@dataclass(frozen=True)
class Group:
    """The checks of one role: those to look at, worst first, and those that passed."""

    role: str
    notable: tuple[Verdict, ...]
    passed: tuple[Verdict, ...]

    @property
    def worst(self) -> Outcome:
        return self.notable[0].verdict if self.notable else Outcome.PASS


@dataclass(frozen=True)
class Section:
    """One node, laid out."""

    node: NodeResult
    anchor: str
    counts: tuple[tuple[Outcome, int], ...]
    gates: tuple[Verdict, ...]
    groups: tuple[Group, ...]
    parts: tuple[tuple[str, str, str, Outcome | None], ...]  # part, rented, standing, what is wrong
    open: bool

    @property
    def brief(self) -> tuple[tuple[Outcome, int], ...]:
        """For the table of nodes: what the profile rules out is no news."""
        return tuple(pair for pair in self.counts if pair[0] is not Outcome.NOT_APPLICABLE)

    @property
    def slow(self) -> str:
        found = [verdict for verdict in self.node.verdicts if words.slow(verdict)]
        return f"{found[0].claim}: {words.slow(found[0])}" if found else ""


def render(result: RunResult, previous: RunResult | None = None) -> str:
    """The page as text. `previous`: the run before it, to say what changed since."""
    few = len(result.nodes) <= OPEN_NODES
    sections = [_section(node, n, few=few) for n, node in enumerate(result.nodes)]
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            run=result,
            sections=sections,
            states=_tally(node.state.value for node in result.nodes),
            counts=_counts(tuple(v for node in result.nodes for v in node.verdicts)),
            seconds=(result.finished - result.started).total_seconds(),
            exit_word=_EXITS.get(result.exit_code, ""),
            faults=sum(node.fault is not None for node in result.nodes),
            simulated=any(node.simulated for node in result.nodes),
            headline=words.headline(result.nodes),
            changed_any=any(node.changed for node in result.nodes),
            fleet=fleet.lay_out(result),
            changes=changes(result, previous),
            anchors={section.node.name: section.anchor for section in sections},
        )
    )


def _section(node: NodeResult, number: int, *, few: bool) -> Section:
    rented = words.rented(node.profile.parts) if node.profile else {}
    standing = words.standing(node.hardware) if node.hardware else {}
    parts = dict.fromkeys((*rented, *standing)) if standing else {}
    wrong = words.wrong_parts(node)
    return Section(
        node=node,
        anchor=f"node-{number}",
        counts=_counts(node.verdicts),
        gates=tuple(sorted(words.gates(node), key=_rank)),
        groups=_groups(tuple(v for v in node.verdicts if not words.is_gate(v))),
        parts=tuple(
            (part, rented.get(part, ""), standing.get(part, ""), wrong.get(part)) for part in parts
        ),
        open=few or bool(node.fault or node.blocking) or node.state in words.BAD_STATES,
    )


def _groups(verdicts: tuple[Verdict, ...]) -> tuple[Group, ...]:
    roles = dict.fromkeys(verdict.role for verdict in verdicts)
    groups = [_group(role, [v for v in verdicts if v.role == role]) for role in roles]
    return tuple(sorted(groups, key=lambda group: _ORDER.index(group.worst)))


def _group(role: str, verdicts: list[Verdict]) -> Group:
    return Group(
        role=role,
        notable=tuple(sorted((v for v in verdicts if v.verdict is not Outcome.PASS), key=_rank)),
        passed=tuple(v for v in verdicts if v.verdict is Outcome.PASS),
    )


def _rank(verdict: Verdict) -> int:
    return _ORDER.index(verdict.verdict)


def _counts(verdicts: tuple[Verdict, ...]) -> tuple[tuple[Outcome, int], ...]:
    found = ((outcome, sum(v.verdict is outcome for v in verdicts)) for outcome in _ORDER)
    return tuple((outcome, count) for outcome, count in found if count)


def _tally(names: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nodeprep.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_fit,
    )
    environment.filters.update(
        figure=words.figure,
        lasted=words.lasted,
        when=words.when,
        tone=_tone,
        word=lambda outcome: str(outcome).replace("_", " "),
        bare=lambda claim: claim.partition("/")[2] or claim,
        share=_share,
        facts=_facts,
        diff_lines=_diff_lines,
    )
    environment.globals.update(
        heatmap=charts.heatmap,
        is_between=charts.is_between,
        curve=curves.curve,
        margin=words.margin,
        why=words.why,
        notes=words.notes,
        slow=words.slow,
        beside=words.beside,
        changed_roles=words.changed_roles,
        chart=curves,
    )
    return environment


def _fit(value: object) -> object:
    """What a node printed may hold anything; the page holds text only, and not megabytes of it."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    text = clean(str(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " … (cut)"


def _tone(state: str) -> str:
    """The colour class of a lifecycle state."""
    tones = {"joined": "pass", "accepted": "pass", "quarantined": "fail", "drifted": "fail"}
    return tones.get(str(state), "not_applicable")


def _share(value: float | None, verdict: Verdict) -> float:
    """Where a figure stands on the bar of its gate, in percent; the bar ends beyond both."""
    span = max(abs(verdict.value or 0.0), abs(verdict.gate or 0.0)) * 1.15
    return round(min(100.0, max(0.0, (value or 0.0) / span * 100)), 2) if span else 0.0


def _facts(verdict: Verdict) -> list[tuple[str, str]]:
    """What else a proof tells, that is not drawn."""
    return [
        (name, value if isinstance(value, str) else json.dumps(value, default=str))
        for name, value in verdict.detail.items()
        if name not in _SHOWN
    ]


def _diff_lines(diff: str) -> list[tuple[str, str]]:
    """Lines of a diff with the class of each."""
    return [(_diff_class(line), line) for line in diff[:_LONGEST].splitlines()]


def _diff_class(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return "head"
    return {"+": "plus", "-": "minus"}.get(line[:1], "same")
