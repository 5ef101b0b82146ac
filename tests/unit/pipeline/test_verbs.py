"""What each verb asks of the nodes, in which order, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.inventory import site
from tests.unit.pipeline.world import World

from nodeprep import pipeline, workers
from nodeprep.errors import BadInput, Interrupted
from nodeprep.inventory import profiles
from nodeprep.inventory import roles as role_files
from nodeprep.model.lifecycle import State
from nodeprep.model.run import RunResult
from nodeprep.pipeline import Options

NODES = ["gpu1", "gpu2", "nas1"]
CLAIMS = {"greet/file:/etc/greet.conf", "greet/package:greet", "greet/sysctl:net.one",
          "greet/sysctl:net.two", "greet/module:greet"}  # fmt: skip
Provision = Callable[..., RunResult]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("NODEPREP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODEPREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NODEPREP_BOOTSTRAP_PASSWORD", "hunter22")
    role_files.role.cache_clear()
    profiles.profile.cache_clear()
    world = World(fresh=set(NODES))
    monkeypatch.setattr(workers, "run", world.run)
    monkeypatch.setattr(workers, "run_each", world.run_each)
    return world


@pytest.fixture
def options(tmp_path: Path) -> Options:
    path = site.write(tmp_path)
    folder = tmp_path / "state" / "sites" / "small"
    folder.mkdir(parents=True)
    (folder / "id_ed25519").touch()  # first contact would make it
    return Options(inventory=path)


@pytest.fixture
def provision(world: World, options: Options) -> Provision:
    def call(**changes: object) -> RunResult:
        chosen = Options(**{**vars(options), **changes})
        return pipeline.provision(chosen, lambda _: None, lambda: None, lambda _: True)

    return call


def drift(options: Options, **changes: object) -> RunResult:
    chosen = Options(**{**vars(options), **changes})
    return pipeline.drift(chosen, lambda _: None, lambda _: True)


def states(result: RunResult) -> dict[str, str]:
    return {node.name: node.state.value for node in result.nodes}


def unmet(result: RunResult, name: str) -> set[str]:
    node = next(node for node in result.nodes if node.name == name)
    return {verdict.claim for verdict in node.blocking}


def test_a_new_node_goes_the_whole_way_in_order(provision: Provision, world: World) -> None:
    result = provision()
    assert result.exit_code == 0
    assert set(states(result).values()) == {"joined"}
    assert [job for job, _ in world.jobs] == ["contact", "read", "converge", "read", "accept"]


def test_a_known_node_is_read_and_left_alone(provision: Provision, world: World) -> None:
    provision()
    world.jobs.clear()
    assert provision().exit_code == 0
    assert world.jobs == [("read", tuple(NODES))]


def test_a_reboot_voids_the_acceptance_and_nothing_else(provision: Provision, world: World) -> None:
    provision()
    world.jobs.clear()
    world.boot = "boot-2"
    assert provision().exit_code == 0
    assert [job for job, _ in world.jobs] == ["read", "accept"]


def test_only_what_does_not_hold_is_converged(provision: Provision, world: World) -> None:
    provision()
    world.jobs.clear()
    world.broken["gpu2"] = {"greet/sysctl:net.one"}
    result = provision()
    assert world.asked("converge") == ["gpu2"]
    assert [n.changed for n in result.nodes] == [(), ("greet: Converge",), ()]
    assert states(result)["gpu2"] == "joined"


def test_what_went_wrong_first_is_the_reason(provision: Provision, world: World) -> None:
    for errors, message in ((world.errors, "no such package"), (world.consequences, "no service")):
        errors["converge", "gpu1"] = {"type": "NodeFault", "message": message, "hint": ""}
    world.fresh = {"gpu1"}
    fault = next(node.fault for node in provision().nodes if node.name == "gpu1")
    assert fault is not None
    assert fault.message == "no such package"


def test_a_claim_that_will_not_hold_stops_its_node_alone(
    provision: Provision, world: World
) -> None:
    world.stubborn = {"greet/package:greet"}
    world.fresh = {"gpu1"}
    result = provision()
    found = {node.name: node.fault for node in result.nodes}
    assert found["gpu1"] is not None
    assert "greet/package:greet" in found["gpu1"].message
    assert states(result) == {"gpu1": "bootstrapped", "gpu2": "joined", "nas1": "joined"}
    assert result.exit_code == 1


def test_a_failed_proof_keeps_a_node_out_with_its_reason(
    provision: Provision, world: World
) -> None:
    world.bad_proof = {"gpu1"}
    result = provision()
    assert states(result) == {"gpu1": "quarantined", "gpu2": "joined", "nas1": "joined"}
    assert "it is quiet" in result.nodes[0].why
    assert result.exit_code == 2


@pytest.mark.parametrize("stage", ["contact", "read", "converge"])
def test_an_error_of_one_node_is_its_own(provision: Provision, world: World, stage: str) -> None:
    world.errors[stage, "gpu1"] = {"type": "Unreachable", "message": "no route", "hint": ""}
    result = provision()
    assert result.exit_code == 3
    assert states(result)["gpu2"] == "joined"
    assert result.nodes[0].fault is not None
    assert "gpu1" not in world.asked("accept")


@pytest.mark.parametrize("mute_from", ["read", "accept"])
def test_a_node_of_which_nothing_was_said_has_not_passed(
    provision: Provision, world: World, mute_from: str
) -> None:
    if mute_from == "accept":
        provision(to="converge")
    world.mute = {"gpu1"}
    result = provision()
    assert states(result)["gpu1"] != "joined"
    assert result.nodes[0].fault is not None
    assert result.exit_code == 1


def test_stages_can_be_stopped_at(provision: Provision, world: World) -> None:
    assert set(states(provision(to="reach")).values()) == {"bootstrapped"}
    assert set(states(provision(to="plan")).values()) == {"bootstrapped"}
    assert set(states(provision(to="converge")).values()) == {"converged"}
    assert set(states(provision(to="accept")).values()) == {"accepted"}
    assert set(states(provision()).values()) == {"joined"}


def test_only_a_role_that_is_known_can_be_asked_for(provision: Provision) -> None:
    with pytest.raises(BadInput, match="gret"):
        provision(only=("gret",))


def test_drift_names_what_does_not_hold_and_takes_the_node_out(
    provision: Provision, world: World, options: Options, tmp_path: Path
) -> None:
    provision()
    world.broken["gpu1"] = {"greet/file:/etc/greet.conf"}
    result = drift(options)
    assert unmet(result, "gpu1") == {"greet/file:/etc/greet.conf"}
    assert unmet(result, "gpu2") == set()
    assert states(result)["gpu1"] == "drifted"
    assert result.exit_code == 2
    members = (tmp_path / "state" / "sites" / "small" / "accepted.json").read_text()
    assert '"gpu1"' not in members
    assert '"gpu2"' in members


def test_drift_is_read_only(provision: Provision, world: World, options: Options) -> None:
    provision()
    world.jobs.clear()
    world.broken["gpu1"] = set(CLAIMS)
    drift(options)
    assert world.jobs == [("read", tuple(NODES))]


def test_fix_mends_only_what_drifted_and_lets_the_node_in_again_by_the_gates(
    provision: Provision, world: World, options: Options
) -> None:
    provision()
    world.jobs.clear()
    world.broken["gpu1"] = {"greet/sysctl:net.two"}
    result = drift(options, fix=True)
    assert result.exit_code == 0
    assert states(result)["gpu1"] == "joined"
    assert world.asked("converge") == world.asked("accept") == ["gpu1"]


def test_a_node_known_to_have_drifted_is_let_in_again_too(
    provision: Provision, world: World, options: Options
) -> None:
    provision()
    world.broken["gpu1"] = {"greet/sysctl:net.two"}
    assert states(drift(options))["gpu1"] == "drifted"
    world.jobs.clear()
    assert states(drift(options, fix=True))["gpu1"] == "joined"
    assert world.asked("accept") == ["gpu1"]


def test_a_node_that_was_never_accepted_is_mended_and_no_more(
    provision: Provision, world: World, options: Options
) -> None:
    provision(to="converge")
    world.broken["gpu1"] = {"greet/sysctl:net.two"}
    assert states(drift(options, fix=True))["gpu1"] == "converged"
    assert world.asked("accept") == []


def test_a_drifted_node_that_fails_its_gates_stays_out(
    provision: Provision, world: World, options: Options
) -> None:
    provision()
    world.broken["gpu1"] = {"greet/sysctl:net.two"}
    world.bad_proof = {"gpu1"}
    assert states(drift(options, fix=True))["gpu1"] == "quarantined"


def test_an_unreached_node_is_no_drift(
    provision: Provision, world: World, options: Options
) -> None:
    provision()
    world.errors["read", "nas1"] = {"type": "Unreachable", "message": "no route", "hint": ""}
    result = drift(options)
    assert result.exit_code == 3
    assert states(result) == dict.fromkeys(NODES, "joined")


def test_without_a_password_a_stranger_is_told_so(
    world: World, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NODEPREP_BOOTSTRAP_PASSWORD")
    (tmp_path / "state" / "sites" / "small" / "id_ed25519").unlink()
    result = pipeline.plan(options, lambda _: None, lambda: None)
    assert result.exit_code == 4
    assert all(node.fault and "no password" in node.fault.message for node in result.nodes)


def test_ctrl_c_has_a_last_word_and_the_next_run_goes_on(
    provision: Provision, world: World
) -> None:
    world.interrupt = "converge"
    with pytest.raises(Interrupted, match=r"stage converge: 3 bootstrapped.*same command again"):
        provision()
    world.interrupt = ""
    assert set(states(provision()).values()) == {"joined"}


def test_status_tells_it_all_without_a_node(
    provision: Provision, world: World, options: Options
) -> None:
    provision()
    world.jobs.clear()
    (found,) = pipeline.status(options)
    assert states(found) == dict.fromkeys(NODES, "joined")
    assert world.jobs == []


def test_a_retired_node_leaves_and_can_be_rented_anew(
    provision: Provision, world: World, options: Options
) -> None:
    provision()
    chosen = Options(**{**vars(options), "limit": "gpu1"})
    assert pipeline.retire(chosen, "went back") == ["gpu1"]
    (found,) = pipeline.status(options)
    assert states(found)["gpu1"] == State.RETIRED.value
    world.jobs.clear()
    assert set(states(provision()).values()) == {"joined"}
    assert world.asked("contact") == ["gpu1"]


def test_the_password_is_kept_nowhere(provision: Provision, tmp_path: Path) -> None:
    provision()
    kept = [p for p in (tmp_path / "state").rglob("*") if p.is_file()]
    assert len(kept) > 4
    assert not [p for p in kept if b"hunter22" in p.read_bytes()]
