"""What the ledger promises: nothing lost, nothing illegal, nothing secret."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nodeprep.errors import ToolFailure
from nodeprep.ledger import Ledger, NodeState
from nodeprep.model.hardware import Gpu, Hardware
from nodeprep.model.lifecycle import Event, State
from nodeprep.model.run import Fault, NodeResult, RunResult
from nodeprep.model.verdict import Outcome, Verdict

START = dt.datetime(2026, 11, 30, 16, 0, tzinfo=dt.UTC)
WHOLE_WAY = (Event.ANSWERED, Event.BOOTSTRAPPED, Event.CONVERGED, Event.ACCEPTED, Event.JOINED)


class Clock:
    """A minute passes with every look."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> dt.datetime:
        self.now += dt.timedelta(minutes=1)
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "site" / "ledger.sqlite"


def walk(ledger: Ledger, node: str, *events: Event) -> State:
    state = State.NEW
    for event in events:
        state = ledger.move(node, event)
    return state


def result(run_id: str = "r1", verb: str = "drift", minute: int = 0, text: str = "") -> RunResult:
    verdict = Verdict(claim="base/sysctl:a", role="base", verdict=Outcome.FAIL, read=text)
    fault = Fault(type="Unreachable", message=text)
    node = NodeResult(name="gpu1", state=State.JOINED, verdicts=(verdict,), fault=fault)
    at = START + dt.timedelta(minutes=minute)
    return RunResult(id=run_id, verb=verb, site="la", inventory="la.yaml", version="0.1.0",
                     started=at, finished=at, exit_code=2, nodes=(node,))  # fmt: skip


