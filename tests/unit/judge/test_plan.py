"""The plan: which roles must run."""

from __future__ import annotations

from typing import Any

from nodeprep.judge.claims import judge
from nodeprep.judge.plan import plan
from nodeprep.model.reading import Reading
from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.judge.nodes import document

CLAIMS: list[dict[str, Any]] = [
    {"kind": "package", "role": "nccl", "name": "libnccl2"},
    {"kind": "package", "role": "base", "name": "jq"},
    {"kind": "file", "role": "nvidia_driver", "name": "/etc/modprobe.d/x.conf", "content": "x",
     "notify": ["reboot the node"]},
]  # fmt: skip


def verdicts(**by_role: Outcome) -> tuple[Verdict, ...]:
    roles = {"nccl": "nccl/package:libnccl2", "base": "base/package:jq",
             "nvidia_driver": "nvidia_driver/file:/etc/modprobe.d/x.conf"}  # fmt: skip
    return tuple(
        Verdict(claim=claim, role=role, verdict=by_role.get(role, Outcome.PASS))
        for role, claim in roles.items()
    )


def test_nothing_to_do_is_an_empty_plan() -> None:
    found = plan(document(CLAIMS), verdicts())
    assert found.empty
    assert found.node == "gpu-01"
    assert len(found.verdicts) == 3


def test_roles_run_in_the_playbooks_order() -> None:
    found = plan(document(CLAIMS), verdicts(nccl=Outcome.FAIL, base=Outcome.FAIL))
    assert found.roles == ("base", "nccl")


def test_an_unknown_makes_its_role_run() -> None:
    assert plan(document(CLAIMS), verdicts(nccl=Outcome.UNKNOWN)).roles == ("nccl",)


def test_what_does_not_apply_or_is_waived_does_not() -> None:
    found = plan(document(CLAIMS), verdicts(nccl=Outcome.WAIVED, base=Outcome.NOT_APPLICABLE))
    assert found.empty


def test_a_failing_claim_that_notifies_a_reboot() -> None:
    assert plan(document(CLAIMS), verdicts()).reboot == ""
    found = plan(document(CLAIMS), verdicts(nvidia_driver=Outcome.FAIL))
    assert found.reboot == "nvidia_driver/file:/etc/modprobe.d/x.conf"


def test_what_only_the_next_boot_lacks_is_mended_without_a_reboot() -> None:
    claim = {"kind": "kernel_argument", "role": "kernel", "name": "iommu", "value": "pt",
             "notify": "Reboot for it"}  # fmt: skip
    wanted = document([claim], roles=("kernel",))

    def reboots(running: list[str], persisted: list[str]) -> str:
        data = {"running": running, "persisted": persisted, "persisted_in": "grub.cfg"}
        verdict = judge(wanted.claims[0], Reading(data=data))
        return plan(wanted, [verdict]).reboot

    assert reboots(["pt"], []) == ""
    assert reboots([], ["pt"]) == "kernel/kernel_argument:iommu"
    assert reboots([], []) == "kernel/kernel_argument:iommu"


def test_a_conflict_keeps_the_plan_from_being_empty() -> None:
    found = plan(document(CLAIMS), verdicts(), ("libnccl2 and libnccl-dev differ",))
    assert not found.empty
