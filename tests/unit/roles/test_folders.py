"""Every role's folder is whole: values, specs, claims, README say the same things."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
SHARED = ("claims", "site_build")
CONCERNS = [path for path in ROLES if path.name not in SHARED]
PLAYBOOK = ROOT / "playbooks" / "provision.yml"

each_role = pytest.mark.parametrize("folder", ROLES, ids=lambda path: path.name)
each_concern = pytest.mark.parametrize("folder", CONCERNS, ids=lambda path: path.name)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def options(folder: Path) -> dict[str, Any]:
    specs = load(folder / "meta" / "argument_specs.yml")
    found: dict[str, Any] = specs["argument_specs"]["main"]["options"]
    return found


@cache
def readmes() -> Any:
    path = ROOT / "scripts" / "role_readmes.py"
    spec = importlib.util.spec_from_file_location("role_readmes", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(folder: Path) -> str:
    """All that may read a variable: claims, tasks, templates, handlers, other defaults."""
    files = [
        path
        for part in ("vars", "tasks", "templates", "handlers", "defaults")
        for path in (folder / part).rglob("*")
        if path.is_file()
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@each_role
def test_defaults_and_specs_name_the_same_variables(folder: Path) -> None:
    described = options(folder)
    given = load(folder / "defaults" / "main.yml")
    required = {name for name, option in described.items() if option.get("required")}
    assert described.keys() - required == given.keys()
    assert not required & given.keys()


@each_role
def test_specs_give_the_defaults_that_are_in_force(folder: Path) -> None:
    given = load(folder / "defaults" / "main.yml")
    for name, option in options(folder).items():
        assert option["description"], name
        if not option.get("required"):
            assert option.get("default") == given[name], name


@each_role
def test_variables_begin_with_the_roles_name(folder: Path) -> None:
    names = [*options(folder), *load(folder / "vars" / "main.yml")]
    assert [name for name in names if not name.startswith(f"{folder.name}_")] == []


@each_role
def test_every_default_has_a_reader(folder: Path) -> None:
    text = texts(folder)
    for name in options(folder):
        readers = len(re.findall(rf"\b{name}\b", text))
        assert readers >= 2, f"{name} is set and never read"  # one is its own definition


@each_role
def test_the_readmes_tables_are_those_of_the_specs(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert readmes().rendered(folder, text) == text, "run scripts/role_readmes.py"


def test_a_stale_readme_is_seen() -> None:
    folder = CONCERNS[0]
    text = (folder / "README.md").read_text(encoding="utf-8")
    stale = text.replace("| variable | default |", "| variable | was |")
    assert stale != text
    assert readmes().rendered(folder, stale) == text


@each_concern
def test_a_readme_says_why_and_how_to_undo(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert {"## Why", "## Undo"} <= set(text.splitlines())


@each_concern
def test_a_role_has_claims_and_hands_them_to_the_shared_role(folder: Path) -> None:
    assert load(folder / "vars" / "main.yml")[f"{folder.name}_claims"]
    tasks = (folder / "tasks" / "main.yml").read_text(encoding="utf-8")
    assert f'claims_list: "{{{{ {folder.name}_claims }}}}"' in tasks
    assert f"claims_role: {folder.name}\n" in tasks


@each_concern
def test_handlers_that_claims_notify_exist(folder: Path) -> None:
    notified = set()
    for claim in load(folder / "vars" / "main.yml")[f"{folder.name}_claims"]:
        names = claim.get("notify", [])
        notified |= {names} if isinstance(names, str) else set(names)
    path = folder / "handlers" / "main.yml"
    handlers = {handler["name"] for handler in load(path)} if path.is_file() else set()
    assert notified == handlers


@each_concern
def test_templates_mirror_the_nodes_paths_and_none_is_left_over(folder: Path) -> None:
    claims = load(folder / "vars" / "main.yml")[f"{folder.name}_claims"]
    used = {claim["template"] for claim in claims if "template" in claim}
    root = folder / "templates"
    there = {str(path.relative_to(root)) for path in root.rglob("*.j2")}
    assert used == there
    for claim in claims:
        # A name that is itself a template, or that comes from `each`, cannot be compared here.
        if "template" in claim and "{{" not in claim.get("name", "{{"):
            assert claim["template"] == claim["name"].lstrip("/") + ".j2"


@each_concern
def test_a_role_stands_in_the_playbook_once_with_its_tag_and_guard(folder: Path) -> None:
    entries = [one for play in load(PLAYBOOK) for one in play["roles"]]
    mine = [one for one in entries if one["role"] == folder.name]
    assert len(mine) == 1
    assert mine[0]["tags"] == [folder.name]
    assert mine[0]["when"] == f"nodeprep_roles is not defined or '{folder.name}' in nodeprep_roles"


@each_role
def test_a_files_first_line_says_what_may_live_there(folder: Path) -> None:
    for path in folder.rglob("*.yml"):
        assert path.read_text(encoding="utf-8").startswith("# "), path


@each_role
def test_only_modules_of_ansible_core_are_used(folder: Path) -> None:
    for part in ("tasks", "handlers"):
        for path in (folder / part).glob("*.yml"):
            names = re.findall(r"^\s+([a-z_]+\.[a-z_]+\.[a-z_0-9]+):", path.read_text(), re.M)
            assert [name for name in names if not name.startswith("ansible.builtin.")] == []
