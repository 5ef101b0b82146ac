"""What the proofs' commands printed is kept, as much as a person would read."""

from __future__ import annotations

from pathlib import Path

from nodeprep.accept.transcript import MOST_BYTES, MOST_OF_ONE, Transcript
from nodeprep.remote import Result


def ran(stdout: str = "", stderr: str = "", rc: int = 0, *, timed_out: bool = False) -> Result:
    return Result(rc=rc, stdout=stdout, stderr=stderr, timed_out=timed_out)


def test_each_command_stands_with_its_end_and_its_words(tmp_path: Path) -> None:
    path = tmp_path / "raw" / "gpu1" / "proofs.txt"
    transcript = Transcript(path)
    transcript.keep("nvidia-smi -L", ran("GPU 0\n"))
    transcript.keep("gdrcopy_sanity", ran("", "no device\n", rc=1))
    transcript.keep("dcgmi diag", ran(timed_out=True))
    text = path.read_text()
    assert "$ nvidia-smi -L\n# exit status 0\nGPU 0\n" in text
    assert "# exit status 1" in text
    assert "# stderr\nno device" in text
    assert "# timed out" in text


def test_megabytes_are_cut_and_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "proofs.txt"
    transcript = Transcript(path)
    transcript.keep("yes", ran("y" * (MOST_OF_ONE + 7)))
    assert "7 more characters" in path.read_text()
    for _ in range(40):
        transcript.keep("yes", ran("y" * MOST_OF_ONE))
    assert path.stat().st_size < MOST_BYTES + 2 * MOST_OF_ONE


def test_a_new_acceptance_starts_a_new_transcript(tmp_path: Path) -> None:
    path = tmp_path / "proofs.txt"
    Transcript(path).keep("old", ran("old"))
    Transcript(path).keep("new", ran("new"))
    assert "old" not in path.read_text()
