"""One connection, within the time that a proof has; and the backend of testinfra over it."""

from __future__ import annotations

import pytest

from nodeprep.accept.backend import testinfra_host as host_over
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import NodeSession, Unknown
from nodeprep.errors import Unreachable
from tests.unit.accept.nodes import Answer, FakeNode, profile


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def session(node: FakeNode, clock: Clock | None = None) -> NodeSession:
    return NodeSession(node.connect, lambda _: (), clock or Clock())


def asked(node: FakeNode, **answers: Answer) -> Proof:
    node.answers.update(answers)
    return Proof(session(node), profile())


class TestTime:
    def test_a_command_gets_no_more_than_the_proof_has_left(self) -> None:
        node, clock = FakeNode({".": Answer("x")}), Clock()
        one = session(node, clock)
        one.begin(20)
        clock.now += 15
        one.run("a", timeout_s=60)
        assert node.ran[0][2] == pytest.approx(5)

    def test_out_of_time_is_unknown_and_runs_nothing(self) -> None:
        node, clock = FakeNode({".": Answer("x")}), Clock()
        one = session(node, clock)
        one.begin(20)
        clock.now += 19.5
        with pytest.raises(Unknown, match="out of time"):
            one.run("a")
        assert not node.ran

    def test_connecting_does_not_use_up_the_proofs_time(self) -> None:
        node, clock = FakeNode({".": Answer("x")}), Clock()

        def slowly() -> FakeNode:
            clock.now += 30
            return node

        one = NodeSession(slowly, lambda _: (), clock)
        one.begin(20)
        one.run("a", timeout_s=60)
        assert node.ran[0][2] == pytest.approx(20)


class TestReaching:
    def test_a_node_that_cannot_be_reached_is_not_tried_again(self) -> None:
        tries: list[int] = []

        def refuse() -> FakeNode:
            tries.append(1)
            raise Unreachable("192.0.2.7 does not answer")

        one = NodeSession(refuse, lambda _: ())
        for _ in range(3):
            with pytest.raises(Unknown, match="does not answer"):
                one.run("a")
        assert len(tries) == 1
        assert one.fault

    def test_what_proofs_share_is_run_once_even_when_it_hangs(self) -> None:
        node = FakeNode({"good": Answer("x"), "bad": Answer(rc=124, timed_out=True)})
        one = session(node)
        for command in ("good", "good", "bad", "bad"):
            one.run_once(command)
        assert [command for command, _, _ in node.ran] == ["good", "bad"]


class TestRunning:
    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (Answer(rc=127), "nvidia-smi is missing"),
            (Answer("half", rc=124, timed_out=True), "did not end within 30 s"),
            (Answer(rc=124), "did not end within 30 s"),
            (Answer(" \n"), "nvidia-smi printed nothing"),
            (Answer("out", rc=3, stderr="why"), "ended with 3: why"),
            (Answer("no driver", rc=9), "no driver is loaded"),
            (Answer("lost", rc=15), "fallen off the bus"),
            (Answer("", rc=137), "ended with 137: was killed"),
        ],
    )
    def test_whatever_is_no_answer_is_unknown(self, answer: Answer, reason: str) -> None:
        proof = asked(FakeNode({"nvidia-smi": answer}))
        with pytest.raises(Unknown, match=reason):
            proof.run(["nvidia-smi", "-L"])

    def test_tools_speak_english_and_are_quoted(self) -> None:
        node = FakeNode({".": Answer("x")})
        asked(node).run(["echo", "a b; rm"], env={"NCCL_DEBUG": "INFO"}, sudo=False)
        command, sudo, _ = node.ran[0]
        assert "LC_ALL=C" in command
        assert "NCCL_DEBUG=INFO echo 'a b; rm'" in command
        assert not sudo

    def test_a_text_is_for_the_shell(self) -> None:
        node = FakeNode({".": Answer("x")})
        asked(node).run("a | b")
        assert node.ran[0][0].endswith("sh -c 'a | b'")


class TestBackend:
    def test_it_quotes_and_tells_the_status(self) -> None:
        node = FakeNode({"ls": Answer("out\n", rc=2, stderr="err")})
        found = host_over("gpu1", session(node)).run("ls %s", "a b")
        assert (found.rc, found.stdout, found.stderr) == (2, "out\n", "err")
        assert node.ran[0][:2] == ("ls 'a b'", True)

    def test_text_beyond_ascii_comes_through(self) -> None:
        node = FakeNode({".": Answer("größe\n")})
        assert host_over("gpu1", session(node)).check_output("cat é") == "größe"

    def test_a_host_is_not_kept_for_another_session(self) -> None:
        first, second = FakeNode({".": Answer("1")}), FakeNode({".": Answer("2")})
        for node in (first, second):
            host_over("gpu1", session(node)).run("a")
        assert len(first.ran) == len(second.ran) == 1
