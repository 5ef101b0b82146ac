"""A server that is only a board: read, judged and accepted as a node would be, in this process.

The stand-ins answer without a process of their own, so that a whole acceptance takes a moment.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodeprep.accept.proof import PATH
from nodeprep.judge.claims import judge_document
from nodeprep.judge.hardware import compare
from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import boot, main
from nodeprep.lab.sim.faults import CATALOGUE
from nodeprep.model.claim import Gpu
from nodeprep.model.hardware import Hardware
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile
from nodeprep.model.reading import NodeReading
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.probe import reader
from tests.unit.accept.nodes import (
    DRIVER,
    SIM,
    Answer,
    FakeNode,
    Outcomes,
    accepted,
    document,
    job,
    stand_ins,
)
from tests.unit.accept.test_role_proofs import CLAIMS, GOOD

ROLES = ("base", "nvidia_driver", "nccl", "gdrcopy", "gpu_tools")
TOOLS = ("lscpu", "lsblk", "lspci", "dmidecode", "ethtool", "nvidia-smi")
SETTINGS = ("driver_version", "persistence_mode", "mig_mode", "ecc_mode", "power_limit_w")
PLAIN = re.compile(r"[\w./:=@,+ -]+")
ELSE = re.compile(r"^(ethtool [\w -]+) 2>/dev/null \|\|")
LOADED = re.compile(r"^(all_reduce_perf [^>&]*).*kill -0 \$load", re.DOTALL)
_LOCK = threading.Lock()


@dataclass
class Server(FakeNode):
    """Answers like a node: what is canned, then the stand-ins, then the shell."""

    model: str = "a100-sxm4-40g-x4"
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        assert self.sim
        return self.sim

    @property
    def board(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "board.json").read_text())
        return found

    def write(self, board: Mapping[str, Any]) -> None:
        (self.folder / "board.json").write_text(json.dumps(board))

    def run(self, command: str, *, sudo: bool, timeout_s: float) -> Answer:
        self.ran.append((command, sudo, timeout_s))
        for pattern, answer in self.answers.items():
            if re.search(pattern, command):
                return answer
        settings, argv = _words(command)
        if argv[:2] == ["sh", "-c"] and (load := LOADED.match(argv[2])):
            return self._under_load(load.group(1).split(), settings)
        if argv[:2] == ["sh", "-c"] and (first := ELSE.match(argv[2])):
            answer = self.tool(first.group(1).split(), settings)
            return answer if not answer.rc else self._shell(command)
        if argv[:2] == ["sh", "-c"] and PLAIN.fullmatch(argv[2]):
            argv = argv[2].split()
        if argv[0] in main.HARDWARE or argv[0] in main.PACKAGED:
            return self.tool(argv, settings)
        return self._shell(command)

    def _shell(self, command: str) -> Answer:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        env = {"PATH": path, **stand_ins(self.folder)}
        line = command.replace(f"PATH={PATH}", f"PATH={path}")
        done = subprocess.run(
            line, shell=True, env=env, capture_output=True, text=True, timeout=30, check=False
        )
        return Answer(done.stdout, done.returncode, done.stderr)

    def _under_load(self, load: list[str], settings: Mapping[str, str]) -> Answer:
        done = self.tool(load, settings)
        if done.rc or done.timed_out:
            return Answer(rc=done.rc, timed_out=done.timed_out)
        return self.tool(["nvidia-smi", "-q", "-x"], settings)

    def tool(self, argv: Sequence[str], settings: Mapping[str, str]) -> Answer:
        """A stand-in's answer; one that would hang or die does so in words."""
        mode = self.board["tools"].get(argv[0], {}).get("mode")
        if mode == "hangs":
            return Answer(rc=124, timed_out=True)
        if mode == "dies":
            return Answer(rc=139)
        with _LOCK, _environment({**settings, "NODEPREP_SIM_BOARD": f"{self.folder}/board.json"}):
            result = main.answer(argv[0], list(argv[1:]))
        return Answer(result.out, result.rc, result.err)


