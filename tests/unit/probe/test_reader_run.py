"""The reader as a whole: commands, deadlines, and that one failing part never takes others down."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeprep.model.claim import KINDS
from nodeprep.model.reading import NodeReading
from nodeprep.probe import reader
from tests.unit.probe.tree import DPKG, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def node(tree: Tree, **other: Any) -> reader.Node:
    return reader.Node(tree.request(system=True, **other))


def _ended(state: Path, patience_s: float = 10) -> bool:
    """A killed process takes a moment to go on a busy machine."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        try:
            if state.read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


class TestOutput:
    def test_what_a_command_prints(self, tree: Tree) -> None:
        tree.tool("tool", "a\n", rc=3, err="b")
        assert tree.data("output", "x", argv=["tool"]) == {"rc": 3, "text": "a\nb"}

    def test_what_it_says_last_is_not_lost(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a slow machine a tool may speak and end right after a poll that saw nothing."""
        tree.tool("tool", sh="/bin/sleep 0.2; echo said")
        real = select.poll

        class Slow:
            def __init__(self) -> None:
                self.inner, self.first = real(), True
                self.register, self.unregister = self.inner.register, self.inner.unregister

            def poll(self, milliseconds: float) -> list[tuple[int, int]]:
                if self.first:
                    self.first = False
                    time.sleep(0.6)
                    return []
                return self.inner.poll(milliseconds)

        monkeypatch.setattr(select, "poll", Slow)
        assert tree.data("output", "x", argv=["tool"])["text"] == "said\n"

    def test_escape_codes_are_removed_and_lines_stay(self, tree: Tree) -> None:
        tree.tool("tool", "\x1b[1;31mred\x1b[0m\r\n\x1b]0;title\x07two\tx\x00\n")
        assert tree.data("output", "x", argv=["tool"])["text"] == "red\ntwo\tx\n"

    def test_megabytes_are_cut(self, tree: Tree) -> None:
        tree.tool("tool", sh="exec /usr/bin/yes abcdefg | /usr/bin/head -c 3000000")
        text = tree.data("output", "x", argv=["tool"])["text"]
        assert len(text) == reader.TEXT_LIMIT

    def test_no_such_tool_is_an_error(self, tree: Tree) -> None:
        assert tree.error("output", "x", argv=["no-such-tool"]) == "no-such-tool: not found"

    def test_a_tool_that_may_not_run_is_an_error(self, tree: Tree) -> None:
        tree.tool("tool")
        (tree.bin / "tool").chmod(0o644)
        assert "tool: " in tree.error("output", "x", argv=["tool"])

    def test_a_slow_tool_is_an_error_and_is_ended(self, tree: Tree) -> None:
        tree.tool("tool", sh=f"echo $$ > {tree.path('/pid')}; echo some; exec /bin/sleep 60")
        assert tree.error("output", "x", argv=["tool"], timeout_s=1) == "tool: no answer within 1 s"
        pid = int(tree.path("/pid").read_text())
        assert not Path(f"/proc/{pid}").exists()

    def test_its_children_are_ended_too(self, tree: Tree) -> None:
        tree.tool("tool", sh=f"/bin/sleep 60 & echo $! > {tree.path('/pid')}; wait")
        tree.error("output", "x", argv=["tool"], timeout_s=1)
        pid = int(tree.path("/pid").read_text())
        assert _ended(Path(f"/proc/{pid}/stat"))

    def test_a_daemon_that_keeps_the_output_open_is_not_waited_for(self, tree: Tree) -> None:
        pid = tree.path("/pid")
        tree.tool("tool", sh=f"/bin/sleep 30 & echo $! > {pid}; echo done")
        began = time.monotonic()
        assert tree.data("output", "x", argv=["tool"])["text"] == "done\n"
        assert time.monotonic() - began < 20
        subprocess.run(["/bin/kill", pid.read_text().strip()], check=False)

    def test_what_it_wrote_just_before_its_end_is_read(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Late:
            """Sees nothing at first, and looks again when the tool has written and ended."""

            def __init__(self, poll: Callable[[], Any] = select.poll) -> None:
                self._poll, self._slept = poll(), False
                self.register, self.unregister = self._poll.register, self._poll.unregister

            def poll(self, timeout: float) -> Any:
                if self._slept:
                    return self._poll.poll(timeout)
                time.sleep(0.5)
                self._slept = True
                return []

        tree.tool("tool", sh="echo done")
        monkeypatch.setattr(select, "poll", Late)
        assert reader.run(node(tree), ["tool"], 10)[1] == "done\n"

    def test_it_gets_no_input_and_a_clean_environment(self, tree: Tree) -> None:
        tree.tool("tool", sh="/bin/cat; echo $LC_ALL $HOME $TERM")
        assert tree.data("output", "x", argv=["tool"])["text"] == "C /root dumb\n"


def test_a_failing_tool_says_why(tree: Tree) -> None:
    tree.tool("tool", "", rc=2, err="tool: no permission")
    with pytest.raises(reader.Failed, match="tool: exit status 2: tool: no permission"):
        reader.tool(node(tree), ["tool"], 5)


def test_one_that_prints_nothing_has_failed(tree: Tree) -> None:
    tree.tool("tool", " \n")
    with pytest.raises(reader.Failed, match="tool printed nothing"):
        reader.tool(node(tree), ["tool"], 5)


class TestWhole:
    CLAIMS = (
        {"kind": "file", "name": "/etc/x", "sha256": "0"},
        {"kind": "package", "name": "jq"},
        {"kind": "output", "name": "o", "argv": ["echo", "hi"]},
        {"kind": "sysctl", "name": "vm.swappiness"},
    )

    def test_the_answer_is_a_node_reading(self, tree: Tree) -> None:
        tree.write("/etc/os-release", 'ID=ubuntu\nVERSION_ID="22.04"\n')
        found = NodeReading.model_validate(tree.read(*self.CLAIMS, hardware=True))
        assert found.node == "gpu-01"
        assert (found.host.os_id, found.host.os_version) == ("ubuntu", "22.04")
        assert found.host.kernel
        assert found.host.clock > 0
        assert set(found.readings) == {f"r/{c['kind']}:{c['name']}" for c in self.CLAIMS}
        assert found.hardware is not None

    def test_no_claims_no_readings(self, tree: Tree) -> None:
        found = NodeReading.model_validate(tree.read())
        assert found.readings == {}
        assert found.hardware is None

    def test_every_kind_is_known(self, tree: Tree) -> None:
        known = set(reader._ONE) | set(reader._MANY)
        assert known == set(KINDS)
        assert "knows no claim" in tree.error("poem", "x")

    def test_one_failure_takes_no_other_down(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setitem(reader._ONE, "file", broken)
        monkeypatch.setitem(reader._PARTS, "cpu", (broken, ("lscpu",)))
        tree.tool("dpkg-query", DPKG)
        found = NodeReading.model_validate(tree.read(*self.CLAIMS, hardware=True))
        assert found.readings["r/file:/etc/x"].error == "RuntimeError: a bug"
        assert found.readings["r/package:jq"].error == ""
        assert found.hardware is not None
        assert found.hardware.errors["cpu"] == "RuntimeError: a bug"
        assert found.hardware.memory_kib

    def test_after_the_deadline_it_answers_with_what_it_has(self, tree: Tree) -> None:
        tree.write("/etc/x", "a")
        tree.tool("dpkg-query", sh="exec /bin/sleep 60")
        tree.tool("lscpu", sh="exec /bin/sleep 60")
        answer = tree.read(*self.CLAIMS, hardware=True, deadline_s=1.0)
        found = NodeReading.model_validate(answer)
        assert found.readings["r/file:/etc/x"].data["exists"]
        assert found.readings["r/package:jq"].error
        assert found.hardware is not None
        assert found.hardware.cpu is None
        assert found.hardware.errors["cpu"]
        assert found.seconds < 30

    def test_what_hangs_in_the_kernel_is_left_behind(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def hang(*_: object) -> None:
            time.sleep(60)

        monkeypatch.setitem(reader._ONE, "file", hang)
        found = NodeReading.model_validate(tree.read(*self.CLAIMS, deadline_s=0.5))
        assert found.readings["r/file:/etc/x"].error == "not read within 0.5 s"
        assert found.readings["r/sysctl:vm.swappiness"].error == ""

    def test_what_is_shared_is_read_once_even_when_it_fails(self, tree: Tree) -> None:
        calls = []

        def shared(_: reader.Node) -> None:
            calls.append(1)
            raise reader.Failed("no")

        here = node(tree)
        for _ in range(3):
            with pytest.raises(reader.Failed, match="no"):
                here.once(shared)
        assert calls == [1]


def test_the_reader_needs_the_standard_library_alone() -> None:
    text = Path(reader.__file__).read_text(encoding="utf-8")
    imported = {line.split()[1].split(".")[0] for line in text.splitlines()
                if line.lstrip().startswith(("import ", "from "))}  # fmt: skip
    assert imported <= {"__future__", "hashlib", "json", "os", "re", "select", "signal", "stat",
                        "subprocess", "sys", "threading", "time", "zlib", "typing", "fnmatch",
                        "xml"}  # fmt: skip
