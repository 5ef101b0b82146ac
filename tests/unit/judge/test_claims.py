"""Judges of claims: every case of tests/data/<kind>, and what no reading may ever do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.judge.claims import KINDS as JUDGES
from nodeprep.judge.claims import judge
from nodeprep.model.claim import CLAIM, KINDS
from nodeprep.model.reading import Reading
from nodeprep.model.verdict import Outcome

DATA = Path(__file__).resolve().parents[2] / "data"
CASES = sorted(path for kind in KINDS for path in (DATA / kind).glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return case


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path) -> None:
    case = load(path)
    reading = None if case["reading"] is None else Reading.model_validate(case["reading"])
    claim = CLAIM.validate_python(case["claim"])

    verdict = judge(claim, reading)

    assert verdict.verdict == case["verdict"], verdict
    assert verdict.wanted
    assert case.get("wanted", verdict.wanted) == verdict.wanted
    assert case.get("exactly", verdict.read) == verdict.read
    assert case.get("read", "") in verdict.read
    assert case.get("reason", "") in verdict.reason
    assert case.get("action", "") in verdict.action
    assert case.get("diff", "") in verdict.diff
    assert "never" not in case or case["never"] not in verdict.model_dump_json()
    if verdict.verdict.blocks:
        assert verdict.reason
        assert verdict.action


def test_every_kind_has_a_judge_and_cases_of_each_outcome() -> None:
    assert set(JUDGES) == set(KINDS)
    for kind in KINDS:
        outcomes = {load(path)["verdict"] for path in (DATA / kind).glob("*.json")}
        assert {"pass", "fail", "unknown"} <= outcomes, kind
        assert (DATA / kind / "holds.json").exists(), kind
        assert (DATA / kind / "empty.json").exists(), kind


def test_a_diff_of_a_secret_is_never_made() -> None:
    case = load(DATA / "file" / "secret-another.json")
    verdict = judge(CLAIM.validate_python(case["claim"]), Reading.model_validate(case["reading"]))
    assert verdict.diff == ""


def test_a_stand_in_is_labelled() -> None:
    case = load(DATA / "gpu" / "holds.json")
    claim = CLAIM.validate_python(case["claim"])
    data = {**case["reading"]["data"], "simulated": True}
    assert judge(claim, Reading(data=data)).simulated
    assert not judge(claim, Reading.model_validate(case["reading"])).simulated
    assert judge(claim, Reading.model_validate(case["reading"]), simulated=True).simulated


def test_long_text_is_capped() -> None:
    case = load(DATA / "output" / "no-match.json")
    claim = CLAIM.validate_python(case["claim"])
    verdict = judge(claim, Reading(data={"rc": 0, "text": "\x1b[1mx" * 100_000}))
    assert len(verdict.read) <= 400
    assert "\x1b" not in verdict.read


# No true: {"loaded": true, "builtin": false} would be a reading, not garbage.
JSON = st.recursive(
    st.none() | st.just(False) | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
KEYS = sorted({key for path in CASES for key in (load(path)["reading"] or {}).get("data", {})})
CLAIMS = [CLAIM.validate_python(load(DATA / kind / "holds.json")["claim"]) for kind in KINDS]


@given(st.sampled_from(CLAIMS), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8))
def test_garbage_never_passes_and_never_raises(claim: Any, data: dict[str, Any]) -> None:
    verdict = judge(claim, Reading(data=data))
    assert verdict.verdict in (Outcome.FAIL, Outcome.UNKNOWN)
    assert verdict.reason


@given(st.sampled_from(CASES), st.sampled_from(KEYS), JSON)
def test_one_broken_value_never_makes_a_pass(path: Path, key: str, value: Any) -> None:
    """A value of the wrong type may turn a pass into something else, never the reverse."""
    case = load(path)
    data = dict((case["reading"] or {}).get("data") or {})
    if not data or isinstance(value, type(data.get(key))) or case["verdict"] == "not_applicable":
        return
    if value is None or key not in data:
        return
    claim = CLAIM.validate_python(case["claim"])
    before = judge(claim, Reading(data=data)).verdict
    after = judge(claim, Reading(data={**data, key: value})).verdict
    assert after is not Outcome.PASS or before is Outcome.PASS or key == "simulated"


@given(st.text(min_size=1))
def test_an_error_is_unknown_whatever_else_was_read(error: str) -> None:
    for claim in CLAIMS:
        data = load(DATA / claim.kind / "holds.json")["reading"]["data"]
        assert judge(claim, Reading(data=data, error=error)).verdict is Outcome.UNKNOWN
