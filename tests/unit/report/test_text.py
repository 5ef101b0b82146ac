"""What a person sees, on a terminal and in a log."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from tests.unit.report import sample

from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import text


def printed(
    result: RunResult,
    *,
    terminal: bool = False,
    width: int = 100,
    previous: RunResult | None = None,
) -> str:
    out = io.StringIO()
    text.render(result, Console(file=out, force_terminal=terminal, width=width), previous)
    return out.getvalue()


def test_the_table_of_nodes_says_state_changes_checks_gates_and_why() -> None:
    row = next(r for r in printed(sample.run()).splitlines() if r.startswith("gpu2  quarantined"))
    assert row.split("  ", 2)[2].split("  ")[0] == "nccl"
    for word in ("2 fail", "1 unknown", "busbw 172.4 GB/s is below 180 GB/s"):
        assert word in row


def test_drift_off_a_terminal_is_one_line_a_claim_and_nothing_is_padded() -> None:
    lines = printed(sample.run("drift", sample.planned())).splitlines()
    assert lines[:3] == [
        "gpu1 nccl/file:/etc/nccl.conf: wanted sha256 9b1c…; read sha256 77aa…",
        "gpu1 nccl/package:libnccl2: wanted 2.16.5-1+cuda12.0, held; read not installed",
        "gpu1 base/sysctl:net.core.rmem_max: unknown: sysctl printed nothing",
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_drift_on_a_terminal_fits_its_width_and_loses_no_word(width: int) -> None:
    long = sample.CONF.model_copy(update={"wanted": "wanted " * 60, "read": "read " * 60 + "end"})
    node = sample.planned().model_copy(update={"verdicts": (long,)})
    out = re.sub(r"\x1b\[[0-9;]*m", "", printed(sample.run("drift", node), terminal=True,
                                                width=width))  # fmt: skip
    assert max(map(len, out.splitlines())) <= width
    assert out.count("wanted") >= 57  # some are broken at the edge of a narrow column
    assert "end" in out


def test_no_drift_is_said_only_when_every_node_was_looked_at() -> None:
    assert "no drift" in printed(sample.run("drift", sample.nas()))
    assert "no drift" not in printed(sample.run("drift", sample.nas(), sample.silent()))
    assert "no drift" not in printed(sample.run("drift", NodeResult(name="a", state=State.NEW)))


def test_a_plan_shows_roles_diffs_disks_and_the_reboot() -> None:
    out = printed(sample.run("plan", sample.planned()))
    for line in (
        "gpu1: 3 claims of 2 roles to converge",
        "  writes disk nvme-eui.0025385b1",
        "  reboots once: a new kernel module",
        "    package:libnccl2  not installed -> 2.16.5-1+cuda12.0, held",
        "      +NCCL_SOCKET_IFNAME==ens5f0",
    ):
        assert f"{line}\n" in out


def test_hardware_is_rented_against_standing() -> None:
    rows = printed(sample.run("inspect", sample.joined())).splitlines()
    assert any(
        row.startswith("GPUs") and row.count("4 x NVIDIA A100-SXM4-40GB") == 2 for row in rows
    )
    assert any("not read: dmidecode is not installed" in row for row in rows)


def test_a_part_that_is_not_as_rented_is_one_line_below_the_table() -> None:
    out = printed(sample.run("inspect", sample.short_of_a_gpu()))
    assert "  hardware/gpu:count  3 GPUs, rented: 4\n" in out
    assert "  hardware/nic:ens5f0  its speed could not be read\n" in out


def test_a_note_on_a_passed_gate_is_shown() -> None:
    node = sample.nas().model_copy(update={"verdicts": (sample.h2d(22.5),)})
    assert "22.5 GB/s is past the warning at 24" in printed(sample.run("accept", node))


def test_who_is_behind_its_sisters_has_a_line_of_its_own() -> None:
    note = "12 % below its sisters: 201 against a median of 228 GB/s"
    slow = sample.busbw(201, Outcome.PASS)
    slow = slow.model_copy(update={"detail": {"notes": [note], "slow": note}})
    out = printed(sample.run("accept", sample.nas().model_copy(update={"verdicts": (slow,)})))
    assert out.count(note) == 1
    assert f"nas1 nccl/proof:all_reduce: {note}\n" in out


def test_what_changed_since_the_last_run_is_told() -> None:
    was = sample.run("accept", sample.joined().model_copy(update={"name": "gpu2"}))
    out = printed(sample.run("accept", sample.refused()), previous=was)
    for line in (
        "changed since 2026-11-30 16:50 UTC",
        "  gpu2: joined, now quarantined",
        "  gpu2: turned red: nccl/proof:all_reduce",
        "  gpu2: nccl/proof:all_reduce: 223.6 GB/s, now 172.4 GB/s (-22.9 %)",
    ):
        assert f"{line}" in out
    assert "changed since" not in printed(was, previous=was)


def test_the_last_run_of_every_verb_is_a_row() -> None:
    out = io.StringIO()
    runs = [sample.run("accept", sample.joined(), exit_code=0), sample.run()]
    text.list_runs(runs, {runs[1].id: "x/report.html"}, Console(file=out, width=100))
    rows = [row.split("  ") for row in out.getvalue().splitlines()]
    assert [row[0].strip() for row in rows] == ["verb", "accept", "provision"]
    assert rows[2][-1] == "x/report.html"


def test_a_fault_says_what_to_do() -> None:
    out = printed(sample.run())
    assert "gpu3 (reach): 10.77.0.13:22 did not answer within 10 s\n  is the node" in out


def test_simulated_figures_are_called_so() -> None:
    assert "simulated" in printed(sample.run("accept", sample.joined()))
    assert "simulated" not in printed(sample.run("accept", sample.nas()))


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m" in printed(sample.run(), terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in printed(sample.run(), terminal=True)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("verb", ["drift", "accept", "plan"])
def test_what_a_node_prints_cannot_steer_the_terminal(verb: str, terminal: bool) -> None:
    nasty = "[red]\x1b]0;owned\x07\x1b[2Jred\nline\u202e" + "x" * 10_000
    verdict = Verdict(claim="a/output:b", role="a", verdict=Outcome.FAIL, read=nasty, wanted="b")
    node = sample.planned().model_copy(update={"verdicts": (verdict,), "why": nasty})
    out = printed(sample.run(verb, node), terminal=terminal)
    assert "\x1b]" not in out
    assert "\x1b[2J" not in out
    assert "\u202e" not in out
    assert len(out) < 20_000
    assert verb == "plan" or "[red]" in out  # markup is text here
