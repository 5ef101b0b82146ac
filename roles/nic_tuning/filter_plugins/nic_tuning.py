"""Filters of the role nic_tuning: what is wanted of each interface. Pure, for both engines."""

from __future__ import annotations

import json
from typing import Any

Claim = dict[str, Any]
GROUPS = ("channels", "rings", "coalesce", "features", "pause")


def wanted(names: list[str], every: Claim, by_interface: dict[str, Claim]) -> list[Claim]:
    """Of each interface its settings, as the claim `nic` has them; those without any are left out.

    `by_interface` is merged over what holds for every one; a setting that is null there is not
    claimed.
    """
    found = [(name, _merged(every, by_interface.get(name) or {})) for name in names]
    return [{"name": name, **settings} for name, settings in found if settings]


def _merged(every: Claim, own: Claim) -> Claim:
    merged: Claim = {}
    for group in GROUPS:
        values = {**(every.get(group) or {}), **(own.get(group) or {})}
        kept = {key: value for key, value in values.items() if value is not None}
        if kept:
            merged[group] = kept
    mtu = own.get("mtu", every.get("mtu"))
    return {**merged, "mtu": mtu} if mtu else merged


def files(wanted: list[Claim], where_offered: bool, interrupts: bool, xps: bool) -> list[Claim]:
    """What the node's own program reads: a file for each interface, as claims on files."""
    return [
        {"name": f"/etc/nodeprep/nic/{claim['name']}.json", "content": _text(claim, **settings)}
        for settings in [{"where_offered": where_offered, "interrupts": interrupts, "xps": xps}]
        for claim in wanted
    ]


def _text(claim: Claim, **settings: bool) -> str:
    values = {key: value for key, value in claim.items() if key != "name"}
    return json.dumps({**values, **settings}, indent=2, sort_keys=True) + "\n"


def named(names: list[str], pattern: str) -> list[Claim]:
    """A claim's name for each interface: `pattern` with %s."""
    return [{"name": pattern % name} for name in names]


def proven(names: list[str]) -> list[Claim]:
    """What asks the node whether an interface's settings may be applied at boot."""
    program = "/usr/local/sbin/nodeprep-nic"
    return [
        {"name": f"{name} at boot", "argv": [program, "proven", name], "expect": "^proven$"}
        for name in names
    ]


class FilterModule:
    """What Ansible finds here."""

    def filters(self) -> dict[str, Any]:
        return {
            "nic_tuning_wanted": wanted,
            "nic_tuning_files": files,
            "nic_tuning_named": named,
            "nic_tuning_proven": proven,
        }