def _words(command: str) -> tuple[dict[str, str], list[str]]:
    words = shlex.split(command)
    settings: dict[str, str] = {}
    if words[0] == "env":
        words = words[1:]
        while words and re.match(r"\w+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            settings[name] = value
    return {k: v for k, v in settings.items() if k != "PATH"}, words


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def server(
    folder: Path, model: str = "a100-sxm4-40g-x4", versions: Mapping[str, str] | None = None
) -> Server:
    """A healthy one, converged: its driver loaded, its settings made, its services running."""
    (folder / "bin").mkdir(parents=True)
    for name in (*main.HARDWARE, *main.PACKAGED):
        (folder / "bin" / name).symlink_to(SIM)
    answers = {key: value for key, value in GOOD.items() if key != "journalctl"}
    answers[r"date \+"] = Answer(f"{time.time():.0f}\n")
    one = Server(answers=answers, sim=folder, model=model)
    board = boards.new(model, "test")
    boot.settle(board)
    for gpu in board["gpus"]:
        gpu["persistence"] = True
    if board["nvswitches"]:
        board["fabric_manager"].update(running=DRIVER, version=DRIVER)
    board["nccl"]["interface"] = "ens5f0"  # what /etc/nccl.conf says on a node
    one.write(board)
    driver = dict(versions or {}).pop("driver", DRIVER)
    parts = dict.fromkeys(("library", "kernel", "loaded"), driver)
    parts |= {"cuda": "12.1.1", "nccl": "2.16.5", "gdrdrv": "2.4.1", "gdrcopy": "2.4.1"}
    parts |= {"libgdrapi": "2.4.1", "nccl-tests": "2.13.9", "nvbandwidth": "0.8", "dcgm": "3.3.5"}
    parts |= {key: value for key, value in (versions or {}).items() if key != "driver"}
    one.parts = parts
    (folder / "installed.json").write_text(json.dumps(parts))
    return one


def inject(one: Server, fault: str, **args: Any) -> None:
    one.write(CATALOGUE[fault].apply(one.board, **args))


def read(one: Server, monkeypatch: Any) -> NodeReading:
    """What the reader brings back from it: hardware, and the settings of its GPUs."""

    def run(node: Any, argv: list[str], timeout: float, *_: Any, **__: Any) -> Any:
        if argv[0] not in main.HARDWARE and argv[0] not in main.PACKAGED:
            raise reader.Failed(f"{argv[0]}: not found")
        answer = one.tool(argv, {})
        if answer.timed_out:
            raise reader.Failed(f"{argv[0]}: no answer within {timeout:g} s")
        return answer.rc, answer.stdout, answer.stderr

    monkeypatch.setattr(reader, "run", run)
    root = one.folder / "root"
    for nic in one.board["nics"]:
        net = root / "sys/class/net" / nic["name"]
        net.mkdir(parents=True, exist_ok=True)
        (net / "mtu").write_text("1500\n")
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc/meminfo").write_text("MemTotal:       527000000 kB\n")
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/nodeprep-simulated").write_text("\n".join(TOOLS) + "\n")
    claims = [{"id": f"nvidia_driver/gpu:{name}", "kind": "gpu", "name": name} for name in SETTINGS]
    request = {"node": "gpu1", "claims": claims, "hardware": True, "root": str(root)}
    answer = json.loads(json.dumps(reader.read(request)))
    answer["hardware"] = Hardware.model_validate(answer["hardware"]).model_dump(mode="json")
    return NodeReading.model_validate(answer)


def judged(
    one: Server,
    profile: Profile,
    monkeypatch: Any,
    driver: str = DRIVER,
    roles: Sequence[str] = ROLES,
    level: str = "poc",
) -> Outcomes:
    """The whole acceptance: hardware, claims on the GPUs' settings, proofs of the board's roles."""
    reading = read(one, monkeypatch)
    wanted = _document(profile, driver, roles)
    verdicts = (
        *compare(profile, reading.hardware, simulated=True, driver=True),
        *judge_document(wanted, reading, dt.datetime.now(dt.UTC).date()),
    )
    wanted = wanted.model_copy(update={"claims": (*wanted.claims, *CLAIMS)})
    return accepted(job(wanted, reading=reading, claims=verdicts, level=level), one)


def _document(profile: Profile, driver: str, roles: Sequence[str]) -> Document:
    assert profile.parts.gpus
    wanted = (driver, True, False, True, int(profile.parts.gpus.power_limit_w))
    values: dict[str, Any] = dict(zip(SETTINGS, wanted, strict=True))
    claims = [Gpu(role="nvidia_driver", name=name, value=value) for name, value in values.items()]
    return document(*roles, on=profile, claims=claims)


def red(outcomes: Outcomes) -> dict[str, Verdict]:
    """What blocks, by claim; a proof by its name alone."""
    return {
        claim.rpartition("/proof:")[2]: found
        for claim, found in outcomes.verdicts.items()
        if found.verdict.blocks
    }


def passed(outcomes: Outcomes) -> set[str]:
    return {claim for claim, v in outcomes.verdicts.items() if v.verdict is Outcome.PASS}
