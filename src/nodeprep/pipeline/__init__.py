"""The corridor: each verb as its stages, in order. Only this package knows two rooms."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nodeprep import __version__, inventory
from nodeprep.errors import EXIT_GOOD, BadInput
from nodeprep.inventory import Site
from nodeprep.ledger import Ledger
from nodeprep.model.lifecycle import Event as Happened
from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult, RunResult
from nodeprep.pipeline import acceptance, stages
from nodeprep.pipeline.keeping import keeping
from nodeprep.pipeline.records import evidence as pack_evidence
from nodeprep.pipeline.records import last_runs, previous, previous_run
from nodeprep.pipeline.run import STAGES, Confirm, Feed, Options, Run, Work, begun, keep_json
from nodeprep.remote import known_hosts
from nodeprep.resources import site_dir, state_home

__all__ = [
    "STAGES", "Confirm", "Feed", "Options", "accept", "drift", "evidence", "inspect", "load",
    "plan", "previous_run", "provision", "report", "retire", "run_folder", "runs", "status",
    "validate",
]  # fmt: skip

AskPassword = Callable[[], str | None]
PASSWORD_VARIABLE = "NODEPREP_BOOTSTRAP_PASSWORD"  # noqa: S105  # the name, not the password


def load(options: Options, *, secrets: bool = False) -> Site:
    """The site that the options name; BadInput holds every problem at once."""
    site = inventory.load(
        options.inventory,
        limit=options.limit,
        vault_password_file=options.vault_password_file,
        secrets=secrets,
    )
    known = {role for document in site.documents for role in document.roles}
    strange = [role for role in options.only if role not in known]
    if strange:
        raise BadInput(
            f"--only {', '.join(strange)}: no such role on these nodes",
            hint=f"roles: {', '.join(sorted(known))}",
        )
    if options.to not in STAGES:
        raise BadInput(f"--to {options.to}: no such stage", hint=f"stages: {', '.join(STAGES)}")
    return site


def validate(options: Options) -> Site:
    """Check inventory, profiles and claims; nothing is reached, nothing is written."""
    return load(options)


def inspect(options: Options, feed: Feed, ask: AskPassword) -> RunResult:
    """Read every node's hardware and compare it with its profile. Changes nothing on a node."""
    site, passwords = _with_passwords(options, ask)
    with begun("inspect", options, site, feed, exclusive=False, masked=passwords.values()) as run:
        stages.read(run, run.going(), passwords=passwords)
        for work in run.going():
            stages.compare(run, [work], driver=stages.has_driver(work))
        return _finish(run)


def plan(options: Options, feed: Feed, ask: AskPassword) -> RunResult:
    """What provision would do, node by node. Changes nothing on a node."""
    site, passwords = _with_passwords(options, ask)
    with begun("plan", options, site, feed, exclusive=False, masked=passwords.values()) as run:
        stages.read(run, run.going(), passwords=passwords)
        _look(run)
        return _finish(run)


def provision(options: Options, feed: Feed, ask: AskPassword, confirm: Confirm) -> RunResult:
    """From a root password to a member of the cluster, or to the reason why not."""
    site, passwords = _with_passwords(options, ask)
    with begun("provision", options, site, feed, exclusive=True, masked=passwords.values()) as run:
        stages.reach(run, [w for w in run.going() if stages.needs_contact(w.before)], passwords)
        if _wanted(run, "inspect"):
            stages.read(run, run.going())
            _look(run)
            stages.refuse_wrong_hardware(run, run.going())
        if _wanted(run, "converge"):
            _confirm(run, confirm)
            _converge(run)
        if _wanted(run, "accept") and not options.only:
            acceptance.accept(run, _ready(run))
        if _wanted(run, "join") and not options.only:
            stages.join(run, run.going())
        stages.leave(run)
        return _finish(run)


