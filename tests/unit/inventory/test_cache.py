"""An unchanged site is compiled once; whatever could change a document makes it anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.inventory import site

from nodeprep import inventory
from nodeprep.inventory import Site, cache

Load = Callable[..., Site]


def broken(*_: object, **__: object) -> None:
    raise AssertionError("Ansible's loader was called")


def test_an_unchanged_site_is_not_loaded_again(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load()
    monkeypatch.setattr(inventory, "load_source", broken)
    assert load().documents == first.documents


@pytest.mark.parametrize("name", [n for n in site.FILES if not n.startswith("inventory/small")])
def test_any_file_that_could_change_a_document_is_part_of_the_key(
    load: Load, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    load()
    monkeypatch.setattr(inventory, "load_source", broken)
    with pytest.raises(AssertionError, match="loader was called"):
        load({name: site.FILES[name] + "\n# changed\n"})


def test_a_damaged_entry_is_as_good_as_none(load: Load, tmp_path: Path) -> None:
    first = load()
    for path in (tmp_path / "cache").rglob("*.json"):
        path.write_text("{")
    assert load().documents == first.documents


def test_an_entry_that_another_run_takes_away_meanwhile_does_no_harm(
    load: Load, tmp_path: Path
) -> None:
    load()
    (folder,) = (tmp_path / "cache").rglob("documents")
    # Found when the folder is listed, gone when it is looked at.
    (folder / "gone.json").symlink_to(folder / "nowhere")
    assert load({"inventory/small.yaml": f"{site.INVENTORY}# changed\n"}).documents
    assert len(list(folder.glob("*.json"))) == 3


def test_a_value_from_a_lookup_is_never_cached(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    text = site.INVENTORY.replace(
        '"good day, {{ inventory_hostname }}"', "\"{{ lookup('env', 'GREETING') }}\""
    )
    for word in ("first-word", "other-word"):
        monkeypatch.setenv("GREETING", word)
        claim = load({"inventory/small.yaml": text}).documents[0].claims[0]
        assert claim.kind == "file"
        assert claim.secret
        seen = claim.sha256
        assert seen
    assert cache.get("no such name") is None
