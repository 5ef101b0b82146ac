"""Filters of the shared role site_build. Pure, for Ansible and nodeprep."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

Recipe = dict[str, Any]
# What changes nothing in the package.
_WORDS = ("summary",)


def versions(recipes: list[Recipe], *platform: str) -> list[Recipe]:
    """Recipes with a version that tells all that they are made of.

    `platform`: what else a build depends on: the system, the release of CUDA. A recipe depends on
    those before it, too.

    >>> versions([{"name": "x", "version": "1.0"}], "debian12")[0]["version"]
    '1.0+npfa7e7388'
    """
    found = []
    made_of: list[Any] = list(platform)
    for recipe in recipes:
        made_of.append({key: value for key, value in recipe.items() if key not in _WORDS})
        text = json.dumps(made_of, sort_keys=True)
        mark = hashlib.sha256(text.encode()).hexdigest()[:8]
        found.append({**recipe, "version": f"{recipe['version']}+np{mark}"})
    return found


def claims(recipes: list[Recipe]) -> list[Recipe]:
    """The packages of recipes, as claims."""
    return [{"name": recipe["name"], "version": recipe["version"]} for recipe in recipes]


def first(hosts: list[str], variables: Mapping[str, Any], name: str) -> str:
    """The first host whose variable `name` is true; empty when none is."""
    for host in hosts:
        if host in variables and variables[host].get(name):
            return host
    return ""


class FilterModule:
    """What Ansible finds here."""

    def filters(self) -> dict[str, Any]:
        return {
            "site_build_versions": versions,
            "site_build_claims": claims,
            "site_build_first": first,
        }
