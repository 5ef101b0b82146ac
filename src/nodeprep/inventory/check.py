"""Checks a host's variables: unknown keys with a suggestion, types, and what a node must have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

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


class Problem(NamedTuple):
    """What is wrong: in which file and line, for which host, in words."""

    place: str
    host: str
    text: str


def at(host: Host, key: str, inventory: str, text: str) -> Problem:
    """A problem with a variable of a host."""
    return Problem(host.origins.get(key) or inventory, host.name, f"key `{key}`{text}")


def told(problems: Iterable[Problem]) -> tuple[str, ...]:
    """One line each; what is wrong for many hosts at one place is said once."""
    hosts: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        names = hosts.setdefault((problem.place, problem.text), [])
        if problem.host and problem.host not in names:
            names.append(problem.host)
    return tuple(f"{place}: {_whom(names)}{text}" for (place, text), names in hosts.items())


def _whom(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"host{'s' * (len(names) > 1)} {', '.join(names[:4])}{more}: "


def duplicate_addresses(hosts: Iterable[Host], inventory: str) -> list[Problem]:
    """Two names for one address: a node would be provisioned twice at once."""
    seen: dict[tuple[str, Any], str] = {}
    problems = []
    for host in hosts:
        address = str(host.variables.get("ansible_host", host.name))
        place = (address, host.variables.get("ansible_port", 22))
        if place in seen:
            text = f": {address} port {place[1]} is already host {seen[place]}; each needs its own"
            problems.append(at(host, "ansible_host", inventory, text))
        seen.setdefault(place, host.name)
    return problems


def unknown_keys(host: Host, roles: Mapping[str, Role], inventory: str) -> list[Problem]:
    """Keys that look like ours and are not. Variables of other tools are left alone."""
    # A site's own role may come without an argument spec: its defaults tell its options.
    options = {name for role in roles.values() for name in role.options or role.defaults}
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
        problems.append(at(host, key, inventory, f" is not known; {meant}"))
    return problems


def _options_of(key: str, roles: Mapping[str, Role]) -> str:
    for name, role in roles.items():
        if key.startswith(f"{name}_") and role.options:
            return f"role {name} has: {', '.join(sorted(role.options))}"
    return f"nodeprep has: {', '.join(sorted(SITE_VARIABLES))}"


def wrong_types(
    host: Host, role: Role, value_of: Callable[[str], Any], inventory: str
) -> list[Problem]:
    """The role's argument spec against the values that the inventory sets."""
    problems = []
    for key, spec in role.options.items():
        if isinstance(host.variables.get(key, Locked()), Locked):
            continue  # not set; or vaulted, and asked for only when a claim needs it
        value = value_of(key)
        fits, words = _TYPES.get(str(spec.get("type", "str")), (lambda _: True, ""))
        if not fits(value):
            problems.append(at(host, key, inventory, f": must be {words}, found {value!r:.60}"))
        elif spec.get("choices") and value not in spec["choices"]:
            allowed = ", ".join(map(str, spec["choices"]))
            text = f": found {value!r:.60}, allowed: {allowed}"
            problems.append(at(host, key, inventory, text))
    return problems


def waivers(host: Host, value: Any, inventory: str) -> tuple[tuple[Waiver, ...], list[Problem]]:
    """The waivers that name this host, and what is wrong with them."""
    try:
        return _WAIVERS.validate_python(value or []), []
    except ValidationError as error:
        lines = explain(error)
        return (), [at(host, "nodeprep_waivers", inventory, f": {line}") for line in lines]


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
