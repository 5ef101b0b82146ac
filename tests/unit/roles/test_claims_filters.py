"""The filters of the shared role: what is converged, and what differs on the node."""

from __future__ import annotations

import importlib.util
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import jinja2
import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.model.claim import CLAIM, KINDS
from nodeprep.probe import reader

ROOT = Path(__file__).parents[3]


@cache
def filters() -> dict[str, Any]:
    path = ROOT / "roles" / "claims" / "filter_plugins" / "claims.py"
    spec = importlib.util.spec_from_file_location("claims_filters_under_test", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.FilterModule().filters()
    return found


def call(name: str, *args: Any) -> Any:
    return filters()[f"claims_{name}"](*args)


def names(claims: list[dict[str, Any]]) -> list[str]:
    return [claim["name"] for claim in claims]


class TestTodo:
    def test_each_repeats_a_claim_and_merges_over_it(self) -> None:
        claims = [
            {
                "kind": "package",
                "version": "1",
                "each": [{"name": "a"}, {"name": "b", "version": "2"}],
            }
        ]
        todo = call("todo", claims, "r")["package"]
        assert [(c["name"], c["version"]) for c in todo] == [("a", "1"), ("b", "2")]

    def test_what_does_not_apply_is_left_out(self) -> None:
        assert call("todo", [{"kind": "module", "name": "m", "applies": False}], "r") == {}

    def test_a_text_is_no_answer_to_whether_a_claim_applies(self) -> None:
        with pytest.raises(AnsibleFilterError, match="boolean"):
            call("todo", [{"kind": "module", "name": "m", "applies": "no"}], "r")

    def test_only_unmet_claims_of_the_role_are_converged(self) -> None:
        claims = [{"kind": "file", "name": "/a"}, {"kind": "file", "name": "/b"}]
        unmet = {"r": ["r/file:/b"], "other": ["r/file:/a"]}
        assert names(call("todo", claims, "r", unmet)["file"]) == ["/b"]
        assert call("todo", claims, "r", {}) == {}

    def test_sysctls_come_whole_or_not_at_all(self) -> None:
        claims = [
            {"kind": "sysctl", "name": "net.a", "value": 1},
            {"kind": "sysctl", "name": "net.b", "value": 2},
        ]
        assert names(call("todo", claims, "r", {"r": ["r/sysctl:net.b"]})["sysctl"]) == [
            "net.a",
            "net.b",
        ]
        assert call("todo", claims, "r", {"r": ["r/file:/x"]}) == {}

    def test_ids_are_those_of_the_model(self) -> None:
        raw = {"kind": "link", "name": "/usr/local/cuda", "target": "/x"}
        claim = CLAIM.validate_python({**raw, "role": "cuda"})
        assert names(call("todo", [raw], "cuda", {"cuda": [claim.id]})["link"]) == [claim.name]

    def test_one_handler_is_a_list_of_one(self) -> None:
        todo = call("todo", [{"kind": "file", "name": "/a", "notify": "Restart"}], "r")
        assert todo["file"][0]["notify"] == ["Restart"]
        assert call("notified", todo["file"] * 2) == ["Restart"]


class TestFiles:
    def test_each_way_of_making_a_file(self) -> None:
        claims = [
            {"name": "/t", "template": "t.j2"},
            {"name": "/c", "content": "x"},
            {"name": "/s", "template": "s.j2", "secret": True},
            {"name": "/k", "content": "x", "secret": True},
            {"name": "/gone", "state": "absent", "template": "t.j2"},
        ]
        ways = ("template", "content", "secret template", "secret content", "absent")
        made = {how: names(call("files", claims, how)) for how in ways}
        assert made == {
            "template": ["/t"],
            "content": ["/c"],
            "secret template": ["/s"],
            "secret content": ["/k"],
            "absent": ["/gone"],
        }

    def test_claims_that_hold_a_secret_are_not_shown(self) -> None:
        assert call("secret", [{"name": "/k", "content": "x", "secret": True}])
        assert call("secret", [{"each": [{"name": "/k"}, {"name": "/l", "secret": True}]}])
        assert not call("secret", [{"name": "/k", "content": "x"}])

    def test_folders_of_what_must_be_there(self) -> None:
        claims = [{"name": "/etc/a/b"}, {"name": "/etc/a/c"}, {"name": "/x/y", "state": "absent"}]
        assert call("parents", claims) == ["/etc/a"]


DPKG = (
    "held\t1.0-1\thold ok installed\n"
    "plain\t2.0-1\tinstall ok installed\n"
    "removed\t3.0-1\tdeinstall ok config-files\n"
    "both\t\tunknown ok not-installed\n"
    "both\t4.0-1\tinstall ok installed\n"
)


class TestPackages:
    def plan(self, **claim: Any) -> dict[str, list[str]]:
        plan = call("packages", [claim], DPKG)
        return {verb: names(found) for verb, found in plan.items() if found}

    def test_nothing_is_done_to_what_holds(self) -> None:
        assert self.plan(name="held", version="1.0-1", held=True) == {}
        assert self.plan(name="plain") == {}
        assert self.plan(name="both", version="4.0-1") == {}
        assert self.plan(name="never", state="absent") == {}
        assert self.plan(name="removed", state="absent") == {}

    def test_another_version_is_installed_and_held(self) -> None:
        assert self.plan(name="plain", version="2.1-1", held=True) == {
            "install": ["plain"],
            "hold": ["plain"],
        }

    def test_what_is_only_configured_is_installed(self) -> None:
        assert self.plan(name="removed") == {"install": ["removed"]}

    def test_a_missing_package_is_installed_and_held(self) -> None:
        assert self.plan(name="new", held=True) == {"install": ["new"], "hold": ["new"]}

    def test_only_the_hold_differs(self) -> None:
        assert self.plan(name="plain", held=True) == {"hold": ["plain"]}
        assert self.plan(name="held", held=False) == {"unhold": ["held"]}

    def test_what_must_not_be_there_is_removed(self) -> None:
        assert self.plan(name="plain", state="absent") == {"remove": ["plain"]}

    def test_dpkg_that_says_nothing_means_that_all_is_missing(self) -> None:
        plan = call("packages", [{"name": "plain"}], "")
        assert names(plan["install"]) == ["plain"]

    def test_versions_are_written_as_apt_takes_them(self) -> None:
        assert call("apt_names", [{"name": "a", "version": "1:2-3"}, {"name": "b"}]) == [
            "a=1:2-3",
            "b",
        ]

    def test_what_no_repository_has_is_told_with_what_there_is(self) -> None:
        wanted = [
            {"name": "libnccl2", "version": "2.16.6-1+cuda12.0"},
            {"name": "curl", "version": "7.88.1"},
            {"name": "htop"},
            {"name": "gone"},
        ]
        madison = (
            "  libnccl2 | 2.21.5-1+cuda12.4 | https://repo.example / Packages\n"
            "  libnccl2 | 2.16.5-1+cuda12.0 | https://repo.example / Packages\n"
            "  libnccl2 | 2.16.5-1+cuda12.0 | file:/mirror / Packages\n"
            "      curl | 7.88.1 | https://repo.example / Packages\n"
            "      htop | 3.2.2-2 | https://repo.example / Packages\n"
        )
        assert call("not_offered", wanted, madison) == (
            "libnccl2=2.16.6-1+cuda12.0 (there: 2.21.5-1+cuda12.4, 2.16.5-1+cuda12.0), "
            "gone (there: none)"
        )
        assert call("not_offered", wanted[1:3], madison) == ""

    @given(st.text())
    def test_any_output_of_apt_cache_is_read(self, text: str) -> None:
        call("not_offered", [{"name": "a", "version": "1"}], text)

    @given(st.text())
    def test_any_output_of_dpkg_is_read(self, text: str) -> None:
        call("packages", [{"name": "a", "held": True}], text)


class TestSysctls:
    def differing(self, value: Any, text: str) -> list[str]:
        return names(call("sysctls", [{"name": "net.x", "value": value}], text))

    def test_spaces_and_tabs_are_alike(self) -> None:
        assert self.differing("4096 131072 1", "net.x = 4096\t131072\t1\n") == []

    def test_another_value_or_none_differs(self) -> None:
        assert self.differing(1, "net.x = 2\n") == ["net.x"]
        assert self.differing(1, "") == ["net.x"]

    def test_booleans_are_digits(self) -> None:
        assert self.differing(True, "net.x = 1\n") == []
        assert call("assignment", {"name": "net.x", "value": False}) == "net.x=0"


def unit(**values: str) -> str:
    return "\n".join(f"{key}={value}" for key, value in values.items()) + "\n"


RUNNING = {"Id": "a.service", "LoadState": "loaded", "UnitFileState": "enabled"}


class TestUnits:
    def differing(self, claim: dict[str, Any], **values: str) -> bool:
        return bool(call("units", [{"name": "a.service", **claim}], unit(**values)))

    def test_a_unit_as_claimed_is_left_alone(self) -> None:
        assert not self.differing(
            {"enabled": True, "active": True}, **RUNNING, ActiveState="active"
        )

    @pytest.mark.parametrize(
        "change",
        [{"ActiveState": "failed"}, {"UnitFileState": "disabled"}, {"LoadState": "not-found"}],
    )
    def test_each_attribute_is_compared(self, change: dict[str, str]) -> None:
        values = {**RUNNING, "ActiveState": "active", **change}
        claim = {"enabled": True, "active": True, "masked": False}
        gone = change.get("LoadState") == "not-found"
        values = {**values, **({"UnitFileState": "", "ActiveState": "inactive"} if gone else {})}
        assert self.differing(claim, **values)

    def test_a_unit_that_is_not_there_is_disabled_and_stopped(self) -> None:
        values = {"LoadState": "not-found", "UnitFileState": "", "ActiveState": "inactive"}
        assert not self.differing({"enabled": False, "active": False}, **values)

    def test_a_static_unit_counts_as_enabled(self) -> None:
        values = {**RUNNING, "UnitFileState": "static", "ActiveState": "active"}
        assert not self.differing({"enabled": True}, **values)

    def test_units_are_told_apart_by_their_order(self) -> None:
        text = unit(**RUNNING, ActiveState="active") + "\n" + unit(**RUNNING, ActiveState="dead")
        claims = [{"name": "a.service", "active": True}, {"name": "b.service", "active": True}]
        assert names(call("units", claims, text)) == ["b.service"]

    def test_too_few_answers_are_an_error(self) -> None:
        with pytest.raises(AnsibleFilterError, match="told of 0 units"):
            call("units", [{"name": "a.service"}], "")


MOUNTINFO = (
    "31 1 0:27 / /data/training rw,relatime shared:1 - autofs systemd-1 rw,fd=48\n"
    "99 31 0:52 / /data/training rw,relatime shared:2 - nfs4 nas1:/export/training"
    " rw,vers=4.2,nconnect=8,hard\n"
)
NFS = {
    "name": "/data/training",
    "device": "nas1:/export/training",
    "fstype": "nfs4",
    "options": ["vers=4.2", "hard"],
}


LOCAL = "50 1 9:127 / /cache rw,noatime shared:9 - xfs /dev/md127 rw,attr2\n"


class TestMounts:
    def differing(self, claim: dict[str, Any], text: str, device: str = "/x") -> list[Any]:
        found: list[Any] = call("mounts", [claim], text, [device])
        return found

    def test_a_uuid_is_resolved(self) -> None:
        claim = {"name": "/cache", "device": "UUID=6f-1", "fstype": "xfs", "options": ["nofail"]}
        assert call("mount_links", [claim, NFS]) == ["/dev/disk/by-uuid/6f-1", NFS["device"]]
        assert self.differing(claim, LOCAL, "/dev/md127") == []
        assert self.differing(claim, LOCAL, "/dev/sda") == [claim]

    def test_a_mount_as_claimed_is_left_alone(self) -> None:
        assert self.differing(NFS, MOUNTINFO) == []

    @pytest.mark.parametrize(
        "change",
        [{"device": "nas2:/x"}, {"fstype": "nfs"}, {"options": ["soft"]}, {"name": "/other"}],
    )
    def test_each_attribute_is_compared(self, change: dict[str, Any]) -> None:
        assert self.differing({**NFS, **change}, MOUNTINFO)

    def test_an_automount_alone_is_not_mounted(self) -> None:
        assert self.differing(NFS, MOUNTINFO.splitlines()[0])

    @pytest.mark.parametrize(
        ("path", "unit_name"),
        [
            ("/data/training", "data-training.mount"),
            ("/data/nas-1/", r"data-nas\x2d1.mount"),
            ("/", "-.mount"),
            ("/.hidden", r"\x2ehidden.mount"),
        ],
    )
    def test_units_are_named_as_systemd_names_them(self, path: str, unit_name: str) -> None:
        assert call("mount_unit", path) == unit_name


class TestGpus:
    CLAIMS = (
        {"name": "persistence_mode", "value": True},
        {"name": "mig_mode", "value": False},
        {"name": "power_limit_w", "value": 400},
    )

    def differing(self, text: str) -> list[str]:
        return names(call("gpus", list(self.CLAIMS), text))

    def test_settings_as_claimed_are_left_alone(self) -> None:
        assert self.differing("Enabled, Disabled, 400.00\nEnabled, Disabled, 400.00\n") == []

    def test_one_gpu_that_differs_is_enough(self) -> None:
        text = "Enabled, Disabled, 400.00\nDisabled, Disabled, 350.00\n"
        assert self.differing(text) == ["persistence_mode", "power_limit_w"]

    def test_a_tool_that_prints_nothing_means_that_all_differ(self) -> None:
        assert len(self.differing("")) == len(self.CLAIMS)

    def test_a_drivers_version_is_not_a_setting(self) -> None:
        claims = [{"name": "driver_version", "value": "535.183.01"}, self.CLAIMS[0]]
        assert names(call("gpu_settable", claims)) == ["persistence_mode"]

    def test_settings_are_given_as_nvidia_smi_takes_them(self) -> None:
        assert [call("gpu_set", claim) for claim in self.CLAIMS] == [
            ["-pm", "1"],
            ["-mig", "0"],
            ["-pl", "400"],
        ]

    CLOCKS = (
        {"name": "application_clocks", "value": "1215,1410"},
        {"name": "application_clocks_default", "value": True},
        {"name": "mig_mode", "value": False},
    )

    def test_a_claim_may_take_several_columns(self) -> None:
        assert call("gpu_query", list(self.CLOCKS)).count(",") == 6
        good = "1215, 1410, 1215, 1215, 1410, 1410, Disabled\n"
        assert call("gpus", list(self.CLOCKS), good) == []
        lower = "1215, 1050, 1215, 1215, 1050, 1410, Disabled\n"
        assert names(call("gpus", list(self.CLOCKS), good + lower)) == [
            "application_clocks",
            "application_clocks_default",
        ]
        assert [call("gpu_set", claim) for claim in self.CLOCKS[:2]] == [
            ["-ac", "1215,1410"],
            ["-rac"],
        ]

    def test_mig_devices_are_compared_gpu_by_gpu(self) -> None:
        claims = [{"name": "mig_devices", "value": "1g.5gb,3g.20gb"}]
        one = "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 3g.20gb     Device  0: (UUID: MIG-1)\n"
        whole = one + "  MIG 1g.5gb      Device  1: (UUID: MIG-2)\n"
        assert not call("mig_differs", claims, whole + whole)
        assert call("mig_differs", claims, whole + one)
        assert call("mig_differs", claims, "")


def test_modules_are_compared_by_either_spelling() -> None:
    claims = [{"name": "nvidia-peermem"}, {"name": "nouveau", "loaded": False}]
    assert call("modules", claims, "nvidia_peermem\n") == []
    assert names(call("modules", claims, "nouveau\n")) == ["nvidia-peermem", "nouveau"]


def test_every_kind_of_claim_has_a_task_file_and_a_place_in_the_order() -> None:
    import yaml

    tasks = ROOT / "roles" / "claims" / "tasks"
    order = yaml.safe_load((ROOT / "roles" / "claims" / "vars" / "main.yml").read_text())
    assert sorted(order["claims_order"]) == sorted(KINDS)
    assert {f"{kind}.yml" for kind in KINDS} <= {path.name for path in tasks.iterdir()}


class TestBuilt:
    CLAIMS: ClassVar[list[dict[str, Any]]] = [
        {"name": "nvidia", "built": True},
        {"name": "gdrdrv", "built": True},
        {"name": "nouveau", "loaded": False},
    ]

    def test_a_kernel_that_lacks_one_is_named(self) -> None:
        text = "6.1.0-18\n6.1.0-18 nvidia gdrdrv\n6.1.0-30 nvidia\n"
        assert call("unbuilt", self.CLAIMS, text) == ["6.1.0-30"]

    def test_what_is_older_than_the_running_one_does_not_count(self) -> None:
        text = "6.1.0-18\n6.1.0-18 nvidia gdrdrv\n6.1.0-9\n6.1.0-18 nvidia gdrdrv\n"
        assert call("unbuilt", self.CLAIMS, text) == []

    def test_a_file_of_another_name(self) -> None:
        claims = [{"name": "nvidia", "built": True, "file": "nvidia-current"}, {"name": "x"}]
        assert call("built_files", claims) == ["nvidia-current"]
        assert call("unbuilt", claims, "6.1\n6.1 nvidia-current\n") == []
        assert call("unbuilt", claims, "6.1\n6.1 nvidia\n") == ["6.1"]

    def test_the_running_one_counts_once(self) -> None:
        assert call("unbuilt", self.CLAIMS, "6.1\n6.1\n6.1\n") == ["6.1"]


ARGUMENTS: list[dict[str, Any]] = [
    {"name": "iommu", "value": "pt"},
    {"name": "hugepages", "value": 16},
    {"name": "amd-pstate"},
    {"name": "nopti", "state": "absent"},
]


class TestKernelArguments:
    def test_what_the_running_kernel_lacks(self) -> None:
        line = "BOOT_IMAGE=/vmlinuz ro iommu=pt hugepages=16 amd_pstate"
        assert call("arguments", ARGUMENTS, line) == []
        assert names(call("arguments", ARGUMENTS, f"{line} iommu=soft nopti")) == ["iommu", "nopti"]
        assert names(call("arguments", ARGUMENTS, "iommu.strict=1 hugepages=16 nopti=1")) == [
            "iommu", "amd-pstate", "nopti",
        ]  # fmt: skip

    def test_the_words_that_grub_gets(self) -> None:
        assert call("argument_words", ARGUMENTS) == "iommu=pt hugepages=16 amd-pstate"
        assert call("argument_names", ARGUMENTS) == "iommu|hugepages|amd[-_]pstate|nopti"

    def test_they_come_whole(self) -> None:
        claims = [{"kind": "kernel_argument", **claim} for claim in ARGUMENTS]
        todo = call("todo", claims, "r", {"r": ["r/kernel_argument:iommu"]})
        assert len(todo["kernel_argument"]) == 4

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("quiet", "quiet iommu=pt hugepages=16 amd-pstate"),
            ("iommu=soft", "iommu=pt hugepages=16 amd-pstate"),
            ("iommu=a iommu=b nopti x", "x iommu=pt hugepages=16 amd-pstate"),
            ("iommu.strict=1 xiommu", "iommu.strict=1 xiommu iommu=pt hugepages=16 amd-pstate"),
            ("amd_pstate=guided console=ttyS0,115200", "console=ttyS0,115200 iommu=pt hugepages=16"
             " amd-pstate"),
        ],
    )  # fmt: skip
    def test_the_file_is_shell_that_takes_out_what_else_was_set(
        self, before: str, after: str
    ) -> None:
        environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)
        environment.filters.update(filters())
        text = (ROOT / "roles" / "claims" / "templates" / "grub.cfg.j2").read_text("utf-8")
        made = environment.from_string(text).render(
            claims_role="kernel", claims_todo={"kernel_argument": ARGUMENTS}
        )
        lists = "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"
        shell = f"set -e\nGRUB_CMDLINE_LINUX='{before}'\n{made}\nprintf %s \"{lists}\""
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
        assert done.stdout.split() == after.split()

    @given(st.text(max_size=80))
    def test_both_parsers_read_the_same(self, text: str) -> None:
        """The role's own and the reader's."""
        for name in ("iommu", "nosmt"):
            line = f"{text} {name}=pt"
            pairs = reader.command_line(line)
            theirs = {v for word, v in pairs if word.replace("-", "_") == name} == {"pt"}
            assert (call("arguments", [{"name": name, "value": "pt"}], line) == []) is theirs
