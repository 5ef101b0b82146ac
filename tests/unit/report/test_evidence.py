"""The archive for a ticket: plain words, serials, everything behind them, and no secret."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import pytest
from tests.unit.report import sample

from nodeprep.model.run import NodeResult
from nodeprep.report.evidence import FILE_LIMIT, Evidence, alone, pack

SECRET = 's3cret&<"of"> Ünique'  # its HTML and JSON forms differ from it
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA0000\n-----END RSA PRIVATE KEY-----\n"


def evidence(node: NodeResult | None = None, files: dict[str, Any] | None = None) -> Evidence:
    result = alone(sample.run("accept", sample.joined(), node or sample.refused()), "gpu2")
    return Evidence(
        result=result, hardware=None, history=("2026-11-30 16:50 UTC  refused",), files=files or {}
    )


def texts(packed: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {
            member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }


def test_it_holds_words_reports_hardware_history_and_the_runs_files() -> None:
    found = texts(pack(evidence(files={"r1/logs/accept-gpu2.log": "ok\n"})))
    assert list(found) == [
        "README.txt", "hardware.json", "history.txt", "junit.xml", "report.html", "run.json",
        "runs/r1/logs/accept-gpu2.log",
    ]  # fmt: skip
    assert json.loads(found["run.json"])["nodes"][0]["name"] == "gpu2"
    assert "gpu1" not in found["report.html"]


def test_the_readme_says_what_is_wrong_and_which_parts() -> None:
    readme = texts(pack(evidence()))["README.txt"]
    for words in (
        "nccl/proof:all_reduce: busbw 172.4 GB/s is below 180 GB/s [simulated]",
        "    next: look at the pair GPU1-GPU3 below: its links are slow",
        "base/proof:iperf3: could not be measured: iperf3 gave no answer within 20 s",
        "OM21AS0042", "GPU-5d0f1c2e", "S64GNE0R1", "SIMULATED",
    ):  # fmt: skip
        assert words in readme


def test_settings_of_ours_are_not_laid_at_the_provider_s_door() -> None:
    node = sample.refused().model_copy(update={"verdicts": (sample.CONF,)})
    readme = texts(pack(evidence(node)))["README.txt"]
    assert "1 setting is not as we want; those are ours to mend" in readme
    assert "nccl.conf" not in readme


def test_a_node_of_which_nothing_is_wrong_is_said_to_be_good() -> None:
    node = sample.joined().model_copy(update={"name": "gpu2"})
    assert "every check passed" in texts(pack(evidence(node)))["README.txt"]


def test_the_same_evidence_is_the_same_bytes() -> None:
    assert pack(evidence(files={"a": "x", "b": "y"})) == pack(evidence(files={"b": "y", "a": "x"}))


@pytest.mark.parametrize("scrubbed", [True, False])
def test_a_known_secret_is_nowhere(scrubbed: bool) -> None:
    verdict = sample.CONF.model_copy(update={"read": SECRET, "detail": {"said": [SECRET]}})
    node = sample.refused().model_copy(update={"verdicts": (verdict,), "why": SECRET})
    files = {"r/logs/a.log": f"x {SECRET} y", "r/run.json": {"why": SECRET}}
    found = pack(evidence(node, files), (lambda t: t.replace(SECRET, "*")) if scrubbed else str)
    assert any("nique" in text for text in texts(found).values()) is not scrubbed


def test_what_only_looks_like_a_secret_is_nowhere_either() -> None:
    verdict = sample.CONF.model_copy(update={"diff": f"+{KEY}", "read": 'says "password=hunter2"'})
    node = sample.refused().model_copy(update={"verdicts": (verdict,)})
    files = {"r/logs/a.log": f"{KEY}token: hunter2\n", "r/run.json": {"api_key": "hunter2"}}
    for text in texts(pack(evidence(node, files))).values():
        assert "hunter2" not in text
        assert "MIIEp" not in text


def test_data_stays_data_where_something_was_masked() -> None:
    verdict = sample.CONF.model_copy(update={"read": 'says "password=hunter2", and more'})
    node = sample.refused().model_copy(update={"verdicts": (verdict,)})
    (told,) = json.loads(texts(pack(evidence(node)))["run.json"])["nodes"][0]["verdicts"]
    assert told["read"].startswith('says "password=****')


def test_of_a_huge_log_the_end_is_kept() -> None:
    found = texts(pack(evidence(files={"r/logs/a.log": "x" * (FILE_LIMIT + 5) + "end"})))
    text = found["runs/r/logs/a.log"]
    assert text.startswith("[the first 8 characters are left out]")
    assert text.endswith("end")
