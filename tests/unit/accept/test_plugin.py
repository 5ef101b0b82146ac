"""What is an item, and how it ends: nothing passes that did not say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Outcome
from tests.unit.accept.nodes import (
    Answer,
    FakeNode,
    Outcomes,
    accepted,
    document,
    job,
    profile,
    reading,
    verdict,
)

HEAD = "import pytest\nfrom nodeprep.accept.session import Unknown\n\n"


def prove(body: str, tmp_path: Path, node: FakeNode | None = None, **fields: object) -> Outcomes:
    """Accept a node whose one role, `demo`, has the given proofs."""
    folder = tmp_path / "roles" / "demo" / "acceptance"
    folder.mkdir(parents=True)
    (folder / "test_demo.py").write_text(HEAD + body)
    made = job(document("demo"), tmp_path / "roles", **fields)
    return accepted(made, node or FakeNode())


def proof(body: str, marker: str = '"it", timeout_s=9', fixtures: str = "proof") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"@pytest.mark.proof({marker})\ndef test_it({fixtures}):\n{lines}\n"


GOOD = proof("proof.holds(True, wanted='a', read='a')")


class TestProofs:
    def test_one_that_says_so_passes(self, tmp_path: Path) -> None:
        found = prove(GOOD, tmp_path)
        assert found.proof("it").verdict is Outcome.PASS
        assert found.proof("it").claim == "demo/proof:it"
        assert found.proof("it").simulated
        assert found.done == {
            "collected": 2, "counts": {"pass": 2}, "accepted": True, "reasons": [],
        }  # fmt: skip

    def test_one_that_says_nothing_is_unknown(self, tmp_path: Path) -> None:
        found = prove(proof("pass"), tmp_path)
        assert found.proof("it").verdict is Outcome.UNKNOWN
        assert "without a verdict" in found.proof("it").reason
        assert not found.done["accepted"]

    @pytest.mark.parametrize(
        ("body", "outcome", "reason"),
        [
            ("assert 1 == 2, 'one is not two'", "fail", "one is not two"),
            ("raise ValueError('odd')", "unknown", "ValueError: odd"),
            ("raise Unknown('no tool')", "unknown", "no tool"),
            ("pytest.skip('not today')", "unknown", "not today"),
            ("pytest.xfail('known')", "unknown", "known"),
            ("pytest.fail('bad')", "unknown", "bad"),
            ("proof.run('true')", "unknown", "true is missing"),
            (
                "proof.holds(False, wanted='a', read='b', action='reseat')",
                "fail",
                "wanted a, read b",
            ),
            ("proof.holds(None, wanted='a', read='b')", "unknown", "could not tell"),
            ("proof.holds(True, wanted='a', read='')", "unknown", "could not tell"),
            ("proof.equals('it', None, 4)", "unknown", "was not told"),
            ("proof.equals('it', 3, 4)", "fail", "it is 3, wanted 4"),
            ("proof.measured('made.up', 3.0)", "unknown", "no gate"),
            ("proof.measured('nccl.all_reduce.busbw', None)", "unknown", "no figure"),
            ("proof.measured('nccl.all_reduce.busbw', float('nan'))", "unknown", "no figure"),
            ("proof.measured('nccl.all_reduce.busbw', 179.9)", "fail", "179.9 GB/s"),
            ("proof.not_applicable('no GPUs', profile='parts.gpus')", "unknown", "no GPUs: but"),
        ],
    )
    def test_every_other_end_blocks(
        self, tmp_path: Path, body: str, outcome: str, reason: str
    ) -> None:
        found = prove(proof(body), tmp_path)
        assert found.proof("it").verdict == outcome
        assert reason in found.proof("it").reason
        assert not found.done["accepted"]

    def test_a_failure_is_not_undone_by_what_follows(self, tmp_path: Path) -> None:
        body = (
            "proof.holds(False, wanted='a', read='b')\nproof.holds(True, wanted='c', read='c')\n"
            "pytest.skip('enough')"
        )
        assert prove(proof(body), tmp_path).proof("it").verdict is Outcome.FAIL

    def test_a_pass_is_undone_by_what_follows(self, tmp_path: Path) -> None:
        body = "proof.holds(True, wanted='a', read='a')\nraise RuntimeError('then it broke')"
        assert prove(proof(body), tmp_path).proof("it").verdict is Outcome.UNKNOWN

    def test_not_applicable_comes_from_the_profile_alone(self, tmp_path: Path) -> None:
        body = GOOD + proof(
            "proof.not_applicable('shares a kernel', profile='platform.initramfs')", '"other"'
        ).replace("test_it", "test_other")
        found = prove(body, tmp_path)
        assert found.proof("other").verdict is Outcome.NOT_APPLICABLE
        assert "platform.initramfs" in found.proof("other").reason
        assert found.done["accepted"]

    def test_a_failing_setup_is_unknown(self, tmp_path: Path) -> None:
        setup = "@pytest.fixture\ndef broken(proof):\n    raise OSError('disk')\n\n"
        found = prove(setup + proof("pass", fixtures="proof, broken"), tmp_path)
        assert found.proof("it").verdict is Outcome.UNKNOWN
        assert "disk" in found.proof("it").reason

    def test_a_setup_that_skips_is_unknown(self, tmp_path: Path) -> None:
        setup = "@pytest.fixture\ndef absent(proof):\n    pytest.skip('no')\n\n"
        found = prove(setup + proof("pass", fixtures="proof, absent"), tmp_path)
        assert found.proof("it").verdict is Outcome.UNKNOWN

    def test_a_failing_teardown_takes_the_pass_away(self, tmp_path: Path) -> None:
        setup = "@pytest.fixture\ndef messy(proof):\n    yield\n    raise OSError('left over')\n\n"
        body = proof("proof.holds(True, wanted='a', read='a')", fixtures="proof, messy")
        found = prove(setup + body, tmp_path)
        assert found.proof("it").verdict is Outcome.UNKNOWN
        assert "left over" in found.proof("it").reason

    @pytest.mark.parametrize(
        "mark", ["skip", "skip(reason='x')", "xfail", "skipif(True, reason='x')"]
    )
    def test_marks_of_pytest_make_no_pass(self, tmp_path: Path, mark: str) -> None:
        found = prove(f"@pytest.mark.{mark}\n{proof('raise ValueError(1)')}", tmp_path)
        assert found.proof("it").verdict is Outcome.UNKNOWN

    def test_a_proof_without_its_mark_is_unknown(self, tmp_path: Path) -> None:
        found = prove(
            "def test_it(proof):\n    proof.holds(True, wanted='a', read='a')\n", tmp_path
        )
        assert found.proof("test_it").verdict is Outcome.UNKNOWN
        assert "pytest.mark.proof" in found.proof("test_it").reason

    def test_two_proofs_of_one_name_do_not_hide_each_other(self, tmp_path: Path) -> None:
        found = prove(GOOD + GOOD.replace("test_it", "test_again"), tmp_path)
        assert found.proof("it").verdict is Outcome.PASS
        assert found.proof("it#2").verdict is Outcome.UNKNOWN
        assert not found.done["accepted"]


class TestLevels:
    BOTH = GOOD + GOOD.replace('"it"', '"hot", level="stress"').replace("test_it", "test_hot")

    def test_a_later_level_is_left_out(self, tmp_path: Path) -> None:
        assert "demo/proof:hot" not in prove(self.BOTH, tmp_path).verdicts

    def test_a_level_brings_the_ones_before_it(self, tmp_path: Path) -> None:
        found = prove(self.BOTH, tmp_path, level="stress").verdicts
        assert {"demo/proof:hot", "demo/proof:it"} <= found.keys()

    def test_a_proof_may_take_longer_at_a_longer_level(self, tmp_path: Path) -> None:
        times = "{'poc': 5, 'stress': 50, 'burnin': 500}"
        body = proof("proof.run('true', timeout_s=999)", f'"it", timeout_s={times}', "proof, level")
        node = FakeNode({"true": Answer("x")})
        prove(body, tmp_path, node, level="stress")
        assert 40 < node.ran[0][2] <= 50

    def test_a_proof_knows_the_level(self, tmp_path: Path) -> None:
        body = proof("proof.equals('level', level, 'burnin')", fixtures="proof, level")
        found = prove(body, tmp_path, level="burnin").proof("it")
        assert found.verdict is Outcome.PASS
        assert found.detail["level"] == "burnin"

    def test_a_level_that_does_not_exist_is_unknown(self, tmp_path: Path) -> None:
        found = prove(GOOD.replace("timeout_s=9", 'level="hard"'), tmp_path)
        assert found.proof("it").verdict is Outcome.UNKNOWN


class TestClaims:
    @pytest.mark.parametrize("outcome", list(Outcome))
    def test_each_is_shown_as_it_was_judged(self, tmp_path: Path, outcome: Outcome) -> None:
        claim = verdict("base/sysctl:x", outcome, reason="because")
        found = prove(GOOD, tmp_path, claims=(verdict(), claim))
        assert found.verdicts["base/sysctl:x"] == claim
        assert found.done["accepted"] is not outcome.blocks

    def test_none_is_not_acceptance(self, tmp_path: Path) -> None:
        found = prove(GOOD, tmp_path, claims=())
        assert not found.done["accepted"]


class TestNothingToShow:
    def test_a_gpu_node_without_proofs_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "demo").mkdir()
        found = accepted(job(document("demo"), tmp_path), FakeNode())
        assert not found.done["accepted"]
        assert any("no proof was collected" in message for message in found.errors)

    def test_a_plain_server_needs_no_proofs(self, tmp_path: Path) -> None:
        plain = job(document("demo", on=Profile(name="nas")), tmp_path)
        assert accepted(plain, FakeNode()).done["accepted"]

    def test_nothing_at_all_is_an_error_on_any_node(self, tmp_path: Path) -> None:
        plain = job(document("demo", on=Profile(name="nas")), tmp_path, claims=())
        found = accepted(plain, FakeNode())
        assert found.done["collected"] == 0
        assert not found.done["accepted"]
        assert found.errors

    @pytest.mark.parametrize(
        "broken",
        ["def test_it(:", "import no_such_module", "pytest.skip('all', allow_module_level=True)"],
    )
    def test_a_file_that_cannot_be_collected_is_an_error(self, tmp_path: Path, broken: str) -> None:
        other = tmp_path / "roles" / "demo" / "acceptance"
        other.mkdir(parents=True)
        (other / "test_broken.py").write_text(HEAD + broken)
        (other / "test_good.py").write_text(HEAD + GOOD)
        found = accepted(job(document("demo"), tmp_path / "roles"), FakeNode())
        assert found.proof("it").verdict is Outcome.PASS
        assert not found.done["accepted"]
        assert found.errors

    def test_only_roles_of_the_node_are_proven(self, tmp_path: Path) -> None:
        other = tmp_path / "roles" / "other" / "acceptance"
        other.mkdir(parents=True)
        (other / "test_other.py").write_text(HEAD + GOOD)
        assert "other/proof:it" not in prove(GOOD, tmp_path).verdicts


class TestConnection:
    RUN = proof("proof.holds(True, wanted='a', read=proof.run('one'))")

    def test_one_for_all_proofs_and_it_is_closed(self, tmp_path: Path) -> None:
        node = FakeNode({"one": Answer("out")})
        two = self.RUN + self.RUN.replace('"it"', '"two"').replace("test_it", "test_two")
        found = prove(two, tmp_path, node)
        assert found.done["accepted"]
        assert (node.connected, node.closed) == (1, 1)

    def test_none_when_no_proof_needs_it(self, tmp_path: Path) -> None:
        node = FakeNode()
        prove(GOOD, tmp_path, node)
        assert node.connected == 0

    def test_testinfra_speaks_over_it(self, tmp_path: Path) -> None:
        node = FakeNode({"uname": Answer("Linux\n"), "stat": Answer("root\n"), ".": Answer()})
        body = proof("proof.equals('user', host.file('/etc').user, 'root')", fixtures="proof, host")
        found = prove(body, tmp_path, node)
        assert found.proof("it").verdict is Outcome.PASS
        assert node.connected == 1

    def test_a_command_that_testinfra_misses_is_unknown(self, tmp_path: Path) -> None:
        body = proof("proof.equals('user', host.file('/').user, 'root')", fixtures="proof, host")
        assert prove(body, tmp_path).proof("it").verdict is Outcome.UNKNOWN

    def test_a_command_of_testinfra_that_hangs_is_unknown(self, tmp_path: Path) -> None:
        node = FakeNode({".": Answer(timed_out=True, rc=124)})
        body = proof(
            "proof.equals('there', host.file('/etc').exists, False)", fixtures="proof, host"
        )
        assert prove(body, tmp_path, node).proof("it").verdict is Outcome.UNKNOWN


class TestEvidence:
    def test_a_measurement_carries_its_gate(self, tmp_path: Path) -> None:
        body = proof("proof.measured('nccl.all_reduce.busbw', 190.0, at='at GPU2')")
        found = prove(body, tmp_path, baseline={"nccl.all_reduce.busbw": 230.0}).proof("it")
        gate = profile().gates["nccl.all_reduce.busbw"]
        assert found.verdict is Outcome.PASS
        assert (found.value, found.gate, found.unit) == (190.0, gate.fail, "GB/s")
        assert found.provisional == gate.provisional
        assert found.source == gate.source
        assert "GPU2" in found.read
        assert len(found.detail["notes"]) == 2  # past the warning, and worse than before

    def test_a_failure_names_what_to_do(self, tmp_path: Path) -> None:
        body = proof("proof.holds(False, wanted='4', read='3', action='reseat')")
        found = prove(body, tmp_path).proof("it")
        assert (found.wanted, found.read, found.action) == ("4", "3", "reseat")

    def test_real_hardware_is_not_called_simulated(self, tmp_path: Path) -> None:
        assert not prove(GOOD, tmp_path, reading=reading(simulated=False)).proof("it").simulated

    def test_junit_tells_the_same(self, tmp_path: Path) -> None:
        import xml.etree.ElementTree as ET

        claims = (verdict(), verdict("base/sysctl:x", "waived", reason="until May"))
        path = tmp_path / "junit.xml"
        prove(proof("proof.equals('it', 3, 4)"), tmp_path, claims=claims, junit=str(path))
        suite = ET.parse(path).getroot().find("testsuite")
        assert suite is not None
        assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
        assert "it is 3, wanted 4" in path.read_text()
