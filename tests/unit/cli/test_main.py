"""The command line: quick, stable exit codes, words instead of tracebacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.cli import common
from nodeprep.errors import BadInput, Interrupted, Unreachable

HEAVY = ("ansible", "pyinfra", "paramiko", "pydantic", "jinja2", "sqlite3", "rich.live", "gevent")


def nodeprep(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nodeprep.cli.main", *arguments],
        env={**os.environ, "NO_COLOR": "1", **environment},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_help_names_every_verb_and_imports_nothing_heavy() -> None:
    script = (
        "import sys; from nodeprep.cli.main import app\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    told = nodeprep("--help").stdout
    for verb in ("validate", "inspect", "plan", "provision", "drift", "accept", "status", "lab"):
        assert verb in told


@pytest.mark.parametrize(
    "verb", ["validate", "inspect", "plan", "provision", "drift", "accept", "status", "report",
             "retire", "init"],
)  # fmt: skip
def test_every_verb_shows_an_example(verb: str) -> None:
    told = nodeprep(verb, "--help").stdout
    assert f"Example: nodeprep {verb}" in told


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["drift"], 4, "Missing argument"),
        (["drift", "--no-such-option", "x"], 4, "No such option"),
        (["provison"], 4, "provision"),
        (["validate", "nowhere.yaml"], 4, "nowhere.yaml does not exist"),
        (["provision", "nowhere.yaml", "--concurrency", "0"], 4, "--concurrency"),
    ],
)
def test_a_mistake_is_bad_input_in_words(arguments: list[str], code: int, said: str) -> None:
    done = nodeprep(*arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_status_of_a_machine_without_sites_is_no_error(tmp_path: Path) -> None:
    done = nodeprep("status", NODEPREP_STATE=str(tmp_path))
    assert done.returncode == 0
    assert "no site" in done.stdout


@pytest.mark.parametrize(
    ("error", "code"),
    [(BadInput("x"), 4), (Unreachable("x"), 3), (Interrupted("x"), 130), (KeyboardInterrupt(), 130),
     (RuntimeError("x"), 1)],
)  # fmt: skip
def test_each_error_has_its_exit_code(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    assert common.guarded(fail) == code
    assert capsys.readouterr().err
