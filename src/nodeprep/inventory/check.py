"""Checks a host's variables: unknown keys with a suggestion, types, and what a node must have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError

from nodeprep.inventory.roles import Role
from nodeprep.inventory.source import Host
from nodeprep.inventory.template import Locked
from nodeprep.model.verdict import Waiver

# The variables that nodeprep itself reads, beside the roles' own and Ansible's.
SITE_VARIABLES: dict[str, str] = {
    "nodeprep_site": "name of the site: its state folder, its ledger",
    "nodeprep_profile": "the node's hardware class: inventory/profiles/<name>.yaml",
    "nodeprep_admin_user": "the user that first contact creates and logs in as afterwards",
    "nodeprep_bootstrap_user": "the user that the provider's password is for",
    "nodeprep_bootstrap_password": "the provider's password; vaulted, or a lookup",
    "nodeprep_connect_timeout": "seconds to wait for a connection",
    "nodeprep_waivers": "exceptions: claim, reason, expires, nodes",
    "node_os": "the platform: debian12, ubuntu2204, ubuntu2404",
    "node_address": "the node's address inside the site, as other nodes reach it",
}
PLATFORMS = ("debian12", "ubuntu2204", "ubuntu2404")
_WAIVERS = TypeAdapter(tuple[Waiver, ...])
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "str": (lambda v: isinstance(v, str | int | float) and not isinstance(v, bool), "text"),
    "path": (lambda v: isinstance(v, str), "a path"),
    "int": (lambda v: isinstance(v, int) and not isinstance(v, bool), "a whole number"),
    "float": (lambda v: isinstance(v, int | float) and not isinstance(v, bool), "a number"),
    "bool": (lambda v: isinstance(v, bool), "true or false"),
    "list": (lambda v: isinstance(v, list), "a list"),
    "dict": (lambda v: isinstance(v, dict), "a mapping"),
}


def where(host: Host, key: str, inventory: str) -> str:
    """`file:line: host: key`, the beginning of every problem."""
    return f"{host.origins.get(key) or inventory}: host {host.name}: key `{key}`"


def duplicate_addresses(hosts: Iterable[Host], inventory: str) -> list[str]:
    """Two names for one address: a node would be provisioned twice at once."""
    seen: dict[tuple[str, Any], str] = {}
    problems = []
    for host in hosts:
        address = str(host.variables.get("ansible_host", host.name))
        place = (address, host.variables.get("ansible_port", 22))
        if place in seen:
            problems.append(
                f"{where(host, 'ansible_host', inventory)}: {address} port {place[1]} is already "
                f"host {seen[place]}; each host needs an address of its own"
            )
        seen.setdefault(place, host.name)
    return problems


def unknown_keys(host: Host, roles: Mapping[str, Role], inventory: str) -> list[str]:
    """Keys that look like ours and are not. Variables of other tools are left alone."""
    options = {option for role in roles.values() for option in role.options}
    known = sorted(options | set(SITE_VARIABLES))
    # A longer prefix first: nvidia_driver_x is the driver role's, not some role named nvidia.
    prefixes = tuple(f"{name}_" for name in sorted(roles, key=len, reverse=True))
    problems = []
    for key in host.variables:
        if key in known or key.startswith("ansible_"):
            continue
        close = get_close_matches(key, known, n=1, cutoff=0.85)
        ours = key.startswith(("nodeprep_", *prefixes))
        if not close and not ours:
            continue
        close = close or get_close_matches(key, known, n=1, cutoff=0.6)
        meant = f"did you mean `{close[0]}`?" if close else _options_of(key, roles)
        problems.append(f"{where(host, key, inventory)} is not known; {meant}")
    return problems


def _options_of(key: str, roles: Mapping[str, Role]) -> str:
    for name, role in roles.items():
        if key.startswith(f"{name}_") and role.options:
            return f"role {name} has: {', '.join(sorted(role.options))}"
    return f"nodeprep has: {', '.join(sorted(SITE_VARIABLES))}"


def wrong_types(
    host: Host, role: Role, value_of: Callable[[str], Any], inventory: str
) -> list[str]:
    """The role's argument spec against the values that the inventory sets."""
    problems = []
    for key, spec in role.options.items():
        if isinstance(host.variables.get(key, Locked()), Locked):
            continue  # not set; or vaulted, and asked for only when a claim needs it
        value = value_of(key)
        fits, words = _TYPES.get(str(spec.get("type", "str")), (lambda _: True, ""))
        if not fits(value):
            problems.append(f"{where(host, key, inventory)}: must be {words}, found {value!r:.60}")
        elif spec.get("choices") and value not in spec["choices"]:
            allowed = ", ".join(map(str, spec["choices"]))
            problems.append(
                f"{where(host, key, inventory)}: found {value!r:.60}, allowed: {allowed}"
            )
    return problems


def waivers(host: Host, value: Any, inventory: str) -> tuple[tuple[Waiver, ...], list[str]]:
    """The waivers that name this host, and what is wrong with them."""
    try:
        return _WAIVERS.validate_python(value or []), []
    except ValidationError as error:
        at = where(host, "nodeprep_waivers", inventory)
        return (), [f"{at}: {line}" for line in explain(error)]


def explain(error: ValidationError) -> list[str]:
    """A pydantic error as lines of `key: what is wrong`, with a suggestion for unknown keys."""
    lines = []
    for problem in error.errors():
        path = ".".join(str(part) for part in problem["loc"])
        found = problem.get("input")
        if problem["type"] == "extra_forbidden":
            lines.append(f"{path}: unknown key")
        elif problem["type"] == "missing":
            lines.append(f"{path}: is missing")
        else:
            shown = "" if isinstance(found, dict | list) else f", found {found!r:.60}"
            lines.append(f"{path}: {problem['msg'].removeprefix('Value error, ')}{shown}")
    return lines
