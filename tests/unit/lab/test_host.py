"""A machine that cannot run the lab is told exactly what it lacks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from nodeprep.errors import LabUnavailable
from nodeprep.lab import cgroups, host, recipe


@pytest.fixture(autouse=True)
def _able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that lacks nothing."""
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/usr/bin/{tool}")
    monkeypatch.setattr(recipe, "KEYRING", str(keyring))
    monkeypatch.setattr(host, "_overlay", lambda: True)
    monkeypatch.setattr(cgroups, "roots", lambda: (tmp_path,))


def test_a_machine_that_has_all_is_fit() -> None:
    host.check()


def test_every_missing_package_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"mmdebstrap", "systemd-nspawn"}
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in missing else f"/bin/{tool}")
    with pytest.raises(LabUnavailable) as caught:
        host.check()
    assert caught.value.hint == "apt-get install -y mmdebstrap systemd-container"
    assert "mmdebstrap, systemd-container" in caught.value.message


def test_a_missing_keyring_is_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "KEYRING", "/nonexistent")
    assert host.missing_packages() == ("debian-archive-keyring",)


def test_an_ordinary_user_is_told_to_be_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabUnavailable, match="root"):
        host.check()


def test_everything_that_is_lacking_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[Path, ...]:
        raise LabUnavailable("no cgroup v2 hierarchy is mounted")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(host, "_overlay", lambda: False)
    monkeypatch.setattr(cgroups, "roots", none)
    with pytest.raises(LabUnavailable) as caught:
        host.check()
    for word in ("root", "overlayfs", "cgroup v2"):
        assert word in caught.value.message
