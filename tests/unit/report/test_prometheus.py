"""The textfile for node_exporter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report import sample

from nodeprep.errors import ToolFailure
from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report.prometheus import render, write

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SERIES = re.compile(rf"[a-z_]+\{{{LABEL}(?:,{LABEL})*\}} (?:NaN|[+-]Inf|-?[0-9.e+-]+)")
COMMENT = re.compile(r"# (HELP|TYPE) [a-z_]+ .+")


def test_each_node_is_in_one_state() -> None:
    lines = render(sample.run()).splitlines()
    assert 'nodeprep_node_state{site="la",node="gpu2",state="quarantined"} 1' in lines
    assert sum(line.endswith(" 1") for line in lines if line.startswith("nodeprep_node_state")) == 4


def test_gates_have_their_value_and_threshold() -> None:
    text = render(sample.run())
    labels = '{site="la",node="gpu2",claim="nccl/proof:all_reduce",unit="GB/s"}'
    assert f"nodeprep_gate_value{labels} 172.4\n" in text
    assert f"nodeprep_gate_threshold{labels} 180\n" in text
    assert 'nodeprep_last_run_timestamp_seconds{site="la",verb="provision"} 1796057451' in text


def test_what_was_not_measured_has_no_sample() -> None:
    text = render(sample.run())
    assert 'nodeprep_drift_claims{site="la",node="gpu2"} 2' in text
    assert 'nodeprep_unknown_claims{site="la",node="gpu2"} 1' in text
    assert 'nodeprep_drift_claims{site="la",node="gpu3"}' not in text
    assert 'nodeprep_gate_value{site="la",node="gpu2",claim="base/proof:iperf3"' not in text


@given(st.text(st.characters()), st.floats())
def test_any_label_and_any_figure_keep_the_format(text: str, value: float) -> None:
    verdict = Verdict(claim=text, role="a", verdict=Outcome.PASS, value=value, gate=value)
    node = NodeResult(name=text, state=State.NEW, verdicts=(verdict, verdict))
    lines = render(sample.run("drift", node)).removesuffix("\n").split("\n")
    assert all(SERIES.fullmatch(line) or COMMENT.fullmatch(line) for line in lines)
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series))


def test_the_file_is_put_in_one_step_and_others_may_read_it(tmp_path: Path) -> None:
    write(sample.run(), tmp_path / "nodeprep.prom")
    assert [p.name for p in tmp_path.iterdir()] == ["nodeprep.prom"]
    assert (tmp_path / "nodeprep.prom").stat().st_mode & 0o777 == 0o644


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="cannot be written"):
        write(sample.run(), tmp_path / "none" / "nodeprep.prom")
