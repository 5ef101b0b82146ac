"""Every test has a site, a state folder and a cache of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.inventory import site

from nodeprep import inventory
from nodeprep.errors import BadInput
from nodeprep.inventory import profiles
from nodeprep.inventory import roles as role_files

Problems = Callable[..., str]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODEPREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., inventory.Site]:
    """Load the small site with some of its files changed."""

    def call(changes: dict[str, str] | None = None, **options: object) -> inventory.Site:
        role_files.role.cache_clear()
        profiles.profile.cache_clear()
        return inventory.load(site.write(tmp_path, changes), **options)  # type: ignore[arg-type]

    return call


@pytest.fixture
def problems(load: Callable[..., inventory.Site]) -> Problems:
    """The text of the BadInput that loading must raise."""

    def call(changes: dict[str, str], **options: object) -> str:
        with pytest.raises(BadInput) as raised:
            load(changes, **options)
        assert raised.value.exit_code == 4
        return str(raised.value)

    return call