class TestMoves:
    def test_a_node_never_seen_is_new(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            assert ledger.state("gpu1") == NodeState()
            assert ledger.states() == {}

    def test_a_move_is_in_the_file_when_the_call_returns(self, path: Path) -> None:
        with Ledger.open(path, clock=Clock()) as ledger, Ledger.open(path) as other:
            assert walk(ledger, "gpu1", *WHOLE_WAY) is State.JOINED
            assert other.state("gpu1").state is State.JOINED
            assert [m.event for m in other.history("gpu1")] == list(WHOLE_WAY)

    def test_an_illegal_move_raises_and_leaves_no_trace(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            walk(ledger, "gpu1", Event.ANSWERED)
            with pytest.raises(ValueError, match="reachable cannot be joined"):
                ledger.move("gpu1", Event.JOINED)
            assert ledger.state("gpu1").state is State.REACHABLE
            assert len(ledger.history("gpu1")) == 1

    def test_since_is_when_the_state_was_entered_and_why_the_latest_word(self, path: Path) -> None:
        with Ledger.open(path, clock=Clock()) as ledger:
            ledger.move("gpu1", Event.REFUSED, reason="3 of 4 GPUs")
            entered = ledger.state("gpu1").since
            ledger.move("gpu1", Event.REFUSED, reason="2 of 4 GPUs", run_id="r2")
            ledger.move("gpu1", Event.ANSWERED)
            assert ledger.state("gpu1") == NodeState(
                state=State.QUARANTINED, since=entered, why="2 of 4 GPUs"
            )
            assert ledger.history("gpu1")[1].run_id == "r2"
            ledger.move("gpu1", Event.CONVERGED)
            assert ledger.state("gpu1").why == ""


class TestRuns:
    def test_a_finished_run_is_not_reported(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            assert ledger.begin("r1", "provision", "la.yaml") == ()
            ledger.finish("r1", 0)
            assert ledger.begin("r2", "provision", "la.yaml") == ()
            assert [(run.id, run.exit_code) for run in ledger.runs()] == [("r1", 0), ("r2", None)]

    def test_a_run_that_never_finished_is_named_once(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            ledger.begin("r1", "provision", "la.yaml")
        with Ledger.open(path) as ledger:
            assert [run.id for run in ledger.begin("r2", "provision", "la.yaml")] == ["r1"]
            ledger.finish("r2", 0)
            assert ledger.begin("r3", "provision", "la.yaml") == ()
            assert [run.interrupted for run in ledger.runs()] == [True, False, False]

    def test_a_process_killed_in_the_middle_loses_no_move_and_no_lock(self, path: Path) -> None:
        script = """
            import os, signal, sys, pathlib
            from nodeprep.ledger import Ledger
            from nodeprep.model.lifecycle import Event
            ledger = Ledger.open(pathlib.Path(sys.argv[1]))
            ledger.begin("r1", "provision", "la.yaml")
            ledger.move("gpu1", Event.ANSWERED)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
        done = subprocess.run(command, check=False)
        assert done.returncode == -signal.SIGKILL
        with Ledger.open(path) as ledger:
            assert [run.id for run in ledger.begin("r2", "provision", "la.yaml")] == ["r1"]
            assert ledger.move("gpu1", Event.BOOTSTRAPPED) is State.BOOTSTRAPPED

    def test_a_second_writer_is_told_who_and_since_when(self, path: Path) -> None:
        with Ledger.open(path, clock=Clock()) as first, Ledger.open(path) as second:
            first.begin("r1", "provision", "la.yaml")
            with pytest.raises(ToolFailure) as caught:
                second.begin("r2", "drift", "la.yaml")
            assert f"nodeprep provision, pid {os.getpid()}, since 2026-11-30T16:01" in str(
                caught.value
            )
            first.finish("r1", 0)
            assert second.begin("r2", "drift", "la.yaml") == ()

    def test_readers_are_not_blocked_by_a_writer_at_work(self, path: Path) -> None:
        with Ledger.open(path) as writer:
            writer.begin("r1", "provision", "la.yaml")
            writer.move("gpu1", Event.ANSWERED)
            with writer._write(), Ledger.open(path) as reader:
                assert reader.state("gpu1").state is State.REACHABLE
                assert [run.id for run in reader.runs()] == ["r1"]

    def test_a_shared_run_takes_no_lock(self, path: Path) -> None:
        with Ledger.open(path) as first, Ledger.open(path) as second:
            first.begin("r1", "provision", "la.yaml")
            second.begin("r2", "plan", "la.yaml", exclusive=False)

    def test_last_run_is_the_newest_of_all_or_of_a_verb(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            assert ledger.last_run() is None
            ledger.save_run(result("r1", "drift", 1))
            ledger.save_run(result("r2", "accept", 2))
            newest, drift = ledger.last_run(), ledger.last_run("drift")
            assert newest == result("r2", "accept", 2)
            assert drift == result("r1", "drift", 1)
            assert ledger.last_run("plan") is None

    def test_old_results_make_room_and_the_list_of_runs_stays(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            for n in range(25):
                ledger.save_run(result(f"r{n}", "drift", n))
            kept = ledger._rows("SELECT run_id FROM results")
            assert len(kept) == 20
            assert len(ledger.runs()) == 25


class TestAcceptance:
    def test_only_a_converged_node_is_accepted(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            walk(ledger, "gpu1", Event.ANSWERED)
            with pytest.raises(ValueError, match="cannot be accepted"):
                ledger.accept("gpu1", "d1", "b1", {})
            assert ledger.accepted("gpu1") is None

    def test_an_acceptance_keeps_digest_boot_and_figures(self, path: Path) -> None:
        with Ledger.open(path, clock=Clock()) as ledger:
            walk(ledger, "gpu1", *WHOLE_WAY[:3])
            ledger.accept("gpu1", "d1", "b1", {"nccl.all_reduce.busbw": 223.5})
            accepted = ledger.accepted("gpu1")
            assert accepted is not None
            assert (accepted.digest, accepted.boot_id) == ("d1", "b1")
            assert accepted.measurements == {"nccl.all_reduce.busbw": 223.5}
            assert accepted.at.tzinfo is not None

    @pytest.mark.parametrize("event", [Event.DRIFTED, Event.REFUSED, Event.RETIRED])
    def test_it_no_longer_stands_after(self, path: Path, event: Event) -> None:
        with Ledger.open(path) as ledger:
            walk(ledger, "gpu1", *WHOLE_WAY)
            ledger.accept("gpu1", "d1", "b1", {})
            ledger.move("gpu1", event)
            assert ledger.accepted("gpu1") is None
            last = ledger.last_accepted("gpu1")
            assert last is not None
            assert not last.stands


def hardware(board: str | None, *uuids: str | None) -> Hardware:
    gpus = tuple(Gpu(pci_address=f"0000:0{n}:00.0", uuid=u) for n, u in enumerate(uuids))
    return Hardware(board_serial=board, gpus=gpus)


class TestIdentity:
    @pytest.fixture
    def ledger(self, path: Path) -> Ledger:
        ledger = Ledger.open(path)
        walk(ledger, "gpu1", *WHOLE_WAY)
        assert ledger.save_hardware("gpu1", hardware("B1", "GPU-a", "GPU-b")) == ()
        ledger.accept("gpu1", "d1", "b1", {})
        return ledger

    def test_the_same_machine_has_no_changes(self, ledger: Ledger) -> None:
        assert ledger.save_hardware("gpu1", hardware("B1", "GPU-b", "GPU-a")) == ()
        assert ledger.hardware("gpu1") == hardware("B1", "GPU-b", "GPU-a")

    def test_swapped_parts_are_named(self, ledger: Ledger) -> None:
        found = ledger.save_hardware("gpu1", hardware("B2", "GPU-a", "GPU-c"))
        assert [str(change) for change in found] == [
            "board: accepted B1, found B2",
            "gpu: accepted GPU-b, found GPU-c",
        ]

    def test_a_lost_gpu_is_named(self, ledger: Ledger) -> None:
        found = ledger.save_hardware("gpu1", hardware("B1", "GPU-a"))
        assert [str(change) for change in found] == ["gpu: accepted GPU-b, found none"]

    def test_what_could_not_be_read_is_no_change(self, ledger: Ledger) -> None:
        assert ledger.save_hardware("gpu1", hardware(None, "GPU-a", None)) == ()

    def test_drift_does_not_make_it_forget(self, ledger: Ledger) -> None:
        ledger.move("gpu1", Event.DRIFTED)
        assert ledger.save_hardware("gpu1", hardware("B2", "GPU-a", "GPU-b"))

    def test_a_node_that_was_rented_again_is_another_machine(self, ledger: Ledger) -> None:
        ledger.move("gpu1", Event.RETURNED)
        assert ledger.save_hardware("gpu1", hardware("B2", "GPU-x")) == ()


class TestFile:
    def test_only_its_owner_reads_it(self, path: Path) -> None:
        path.parent.mkdir()
        path.touch(0o644)
        with Ledger.open(path) as ledger:
            ledger.move("gpu1", Event.ANSWERED)
            modes = {p.name: p.stat().st_mode & 0o777 for p in path.parent.iterdir()}
        assert set(modes.values()) == {0o600}
        assert "ledger.sqlite-wal" in modes

    def test_no_secret_reaches_the_disk(self, path: Path) -> None:
        secret = 'hunter2 "quoted"\\'
        with Ledger.open(path, secrets=[secret]) as ledger:
            self.tell_everything(ledger, f"sudo said {secret}")
            assert b"hunter2" not in b"".join(p.read_bytes() for p in path.parent.iterdir())
            assert ledger.state("gpu1").why == "sudo said ********"

    def test_and_would_without_being_told_of_it(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            self.tell_everything(ledger, "sudo said hunter2")
            assert b"hunter2" in b"".join(p.read_bytes() for p in path.parent.iterdir())

    @staticmethod
    def tell_everything(ledger: Ledger, text: str) -> None:
        ledger.begin("r1", "drift", "la.yaml")
        ledger.move("gpu1", Event.REFUSED, reason=text)
        ledger.save_run(result(text=text))
        ledger.finish("r1", 2)

    def test_a_file_that_is_no_ledger_is_a_clear_error(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"no database " * 100)
        with pytest.raises(ToolFailure, match="cannot be opened"):
            Ledger.open(path)

    def test_a_newer_ledger_is_left_alone(self, path: Path) -> None:
        with Ledger.open(path) as ledger:
            ledger._db.execute("PRAGMA user_version = 99")
        with pytest.raises(ToolFailure, match="schema version 99"):
            Ledger.open(path)
