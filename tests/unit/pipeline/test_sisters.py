"""After the proofs each node is seen beside its sisters; who is slower is named, not refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.pipeline import acceptance


def work(name: str, value: float, profile: str = "a") -> Any:
    proof = Verdict(
        claim="nccl/proof:speed", role="nccl", verdict=Outcome.PASS, value=value, unit="GB/s"
    )
    node = SimpleNamespace(profile=SimpleNamespace(name=profile))
    return SimpleNamespace(name=name, document=SimpleNamespace(node=node), proofs=(proof,))


def test_the_slow_one_of_a_run_is_named_and_stays_passed() -> None:
    works = [*(work(f"n{n}", 228) for n in range(4)), work("odd", 201), work("nas", 1, "nas")]
    acceptance._compare_sisters(works)
    slow = {w.name: w.proofs[0].detail.get("slow", "") for w in works}
    assert slow.pop("odd") == "12 % below its sisters: 201 against a median of 228 GB/s"
    assert not any(slow.values())
    assert all(w.proofs[0].verdict is Outcome.PASS for w in works)
