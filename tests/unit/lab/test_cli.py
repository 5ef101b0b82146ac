"""The verbs of `nodeprep lab`, as far as they go without a rack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nodeprep.cli.lab import app
from nodeprep.errors import BadInput
from nodeprep.lab import sitefile

VERBS = ("up", "down", "status", "exec", "inject", "reset", "password", "inventory")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path))


def call(*args: str) -> Result:
    return CliRunner().invoke(app, args)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_an_example(verb: str) -> None:
    done = call(verb, "--help")
    assert done.exit_code == 0
    assert "Example:" in done.output
    assert f"nodeprep lab {verb}" in done.output


def test_faults_are_listed_for_programs_too() -> None:
    entries = json.loads(call("inject", "--list", "--json").stdout)
    found = {entry["name"]: entry for entry in entries}
    assert found["no_python"] == {
        "name": "no_python",
        "kind": "host",
        "summary": "no Python is installed",
        "arguments": {},
    }
    assert found["xid"]["arguments"] == {"code": None, "gpu": "0", "age_s": "600"}
    assert found["noisy_output"]["arguments"] == {"megabytes": "2"}
    assert "gpu_missing" in call("inject", "--list").stdout


def test_the_default_inventory_needs_no_lab(tmp_path: Path) -> None:
    assert call("inventory").stdout == sitefile.default()
    file = tmp_path / "lab.yaml"
    assert call("inventory", "--output", str(file)).stdout == ""
    assert file.read_text() == sitefile.default()


@pytest.mark.parametrize(
    "args",
    [
        ("reset",),
        ("reset", "gpu1", "--all"),
        ("inject",),
        ("inject", "gpu1"),
        ("inject", "gpu1", "no_python", "--clear"),
        ("inject", "gpu1", "apt_lock_held", "--arg", "seconds"),
    ],
)
def test_half_a_command_is_refused(args: tuple[str, ...]) -> None:
    assert call(*args).exit_code == 2


@pytest.mark.parametrize("verb", ["status", "password"])
def test_a_lab_that_is_not_up_is_said_so(verb: str) -> None:
    assert isinstance(call(verb, "--name", "mine").exception, BadInput)


def test_taking_down_a_lab_that_is_not_there_is_no_error() -> None:
    assert call("down", "--name", "mine").exit_code == 0
