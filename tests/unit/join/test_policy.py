"""Who may join."""

from __future__ import annotations

import pytest

from nodeprep.join import eligible, member
from nodeprep.model.hardware import Gpu, Hardware
from nodeprep.model.lifecycle import State
from nodeprep.model.run import Fault, NodeResult
from nodeprep.model.verdict import Outcome, Verdict


def node(
    *outcomes: Outcome, state: State = State.ACCEPTED, fault: Fault | None = None
) -> NodeResult:
    verdicts = tuple(
        Verdict(claim=f"nccl/proof:p{n}", role="nccl", verdict=o, reason="so it is")
        for n, o in enumerate(outcomes)
    )
    return NodeResult(name="gpu1", state=state, verdicts=verdicts, fault=fault, why="a reason")


@pytest.mark.parametrize("state", [State.ACCEPTED, State.JOINED])
def test_an_accepted_node_whose_checks_all_hold_may_join(state: State) -> None:
    good = node(Outcome.PASS, Outcome.NOT_APPLICABLE, Outcome.WAIVED, state=state)
    assert eligible(good) == ()


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.UNKNOWN])
def test_one_blocking_verdict_keeps_it_out(outcome: Outcome) -> None:
    assert eligible(node(Outcome.PASS, outcome)) == (f"nccl/proof:p1 is {outcome}: so it is",)


def test_no_checks_at_all_keep_it_out() -> None:
    assert eligible(node()) == ("nothing was checked",)


def test_a_fault_keeps_it_out() -> None:
    fault = Fault(type="Unreachable", message="no answer")
    assert eligible(node(Outcome.PASS, fault=fault)) == ("Unreachable: no answer",)


@pytest.mark.parametrize("state", sorted(set(State) - {State.ACCEPTED, State.JOINED}))
def test_every_other_state_keeps_it_out(state: State) -> None:
    assert eligible(node(Outcome.PASS, state=state)) == (f"it is {state}: a reason",)


def test_a_member_has_one_slot_per_gpu_that_stands_in_it() -> None:
    gpus = tuple(Gpu(pci_address=f"0000:0{n}:00.0", uuid=f"GPU-{n}") for n in range(4))
    with_gpus = node(Outcome.PASS).model_copy(update={"hardware": Hardware(gpus=gpus)})
    made = member(with_gpus, "10.0.0.1")
    assert (made.slots, made.gpus) == (4, ("GPU-0", "GPU-1", "GPU-2", "GPU-3"))
    assert member(node(Outcome.PASS), "10.0.0.1").slots == 0
    assert member(with_gpus, "10.0.0.1", slots=2).slots == 2
