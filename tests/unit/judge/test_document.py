"""All claims of a node: order, waivers, and what becomes of a claim that nobody read."""

from __future__ import annotations

import datetime as dt

from nodeprep.judge.claims import judge_document, waive
from nodeprep.model.reading import Reading
from nodeprep.model.verdict import Outcome, Verdict, Waiver
from tests.unit.judge.nodes import document, reading

TODAY = dt.date(2026, 12, 1)
CLAIMS = [
    {"kind": "package", "role": "base", "name": "jq"},
    {"kind": "module", "role": "nvidia_driver", "name": "nvidia"},
]
READ = reading(
    readings={
        "base/package:jq": Reading(data={"version": "1.6", "held": False}),
        "nvidia_driver/module:nvidia": Reading(data={"loaded": False, "builtin": False}),
    }
)


def waiver(claim: str = "*/module:*", **other: object) -> Waiver:
    return Waiver.model_validate(
        {"claim": claim, "reason": "RMA 4711", "expires": TODAY.isoformat(), **other}
    )


def test_verdicts_come_in_the_documents_order() -> None:
    found = judge_document(document(CLAIMS), READ, TODAY)
    assert [v.claim for v in found] == ["base/package:jq", "nvidia_driver/module:nvidia"]
    assert [v.verdict for v in found] == [Outcome.PASS, Outcome.FAIL]


def test_what_was_not_read_is_unknown() -> None:
    found = judge_document(document(CLAIMS), reading(), TODAY)
    assert [v.verdict for v in found] == [Outcome.UNKNOWN, Outcome.UNKNOWN]


def test_a_waiver_holds_on_its_last_day_and_keeps_what_was_read() -> None:
    found = judge_document(document(CLAIMS, waivers=(waiver(),)), READ, TODAY)[1]
    assert found.verdict is Outcome.WAIVED
    assert found.read == "not loaded"
    assert "RMA 4711" in found.reason
    assert "fail" in found.reason


def test_an_expired_waiver_does_not_waive_and_says_so() -> None:
    tomorrow = TODAY + dt.timedelta(days=1)
    found = judge_document(document(CLAIMS, waivers=(waiver(),)), READ, tomorrow)[1]
    assert found.verdict is Outcome.FAIL
    assert "expired on 2026-12-01" in found.reason


def test_of_two_waivers_the_later_one_counts() -> None:
    early = waiver(expires="2026-01-01")
    found = judge_document(document(CLAIMS, waivers=(early, waiver(), early)), READ, TODAY)[1]
    assert found.verdict is Outcome.WAIVED


def test_a_waiver_for_other_nodes_or_claims_does_nothing() -> None:
    for other in (waiver(nodes=["gpu-02"]), waiver("base/*"), waiver("module:nvidia")):
        found = judge_document(document(CLAIMS, waivers=(other,)), READ, TODAY)[1]
        assert found.verdict is Outcome.FAIL


def test_a_waiver_by_node_glob() -> None:
    found = judge_document(document(CLAIMS, waivers=(waiver(nodes=["gpu-*"]),)), READ, TODAY)
    assert found[1].verdict is Outcome.WAIVED


def test_a_pass_is_never_waived() -> None:
    found = judge_document(document(CLAIMS, waivers=(waiver("*"),)), READ, TODAY)[0]
    assert found.verdict is Outcome.PASS


def test_proofs_and_hardware_are_waived_the_same_way() -> None:
    red = Verdict(claim="hardware/memory:dimms", role="hardware", verdict=Outcome.UNKNOWN)
    (found,) = waive((red,), (waiver("hardware/*"),), "gpu-01", TODAY)
    assert found.verdict is Outcome.WAIVED
