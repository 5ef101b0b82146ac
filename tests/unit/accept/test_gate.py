"""The gate: what a node must show to be accepted."""

from __future__ import annotations

import pytest

from nodeprep.accept.gate import decide
from nodeprep.model.profile import Profile
from tests.unit.accept.nodes import profile, verdict

GPU = profile()
PLAIN = Profile(name="nas")
CLAIM = verdict()
PROOF = verdict("nccl/proof:nccl.all_reduce.busbw")


def test_a_claim_and_a_proof_that_pass_are_enough() -> None:
    assert decide([CLAIM, PROOF], GPU) == (True, ())


def test_a_node_without_gpus_needs_no_proof() -> None:
    assert decide([CLAIM], PLAIN).accepted


@pytest.mark.parametrize("outcome", ["fail", "unknown"])
def test_one_that_blocks_decides_and_is_named(outcome: str) -> None:
    bad = verdict("nccl/package:libnccl2", outcome, reason="not held")
    assert decide([CLAIM, PROOF, bad], GPU) == (False, ("nccl/package:libnccl2: not held",))


@pytest.mark.parametrize("outcome", ["not_applicable", "waived"])
def test_an_exception_needs_its_reason(outcome: str) -> None:
    def with_reason(reason: str) -> bool:
        return decide([CLAIM, PROOF, verdict("a/b:c", outcome, reason=reason)], GPU).accepted

    assert with_reason("the profile says so")
    assert not with_reason(" ")


def test_nothing_is_not_acceptance() -> None:
    assert not decide([], PLAIN).accepted


def test_proofs_without_claims_are_not_enough() -> None:
    assert not decide([PROOF], GPU).accepted


def test_hardware_is_no_claim() -> None:
    assert not decide([verdict("hardware/gpu:count"), PROOF], GPU).accepted


def test_claims_without_proofs_are_not_enough_for_gpus() -> None:
    assert not decide([CLAIM], GPU).accepted


def test_a_proof_that_does_not_apply_proves_nothing() -> None:
    lacking = verdict("nccl/proof:x", "not_applicable", reason="the profile says so")
    assert not decide([CLAIM, lacking], GPU).accepted


def test_a_verdict_given_twice_decides_against() -> None:
    (reason,) = decide([CLAIM, CLAIM, PROOF], GPU).reasons
    assert "more than once" in reason
