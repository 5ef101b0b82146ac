"""Taking back a fault takes back the fault, and nothing that happened meanwhile."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeprep.lab import patch

_LEAF = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3))
_JSON = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
_DOCUMENT = st.dictionaries(st.text(max_size=2), _JSON, max_size=4)


@given(_DOCUMENT, _DOCUMENT)
def test_undoing_restores_the_document(before: dict[str, Any], after: dict[str, Any]) -> None:
    undo = patch.changes(before, after)
    assert patch.undone(copy.deepcopy(after), undo) == before


@given(_DOCUMENT)
def test_nothing_changed_is_nothing_to_undo(document: dict[str, Any]) -> None:
    assert patch.changes(document, copy.deepcopy(document)) == []


def test_what_else_changed_stays() -> None:
    before = {"gpus": [{"ecc": 0, "persistence": False}, {"ecc": 0, "persistence": False}]}
    faulty = copy.deepcopy(before)
    faulty["gpus"][1]["ecc"] = 7
    undo = patch.changes(before, faulty)
    faulty["gpus"][0]["persistence"] = faulty["gpus"][1]["persistence"] = True
    assert patch.undone(faulty, undo) == {
        "gpus": [{"ecc": 0, "persistence": True}, {"ecc": 0, "persistence": True}]
    }


def test_a_truth_value_is_not_a_number() -> None:
    assert patch.changes({"a": 1}, {"a": True}) == [{"at": ["a"], "value": 1}]


def test_a_place_that_is_gone_is_passed_over() -> None:
    undo = patch.changes({"a": {"b": 1}, "c": 1}, {"a": {"b": 2}, "c": 2})
    assert patch.undone({"c": 2}, undo) == {"c": 1}
