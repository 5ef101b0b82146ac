"""The catalogue of faults, and the arguments that they take."""

from __future__ import annotations

import pytest

from nodeprep.errors import BadInput
from nodeprep.lab import faults, hostfaults

LOCK = hostfaults.CATALOGUE["apt_lock_held"]


def test_names_are_unique_across_both_kinds() -> None:
    names = [entry.name for entry in faults.catalogue()]
    assert len(names) == len(set(names))
    assert {entry.kind for entry in faults.catalogue()} == {"board", "host"}


def test_arguments_have_defaults() -> None:
    assert hostfaults.arguments(LOCK, {}) == {"seconds": "60"}
    assert hostfaults.arguments(LOCK, {"seconds": "2.5"}) == {"seconds": "2.5"}


@pytest.mark.parametrize(
    "given", [{"second": "1"}, {"seconds": ""}, {"seconds": "1; reboot"}, {"seconds": "nan$(id)"}]
)
def test_arguments_that_are_none_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        hostfaults.arguments(LOCK, given)
