"""The two ends on the controller: the program that is sent, and finding its answer in any noise."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.errors import ReadingFailed, ToolFailure
from nodeprep.model.claim import CLAIMS
from nodeprep.probe import reader
from nodeprep.probe.request import parse, program
from tests.unit.probe.tree import Tree, run

PYENV = Path.home() / ".pyenv" / "versions"
OTHERS = sorted(path / "bin" / "python3" for path in PYENV.glob("3.[0-9]*") if
                tuple(map(int, path.name.split(".")[:2])) >= (3, 8))  # fmt: skip
ANSWER: dict[str, Any] = {"node": "gpu-01", "host": {"hostname": "h"}, "readings": {}}
FRAME = reader.frame(ANSWER)


def claims(*items: dict[str, Any]) -> Any:
    return CLAIMS.validate_python([{"role": "r", **item} for item in items])


class TestProgram:
    def test_runs_on_stdin_and_is_answered(self, tmp_path: Path) -> None:
        tree = Tree(tmp_path)
        tree.write("/etc/x", 'grün \'quoted\' """ \\ \n')
        wanted = claims({"kind": "file", "name": "/etc/x", "content": "y", "sha256": "0" * 64})
        done = run(program(wanted, False, "gpu-01", root=str(tree.root), path="/bin"))
        assert done.stderr == b""
        found = parse(done.stdout, "gpu-01")
        assert found.readings["r/file:/etc/x"].data["content"] == 'grün \'quoted\' """ \\ \n'

    @pytest.mark.parametrize("python", OTHERS, ids=lambda path: path.parents[1].name)
    def test_under_every_python_that_is_here(self, tmp_path: Path, python: Path) -> None:
        tree = Tree(tmp_path)
        wanted = claims(
            {"kind": "module", "name": "x"},
            {"kind": "output", "name": "o", "argv": ["echo", "hi"], "expect": "hi"},
            {"kind": "sysctl", "name": "vm.x", "value": "1"},
        )
        sent = program(wanted, True, "gpu-01", root=str(tree.root), path="/usr/bin:/bin")
        done = run(sent, str(python))
        assert done.stderr == b"", done.stderr.decode()
        found = parse(done.stdout, "gpu-01")
        assert found.readings["r/output:o"].data == {"rc": 0, "text": "hi\n"}
        assert found.host.python.startswith("3.")

    def test_names_with_quotes_break_nothing(self, tmp_path: Path) -> None:
        name = "/etc/'\"\\n\n\u2028}{$(id)`"
        wanted = claims({"kind": "file", "name": name, "content": "y"})
        done = run(program(wanted, False, "g'\"", root=str(Tree(tmp_path).root)))
        assert parse(done.stdout, "g'\"").readings[f"r/file:{name}"].data == {"exists": False}

    def test_no_content_and_no_secret_is_sent(self) -> None:
        told = request_of(
            program(claims({"kind": "file", "name": "/x", "content": "hunter2"}), False, "n")
        )
        assert "hunter2" not in json.dumps(told)

    def test_what_does_not_apply_is_not_asked(self) -> None:
        wanted = claims({"kind": "module", "name": "x", "applies": False, "why": "a lab"})
        assert request_of(program(wanted, False, "n"))["claims"] == []

    def test_it_is_small(self) -> None:
        assert len(program((), False, "n")) < 32_000


def request_of(sent: bytes) -> dict[str, Any]:
    """The request inside a program: its last line run with a `main` of our own."""
    told: list[str] = []
    line = sent.decode().splitlines()[-1]
    exec(f"import base64, zlib\n{line}", {"main": told.append})
    found: dict[str, Any] = json.loads(told[0])
    return found


class TestParse:
    def test_a_clean_answer(self) -> None:
        assert parse(FRAME, "gpu-01").host.hostname == "h"
        assert parse(FRAME.decode(), "gpu-01").host.hostname == "h"

    def test_a_terminals_line_ends(self) -> None:
        assert parse(FRAME.replace(b"\n", b"\r\n"), "gpu-01").node == "gpu-01"

    def test_banners_escape_codes_and_megabytes(self) -> None:
        noise = b"\x1b[31mWelcome\x1b[0m\xff\xfe" * 300_000
        assert parse(noise + FRAME + noise, "gpu-01").node == "gpu-01"

    def test_the_last_whole_one_counts(self) -> None:
        first = reader.frame({**ANSWER, "host": {"hostname": "first"}})
        torn = FRAME[: len(FRAME) // 2]
        assert parse(first + FRAME + torn, "gpu-01").host.hostname == "h"
        assert parse(torn + FRAME, "gpu-01").host.hostname == "h"

    def test_an_answer_that_speaks_of_markers(self) -> None:
        text = f"{reader.END}\n{reader.BEGIN} 1 00000000\n"
        answer = {**ANSWER, "readings": {"r/output:x": {"data": {"rc": 0, "text": text}}}}
        found = parse(reader.frame(answer), "gpu-01")
        assert found.readings["r/output:x"].data["text"] == text

    @pytest.mark.parametrize(
        ("out", "words"),
        [
            (b"", "it gave no reading; it printed nothing"),
            (b"bash: python3: command not found\n", "python3: command not found"),
            (b"\x1b[31mPermission denied\x1b[0m", "it printed: Permission denied"),
            (FRAME[: len(FRAME) // 2], "its answer breaks off"),
            (FRAME.replace(b"gpu-01", b"gpu-02"), "breaks off or is damaged"),
            (reader.frame({"node": "gpu-01", "hots": {}}), "its answer is malformed: host"),
            (reader.frame({**ANSWER, "node": "gpu-02"}), "answered as 'gpu-02'"),
        ],
    )
    def test_no_answer_is_an_error_that_names_the_node(self, out: bytes, words: str) -> None:
        with pytest.raises(ReadingFailed) as caught:
            parse(out, "gpu-01")
        assert isinstance(caught.value, ToolFailure)
        assert caught.value.message.startswith("gpu-01: ")
        assert words in caught.value.message
        assert "\x1b" not in str(caught.value)

    def test_the_excerpt_is_short(self) -> None:
        with pytest.raises(ReadingFailed) as caught:
            parse(b"x y " * 1_000_000, "gpu-01")
        assert len(caught.value.message) < 400

    @given(st.binary(max_size=300), st.binary(max_size=300))
    def test_any_noise_around_it(self, before: bytes, after: bytes) -> None:
        assert parse(before + FRAME + after, "gpu-01").node == "gpu-01"

    @given(st.integers(0, len(FRAME) - 1), st.integers(1, 255))
    def test_no_damage_goes_unnoticed(self, at: int, flip: int) -> None:
        torn = bytearray(FRAME)
        torn[at] ^= flip
        try:
            found = parse(bytes(torn), "gpu-01")
        except ReadingFailed:
            return
        assert found == parse(FRAME, "gpu-01")  # only white space around it was hit


def test_the_interpreters_of_this_machine_are_tried() -> None:
    assert sys.version_info >= (3, 11)
