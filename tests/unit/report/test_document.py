"""The JSON document and its schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.unit.report import sample

from nodeprep.model.run import NodeResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import document

SCHEMA = Path(__file__).parents[3] / "docs" / "schema" / document.SCHEMA_FILE


def test_the_schema_in_the_docs_is_the_one_that_the_code_makes() -> None:
    assert json.loads(SCHEMA.read_text()) == document.schema()


@pytest.mark.parametrize("node", [sample.joined(), sample.refused(), sample.silent(),
                                  sample.nas(), sample.planned()])  # fmt: skip
def test_what_is_printed_is_what_the_schema_says(node: NodeResult) -> None:
    printed = json.loads(document.dumps(sample.run("provision", node)))
    jsonschema.Draft202012Validator(document.schema()).validate(printed)


def test_the_schema_notices_a_document_that_is_wrong() -> None:
    printed = document.document(sample.run())
    printed["nodes"][0]["verdicts"][0]["verdict"] = "fine"
    with pytest.raises(jsonschema.ValidationError, match="fine"):
        jsonschema.validate(printed, document.schema())


def test_every_verdict_carries_its_evidence() -> None:
    nodes = document.document(sample.run())["nodes"]
    assert [node["name"] for node in nodes] == ["gpu1", "gpu2", "gpu3", "nas1"]
    busbw = next(v for v in nodes[1]["verdicts"] if v["claim"] == "nccl/proof:all_reduce")
    assert {"claim", "role", "verdict", "wanted", "read", "source"} <= busbw.keys()
    assert (busbw["value"], busbw["gate"], busbw["unit"]) == (172.4, 180, "GB/s")
    assert busbw["margin"] == pytest.approx(-0.0422, abs=1e-4)
    assert nodes[2]["fault"]["type"] == "Unreachable"


def test_a_plan_names_the_claims_that_do_not_hold() -> None:
    plan = document.document(sample.run("plan", sample.planned()))["nodes"][0]["plan"]
    assert plan["unmet"] == [
        "nccl/file:/etc/nccl.conf", "nccl/package:libnccl2", "base/sysctl:net.core.rmem_max",
    ]  # fmt: skip
    assert plan["roles"] == ["base", "nccl"]


def test_what_json_cannot_say_does_not_break_it() -> None:
    odd = Verdict(
        claim="a/b:c", role="a", verdict=Outcome.FAIL, read="\udcff\x1b[31m\x00",
        value=float("nan"), gate=1.0, detail={"set": {1}, "inf": float("inf")},
    )  # fmt: skip
    node = sample.silent().model_copy(update={"verdicts": (odd,)})
    text = document.dumps(sample.run("drift", node))
    text.encode("utf-8")
    printed = json.loads(text, parse_constant=pytest.fail)["nodes"][0]["verdicts"][0]
    assert printed["value"] is None
    assert printed["detail"] == {"set": [1], "inf": None}
