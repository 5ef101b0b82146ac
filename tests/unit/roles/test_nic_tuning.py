"""The program of the role nic_tuning that sets an interface, and finds the way back."""

from __future__ import annotations

import copy
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.judge.claims import judge
from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import ethtool
from nodeprep.lab.sim.result import Usage
from nodeprep.model.claim import CLAIM, FEATURES
from nodeprep.model.reading import Reading
from nodeprep.model.verdict import Outcome
from nodeprep.probe import reader

ROLE = Path(__file__).parents[3] / "roles" / "nic_tuning"
PROGRAM = ROLE / "templates" / "usr" / "local" / "sbin" / "nodeprep-nic.j2"
TEXTS = Path(__file__).parents[2] / "data" / "ethtool"
WANTED = {
    "channels": {"combined": "max"},
    "rings": {"rx": 4096},
    "coalesce": {"rx-usecs": 80},
    "features": {"gro": True},
    "where_offered": True,
    "interrupts": False,
}


def load(path: Path, name: str) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


nic: Any = load(PROGRAM, "nodeprep_nic")
filters: Any = load(ROLE / "filter_plugins" / "nic_tuning.py", "nic_tuning_filters")


class Machine:
    """ens5f0 with the lab's simulated driver; systemd is remembered, not asked."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.board = boards.new(seed="nic")
        self.units: list[list[str]] = []
        self.refuse = ""
        self.kills_link: Callable[[dict[str, Any]], bool] = lambda _: False
        for name in ("WANTED", "KEPT", "RUN", "NET", "CPU", "NODE"):
            patch.setattr(nic, name, folder / name)
        self.net = folder / "NET" / "ens5f0"
        self.net.mkdir(parents=True)
        self.write(self.net / "mtu", "1500")
        self.write(self.net / "carrier", "1")
        self.write(folder / "CPU" / "online", "0-3")
        patch.setattr(nic, "run", self.run)
        patch.setattr(nic, "LINK_S", 0.0)
        patch.setattr(nic.link_back, "__defaults__", (0.0,))
        patch.setattr(nic, "APPEARS_S", 0.0)
        self.want(WANTED)

    @staticmethod
    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def want(self, wanted: dict[str, Any]) -> None:
        self.write(nic.WANTED / "ens5f0.json", json.dumps(wanted))

    @property
    def card(self) -> dict[str, Any]:
        found: dict[str, Any] = self.board["nics"][0]
        return found

    def run(self, *argv: str, timeout: float = 20) -> tuple[int, str]:
        if argv[0] in ("systemctl", "systemd-run"):
            self.units.append(list(argv))
            return 0, ""
        if argv[0] == "ip":
            self.write(self.net / "mtu", argv[-1])
            return 0, ""
        if self.refuse and self.refuse in argv:
            return 1, "netlink error: Operation not supported\n"
        try:
            answer = ethtool.run(list(argv[1:]), self.board)
        except Usage as usage:
            answer = usage.result
        self.write(self.net / "carrier", "0" if self.kills_link(self.card) else "1")
        return answer.rc, answer.out + answer.err

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((nic.RUN / "ens5f0.json").read_text())
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def as_wanted(machine: Machine) -> bool:
    card = machine.card
    return (card["channels"]["combined"], card["rings"]["rx"], card["coalesce"]["rx-usecs"]) == (
        4, 4096, 80,
    )  # fmt: skip


class TestTry:
    def test_what_was_confirmed_stays_and_may_be_applied_at_boot(self, machine: Machine) -> None:
        state = nic.main(["try", "ens5f0", "60"])
        assert state["before"] == {
            "channels.combined": 63,
            "rings.rx": 512,
            "coalesce.rx-usecs": 1,
        }
        assert "rings.rx 512 -> 4096" in state["change"]
        runs = [argv for argv in machine.units if argv[0] == "systemd-run"]
        assert "--on-active=60" in runs[0], "the way back is armed before anything is set"
        assert runs[0][-2:] == ["revert", "ens5f0"]
        assert runs[1][-2:] == ["apply", "ens5f0"]
        assert not as_wanted(machine)
        nic.main(["apply", "ens5f0"])
        assert as_wanted(machine)
        assert nic.main(["proven", "ens5f0"]) == "not proven"
        assert nic.main(["confirm", "ens5f0"])["state"] == "confirmed"
        assert machine.units[-1][:2] == ["systemctl", "stop"]
        assert nic.main(["proven", "ens5f0"]) == "proven"
        nic.main(["revert", "ens5f0"])  # a timer that fires late
        assert as_wanted(machine)

    def test_nobody_confirms(self, machine: Machine) -> None:
        before = copy.deepcopy(machine.card)
        nic.main(["try", "ens5f0", "60"])
        nic.main(["apply", "ens5f0"])
        nic.main(["revert", "ens5f0"])
        assert machine.card["rings"] == before["rings"]
        assert machine.card["channels"] == before["channels"]
        assert machine.card["coalesce"] == before["coalesce"]
        assert machine.state()["state"] == "reverted"
        with pytest.raises(nic.Failed, match=r"reverted .*rings.rx 512 -> 4096.*nobody confirmed"):
            nic.main(["confirm", "ens5f0"])
        assert nic.main(["proven", "ens5f0"]) == "not proven"
        assert not (nic.WANTED / "ens5f0.json").exists(), "not tried again at boot"
        assert (nic.WANTED / "ens5f0.json.reverted").exists()
        assert nic.main(["boot", "ens5f0"]).startswith("not proven")

    def test_a_link_that_stays_away_is_taken_back_though_somebody_got_through(
        self, machine: Machine
    ) -> None:
        machine.kills_link = lambda card: bool(card["rings"]["rx"] > 512)
        nic.main(["try", "ens5f0", "60"])
        nic.main(["apply", "ens5f0"])
        with pytest.raises(nic.Failed, match="the link did not come back"):
            nic.main(["confirm", "ens5f0"])
        assert machine.card["rings"]["rx"] == 512
        assert nic.carrier("ens5f0")

    def test_without_a_link_before_none_is_asked_for(self, machine: Machine) -> None:
        machine.kills_link = lambda _: True
        machine.write(machine.net / "carrier", "0")
        nic.main(["try", "ens5f0", "60"])
        nic.main(["apply", "ens5f0"])
        assert nic.main(["confirm", "ens5f0"])["state"] == "confirmed"

    def test_a_driver_that_refuses(self, machine: Machine) -> None:
        machine.refuse = "-C"
        nic.main(["try", "ens5f0", "60"])
        nic.main(["apply", "ens5f0"])
        with pytest.raises(nic.Failed, match=r"ethtool -C ens5f0 rx-usecs 80: .*not supported"):
            nic.main(["confirm", "ens5f0"])
        assert machine.card["rings"]["rx"] == 512, "what was set before it is taken back too"

    def test_what_cannot_be_is_refused_before_anything_is_set(self, machine: Machine) -> None:
        machine.want({**WANTED, "rings": {"rx": 100_000}})
        with pytest.raises(nic.Failed, match="100000 is wanted, the driver offers 4096"):
            nic.main(["try", "ens5f0", "60"])
        assert machine.units == []
        machine.want({**WANTED, "features": {"no-such": True}})
        with pytest.raises(nic.Failed, match="does not tell of it"):
            nic.main(["try", "ens5f0", "60"])

    def test_confirmed_before_it_was_applied_is_no_proof(self, machine: Machine) -> None:
        nic.main(["try", "ens5f0", "60"])
        with pytest.raises(nic.Failed, match="not applied in time"):
            nic.main(["confirm", "ens5f0"])
        nic.main(["apply", "ens5f0"])
        assert not as_wanted(machine)

    def test_a_run_that_was_cut_off_does_not_become_the_value_before(
        self, machine: Machine
    ) -> None:
        nic.main(["try", "ens5f0", "60"])
        nic.main(["apply", "ens5f0"])
        assert nic.main(["differ", "ens5f0"]) == {
            "change": "",
            "impossible": "",
            "missing": "",
            "pending": True,
        }
        assert nic.main(["try", "ens5f0", "60"])["before"]["rings.rx"] == 512
        nic.main(["revert", "ens5f0"])
        assert machine.card["rings"]["rx"] == 512

    def test_the_mtu(self, machine: Machine) -> None:
        machine.want({"mtu": 9000})
        nic.main(["try", "ens5f0", "60"])
        nic.main(["apply", "ens5f0"])
        assert (machine.net / "mtu").read_text() == "9000"
        nic.main(["revert", "ens5f0"])
        assert (machine.net / "mtu").read_text() == "1500"

    def test_a_driver_that_forgets_the_rest_is_told_twice(self, machine: Machine) -> None:
        machine.card["coalesce"]["rx-usecs"] = 80
        whole = machine.run
        done: list[tuple[str, ...]] = []

        def forgets(*argv: str, timeout: float = 20) -> tuple[int, str]:
            answer = whole(*argv)
            if "-G" in argv and not done:
                done.append(argv)
                machine.card["coalesce"]["rx-usecs"] = 1
            return answer

        nic.run = forgets
        nic.apply("ens5f0", WANTED)
        assert as_wanted(machine)


class TestBoot:
    def proven(self, machine: Machine) -> None:
        nic.apply("ens5f0", WANTED)
        nic.main(["prove", "ens5f0"])
        machine.board["nics"] = boards.new(seed="nic")["nics"]  # the driver is loaded anew

    def test_what_was_proven_is_applied(self, machine: Machine) -> None:
        self.proven(machine)
        assert "rings.rx 512 -> 4096" in nic.main(["boot", "ens5f0"])
        assert as_wanted(machine)
        assert nic.main(["boot", "ens5f0"]) == "nothing to set"

    def test_another_file_than_was_proven_is_not(self, machine: Machine) -> None:
        self.proven(machine)
        machine.want({**WANTED, "rings": {"rx": 2048}})
        assert nic.main(["boot", "ens5f0"]) == "not proven: nothing is applied"
        assert machine.card["rings"]["rx"] == 512

    def test_a_link_that_is_lost_takes_it_back(self, machine: Machine) -> None:
        self.proven(machine)
        machine.kills_link = lambda card: bool(card["rings"]["rx"] > 512)
        with pytest.raises(nic.Failed, match="link"):
            nic.main(["boot", "ens5f0"])
        assert (machine.card["rings"]["rx"], machine.card["channels"]["combined"]) == (512, 63)

    def test_what_is_not_in_force_cannot_be_proven(self, machine: Machine) -> None:
        with pytest.raises(nic.Failed, match="512 -> 4096"):
            nic.main(["prove", "ens5f0"])
        assert nic.main(["proven", "ens5f0"]) == "not proven"

    def test_no_interface(self, machine: Machine) -> None:
        with pytest.raises(nic.Failed, match="no such interface"):
            nic.main(["boot", "ens9"])
        with pytest.raises(nic.Failed, match="no interface's name"):
            nic.main(["boot", "../../etc"])

    def test_the_values_before_the_very_first_change_come_back(self, machine: Machine) -> None:
        for size in (1024, 4096):
            machine.want({"rings": {"rx": size}})
            nic.main(["try", "ens5f0", "60"])
            nic.main(["apply", "ens5f0"])
            nic.main(["confirm", "ens5f0"])
        nic.main(["restore", "ens5f0"])
        assert machine.card["rings"]["rx"] == 512
        assert nic.main(["proven", "ens5f0"]) == "not proven"


class TestAgreement:
    """The program stands alone on a node, and so do the reader and the model: they must agree."""

    @pytest.mark.parametrize("path", sorted(TEXTS.glob("*.txt")), ids=lambda path: path.stem)
    def test_with_the_reader_on_real_texts(self, path: Path) -> None:
        group = path.stem.partition("-")[2]
        assert nic.parse(group, path.read_text()) == reader.parse_nic(group, path.read_text())

    @given(st.sampled_from(sorted(nic.SHOW)), st.text() | st.sampled_from(
        [path.read_text() for path in sorted(TEXTS.glob("*.txt"))]))  # fmt: skip
    def test_with_the_reader_on_any_text(self, group: str, text: str) -> None:
        try:
            theirs: Any = reader.parse_nic(group, text)
        except reader.Failed:
            theirs = None
        try:
            ours: Any = nic.parse(group, text)
        except nic.Failed:
            ours = None
        assert ours == theirs

    def test_on_names(self) -> None:
        assert nic.FEATURES == FEATURES
        assert nic.QUEUE.pattern == reader._QUEUE.pattern
        assert nic.WAYS == reader._WAYS

    VALUE = st.sampled_from([True, False, 0, 1, 80, 512, 4096, "max"])

    @given(
        now=st.none() | st.booleans() | st.integers(0, 5000),
        most=st.none() | st.integers(0, 5000),
        offered=st.booleans(),
        wanted=VALUE,
        where=st.booleans(),
    )
    def test_with_the_judge_on_what_differs(
        self, now: Any, most: Any, offered: bool, wanted: Any, where: bool
    ) -> None:
        group = "features" if isinstance(wanted, bool) else "rings" if wanted else "coalesce"
        name = f"{group}.x"
        claim = {"kind": "nic", "name": "n", group: {"x": wanted}, "mtu": 1500}
        found = {
            name: {"now": now, "max": most, "offered": offered},
            "mtu": {"now": 1500, "max": None, "offered": True},
        }
        verdict = judge(
            CLAIM.validate_python({**claim, "where_offered": where}),
            Reading(
                data={"exists": True, "driver": "d", "settings": found, "not_supported": [],
                      "errors": {}, "cores": 2}
            ),
        ).verdict  # fmt: skip
        differ, impossible, _ = nic.compare({**claim, "where_offered": where}, found, [], 2)
        assert (verdict is Outcome.PASS) == (not differ and not impossible)


@given(
    queues=st.integers(1, 70),
    cores=st.integers(1, 40),
    threads=st.integers(1, 2),
    apart=st.booleans(),
)
def test_every_plan_passes_the_judge(queues: int, cores: int, threads: int, apart: bool) -> None:
    near = [[core, core + 100][:threads] for core in range(cores)]
    ways = ("rx", "tx") if apart else ("both",)
    interrupts = [
        (1000 + index * len(ways) + place, way, index)
        for index in range(queues)
        for place, way in enumerate(ways)
    ]
    placed, order = nic.plan(interrupts, near)
    counts = [sum(placed[irq] == core[0] for irq, way, _ in interrupts if way == ways[0])
              for core in near]  # fmt: skip
    assert max(counts) - min(counts) <= 1
    data = {
        "exists": True,
        "numa_node": 0,
        "cores": near,
        "queues": [
            {"irq": irq, "name": f"q-{index}", "way": way, "index": index, "cpus": [placed[irq]]}
            for irq, way, index in interrupts
        ],
        "xps": [[order[number]] for number in range(queues)],
    }
    claim = CLAIM.validate_python({"kind": "interrupts", "name": "n"})
    assert judge(claim, Reading(data=data)).verdict is Outcome.PASS
    # The sabotaged twins: one queue far away, and all on one core.
    far = copy.deepcopy(data)
    far["queues"][-1]["cpus"] = [999]  # type: ignore[index]
    assert judge(claim, Reading(data=far)).verdict is Outcome.FAIL
    if queues > 1 and cores > 1:
        heap = [{**one, "cpus": near[0][:1]} for one in data["queues"]]  # type: ignore[attr-defined]
        assert judge(claim, Reading(data={**data, "queues": heap})).verdict is Outcome.FAIL


@given(st.integers(0, 300))
def test_a_mask_is_what_the_kernel_reads(cpu: int) -> None:
    text = nic.masked(cpu)
    assert reader.cpu_mask(text) == [cpu]
    assert all(len(group) == 8 for group in text.split(","))


def test_interrupts_are_placed(machine: Machine, tmp_path: Path,
                               monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    device = tmp_path / "devices" / "0000:05:00.0"
    irqs = tmp_path / "irq"
    for irq in (40, 41):
        machine.write(device / "msi_irqs" / str(irq), "msix")
        machine.write(irqs / str(irq) / "smp_affinity_list", "0-3")
        machine.write(machine.net / "queues" / f"tx-{irq - 40}" / "xps_cpus", "0")
    machine.write(device / "local_cpulist", "2-3")
    (machine.net / "device").symlink_to(device)
    table = tmp_path / "interrupts"
    table.write_text("  CPU0\n 40: 1 PCI-MSI 1 ens5f0-TxRx-0\n 41: 1 PCI-MSI 2 ens5f0-TxRx-1\n")
    monkeypatch.setattr(nic, "IRQ", irqs)
    monkeypatch.setattr(nic, "INTERRUPTS", table)
    assert "smp_affinity_list: 2" in nic.main(["affinity", "ens5f0", "check"])["change"]
    assert (irqs / "40" / "smp_affinity_list").read_text() == "0-3", "check sets nothing"
    nic.main(["affinity", "ens5f0"])
    assert (irqs / "40" / "smp_affinity_list").read_text() == "2"
    assert (irqs / "41" / "smp_affinity_list").read_text() == "3"
    assert (machine.net / "queues" / "tx-1" / "xps_cpus").read_text() == "00000008"
    assert nic.main(["affinity", "ens5f0"]) == {"change": ""}


class TestFilters:
    EVERY = {"channels": {"combined": "max"}, "rings": {}, "mtu": 0}

    def test_an_interfaces_own_settings_win(self) -> None:
        own = {"b": {"channels": {"combined": 4}, "rings": {"rx": 512}, "mtu": 9000}}
        assert filters.wanted(["a", "b"], self.EVERY, own) == [
            {"name": "a", "channels": {"combined": "max"}},
            {"name": "b", "channels": {"combined": 4}, "rings": {"rx": 512}, "mtu": 9000},
        ]

    def test_null_takes_a_setting_out_and_nothing_left_is_no_claim(self) -> None:
        own = {"a": {"channels": {"combined": None}}}
        assert filters.wanted(["a"], self.EVERY, own) == []

    def test_the_file_is_what_the_program_reads(self) -> None:
        (file,) = filters.files(filters.wanted(["a"], self.EVERY, {}), True, False, True)
        assert file["name"] == "/etc/nodeprep/nic/a.json"
        assert nic.settings(json.loads(file["content"])) == {"channels.combined": "max"}


def test_the_program_is_a_template_without_templates() -> None:
    text = PROGRAM.read_text()
    assert not any(mark in text for mark in ("{{", "{%", "{#"))
