"""What the node's own CPUs and memory do while all of them work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.accept import memory_load
from nodeprep.model.verdict import Outcome
from tests.unit.accept.nodes import Answer, accepted, document, job, profile, simulated_node
from tests.unit.accept.test_role_proofs import CLAIMS, REAL, Rack, red

NAMES = {"memory.bandwidth", "cpu.clock_under_load"}


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rack:
    return Rack(simulated_node(tmp_path / "board"), monkeypatch)


def test_it_runs_here_and_ends_in_time() -> None:
    """Real: on this machine's CPUs, with whatever Python runs the tests."""
    done = subprocess.run(
        [sys.executable, "-I", memory_load.__file__, "3"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = re.match(r"memory ([\d.]+)\n", done.stdout)
    assert found, done.stdout
    assert float(found[1]) > 0


@pytest.mark.parametrize(
    ("said", "name", "words"),
    [
        ("memory 141.2\nclock 2590 2600\n", "memory.bandwidth", "141.2 GB/s"),
        ("memory 288.4\nclock 800 1190\n", "cpu.clock_under_load", "1190 MHz"),
    ],
)
def test_too_little_is_refused_by_the_profile(rack: Rack, said: str, name: str, words: str) -> None:
    rack.says("sched_setaffinity", said)
    found = red(accepted(job(document("base", on=REAL, claims=CLAIMS), level="stress"), rack.node))
    assert found.keys() == {name}
    assert found[name].verdict is Outcome.FAIL
    assert words in found[name].read
    assert found[name].action


@pytest.mark.parametrize(
    "answer",
    [Answer("memory x\n"), Answer(rc=1, stderr="2 CPUs copied nothing"), Answer(rc=127), Answer()],
)
def test_what_is_not_told_has_not_passed(rack: Rack, answer: Answer) -> None:
    rack.node.answers = {"sched_setaffinity": answer, **rack.node.answers}
    rack.node.answers["sched_setaffinity"] = answer
    found = red(accepted(job(document("base", on=REAL, claims=CLAIMS), level="stress"), rack.node))
    assert found.keys() == NAMES
    assert {verdict.verdict for verdict in found.values()} == {Outcome.UNKNOWN}


def test_both_share_one_run(rack: Rack) -> None:
    accepted(job(document("base", on=REAL, claims=CLAIMS), level="stress"), rack.node)
    assert sum("sched_setaffinity" in command for command, _, _ in rack.node.ran) == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [("a100-sxm4-80g-x8", "parts.cpu"), ("lab-a100-sxm4-40g-x4", "platform.cpufreq")],
)
def test_only_the_profile_makes_them_not_applicable(rack: Rack, name: str, why: str) -> None:
    on = profile(name)
    found = accepted(job(document("base", on=on, claims=CLAIMS), level="stress"), rack.node)
    for proof in NAMES:
        assert found.proof(proof).verdict is Outcome.NOT_APPLICABLE
        assert why in found.proof(proof).reason
