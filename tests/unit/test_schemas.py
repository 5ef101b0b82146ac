"""The schemas for editors: up to date, and of one mind with the files that they describe."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from nodeprep.cli.init import write
from nodeprep.inventory.check import SITE_VARIABLES

ROOT = Path(__file__).resolve().parents[2]


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("schemas", ROOT / "scripts" / "schemas.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCHEMAS = generator()
INVENTORY = SCHEMAS.inventory_schema(SCHEMAS.carried_roles())
CHECK = Draft202012Validator(INVENTORY)


class _Loader(yaml.SafeLoader):
    """YAML as an editor sees it: a vaulted value is text, a date too."""


for _tag in ("!vault", "tag:yaml.org,2002:timestamp"):
    _Loader.add_constructor(_tag, lambda _, node: str(node.value))


def problems(text: str) -> list[str]:
    document = yaml.load(text, Loader=_Loader)  # a safe loader
    return [error.message for error in CHECK.iter_errors(document)]


@pytest.mark.parametrize("path", SCHEMAS.documents(), ids=lambda path: path.name)
def test_a_schema_is_up_to_date_and_a_schema(path: Path) -> None:
    text = SCHEMAS.documents()[path]
    assert path.read_text() == text, "run scripts/schemas.py"
    Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize("name", ["la", "lab"])
def test_the_inventories_of_the_project_are_valid(name: str) -> None:
    assert problems((ROOT / "inventory" / f"{name}.yaml").read_text()) == []


def test_the_starter_is_valid(tmp_path: Path) -> None:
    inventory, *_ = write(tmp_path, "la", "a100-sxm4-40g-x4")
    assert problems(inventory.read_text()) == []


def test_profiles_are_valid() -> None:
    check = Draft202012Validator(SCHEMAS.profile_schema())
    for path in (ROOT / "inventory" / "profiles").glob("*.yaml"):
        assert list(check.iter_errors(yaml.safe_load(path.read_text()))) == []


def test_it_knows_every_variable_of_nodeprep_and_of_the_roles() -> None:
    known = INVENTORY["$defs"]["variables"]["properties"]
    assert set(SITE_VARIABLES) <= set(known)
    assert {"nccl_version", "base_timezone"} <= set(known)
    assert [key for key, schema in known.items() if not schema.get("description")] == []


@pytest.mark.parametrize(
    "text",
    [
        "all: {hots: {a: {}}}",
        "all: {hosts: [a]}",
        "all: {vars: {nodeprep_profil: x}}",
        "all: {vars: {nccl_versoin: 2.16}}",
        "all: {vars: {node_os: beos}}",
        "all: {hosts: {a: {ansible_port: ssh}}}",
        "all: {hosts: {a: {ansible_port: 70000}}}",
        "all: {vars: {nodeprep_waivers: [{claim: base/service:x, expires: 2030-01-01}]}}",
        "all: {children: {gpu_nodes: {vars: {nodeprep_site: [la]}}}}",
    ],
)
def test_a_mistake_is_seen(text: str) -> None:
    assert problems(text)


@pytest.mark.parametrize(
    "text",
    [
        "all: {hosts: {'a[01:04]': }}",
        "all: {hosts: {a: {ansible_port: '{{ 22 }}', my_own: [1]}}}",
        "all: {vars: {nodeprep_waivers: "
        "[{claim: base/service:x, reason: ticket, expires: 2030-01-01}]}}",
        "all: {vars: {nodeprep_bootstrap_password: !vault x}}",
        "gpu_nodes: {hosts: {a: {}}, vars: {node_os: ubuntu2404}}",
    ],
)
def test_what_is_right_is_left_alone(text: str) -> None:
    assert problems(text) == []


def test_a_date_in_an_inventory_stays_a_date_for_nodeprep() -> None:
    """The editor's view above is not ours: unquoted, YAML makes a date of it, and that is fine."""
    assert yaml.safe_load("expires: 2030-01-01") == {"expires": dt.date(2030, 1, 1)}
