"""`nodeprep evidence` and `nodeprep report`: what is on record, without reaching a node."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.unit.inventory import site
from tests.unit.pipeline.world import World
from typer.testing import CliRunner

from nodeprep import pipeline, workers
from nodeprep.cli.main import app
from nodeprep.errors import BadInput
from nodeprep.inventory import profiles
from nodeprep.inventory import roles as role_files
from nodeprep.model.run import RunResult
from nodeprep.pipeline import Options

PASSWORD = "correct-horse-battery"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODEPREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NODEPREP_BOOTSTRAP_PASSWORD", PASSWORD)
    role_files.role.cache_clear()
    profiles.profile.cache_clear()
    world = World(fresh={"gpu1", "gpu2", "nas1"}, bad_proof={"gpu1"})
    monkeypatch.setattr(workers, "run", world.run)
    monkeypatch.setattr(workers, "run_each", world.run_each)
    return world


@pytest.fixture
def options(tmp_path: Path) -> Options:
    path = site.write(tmp_path)
    folder = tmp_path / "state" / "sites" / "small"
    folder.mkdir(parents=True)
    (folder / "id_ed25519").touch()
    return Options(inventory=path)


@pytest.fixture
def ran(world: World, options: Options) -> RunResult:
    return pipeline.provision(options, lambda _: None, lambda: None, lambda _: True)


def texts(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {
            member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive.getmembers()
        }


def call(*arguments: object) -> str:
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.output


def test_it_packs_what_is_known_of_a_refused_node(
    ran: RunResult, options: Options, tmp_path: Path
) -> None:
    out = tmp_path / "ticket.tar.gz"
    assert call("evidence", options.inventory, "gpu1", "-o", out) == f"wrote {out}\n"
    found = texts(out)
    assert "greet/proof:voice: it is quiet" in found["README.txt"]
    assert "refused" in found["history.txt"]
    assert f"runs/{ran.id}/run.json" in found
    assert "gpu2" not in found[f"runs/{ran.id}/run.json"]


def test_a_secret_planted_in_a_log_does_not_reach_the_archive(
    ran: RunResult, options: Options, tmp_path: Path
) -> None:
    logs = pipeline.run_folder(ran) / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "accept-gpu1.log").write_text(f"said {PASSWORD}\ntoken=abcdef99\nkept\n")
    call("evidence", options.inventory, "gpu1", "-o", tmp_path / "a.tar.gz")
    found = texts(tmp_path / "a.tar.gz")
    assert "kept" in found[f"runs/{ran.id}/logs/accept-gpu1.log"]
    assert not any(PASSWORD in text or "abcdef99" in text for text in found.values())


def test_other_nodes_logs_and_lines_stay_at_home(
    ran: RunResult, options: Options, tmp_path: Path
) -> None:
    logs = pipeline.run_folder(ran) / "logs"
    logs.mkdir(exist_ok=True)
    for name in ("accept-gpu1", "accept-gpu2", "accept-gpu10"):
        (logs / f"{name}.log").write_text(f"{name}\n")
    (logs / "probe.log").write_text("gpu2: odd\ngpu1: odd\nTraceback\n")
    call("evidence", options.inventory, "gpu1", "-o", tmp_path / "a.tar.gz")
    found = {path.rpartition("/")[2]: text for path, text in texts(tmp_path / "a.tar.gz").items()}
    assert found["probe.log"] == "gpu1: odd\nTraceback\n"
    assert found["accept-gpu1.log"] == "accept-gpu1\n"
    assert "accept-gpu2.log" not in found


def test_the_run_that_says_what_is_wrong_is_told_not_a_later_look(
    ran: RunResult, options: Options, tmp_path: Path
) -> None:
    pipeline.inspect(options, lambda _: None, lambda: None)
    call("evidence", options.inventory, "gpu1", "-o", tmp_path / "a.tar.gz")
    assert "it is quiet" in texts(tmp_path / "a.tar.gz")["README.txt"]


def test_the_same_records_give_the_same_bytes(ran: RunResult, options: Options) -> None:
    assert pipeline.evidence(options, "gpu1") == pipeline.evidence(options, "gpu1")


def test_an_unknown_node_and_one_without_records_are_refused(
    world: World, options: Options
) -> None:
    with pytest.raises(BadInput, match="no such node: gpu9"):
        pipeline.evidence(options, "gpu9")
    with pytest.raises(BadInput, match="nothing is on record of gpu1"):
        pipeline.evidence(options, "gpu1")


def test_the_last_run_of_every_verb_is_offered(ran: RunResult, options: Options) -> None:
    pipeline.inspect(options, lambda _: None, lambda: None)
    rows = call("report", options.inventory, "--list").splitlines()
    assert [row.split()[0] for row in rows] == ["verb", "inspect", "provision"]
    assert "nodeprep provision" in call("report", options.inventory, "--verb", "provision")


def test_a_verb_that_never_ran_is_answered_with_those_that_did(
    ran: RunResult, options: Options
) -> None:
    with pytest.raises(BadInput, match="no run of drift") as caught:
        call("report", options.inventory, "--verb", "drift")
    assert caught.value.hint == "it has: provision"


def test_the_report_says_what_changed_since_the_run_before(
    ran: RunResult, world: World, options: Options
) -> None:
    assert "Changed since" not in pipeline.report(options, "html", None)
    world.bad_proof.clear()
    again = pipeline.provision(options, lambda _: None, lambda: None, lambda _: True)
    assert pipeline.previous_run(again) == ran
    page = pipeline.report(options, "html", None)
    assert "Changed since" in page
    assert (pipeline.run_folder(again) / "report.html").read_text() == page
