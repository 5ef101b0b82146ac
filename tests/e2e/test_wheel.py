"""The wheel carries all that nodeprep needs: installed elsewhere, it works from any directory."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CACHES = {"__pycache__", ".ansible", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **options
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = run(command, cwd=ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; its dependencies are borrowed, to need no network.

    Borrowed by path entry: this checkout's own editable link is a .pth file, which is not read
    from there, so only the wheel can be what is imported.
    """
    home = tmp_path_factory.mktemp("home")
    venv.create(home / "venv", with_pip=False)
    python = home / "venv" / "bin" / "python"
    target = run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    site = Path(target.stdout.strip())
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    done = run([*pip, "--no-deps", "--no-index", "--ignore-installed", str(wheel)])
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture
def nodeprep(installed: Path, tmp_path: Path) -> list[str]:
    """The installed command; its state goes to a folder of the test's own."""
    command = installed / "venv" / "bin" / "nodeprep"
    assert command.exists()
    places = [f"{key}={tmp_path / key}" for key in ("NODEPREP_STATE", "NODEPREP_CACHE")]
    return ["env", "-u", "PYTHONPATH", *places, str(command)]


def test_the_wheel_carries_roles_playbooks_profiles_schemas_and_starter(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "nodeprep/data/playbooks/provision.yml",
        "nodeprep/data/roles/claims/tasks/main.yml",
        "nodeprep/data/inventory/profiles/a100-sxm4-40g-x4.yaml",
        "nodeprep/data/docs/schema/inventory.schema.json",
        "nodeprep/starter/inventory.yaml",
        "nodeprep/probe/reader.py",
    } <= names
    assert carried("roles", "playbooks", "inventory/profiles") <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_carries_nothing_of_the_machine_that_built_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if CACHES & set(name.split("/"))] == []


def carried(*folders: str) -> set[str]:
    """Every file of the checkout's folders, by the name that it must have in the wheel."""
    files = {path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()}
    kept = {path.relative_to(ROOT) for path in files if not CACHES & set(path.parts)}
    assert len(kept) > 20
    return {f"nodeprep/data/{path}" for path in kept}


def test_it_is_the_wheel_that_runs(installed: Path, tmp_path: Path) -> None:
    python = str(installed / "venv" / "bin" / "python")
    code = "import nodeprep.resources as r; print(r.__file__); print(r.data_dir())"
    module, data = run([python, "-I", "-c", code], cwd=tmp_path).stdout.split()
    assert Path(module).is_relative_to(installed)
    assert Path(data).is_relative_to(installed)
    assert (Path(data) / "roles").is_dir()


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_it_answers_from_an_unrelated_directory(
    nodeprep: list[str], tmp_path: Path, option: str
) -> None:
    done = run([*nodeprep, option], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_started_site_validates_as_it_was_written(nodeprep: list[str], tmp_path: Path) -> None:
    written = run([*nodeprep, "init", "la"], cwd=tmp_path)
    assert written.returncode == 0, written.stdout + written.stderr
    valid = run([*nodeprep, "validate", "la/inventory/la.yaml"], cwd=tmp_path)
    assert valid.returncode == 0, valid.stdout + valid.stderr


def test_a_spoiled_site_does_not_validate(nodeprep: list[str], tmp_path: Path) -> None:
    assert run([*nodeprep, "init", "la"], cwd=tmp_path).returncode == 0
    inventory = tmp_path / "la" / "inventory" / "la.yaml"
    inventory.write_text(inventory.read_text().replace("node_os: ubuntu2204", "node_os: beos"))
    found = run([*nodeprep, "validate", str(inventory)], cwd=tmp_path)
    assert found.returncode == 4, found.stdout + found.stderr
    assert "beos" in found.stdout + found.stderr


def test_the_installed_ansible_finds_its_roles(installed: Path, tmp_path: Path) -> None:
    """The playbook that the wheel carries is one that Ansible accepts, with the roles beside it."""
    data = next((installed / "venv").glob("lib/python*/site-packages/nodeprep/data"))
    environment = {**os.environ, "ANSIBLE_ROLES_PATH": str(data / "roles")}
    ansible = Path(sys.executable).parent / "ansible-playbook"
    playbook = str(data / "playbooks" / "provision.yml")
    inventory = str(data / "inventory" / "la.yaml")
    command = [str(ansible), "--syntax-check", "-i", inventory, playbook]
    done = run(command, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
