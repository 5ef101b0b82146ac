"""`nodeprep init` gives a newcomer files that are right as they stand, and destroys nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from nodeprep.cli.init import init, write
from nodeprep.errors import BadInput
from nodeprep.model.profile import Profile

APP = typer.Typer()
APP.command()(init)


def loaded(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


def test_it_writes_an_inventory_a_profile_and_the_schemas(tmp_path: Path) -> None:
    written = write(tmp_path / "la", "", "a100-sxm4-40g-x4")
    assert [str(path.relative_to(tmp_path)) for path in written] == [
        "la/inventory/la.yaml",
        "la/inventory/profiles/a100-sxm4-40g-x4.yaml",
        "la/inventory/schema/inventory.schema.json",
        "la/inventory/schema/profile.schema.json",
    ]


def test_the_inventory_names_site_and_profile_and_no_mark_is_left(tmp_path: Path) -> None:
    inventory, *_ = write(tmp_path, "fra-2", "h100-sxm5-80g-x8")
    assert "@" not in inventory.read_text()
    document = loaded(inventory)["all"]
    assert document["vars"]["nodeprep_site"] == "fra-2"
    nodes = document["children"]["gpu_nodes"]
    assert nodes["vars"]["nodeprep_profile"] == "h100-sxm5-80g-x8"
    assert set(nodes["hosts"]) == {"fra-2-gpu01", "fra-2-gpu02"}


def test_the_profile_is_the_carried_one_and_finds_its_schema(tmp_path: Path) -> None:
    _, profile, _, schema = write(tmp_path, "la", "a100-pcie-40g-x4")
    assert Profile.model_validate(loaded(profile)).name == "a100-pcie-40g-x4"
    hint = profile.read_text().partition("$schema=")[2].split()[0]
    assert (profile.parent / hint).resolve() == schema.resolve()


@pytest.mark.parametrize("in_the_way", ["la.yaml", "profiles/a100-sxm4-40g-x4.yaml"])
def test_it_refuses_to_overwrite_and_then_writes_nothing(tmp_path: Path, in_the_way: str) -> None:
    precious = tmp_path / "inventory" / in_the_way
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    with pytest.raises(BadInput, match="overwrites nothing") as caught:
        write(tmp_path, "la", "a100-sxm4-40g-x4")
    assert caught.value.problems == (str(precious),)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [precious]
    assert precious.read_text() == "mine"


def test_a_mistyped_profile_is_answered_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did you mean a100-sxm4-40g-x4") as caught:
        write(tmp_path, "la", "a100-sxm4-40g-x5")
    assert caught.value.exit_code == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("site", ["../up", "LA", "-la", "a b"])
def test_a_site_must_be_a_plain_name(tmp_path: Path, site: str) -> None:
    with pytest.raises(BadInput, match="no name for a site"):
        write(tmp_path, site, "a100-sxm4-40g-x4")


@pytest.mark.parametrize(("folder", "site"), [("My Rack_1", "my-rack-1"), ("la", "la")])
def test_the_site_is_named_after_the_folder(tmp_path: Path, folder: str, site: str) -> None:
    inventory, *_ = write(tmp_path / folder, "", "server")
    assert inventory.stem == site


def test_a_folder_that_cannot_be_made_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        write(tmp_path / "file" / "below", "la", "server")


def test_the_command_says_what_to_do_next(tmp_path: Path) -> None:
    result = CliRunner().invoke(APP, [str(tmp_path / "la")])
    assert result.exit_code == 0, result.output
    assert f"nodeprep validate {tmp_path}/la/inventory/la.yaml" in result.output
