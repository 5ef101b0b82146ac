"""Plain Ansible fills in a profile exactly as nodeprep's model does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from nodeprep.model.profile import GpuPart, Parts, Platform, Profile

ROOT = Path(__file__).parents[3]
DEFAULTS: dict[str, Any] = yaml.safe_load(
    (ROOT / "playbooks" / "vars" / "profile_defaults.yml").read_text(encoding="utf-8")
)


def test_what_a_profile_leaves_out_is_the_same_to_both() -> None:
    model = Profile(name="x").model_dump(mode="json")
    assert {"name": "x", **DEFAULTS["profile_defaults"]} == model


def test_every_field_of_a_part_is_filled_in() -> None:
    given = DEFAULTS["profile_defaults"]
    assert given["parts"].keys() == Parts.model_fields.keys()
    assert given["platform"].keys() == Platform.model_fields.keys()


def test_what_a_gpu_part_leaves_out_is_the_same_to_both() -> None:
    least = {
        "count": 1,
        "model": "x",
        "pci_id": "10de:20b0",
        "memory_mib": 1,
        "power_limit_w": 1.0,
        "board": "none",
    }
    model = GpuPart.model_validate(least).model_dump(mode="json")
    assert {**least, **DEFAULTS["profile_gpu_defaults"]} == model