def drift(options: Options, feed: Feed, confirm: Confirm) -> RunResult:
    """Whether nodes still are what was accepted; with `fix`, mend what is not, and only that."""
    site = load(options)
    with begun("drift", options, site, feed, exclusive=True, masked=()) as run:
        stages.read(run, run.going(), stage="drift")
        _look(run)
        stages.record_drift(run, run.going())
        if options.fix:
            mended = [work for work in run.going() if work.plan and work.plan.roles]
            _confirm(run, confirm)
            _converge(run)
            back = [work for work in mended if work.going and _was_in(run, work)]
            acceptance.accept(run, [work for work in back if work in _ready(run)])
            stages.join(run, [work for work in back if work.going])
        stages.leave(run)
        return _finish(run)


def accept(options: Options, feed: Feed) -> RunResult:
    """The gates alone: every claim read again, every proof run, whatever was accepted before."""
    options = replace(options, again=True)
    site = load(options)
    with begun("accept", options, site, feed, exclusive=True, masked=()) as run:
        with keeping(run):
            stages.read(run, run.going())
            _look(run)
            acceptance.accept(run, run.going())
        stages.leave(run)
        return _finish(run)


def status(options: Options | None) -> list[RunResult]:
    """Every node's state by site, from the ledgers alone: works offline.

    Without options: all sites that this machine keeps. Nodes of the inventory that were never
    seen are `new`.
    """
    if options is None:
        folder = state_home() / "sites"
        names = sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
        return [_status(name, "", _states(name, ())) for name in names]
    site = load(options)
    nodes = _states(site.name, [document.node.name for document in site.documents])
    return [_status(site.name, str(site.inventory), nodes)]


def _status(site: str, path: str, nodes: list[NodeResult]) -> RunResult:
    now = dt.datetime.now(dt.UTC)
    return RunResult(
        id=f"{now:%Y%m%dT%H%M%S}-{os.getpid()}-status",
        verb="status",
        site=site,
        inventory=path,
        version=__version__,
        started=now,
        finished=now,
        exit_code=0,
        nodes=tuple(nodes),
    )


def _states(site: str, names: Sequence[str]) -> list[NodeResult]:
    path = site_dir(site) / "ledger.sqlite"
    if not path.exists():
        return [NodeResult(name=name, state=State.NEW) for name in names]
    with Ledger.open(path) as ledger:
        states = ledger.states()
        last = _last_results(ledger)
        return [_state(name, ledger, last.get(name)) for name in names or sorted(states)]


def _state(name: str, ledger: Ledger, last: NodeResult | None) -> NodeResult:
    now = ledger.state(name)
    found = last or NodeResult(name=name, state=now.state)
    return found.model_copy(update={"state": now.state, "since": now.since, "why": now.why})


def _last_results(ledger: Ledger) -> dict[str, NodeResult]:
    """The verdicts of the last run that judged a node."""
    last: dict[str, NodeResult] = {}
    for verb in ("inspect", "plan", "accept", "provision", "drift"):
        result = ledger.last_run(verb)
        if result is not None:
            last.update({node.name: node for node in result.nodes if node.verdicts})
    return last


def report(options: Options, form: str, verb: str | None) -> str:
    """The last run of a site (of `verb`) as html, junit, json or prometheus text."""
    from nodeprep.report import document, html, junit, prometheus  # noqa: PLC0415

    site = load(options)
    result = _last(site, verb)
    if form == "html":
        return html.render(result, previous_run(result))
    renderers: dict[str, Callable[[RunResult], str]] = {
        "junit": junit.render,
        "json": document.dumps,
        "prometheus": prometheus.render,
    }
    return renderers[form](result)


def _last(site: Site, verb: str | None) -> RunResult:
    runs = last_runs(site.name)
    found = next((run for run in runs if verb in (None, run.verb)), None)
    if found is not None:
        return found
    if runs:
        verbs = ", ".join(run.verb for run in runs)
        raise BadInput(f"site {site.name} has no run of {verb} to report", hint=f"it has: {verbs}")
    raise BadInput(f"site {site.name} has no run to report", hint="nodeprep provision makes one")


def runs(options: Options) -> list[RunResult]:
    """The last run of every verb, newest first."""
    return last_runs(load(options).name)


def evidence(options: Options, node: str) -> tuple[str, bytes]:
    """The name of the site, and a node's archive for its provider's ticket."""
    try:
        site = load(options, secrets=True)  # to know what must not leave
    except BadInput:
        site = load(options)  # its vault stays closed; the ledger never saw what is in it
    return site.name, pack_evidence(site, node)


