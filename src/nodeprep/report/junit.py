"""JUnit XML for CI: a suite per node, a case per verdict."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import words
from nodeprep.report.safe import clean

_TAGS = {
    Outcome.FAIL: "failure",
    Outcome.UNKNOWN: "error",  # it could not be measured, and so has not passed
    Outcome.NOT_APPLICABLE: "skipped",
    Outcome.WAIVED: "skipped",
}


def render(result: RunResult) -> str:
    """The run as JUnit XML. A node of which nothing was checked is an error, not a green suite."""
    root = ET.Element("testsuites", name=clean(f"nodeprep {result.verb} {result.site}"))
    for node in result.nodes:
        root.append(_suite(node, result))
    _count(root, list(root.iter("testcase")))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(node: NodeResult, result: RunResult) -> ET.Element:
    suite = ET.Element(
        "testsuite",
        name=clean(node.name),
        timestamp=result.started.isoformat(timespec="seconds"),
        hostname=clean(node.host.hostname if node.host else ""),
    )
    if node.fault is not None:
        case = ET.SubElement(suite, "testcase", classname=clean(node.name), name="reached the end")
        _add(case, "error", node.fault.message, node.fault.hint, kind=node.fault.type)
    for verdict in node.verdicts:
        suite.append(_case(node, verdict))
    if not len(suite):
        case = ET.SubElement(suite, "testcase", classname=clean(node.name), name="checks")
        _add(case, "error", "nothing was checked", "", kind="unknown")
    _count(suite, list(suite))
    return suite


def _case(node: NodeResult, verdict: Verdict) -> ET.Element:
    case = ET.Element(
        "testcase", classname=clean(f"{node.name}.{verdict.role}"), name=clean(verdict.claim)
    )
    tag = _TAGS.get(verdict.verdict)
    if tag is not None:
        message = verdict.reason or f"wanted {verdict.wanted}, read {verdict.read or 'nothing'}"
        _add(case, tag, message, _evidence(verdict), kind=verdict.verdict.value)
    if verdict.value is not None or verdict.simulated:
        ET.SubElement(case, "system-out").text = clean(_evidence(verdict))
    return case


def _add(case: ET.Element, tag: str, message: str, text: str, *, kind: str) -> None:
    ET.SubElement(case, tag, message=clean(message), type=kind).text = clean(text)


def _evidence(verdict: Verdict) -> str:
    named = {
        "wanted": verdict.wanted,
        "read": verdict.read,
        "source": verdict.source,
        "do": verdict.action,
        "note": "; ".join(words.notes(verdict)),
        "simulated": "yes" if verdict.simulated else "",
    }
    lines = [f"{name}: {text}" for name, text in named.items() if text]
    return "\n".join([*lines, *([verdict.diff] if verdict.diff else [])])


def _count(element: ET.Element, cases: list[ET.Element]) -> None:
    element.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
