"""The static tools, each as one test, so that one closing line tells of everything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TOOLS = {
    "ruff-check": ["ruff", "check", "."],
    "ruff-format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
    "import-linter": ["lint-imports"],
    "ansible-lint": ["ansible-lint", "--offline", "--profile", "production"],
    "yamllint": ["yamllint", "--strict", "inventory", "playbooks", "roles"],
}
# How a tool says how many files it looked at.
LOOKED = {
    "ruff-format": r"(\d+) files already formatted",
    "mypy": r"no issues found in (\d+) source files",
    "import-linter": r"Analyzed (\d+) files",
    "ansible-lint": r"in (\d+) files processed",
}
# Written to nodes as they are, which is why they have a template's name.
PROGRAMS = [ROOT / "roles/nic_tuning/templates/usr/local/sbin/nodeprep-nic.j2"]
SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.suffix == "")


def run(
    command: list[str], stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        input=stdin,
    )


@pytest.mark.parametrize("name", TOOLS)
def test_is_clean(name: str) -> None:
    command = TOOLS[name]
    assert (BIN / command[0]).exists(), f"{command[0]} is not installed: scripts/bootstrap --dev"
    done = run(command)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    # A tool that was pointed at nothing would be clean for ever.
    assert name not in LOOKED or files_seen(LOOKED[name], output) > 20, output


def files_seen(pattern: str, output: str) -> int:
    found = re.search(pattern, output)
    return int(found.group(1)) if found else 0


def test_a_tool_that_saw_no_files_is_not_clean() -> None:
    assert files_seen(LOOKED["mypy"], "Success: no issues found in 0 source files") == 0
    assert files_seen(LOOKED["ansible-lint"], "") == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_among_the_templates_is_as_clean_as_the_rest(program: Path) -> None:
    name = f"{program.stem.replace('-', '_')}.py"
    for argv in (["check", "--ignore", "S,UP,PTH,SIM,PL"], ["format", "--check"]):
        done = run(["ruff", *argv, "--stdin-filename", name, "-"], stdin=program.read_text())
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", [*SCRIPTS, ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_a_script_parses_and_can_be_run(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert run(["bash", "-n", str(script)]).stderr == ""


def test_under_newer_pythons_the_units_pass() -> None:
    done = run([str(ROOT / "scripts" / "compat")])
    if done.returncode == 77:
        pytest.skip("no Python 3.12 or 3.13 on this machine: NOT tested there")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
