"""The scripts that a newcomer runs first: what they say when a machine is not as hoped."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What bootstrap calls of a system that is as bare as can be.
COREUTILS = ("bash", "cat", "cut", "dirname", "env", "find", "grep", "head", "sed", "sha256sum")
PRESENT = (
    "systemd-nspawn", "mmdebstrap", "dpkg-scanpackages", "apt-ftparchive", "gpg", "ssh", "ip",
)  # fmt: skip


class Machine:
    """A machine with only the commands that it was given, where the script runs as `uid`."""

    def __init__(self, home: Path, uid: int = 1000) -> None:
        self.bin = home / "bin"
        self.bin.mkdir()
        self.home = home
        for name in COREUTILS:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        self.has("id", f"echo {uid}")
        for name in PRESENT:
            self.has(name)

    def has(self, name: str, body: str = "exit 0") -> None:
        command = self.bin / name
        command.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        command.chmod(0o755)

    def bootstrap(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / "bash", ROOT / "scripts" / "bootstrap", *arguments],
            env={"PATH": str(self.bin), "HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )


def test_an_old_python_alone_is_answered_with_the_package_to_install(tmp_path: Path) -> None:
    machine = Machine(tmp_path, uid=0)
    machine.has("python3", "exit 1")  # it answers every question about its age with no
    machine.has("apt-get")  # brings the distribution's python3, which is the old one
    done = machine.bootstrap()
    assert done.returncode == 1
    assert "apt-get install python3.11 python3.11-venv" in done.stderr


def test_without_root_or_sudo_the_missing_packages_are_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.has("apt-get")
    done = machine.bootstrap()
    assert done.returncode == 1
    assert "as root: apt-get install" in done.stderr
    assert "python3-venv" in done.stderr


def test_without_apt_the_missing_packages_are_named(tmp_path: Path) -> None:
    done = Machine(tmp_path).bootstrap()
    assert done.returncode == 1
    assert "no apt" in done.stderr


def test_a_python_without_venv_gets_the_package_of_its_own_version(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    asks = 'case "$2" in *-venv*) echo python3.12-venv;; *ensurepip*) exit 1;; esac'
    machine.has("python3", asks)
    machine.has("apt-get")
    assert "python3.12-venv" in machine.bootstrap().stderr


@pytest.mark.parametrize("script", ["bootstrap", "demo"])
def test_an_unknown_option_shows_the_usage(script: str) -> None:
    if script == "demo" and os.geteuid() != 0:
        pytest.skip("demo asks for root first")
    done = subprocess.run(
        [ROOT / "scripts" / script, "--nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert f"scripts/{script}" in done.stdout
