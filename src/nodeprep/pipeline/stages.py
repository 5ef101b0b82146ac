"""The stages of a run, each over the nodes that still go on. Each is idempotent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nodeprep import workers
from nodeprep.errors import BadInput, ToolFailure
from nodeprep.inventory import vault_secret
from nodeprep.join import HostfileAdapter, eligible, member
from nodeprep.judge import hardware as hardware_judge
from nodeprep.judge import packages
from nodeprep.judge.claims import judge_document, waive
from nodeprep.judge.plan import plan as make_plan
from nodeprep.judge.writes import writes
from nodeprep.model.event import Event, What
from nodeprep.model.lifecycle import Event as Happened
from nodeprep.model.lifecycle import State
from nodeprep.model.node import Document
from nodeprep.model.reading import NodeReading
from nodeprep.pipeline.run import Run, Work, today

_READER_TIMEOUT_S = 90
# What the reader leaves aside: it needs no prose, and never the content of a file.
_NOT_SENT = {"content", "template", "why", "source", "notify", "applies"}
_FIRST_CONTACT = (State.NEW, State.REACHABLE, State.QUARANTINED, State.RETIRED)


def needs_contact(state: State) -> bool:
    """Whether a node in this state may still refuse our key."""
    return state in _FIRST_CONTACT


def reach(run: Run, works: Sequence[Work], passwords: Mapping[str, str]) -> None:
    """First contact: host key on record, admin user, key login proven, password login off."""
    if not works:
        return
    run.enter("reach", works)
    for work in works:
        if work.before is State.RETIRED:
            run.move(work, Happened.RETURNED)
    nodes = [
        {
            "name": work.name,
            "connection": work.document.node.connection.model_dump(mode="json"),
            "password": passwords.get(work.name),
            "files": _access_files(work.document),
        }
        for work in works
    ]
    done = _worker(run, "nodeprep.probe.worker", {"job": "contact", "nodes": nodes}, works)
    for work in works:
        if work.going and work.name in done:
            run.move(work, Happened.ANSWERED)
            run.move(work, Happened.BOOTSTRAPPED)


def _access_files(document: Document) -> list[dict[str, str]]:
    """First contact writes what role `access` claims: one truth for both."""
    return [
        {"path": claim.name, "content": claim.content, "mode": claim.mode}
        for claim in document.claims_of("access")
        if claim.kind == "file" and claim.content is not None and claim.applies
    ]


def read(
    run: Run,
    works: Sequence[Work],
    *,
    stage: str = "inspect",
    hardware: bool = True,
    passwords: Mapping[str, str] | None = None,
) -> None:
    """One round trip a node: everything that its claims ask for, and its hardware.

    With `passwords` a node that was never contacted is read as the provider's user: nothing on it
    is changed.
    """
    if not works:
        return
    run.enter(stage, works)
    works = [work for work in works if _may_log_in(run, work, passwords or {})]
    nodes = [
        {
            "name": work.name,
            "connection": work.document.node.connection.model_dump(mode="json"),
            "claims": _asked(work.document),
            "hardware": hardware,
            "timeout_s": _READER_TIMEOUT_S,
            "password": (passwords or {}).get(work.name),
        }
        for work in works
    ]
    at_once = run.options.concurrency
    job = {"job": "read", "nodes": nodes, "concurrency": at_once, "keeper": run.keeper}
    _worker(run, "nodeprep.probe.worker", job, works)
    for work in works:
        if work.going and work.reading is None:
            run.fail(work, ToolFailure(f"{work.name}: the reader brought nothing back"))


def _may_log_in(run: Run, work: Work, passwords: Mapping[str, str]) -> bool:
    """A node that nobody has been to needs the provider's password."""
    key = Path(work.document.node.connection.key_file)
    if key.exists() or work.name in passwords:
        return True
    run.fail(
        work,
        BadInput(
            f"{work.name}: never contacted, and no password for it was given",
            hint="vault nodeprep_bootstrap_password, or set NODEPREP_BOOTSTRAP_PASSWORD",
        ),
    )
    return False


def _asked(document: Document) -> list[dict[str, Any]]:
    return [
        claim.model_dump(mode="json", exclude=_NOT_SENT)
        for claim in document.claims
        if claim.applies
    ]


def compare(run: Run, works: Sequence[Work], *, driver: bool) -> None:
    """What was rented against what stands there; a node that is not it goes no further."""
    for work in works:
        reading = work.found
        node = work.document.node
        found = hardware_judge.compare(
            node.profile, reading.hardware, simulated=reading.host.simulated, driver=driver
        )
        if reading.hardware is not None:
            changed = run.ledger.save_hardware(work.name, reading.hardware)
            for change in changed:
                run.note(f"not the machine that was accepted: {change}", work.name)
            if run.verb == "drift":
                swaps = [(change.part, change.accepted, change.found) for change in changed]
                found = (*found, *hardware_judge.swapped(swaps))
        work.hardware = waive(found, node.waivers, node.name, today())


def has_driver(work: Work) -> bool:
    """Whether the driver tells of the GPUs; before it is installed only the bus does."""
    hardware = work.reading.hardware if work.reading else None
    return bool(hardware and any(gpu.driver_version for gpu in hardware.gpus or ()))


def record_drift(run: Run, works: Sequence[Work]) -> None:
    """A node that is not what was accepted is drifted from now on."""
    for work in works:
        if any(v.verdict.blocks for v in work.verdicts):
            run.move(work, Happened.DRIFTED, _drift_reason(work))


