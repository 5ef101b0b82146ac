"""The proof that interrupts arrive where they were put, and what turns it red."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.accept.parsers.interrupts import parse_interrupts
from nodeprep.accept.parsers.text import ParseError
from nodeprep.model.claim import Interrupts
from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.accept.nodes import profile
from tests.unit.accept.test_role_proofs import INTERRUPTS, Rack

CLAIM = Interrupts(role="nic_tuning", name="ens5f0")
ANSWER = "/proc/interrupts"


@pytest.fixture
def rack(node: Any, monkeypatch: pytest.MonkeyPatch) -> Rack:
    return Rack(node, monkeypatch)


def prove(rack: Rack, text: str) -> Verdict:
    rack.says(ANSWER, text)
    return rack.prove("nic_tuning", claims=(CLAIM,)).proof("nic.interrupts")


def test_where_they_belong(rack: Rack) -> None:
    verdict = prove(rack, INTERRUPTS)
    assert verdict.verdict is Outcome.PASS
    assert "300 interrupts" in verdict.read


def test_on_another_cpu(rack: Rack) -> None:
    verdict = prove(rack, INTERRUPTS.replace(" 41: 0 100 ", " 41: 60 40 "))
    assert verdict.verdict is Outcome.FAIL
    assert "interrupt 41: 60 on CPU 0" in verdict.read
    assert "irqbalance" in verdict.action


def test_one_that_was_just_moved_is_no_stray(rack: Rack) -> None:
    assert prove(rack, INTERRUPTS.replace(" 41: 0 100 ", " 41: 1 99 ")).verdict is Outcome.PASS


def test_none_at_all_is_unknown(rack: Rack) -> None:
    before = INTERRUPTS.partition("----\n")[0]
    still = f"{before}----\n{before}----\n" + "----\n".join(INTERRUPTS.split("----\n")[2:])
    assert prove(rack, still).verdict is Outcome.UNKNOWN


def test_half_an_answer_is_unknown(rack: Rack) -> None:
    assert prove(rack, INTERRUPTS.rpartition("----")[0]).verdict is Outcome.UNKNOWN


def test_not_applicable_only_by_the_profile(rack: Rack) -> None:
    lacking = CLAIM.model_copy(update={"applies": False, "why": "they are the host's"})
    lab = profile("lab-a100-sxm4-40g-x4")
    verdict = rack.prove("nic_tuning", on=lab, claims=(lacking,)).proof("nic.interrupts")
    assert verdict.verdict is Outcome.NOT_APPLICABLE
    assert "shares the kernel" in verdict.reason
    verdict = rack.prove("nic_tuning", claims=(lacking,)).proof("nic.interrupts")
    assert verdict.verdict is Outcome.UNKNOWN


@given(st.text())
def test_no_text_crashes_the_parser(text: str) -> None:
    try:
        found = parse_interrupts(text)
    except ParseError:
        return
    assert all(isinstance(count, int) for counts in found.values() for count in counts.values())
