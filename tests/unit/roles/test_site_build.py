"""What is built once for a site: a version tells all that a package is made of."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeprep import inventory
from nodeprep.model.claim import Link, Output, Package

ROOT = Path(__file__).parents[3]
UCX = {"name": "ucx", "version": "1.15.0", "commands": ["make"], "summary": "words"}
MPI = {"name": "mpi", "version": "4.1.6", "commands": ["make"]}


def _module() -> Any:
    path = ROOT / "roles/site_build/filter_plugins/site_build.py"
    spec = importlib.util.spec_from_file_location("site_build_filters", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILTERS = _module()


def versions(*recipes: dict[str, Any], on: str = "debian12") -> list[str]:
    return [one["version"] for one in FILTERS.versions(list(recipes), on, "/usr/local/cuda")]


def test_a_version_is_the_upstream_one_and_a_mark() -> None:
    (version,) = versions(UCX)
    assert version.startswith("1.15.0+np")
    assert len(version) == len("1.15.0+np") + 8
    assert versions(UCX) == [version]


@pytest.mark.parametrize(
    "other", [{"commands": ["make -j2"]}, {"sha256": "0"}, {"depends": ["libc6"]}]
)
def test_whatever_goes_into_a_package_changes_its_mark(other: dict[str, Any]) -> None:
    assert versions({**UCX, **other}) != versions(UCX)


def test_so_does_the_platform_and_a_recipe_that_came_before() -> None:
    assert versions(UCX, on="ubuntu2204") != versions(UCX)
    assert versions({**UCX, "sha256": "1"}, MPI)[1] != versions(UCX, MPI)[1]


def test_words_change_nothing() -> None:
    assert versions({**UCX, "summary": "other words"}) == versions(UCX)


def test_the_first_host_of_which_something_is_true() -> None:
    known = {"a": {"lacks": False}, "b": {"lacks": True}, "c": {"lacks": True}}
    assert FILTERS.first(["a", "b", "c"], known, "lacks") == "b"
    assert FILTERS.first(["gone", "a"], known, "lacks") == ""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The lab's inventory, whose nodes build from source."""
    data = yaml.safe_load((ROOT / "inventory/lab.yaml").read_text())
    data["all"]["vars"] |= {"openmpi_from": "source", "gpu_tools_from": "source"}
    file = tmp_path / "inventory" / "lab.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(data))
    return file


def test_claims_of_a_site_that_builds_from_source(site: Path) -> None:
    document = inventory.load(site).documents[0]
    packages = {c.name: c for c in document.claims if isinstance(c, Package)}
    assert "openmpi-bin" not in packages
    assert str(packages["nodeprep-openmpi"].version).startswith("4.1.6+np")
    assert packages["nodeprep-ucx"].held
    assert str(packages["nccl-tests"].version).startswith("2.13.6+np")
    assert packages["datacenter-gpu-manager"].version == "1:3.3.5"
    said = {c.name: c.expect for c in document.claims_of("openmpi") if isinstance(c, Output)}
    assert said["release of Open MPI"].startswith("^ompi:version:full:4[.]1[.]6")
    assert {"Open MPI for CUDA", "UCX for CUDA and GDRCopy"} <= said.keys()
    links = {c.name for c in document.claims_of("openmpi") if isinstance(c, Link)}
    assert "/usr/local/bin/mpirun" in links


@pytest.mark.parametrize("role", ["openmpi", "gpu_tools"])
def test_every_recipe_is_pinned_by_a_checksum(role: str) -> None:
    values = yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text())
    for recipe in values[f"{role}_recipes"]:
        assert re.fullmatch(r"[0-9a-f]{64}", recipe["sha256"]), recipe["name"]
        assert recipe["version"] in recipe["url"], recipe["name"]


def test_the_distributions_packages_are_the_default() -> None:
    document = inventory.load(ROOT / "inventory/lab.yaml").documents[0]
    names = {c.name for c in document.claims if isinstance(c, Package)}
    assert "openmpi-bin" in names
    assert not {name for name in names if name.startswith("nodeprep-")}