def retire(options: Options, reason: str) -> list[str]:
    """Take nodes out of the cluster's lists and forget their host keys; returns their names."""
    site = load(options)
    retired = []
    with begun("retire", options, site, lambda _: None, exclusive=True, masked=()) as run:
        for work in run.works.values():
            run.move(work, Happened.RETIRED, reason)
            connection = work.document.node.connection
            known_hosts.forget(Path(connection.known_hosts), connection.host, connection.port)
            retired.append(work.name)
        stages.leave(run)
    return retired


def _look(run: Run) -> None:
    """Judge what was read: hardware, claims, and the plan that follows."""
    for work in run.going():
        stages.compare(run, [work], driver=stages.has_driver(work))
    stages.judge(run.going())
    stages.plan(run.going())


def _converge(run: Run) -> None:
    stages.refuse_conflicts(run, run.going())
    changed = stages.converge(run, run.going(), run.options.only)
    again = [work for work in changed if work.going]
    stages.read(run, again, stage="verify")
    for work in again:
        if work.going:
            stages.compare(run, [work], driver=stages.has_driver(work))
    stages.judge([work for work in again if work.going])
    stages.verify(run, run.going(), run.options.only)
    stages.refuse_wrong_hardware(run, run.going())


def _was_in(run: Run, work: Work) -> bool:
    """Whether a node that was mended goes back to work: it was accepted before it drifted."""
    known = run.ledger.last_accepted(work.name) is not None
    return known and work.before in (State.JOINED, State.DRIFTED)


def _ready(run: Run) -> list[Work]:
    states = (State.CONVERGED, State.ACCEPTED, State.JOINED)
    return [w for w in run.going() if run.ledger.state(w.name).state in states]


def _confirm(run: Run, confirm: Confirm) -> None:
    """Disks that would be written and reboots are asked for; the rest is what was ordered."""
    dangerous = [w.plan for w in run.going() if w.plan and (w.plan.disks or w.plan.reboot)]
    if dangerous and not confirm(dangerous):
        raise BadInput(
            "not confirmed: the plan writes disks or reboots nodes",
            hint="look at it with `nodeprep plan`, then give --yes; nothing was changed",
        )


def _wanted(run: Run, stage: str) -> bool:
    return STAGES.index(stage) <= STAGES.index(run.options.to)


def _with_passwords(options: Options, ask: AskPassword) -> tuple[Site, Mapping[str, str]]:
    """The site, and the first-contact passwords of the nodes that may need one.

    From the inventory's vault, the environment, or the operator, in this order; nobody is asked
    while every node is known.
    """
    site = load(options)
    path = site_dir(site.name) / "ledger.sqlite"
    states = {}
    if path.exists():
        with Ledger.open(path) as ledger:
            states = {name: now.state for name, now in ledger.states().items()}
    names = [document.node.name for document in site.documents]
    strangers = [n for n in names if stages.needs_contact(states.get(n, State.NEW))]
    if not strangers:
        return site, {}
    site = load(options, secrets=True)
    common = os.environ.get(PASSWORD_VARIABLE) or None
    if common is None and any(name not in site.passwords for name in strangers):
        common = ask()
    passwords = {name: site.passwords.get(name, common) for name in strangers}
    return site, {name: word for name, word in passwords.items() if word}


def run_folder(result: RunResult) -> Path:
    """Where a run's report and raw outputs are kept."""
    return site_dir(result.site) / "runs" / result.id


def _finish(run: Run) -> RunResult:
    from nodeprep.report import document, junit  # noqa: PLC0415  # only when there is one

    result = run.save(run.result())
    keep_json(run.folder / "run.json", document.document(result))
    (run.folder / "junit.xml").write_text(junit.render(result), encoding="utf-8")
    # A check that found nothing runs often and is not looked at: `nodeprep report` renders it.
    if run.verb != "drift" or result.exit_code != EXIT_GOOD:
        from nodeprep.report import html  # noqa: PLC0415

        page = html.render(result, previous(run.ledger, result))
        (run.folder / "report.html").write_text(page, encoding="utf-8")
    return result
