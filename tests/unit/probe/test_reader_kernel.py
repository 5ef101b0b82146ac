"""How the reader reads kernel parameters, modules and governors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.probe.tree import Tree

KEY = "net.core.rmem_max"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


class TestSysctl:
    def test_running_and_persisted_apart(self, tree: Tree) -> None:
        tree.write("/proc/sys/net/core/rmem_max", "212992\n")
        tree.write("/etc/sysctl.d/90-x.conf", "# c\n; c\n net.core.rmem_max =  536870912 \n")
        assert tree.data("sysctl", KEY) == {
            "running": "212992",
            "persisted": "536870912",
            "persisted_in": "/etc/sysctl.d/90-x.conf",
        }

    def test_neither(self, tree: Tree) -> None:
        data = tree.data("sysctl", KEY)
        assert (data["running"], data["persisted"]) == (None, None)

    def test_the_last_file_by_name_wins_whatever_its_folder(self, tree: Tree) -> None:
        tree.write("/etc/sysctl.d/10-x.conf", f"{KEY}=1\n")
        tree.write("/usr/lib/sysctl.d/99-x.conf", f"{KEY}=2\n")
        data = tree.data("sysctl", KEY)
        assert (data["persisted"], data["persisted_in"]) == ("2", "/usr/lib/sysctl.d/99-x.conf")

    def test_of_one_name_etc_wins(self, tree: Tree) -> None:
        for folder, value in (("/etc", 1), ("/run", 2), ("/usr/local/lib", 3), ("/lib", 4)):
            tree.write(f"{folder}/sysctl.d/50-x.conf", f"{KEY}={value}\n")
        assert tree.data("sysctl", KEY)["persisted"] == "1"

    def test_a_file_that_is_masked(self, tree: Tree) -> None:
        tree.write("/usr/lib/sysctl.d/50-x.conf", f"{KEY}=4\n")
        tree.link("/etc/sysctl.d/50-x.conf", "/dev/null")
        assert tree.data("sysctl", KEY)["persisted"] is None

    def test_sysctl_conf_counts_only_where_it_is_linked(self, tree: Tree) -> None:
        tree.write("/etc/sysctl.conf", f"{KEY}=7\n")
        assert tree.data("sysctl", KEY)["persisted"] is None
        tree.link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf")
        assert tree.data("sysctl", KEY)["persisted"] == "7"

    def test_patterns_and_their_exceptions(self, tree: Tree) -> None:
        text = "net.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.all.rp_filter\n"
        tree.write("/usr/lib/sysctl.d/50-default.conf", text)
        assert tree.data("sysctl", "net.ipv4.conf.eth0.rp_filter")["persisted"] == "2"
        assert tree.data("sysctl", "net.ipv4.conf.all.rp_filter")["persisted"] is None
        assert tree.data("sysctl", "net.ipv4.conf.a.b.rp_filter")["persisted"] is None

    def test_an_exact_key_beats_a_pattern(self, tree: Tree) -> None:
        text = "net.ipv4.conf.eth0.rp_filter = 1\nnet.ipv4.conf.*.rp_filter = 2\n"
        tree.write("/etc/sysctl.d/50-x.conf", text)
        assert tree.data("sysctl", "net.ipv4.conf.eth0.rp_filter")["persisted"] == "1"

    def test_names_with_slashes_keep_their_dots(self, tree: Tree) -> None:
        tree.write("/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "1\n")
        tree.write("/etc/sysctl.d/1.conf", "net/ipv4/conf/eth0.100/rp_filter=1\n")
        for name in ("net/ipv4/conf/eth0.100/rp_filter", "net.ipv4.conf.eth0/100.rp_filter"):
            data = tree.data("sysctl", name)
            assert (data["running"], data["persisted"]) == ("1", "1")

    def test_a_failure_that_is_ignored_is_still_an_assignment(self, tree: Tree) -> None:
        tree.write("/etc/sysctl.d/1.conf", f"-{KEY} = 5\n")
        assert tree.data("sysctl", KEY)["persisted"] == "5"

    def test_no_way_out_of_proc(self, tree: Tree) -> None:
        assert "no kernel parameter" in tree.error("sysctl", "net/../../etc/shadow")


class TestModule:
    def test_loaded(self, tree: Tree) -> None:
        tree.write("/proc/modules", "nvidia_uvm 1 0 - Live 0x0 (POE)\n")
        assert tree.data("module", "nvidia-uvm") == {"loaded": True, "builtin": False}
        assert tree.data("module", "nvidia") == {"loaded": False, "builtin": False}

    def test_built_in(self, tree: Tree) -> None:
        tree.write("/proc/modules", "")
        tree.write("/proc/sys/kernel/osrelease", "6.1\n")
        tree.write("/lib/modules/6.1/modules.builtin", "kernel/net/ipv4/tcp-bbr.ko\n")
        assert tree.data("module", "tcp_bbr") == {"loaded": False, "builtin": True}

    def test_a_kernel_without_modules(self, tree: Tree) -> None:
        tree.write("/proc/version", "Linux version 6.1\n")
        assert tree.data("module", "nouveau") == {"loaded": False, "builtin": False}

    def test_no_proc_is_an_error(self, tree: Tree) -> None:
        assert "/proc/modules" in tree.error("module", "nouveau")


def test_governors_are_counted(tree: Tree) -> None:
    for number, word in enumerate(("performance", "performance", "powersave")):
        tree.write(f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor", word + "\n")
    tree.write("/sys/devices/system/cpu/cpufreq/x", "")
    assert tree.data("governor", "cpu") == {"values": {"performance": 2, "powersave": 1}}


def test_no_cpufreq_is_an_empty_count(tree: Tree) -> None:
    assert tree.data("governor", "cpu") == {"values": {}}
