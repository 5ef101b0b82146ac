"""Which hierarchies systemd follows, on either kind of machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.errors import LabUnavailable
from nodeprep.lab import cgroups


def hierarchy(path: Path, *files: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name in files:
        (path / name).touch()


def test_a_pure_v2_machine_has_one(tmp_path: Path) -> None:
    hierarchy(tmp_path, "cgroup.controllers", "cgroup.procs")
    assert cgroups.roots(tmp_path) == (tmp_path,)


def test_a_hybrid_machine_has_two(tmp_path: Path) -> None:
    hierarchy(tmp_path / "systemd", "cgroup.procs")
    hierarchy(tmp_path / "unified", "cgroup.procs", "cgroup.controllers")
    assert cgroups.roots(tmp_path) == (tmp_path / "systemd", tmp_path / "unified")


def test_a_machine_without_v2_cannot_run_a_lab(tmp_path: Path) -> None:
    hierarchy(tmp_path / "systemd", "cgroup.procs")
    with pytest.raises(LabUnavailable, match="cgroup v2"):
        cgroups.roots(tmp_path)
