"""Buffers in GPU memory over MPI: owed only where the site wants MPI for CUDA."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.accept.parsers.osu import parse_osu_bw
from nodeprep.accept.parsers.text import ParseError
from nodeprep.model.claim import Output
from nodeprep.model.verdict import Outcome, Verdict
from tests.unit.accept.nodes import Answer, accepted, document, job, profile, simulated_node
from tests.unit.accept.test_role_proofs import CLAIMS, Rack

ROWS = "# Datatype: MPI_CHAR.\n# Size      Bandwidth (MB/s)\n1   1.92\n4194304    279577.81\n"
CUDA = Output(role="openmpi", name="Open MPI for CUDA", argv=("ompi_info",), expect="x")
OLD = "# OSU MPI-CUDA Bandwidth Test v5.6\n# Size      Bandwidth (MB/s)\n4194304    9000.0\n"


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rack:
    """Its mpirun starts the program as the first rank does."""
    rack = Rack(simulated_node(tmp_path / "board"), monkeypatch)
    rack.tool("osu_bw", "")
    rack.node.answers.pop("mpirun")
    rack.tool("mpirun", 'while [ "$1" != osu_bw ]; do shift; done; exec "$@"')
    return rack


def proven(rack: Rack, *claims: Output, on: str = "a100-sxm4-40g-x4") -> Verdict:
    wanted = document("openmpi", on=profile(on), claims=(*CLAIMS, *claims))
    return accepted(job(wanted, level="stress"), rack.node).proof("openmpi.device_buffers")


def test_a_healthy_ring_passes(rack: Rack) -> None:
    found = proven(rack, CUDA)
    assert found.verdict is Outcome.PASS
    assert "GPU3-GPU0" in found.read


def test_where_it_is_not_wanted_nothing_is_run(rack: Rack) -> None:
    assert "openmpi_cuda" in proven(rack).read
    assert not any("osu_bw" in command for command, _, _ in rack.node.ran)


def test_a_slow_hop_is_named(rack: Rack) -> None:
    def slow(board: dict) -> None:  # type: ignore[type-arg]
        pair = " ".join(sorted(gpu["address"] for gpu in board["gpus"][1:3]))
        board["performance"]["pairs"] = {pair: 0.3}

    rack.broken(slow)
    found = proven(rack, CUDA)
    assert found.verdict is Outcome.FAIL
    assert "from GPU1 to GPU2" in found.reason
    assert "cuda_ipc" in found.action


def test_buffers_through_the_host_are_refused(rack: Rack) -> None:
    rack.broken(lambda board: board.update(p2p=False))
    assert proven(rack, CUDA).verdict is Outcome.FAIL


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(OLD), "does not say that both buffers"),
        (Answer(rc=1, stderr="Less than two devices"), "Less than two devices"),
        (Answer(rc=127), "missing"),
        (Answer(), "printed nothing"),
        (Answer(timed_out=True, rc=124), "did not end"),
    ],
)
def test_what_was_not_measured_has_not_passed(rack: Rack, answer: Answer, why: str) -> None:
    rack.node.answers = {"osu_bw": answer, **rack.node.answers}
    found = proven(rack, CUDA)
    assert found.verdict is Outcome.UNKNOWN
    assert why in found.reason


@pytest.mark.parametrize(
    ("title", "on_device"),
    [
        ("# OSU MPI-CUDA Bandwidth Test v7.5", True),
        ("# OSU MPI Bandwidth Test v7.5", False),  # built without CUDA
        ("# OSU MPI-ROCM Bandwidth Test v7.5", False),
        ("# OSU MPI-CUDA Bandwidth Test v7.1\n# Send Buffer on HOST (H) and Receive Buffer on "
         "DEVICE (D)", False),
    ],
)  # fmt: skip
def test_newer_releases_say_only_that_they_are_for_cuda(title: str, on_device: bool) -> None:
    found = parse_osu_bw(f"{title}\n{ROWS}")
    assert found.on_device is on_device
    assert found.best == pytest.approx(279.57781)


@given(st.text())
def test_whatever_is_printed_does_no_harm(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_osu_bw(text)
