"""JUnit XML, as a CI server reads it."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report import sample

from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import junit


def suites(result: RunResult) -> dict[str, ET.Element]:
    return {suite.attrib["name"]: suite for suite in ET.fromstring(junit.render(result))}


def counts(suite: ET.Element) -> tuple[int, ...]:
    return tuple(int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped"))


def test_a_suite_per_node_and_a_case_per_verdict() -> None:
    found = suites(sample.run())
    assert counts(found["gpu1"]) == (13, 0, 0, 2)
    assert counts(found["gpu2"]) == (15, 2, 1, 2)
    root = ET.fromstring(junit.render(sample.run()))
    assert counts(root) == (31, 2, 2, 4)


def test_fail_is_a_failure_unknown_an_error_and_a_waiver_is_skipped_with_its_reason() -> None:
    cases = {case.attrib["name"]: case for case in suites(sample.run())["gpu2"]}
    failure = cases["nccl/proof:all_reduce"].find("failure")
    error = cases["base/proof:iperf3"].find("error")
    skipped = cases["nvidia_driver/service:nvidia-persistenced.service"].find("skipped")
    assert failure is not None
    assert error is not None
    assert skipped is not None
    assert failure.attrib["message"] == "busbw 172.4 GB/s is below 180 GB/s"
    assert "expect 220-235" in (failure.text or "")
    assert error.attrib["message"] == "iperf3 gave no answer within 20 s"
    assert skipped.attrib["message"] == "vendor ticket 4711, until 2027-01-31"


def test_a_node_that_could_not_be_reached_is_an_error() -> None:
    suite = suites(sample.run())["gpu3"]
    assert counts(suite) == (1, 0, 1, 0)
    error = suite.find("testcase/error")
    assert error is not None
    assert error.attrib["type"] == "Unreachable"


def test_a_node_of_which_nothing_was_checked_is_an_error_and_not_green() -> None:
    empty = NodeResult(name="gpu9", state=State.CONVERGED)
    assert counts(suites(sample.run("accept", empty))["gpu9"]) == (1, 0, 1, 0)


@given(st.text(st.characters()), st.sampled_from(list(Outcome)))
def test_any_text_that_a_node_prints_gives_valid_xml(text: str, outcome: Outcome) -> None:
    verdict = Verdict(claim=text, role=text, verdict=outcome, read=text, reason=text, diff=text)
    node = NodeResult(name=text, state=State.NEW, verdicts=(verdict,))
    written = junit.render(sample.run("accept", node)).encode("utf-8")
    assert ET.fromstring(written).attrib["tests"] == "1"
