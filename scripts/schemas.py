#!/usr/bin/env python3
"""Writes the JSON schemas under docs/schema/ that editors check inventories and profiles with.

The inventory's comes from the roles' argument specs and nodeprep's own variables, the profile's
from its model. `scripts/schemas.py` writes them, `--check` says whether they are up to date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodeprep.inventory.check import PLATFORMS, SITE_VARIABLES
from nodeprep.inventory.roles import Role, role
from nodeprep.model.profile import Profile
from nodeprep.model.verdict import Waiver

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

# What the inventory room checks of nodeprep's own variables; what is not here is text.
TYPES: dict[str, Schema] = {
    "nodeprep_site": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"},
    "nodeprep_connect_timeout": {"type": "integer", "minimum": 1, "maximum": 300},
    "nodeprep_waivers": {"type": "array", "items": {"$ref": "#/$defs/waiver"}},
    "node_os": {"enum": list(PLATFORMS)},
}
ANSIBLE: dict[str, Schema] = {
    "ansible_host": {"type": "string", "description": "the node's address"},
    "ansible_port": {
        "type": "integer",
        "minimum": 1,
        "maximum": 65535,
        "description": "the port of its sshd; 22 unless said",
    },
    "ansible_ssh_private_key_file": {
        "type": "string",
        "description": "the operator's key; the site's own unless said",
    },
}
# Argument specs speak Ansible's types. Where Ansible takes a number for text, so do we.
FROM_ANSIBLE: dict[str, Schema] = {
    "str": {"type": ["string", "number"]},
    "path": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "dict": {"type": "object"},
}


def profile_schema() -> Schema:
    """The schema of a hardware profile."""
    return {"$schema": DIALECT, **Profile.model_json_schema(), "title": "nodeprep hardware profile"}


def inventory_schema(roles: list[Role]) -> Schema:
    """The schema of a site's inventory: Ansible's YAML shape with our variables typed."""
    waiver = Waiver.model_json_schema()
    return {
        "$schema": DIALECT,
        "title": "nodeprep inventory",
        "description": "An Ansible inventory in YAML; groups gpu_nodes, storage, monitoring",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/group"},
        "$defs": {
            "group": _group(),
            "template": {"type": "string", "pattern": r"\{\{", "description": "a Jinja expression"},
            "waiver": waiver,
            "variables": _variables(roles),
        },
    }


def _group() -> Schema:
    variables = {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/variables"}]}
    groups = {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/group"}]}
    return {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {
            "hosts": {
                "type": ["object", "null"],
                "description": "host name or range (la-gpu[01:04]) and its variables",
                "additionalProperties": variables,
            },
            "vars": variables,
            "children": {"type": ["object", "null"], "additionalProperties": groups},
        },
    }


def _variables(roles: list[Role]) -> Schema:
    own = {
        key: {"description": words, **TYPES.get(key, {"type": "string"})}
        for key, words in SITE_VARIABLES.items()
    }
    known = own | ANSIBLE
    for one in roles:
        known |= {key: _option(spec) for key, spec in one.options.items()}
    return {
        "type": "object",
        "properties": {key: _or_template(schema) for key, schema in sorted(known.items())},
        # A key with one of our prefixes that is not ours is a mistake; all others are the site's.
        "patternProperties": {_strangers(sorted(known), roles): False},
    }


def _strangers(known: list[str], roles: list[Role]) -> str:
    prefixes = "|".join(["nodeprep", *(re.escape(one.name) for one in roles if one.options)])
    return f"^(?!(?:{'|'.join(map(re.escape, known))})$)(?:{prefixes})_"


def _option(spec: Mapping[str, Any]) -> Schema:
    """One option of an argument spec, as schema."""
    schema: Schema = dict(FROM_ANSIBLE.get(str(spec.get("type", "str")), {}))
    if "choices" in spec:
        schema = {"enum": list(spec["choices"])}
    if "elements" in spec:
        schema["items"] = dict(FROM_ANSIBLE.get(str(spec["elements"]), {}))
    if spec.get("options"):
        inner = {key: _option(value) for key, value in spec["options"].items()}
        required = sorted(key for key, value in spec["options"].items() if value.get("required"))
        target = schema.setdefault("items", {}) if schema.get("type") == "array" else schema
        target.update(properties=inner, required=required, additionalProperties=False)
    if "default" in spec:
        schema["default"] = spec["default"]
    words = spec.get("description", "")
    return schema | {"description": words if isinstance(words, str) else " ".join(words)}


def _or_template(schema: Schema) -> Schema:
    """Any value may be a Jinja expression instead."""
    words: Schema = {key: schema[key] for key in ("description", "default") if key in schema}
    plain = {key: value for key, value in schema.items() if key not in words}
    takes_text = plain.get("type") in ("string", ["string", "number"]) and "pattern" not in plain
    if not plain or takes_text:
        return schema
    return {**words, "anyOf": [plain, {"$ref": "#/$defs/template"}]}


def carried_roles() -> list[Role]:
    """Every role of the checkout that has an argument spec."""
    folders = sorted(path.parents[1] for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
    return [role(folder.name, (folder.parent,)) for folder in folders]


def documents() -> dict[Path, str]:
    """Path -> text of every schema, as it should stand."""
    schemas = {
        "inventory.schema.json": inventory_schema(carried_roles()),
        "profile.schema.json": profile_schema(),
    }
    return {
        FOLDER / name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }


def main(arguments: list[str]) -> int:
    stale = [
        path
        for path, text in documents().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run scripts/schemas.py")
        return bool(stale)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(documents()[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