def refuse_wrong_hardware(run: Run, works: Sequence[Work]) -> None:
    for work in works:
        wrong = [v for v in work.hardware if v.verdict.blocks]
        if wrong:
            run.refuse(work, wrong)


def judge(works: Sequence[Work]) -> None:
    """Every claim of every node against what was read."""
    for work in works:
        work.claims = judge_document(work.document, work.found, today())


def plan(works: Sequence[Work]) -> None:
    """What converge would do to each node."""
    for work in works:
        conflicts = packages.conflicts(work.document, work.found)
        found = writes(work.document, work.claims, work.found)
        work.plan = make_plan(work.document, work.claims, conflicts, found)


def refuse_conflicts(run: Run, works: Sequence[Work]) -> None:
    """Packages that do not fit, or disks that must not be written, stop a node untouched."""
    for work in works:
        if work.plan and work.plan.conflicts:
            found = "; ".join(work.plan.conflicts)
            hint = (
                "nothing was changed; put versions or disks right in the inventory (a disk that may"
                " be erased: its serial under `wipe`), or free the disk by hand"
            )
            run.fail(work, BadInput(f"{work.name}: cannot be provisioned: {found}", hint=hint))


def converge(run: Run, works: Sequence[Work], only: Sequence[str] = ()) -> list[Work]:
    """Run the roles that own what does not hold, on the nodes where it does not; returns those."""
    todo = {work.name: _selection(work, only) for work in works}
    chosen = [work for work in works if todo[work.name]["roles"]]
    if not chosen:
        return []
    run.enter("converge", chosen)
    for work in chosen:
        if work.before in (State.JOINED, State.ACCEPTED, State.CONVERGED):
            run.move(work, Happened.DRIFTED, _drift_reason(work))
    job = {
        "inventory": str(run.site.inventory.resolve()),
        "playbook": str(run.site.playbook),
        "roles_path": [str(path) for path in run.site.roles_path],
        "nodes": {work.name: todo[work.name] for work in chosen},
        "private_data_dir": str(run.folder / "ansible"),
        "vault_password": _vault_password(run),
        "forks": run.options.concurrency,
        "check": False,
    }
    done = _worker(run, "nodeprep.converge.worker", job, chosen)
    for work in chosen:
        work.changed += done.get(work.name, {}).get("changed", [])
    return chosen


def _selection(work: Work, only: Sequence[str]) -> dict[str, Any]:
    roles = [role for role in (work.plan.roles if work.plan else ()) if not only or role in only]
    unmet = {role: [v.claim for v in work.unmet if v.role == role] for role in roles}
    connection = work.document.node.connection.model_dump(mode="json")
    writes = work.plan.writes if work.plan else ()
    disks = {write.claim: write.model_dump(mode="json", exclude={"claim"}) for write in writes}
    return {"roles": roles, "unmet": unmet, "disks": disks, "connection": connection}


def _drift_reason(work: Work) -> str:
    names = [v.claim for v in work.verdicts if v.verdict.blocks]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def verify(run: Run, works: Sequence[Work], only: Sequence[str] = ()) -> None:
    """After converging: whatever was claimed must hold now, by a fresh reading."""
    for work in works:
        left = [v for v in work.unmet if not only or v.role in only]
        if left:
            lines = "; ".join(f"{v.claim}: {v.reason or v.read}" for v in left[:3])
            more = f"; and {len(left) - 3} more" if len(left) > 3 else ""
            run.fail(
                work,
                ToolFailure(
                    f"{work.name}: converged, yet {len(left)} claim(s) do not hold: {lines}{more}",
                    hint=f"nodeprep drift {run.site.inventory} --limit {work.name} shows them all",
                ),
            )
        elif not work.unmet:
            run.move(work, Happened.CONVERGED)


def join(run: Run, works: Sequence[Work]) -> None:
    """Accepted nodes get work; whoever is not any more gets none."""
    adapter = HostfileAdapter(run.site.name, run.site.folder)
    ready = [w for w in works if run.ledger.state(w.name).state in (State.ACCEPTED, State.JOINED)]
    if ready:
        run.enter("join", ready)
    members = []
    for work in ready:
        reasons = eligible(run.node_result(work))
        if reasons:
            run.fail(work, ToolFailure(f"{work.name}: may not join: {'; '.join(reasons[:3])}"))
            continue
        run.move(work, Happened.JOINED)
        members.append(member(run.node_result(work), address=work.document.node.address))
    adapter.join(members)
    leave(run)


def leave(run: Run) -> None:
    """Take out of the cluster's lists every node that is not joined any more."""
    adapter = HostfileAdapter(run.site.name, run.site.folder)
    states = run.ledger.states()
    adapter.leave(name for name, now in states.items() if now.state is not State.JOINED)


def _worker(
    run: Run, module: str, job: Mapping[str, Any], works: Sequence[Work]
) -> dict[str, dict[str, Any]]:
    """Run a worker over these nodes; returns what it reported as done, by node."""
    done: dict[str, dict[str, Any]] = {}
    mine = {work.name: work for work in works}

    def feed(event: Event) -> None:
        work = mine.get(event.node)
        if event.what is What.READING and work is not None:
            work.reading = NodeReading.model_validate(event.data)
        elif event.what is What.DONE and work is not None:
            done[work.name] = event.data
        elif event.what is What.ERROR and work is not None:
            run.failed(work, event.data)
        run.feed(event)

    workers.run(module, job, feed, log=run.log(module.split(".")[1]))
    return done


def _vault_password(run: Run) -> str | None:
    """Ansible loads the inventory once more: it needs what opened it."""
    word = vault_secret(run.options.vault_password_file)
    return None if word is None else word.decode()
