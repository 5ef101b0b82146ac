"""How the reader parses dpkg, systemd and the tools that tell of the hardware."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeprep.model.hardware import Hardware
from nodeprep.probe import reader
from tests.unit.probe.tree import DPKG, Tree

DATA = Path(__file__).resolve().parents[2] / "data"
SMI = sorted((DATA / "nvidia_smi").glob("*.json"))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


class TestPackages:
    ROWS = (
        DPKG
        + "libnccl2\tamd64\t2.16.5-1+cuda12.0\thold\tinstalled\tok\n"
        + "jq\tamd64\t1.6-2\tdeinstall\tconfig-files\tok\n"
        + "chrony\tamd64\t4.3\tinstall\thalf-configured\tok\n"
        + "cuda-x\tamd64\t1\tinstall\tinstalled\treinstreq\n"
        + "man-db\tamd64\t2\tinstall\ttriggers-pending\tok\n"
        + "libgl\ti386\t1.0\tinstall\tinstalled\tok\n"
        + "libgl\tamd64\t1.1\tinstall\tinstalled\tok\n"
        + "tzdata\tall\t2024a\tinstall\tinstalled\tok\n"
        + "nvidia-driver-535-server\tamd64\t535.183.01-1\thold\tinstalled\tok\n"
        + "a torn line\n"
    )

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("libnccl2", {"version": "2.16.5-1+cuda12.0", "held": True}),
            ("jq", {"version": None, "held": False}),
            ("no-such", {"version": None, "held": False}),
            ("chrony", {"version": "4.3", "held": False, "error": "half-configured"}),
            ("cuda-x", {"version": "1", "held": False, "error": "installed, reinstreq"}),
            ("man-db", {"version": "2", "held": False}),
            ("libgl", {"version": "1.1", "held": False}),
            ("libgl:i386", {"version": "1.0", "held": False}),
            ("tzdata", {"version": "2024a", "held": False}),
        ],
    )
    def test_one(self, tree: Tree, name: str, data: dict[str, Any]) -> None:
        tree.tool("dpkg-query", self.ROWS)
        assert tree.data("package", name) == data

    def test_the_gpu_stack_is_told_whether_claimed_or_not(self, tree: Tree) -> None:
        tree.tool("dpkg-query", self.ROWS)
        assert tree.read()["packages"] == {
            "libnccl2": "2.16.5-1+cuda12.0",
            "cuda-x": "1",
            "nvidia-driver-535-server": "535.183.01-1",
        }

    @pytest.mark.parametrize(("out", "rc"), [("", 0), ("garbage\n", 0), (DPKG, 2)])
    def test_what_dpkg_did_not_say_is_an_error(self, tree: Tree, out: str, rc: int) -> None:
        tree.tool("dpkg-query", out, rc=rc)
        assert "dpkg-query" in tree.error("package", "jq")

    def test_no_dpkg_is_an_error(self, tree: Tree) -> None:
        assert tree.error("package", "jq") == "dpkg-query: not found"
        assert tree.read()["packages"] == {}


class TestServices:
    SSH = "Id=ssh.service\nLoadState=loaded\nActiveState=active\nSubState=running\n"
    SSH += "UnitFileState=enabled\n"
    GONE = "Id=x.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n"
    GONE += "UnitFileState=\n"

    def test_blocks_belong_to_units_in_order_although_one_is_an_alias(self, tree: Tree) -> None:
        tree.tool("systemctl", f"{self.SSH}\n{self.GONE}")
        claims = [{"kind": "service", "name": n} for n in ("sshd.service", "x.service")]
        found = tree.read(*claims)["readings"]
        assert found["r/service:sshd.service"]["data"] == {
            "load_state": "loaded",
            "enabled": "enabled",
            "active": "active",
            "sub": "running",
        }
        assert found["r/service:x.service"]["data"]["load_state"] == "not-found"

    def test_two_claims_on_one_unit_ask_once(self, tree: Tree) -> None:
        tree.tool("systemctl", self.SSH)
        request = tree.request({"kind": "service", "name": "ssh.service"})
        request["claims"].append({**request["claims"][0], "id": "other/service:ssh.service"})
        assert len(reader.read(request)["readings"]) == 2

    def test_too_few_blocks_are_an_error(self, tree: Tree) -> None:
        tree.tool("systemctl", "", rc=1, err="System has not been booted with systemd")
        assert "not been booted" in tree.error("service", "ssh.service")

    def test_a_name_that_systemctl_cannot_stand_takes_no_other_down(self, tree: Tree) -> None:
        kept = tree.write("/ssh", self.SSH)
        tree.tool("systemctl", sh=f"for last; do :; done; case \"$*\" in *bad*) echo 'Invalid' >&2;"
                                  f" exit 1;; esac; exec /bin/cat {kept}")  # fmt: skip
        claims = [{"kind": "service", "name": n} for n in ("ssh.service", "bad")]
        found = tree.read(*claims)["readings"]
        assert found["r/service:ssh.service"]["data"]["active"] == "active"
        assert "Invalid" in found["r/service:bad"]["error"]

    def test_no_systemctl_is_an_error(self, tree: Tree) -> None:
        assert tree.error("service", "ssh.service") == "systemctl: not found"


class TestNvidiaSmi:
    @pytest.mark.parametrize("path", SMI, ids=lambda path: path.stem)
    def test_case(self, path: Path) -> None:
        case = json.loads(path.read_text(encoding="utf-8"))
        text = "\n".join(case["stdout"])
        if "error" in case:
            with pytest.raises(reader.Failed, match=case["error"]):
                reader.parse_nvidia_smi(text)
            return
        found = reader.parse_nvidia_smi(text)
        assert len(found) == len(case["gpus"])
        for gpu, wanted in zip(found, case["gpus"], strict=True):
            assert {key: gpu[key] for key in wanted} == wanted

    def test_one_report_serves_all_claims_and_the_hardware(self, tree: Tree) -> None:
        self._install(tree, "holds")
        tree.tool("lspci", '0000:17:00.0 "0302" "10de" "20b0" -ra1 "10de" "134f"\n')
        claims = [{"kind": "gpu", "name": n} for n in ("persistence_mode", "mig_mode")]
        answer = tree.read(*claims, hardware=True, system=True)
        assert answer["readings"]["r/gpu:persistence_mode"]["data"]["values"] == {
            "0000:17:00.0": True
        }
        assert answer["hardware"]["gpus"][0]["uuid"].startswith("GPU-")
        assert tree.path("/calls").read_text() == "x"

    def test_a_report_with_a_bad_exit_status_says_why(self, tree: Tree) -> None:
        text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
        tree.tool("nvidia-smi", sh=f'echo "{text}"; exit 9')
        error = tree.error("gpu", "persistence_mode")
        assert "exit status 9" in error
        assert "communicate" in error

    def test_no_tool_is_an_error(self, tree: Tree) -> None:
        assert tree.error("gpu", "persistence_mode") == "nvidia-smi: not found"

    def test_a_stand_in_says_so(self, tree: Tree) -> None:
        self._install(tree, "holds")
        tree.write("/etc/nodeprep-simulated", "# stand-ins\nnvidia-smi\n")
        answer = tree.read({"kind": "gpu", "name": "mig_mode"}, system=True)
        assert answer["readings"]["r/gpu:mig_mode"]["data"]["simulated"] is True
        assert answer["host"]["simulated"] is True

    @pytest.mark.parametrize(
        ("graphics", "clocks", "default"),
        [("1410 MHz", "1215,1410", True), ("1050 MHz", "1215,1050", False), ("N/A", None, None)],
    )
    def test_application_clocks(
        self, graphics: str, clocks: str | None, default: bool | None
    ) -> None:
        group = "<{0}><graphics_clock>{1}</graphics_clock><mem_clock>1215 MHz</mem_clock></{0}>"
        both = group.format("applications_clocks", graphics) + group.format(
            "default_applications_clocks", "1410 MHz"
        )
        report = f'<nvidia_smi_log><gpu id="00000000:17:00.0">{both}</gpu></nvidia_smi_log>'
        found = reader.parse_nvidia_smi(report)[0]
        assert found["application_clocks"] == clocks
        assert found["application_clocks_default"] is default

    def test_mig_devices_by_gpu(self, tree: Tree) -> None:
        self._install(tree, "holds")
        uuid = reader.parse_nvidia_smi(tree.path("/report").read_text())[0]["uuid"]
        listed = (
            f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {uuid})\n"
            "  MIG 3g.20gb     Device  0: (UUID: MIG-1)\n"
            "  MIG 1g.5gb      Device  1: (UUID: MIG-2)\n"
        )
        assert reader.parse_mig_devices(listed) == {uuid: "1g.5gb,3g.20gb"}
        assert reader.parse_mig_devices("No devices were found\n") == {}

    @staticmethod
    def _install(tree: Tree, case: str) -> None:
        kept = tree.write(
            "/report",
            "\n".join(json.loads((DATA / "nvidia_smi" / f"{case}.json").read_text())["stdout"]),
        )
        tree.tool("nvidia-smi", sh=f"printf x >> {tree.path('/calls')}; exec /bin/cat {kept}")

    @given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
    def test_garbage_is_an_error(self, text: str) -> None:
        with pytest.raises(reader.Failed):
            reader.parse_nvidia_smi(text)

    @given(st.data())
    def test_a_report_cut_anywhere_is_an_error(self, data: st.DataObject) -> None:
        text = "\n".join(json.loads((DATA / "nvidia_smi/holds.json").read_text())["stdout"])
        whole = text.rindex("</nvidia_smi_log>")
        with pytest.raises(reader.Failed):
            reader.parse_nvidia_smi(text[: data.draw(st.integers(0, whole))])


class TestHardware:
    def test_each_missing_tool_is_named_and_its_part_is_none(self, tree: Tree) -> None:
        found = tree.hardware()
        assert {part: found["errors"].get(part) for part in found["errors"]} == {
            "cpu": "lscpu: not found",
            "dimms": "dmidecode: not found",
            "board": "dmidecode: not found",
            "disks": "lsblk: not found",
            "gpus": "lspci: not found",
            "nvswitches": "lspci: not found",
        }
        model = Hardware.model_validate(found)
        assert not any((model.cpu, model.dimms, model.disks, model.gpus, model.nvswitches))
        assert model.nvswitches is None
        assert model.memory_kib == 527000000

    @pytest.mark.parametrize("out", ["", "garbage", "{", "[]", "{}", '{"lscpu": [1]}'])
    def test_garbage_from_any_tool_is_an_error(self, tree: Tree, out: str) -> None:
        for name in ("lscpu", "dmidecode", "lspci", "lsblk"):
            tree.tool(name, out)
        found = tree.hardware()
        assert {"cpu", "dimms", "board", "gpus", "nvswitches", "disks"} <= set(found["errors"])
        assert "disks" not in found
        Hardware.model_validate(found)

    def test_lscpu_flat_and_nested(self, tree: Tree) -> None:
        fields = [
            {"field": "Model name:", "data": "Xeon"},
            {"field": "Socket(s):", "data": "2"},
            {"field": "Core(s) per socket:", "data": "32"},
        ]
        for report in (fields, [{"field": "Vendor ID:", "data": "x", "children": fields}]):
            tree.tool("lscpu", json.dumps({"lscpu": report}))
            cpu = tree.hardware()["cpu"]
            assert (cpu["model"], cpu["sockets"], cpu["cores_per_socket"]) == ("Xeon", 2, 32)
            assert cpu["threads_per_core"] is None
            assert cpu["online"] is None

    def test_a_brace_in_a_warning_begins_no_report(self, tree: Tree) -> None:
        report = json.dumps({"lscpu": [{"field": "Socket(s):", "data": "2"}]})
        tree.tool("lscpu", f"lscpu: {{}}: no such option\n{report}\n")
        assert tree.hardware()["cpu"]["sockets"] == 2

    def test_lscpu_tells_which_cpus_run(self, tree: Tree) -> None:
        fields = [
            {"field": "CPU(s):", "data": "256", "children": [
                {"field": "On-line CPU(s) list:", "data": "0-127,129-254"},
                {"field": "Off-line CPU(s) list:", "data": "128,255"},
            ]},
        ]  # fmt: skip
        tree.tool("lscpu", json.dumps({"lscpu": fields}))
        assert tree.hardware()["cpu"]["online"] == 254

    def test_dmidecode(self, tree: Tree) -> None:
        tree.tool("dmidecode", (DATA / "dmidecode" / "server.txt").read_text())
        found = tree.hardware()
        assert found["board_vendor"] == "Supermicro"
        assert found["board_serial"] == "S123"  # the board does not tell: the system's
        assert found["bios_version"] == "1.4a"
        assert [(d["slot"], d["size_mib"], d["speed_mts"]) for d in found["dimms"]] == [
            ("P0_Node0 DIMM_A1", 32768, 3200),
            ("P0_Node0 DIMM_A2", 0, None),
            ("P1_Node1 DIMM_A1", 16384, 2933),
            ("P1_Node1 DIMM_A2", None, None),
        ]

    @pytest.mark.parametrize(
        ("size", "mib"),
        [("32 GB", 32768), ("32 GiB", 32768), ("65536 MB", 65536), ("1 TiB", 1048576),
         ("2048 kB", 2), ("No Module Installed", 0), ("Unknown", None), ("None", None)],
    )  # fmt: skip
    def test_sizes_of_modules(self, tree: Tree, size: str, mib: int | None) -> None:
        module = f"Memory Device\n\tSize: {size}\n\tLocator: A1\n\tSerial Number: [Empty]\n"
        optane = "Memory Device\n\tSize: 126 GB\n\tType: Logical non-volatile device\n"
        tree.tool("dmidecode", f"# dmidecode 3.7\n\n{module}\n{optane}\n")
        (dimm,) = tree.hardware()["dimms"]
        assert (dimm["size_mib"], dimm["serial"]) == (mib, None)

    def test_a_machine_without_dmi(self, tree: Tree) -> None:
        tree.tool("dmidecode", "# dmidecode 3.3\n# No SMBIOS nor DMI entry point found, sorry.\n")
        assert "No SMBIOS" in tree.hardware()["errors"]["dimms"]

    def test_lsblk(self, tree: Tree) -> None:
        tree.tool("lsblk", (DATA / "lsblk" / "server.json").read_text())
        tree.link("/dev/disk/by-id/wwn-0x5000c500", "../../sdb")
        disks = {disk["name"]: disk for disk in tree.hardware()["disks"]}
        assert set(disks) == {"sda", "sdb", "nvme0n1", "nvme1n1", "vdc"}
        assert disks["sda"]["in_use"] == [
            "partition table gpt", "part sda1", "signature vfat", "mounted at /boot/efi",
            "part sda2", "signature linux_raid_member", "raid1 md0", "signature ext4",
            "mounted at /", "in use as swap",
        ]  # fmt: skip
        assert disks["sdb"]["in_use"] == []
        assert disks["sdb"]["ids"] == ["wwn-0x5000c500"]
        assert disks["nvme0n1"]["in_use"] == ["signature xfs"]
        assert disks["nvme1n1"]["transport"] == "nvme"
        assert disks["vdc"]["transport"] == "virtio"
        assert disks["sdb"]["rotational"] is True

    def test_disks_are_read_when_udev_has_named_them(self, tree: Tree) -> None:
        entry = {"name": "sda", "type": "disk", "size": 1000}
        tree.tool("lsblk", json.dumps({"blockdevices": [entry]}))
        tree.link("/dev/disk/by-id/later", "../../sda")
        links = tree.root / "dev/disk"
        links.rename(tree.root / "unnamed")
        tree.tool("udevadm", sh=f"/bin/mv {tree.root}/unnamed {links}")
        assert tree.hardware()["disks"][0]["ids"] == []  # nothing is under way
        tree.write("/run/udev/queue", "")
        assert tree.hardware()["disks"][0]["ids"] == ["later"]

    @pytest.mark.parametrize("settle", ["exit 1", None])
    def test_disks_are_read_though_udev_does_not_settle(
        self, tree: Tree, settle: str | None
    ) -> None:
        entry = {"name": "sda", "type": "disk", "size": 1000}
        tree.tool("lsblk", json.dumps({"blockdevices": [entry]}))
        tree.write("/run/udev/queue", "")
        if settle:
            tree.tool("udevadm", sh=settle)
        assert tree.hardware()["disks"][0]["ids"] == []

    @pytest.mark.parametrize(
        ("name", "told", "files", "way"),
        [
            ("sda", "sas", {"device/vendor": "ATA     \n"}, "sata"),
            ("sda", "sas", {"device/vendor": "SEAGATE \n"}, "sas"),
            ("sda", None, {"device/vendor": "ATA     \n"}, "sata"),
            ("sda", None, {"device/vendor": "DELL    \n"}, None),
            ("nvme0n1", "nvme", {"device/transport": "pcie\n"}, "nvme"),
            ("nvme0n1", None, {"device/transport": "tcp\n"}, "tcp"),
            ("nvme4n1", "nvme", {"device/nvme7/transport": "rdma\n"}, "rdma"),
            ("nvme4n1", "nvme", {"device/nvme4/transport": "pcie\n"}, "nvme"),
        ],
    )
    def test_how_a_disk_is_reached(
        self, tree: Tree, name: str, told: str | None, files: dict[str, str], way: str | None
    ) -> None:
        entry = {"name": name, "type": "disk", "size": 1000, "tran": told}
        tree.tool("lsblk", json.dumps({"blockdevices": [entry]}))
        for file, text in files.items():
            tree.write(f"/sys/block/{name}/{file}", text)
        (disk,) = tree.hardware()["disks"]
        assert disk["transport"] == way

    @pytest.mark.parametrize("none", ["0x0000000000000000", "eui.0000000000000000", "", None, "0"])
    def test_zeros_are_no_name_of_a_disk(self, none: str | None) -> None:
        entry = {"name": "sda", "type": "disk", "size": 1000, "serial": 123, "wwn": none}
        (disk,) = reader.parse_lsblk({"blockdevices": [None, entry]}, {})
        assert (disk["wwn"], disk["serial"]) == (None, "123")

    def test_an_older_lsblk(self, tree: Tree) -> None:
        old = '{"blockdevices": [{"name":"sda", "type":"disk", "size":"1000", "rota":"0",'
        old += ' "mountpoint":"/data"}]}'
        tree.tool("lsblk", sh=f"case \"$*\" in *MOUNTPOINTS*) echo 'lsblk: unknown column: X' >&2;"
                              f" exit 1;; esac; echo '{old}'")  # fmt: skip
        (disk,) = tree.hardware()["disks"]
        assert disk["in_use"] == ["mounted at /data"]
        assert (disk["size_bytes"], disk["rotational"]) == (1000, False)

    def test_lspci(self, tree: Tree) -> None:
        tree.tool("lspci", (DATA / "lspci" / "nvswitch.txt").read_text())
        found = tree.hardware()
        assert [(g["pci_address"], g["pci_id"]) for g in found["gpus"]] == [
            ("0000:07:00.0", "10de:20b2"),
            ("0001:0f:00.0", "10de:20b2"),
        ]
        assert found["nvswitches"] == ["0000:c4:00.0", "0000:c5:00.0"]
        assert "gpu_driver" not in found["errors"]  # no driver is installed

    def test_a_gpu_that_does_not_answer_is_not_on_the_bus(self, tree: Tree) -> None:
        tree.tool("lspci", '0000:17:00.0 "0302" "10de" "20b0" -rff "10de" "134f"\n')
        found = tree.hardware()
        assert found["gpus"] == []
        assert "fell off the bus" in found["errors"]["gpu 0000:17:00.0"]

    def test_nics(self, tree: Tree) -> None:
        for name in ("lo", "docker0", "veth12ab", "ens5f0", "eno1", "bond0", "dummy0", "odd0"):
            tree.write(f"/sys/class/net/{name}/mtu", "1500\n")
        tree.write("/sys/class/net/ens5f0/address", "3c:ec:ef:00:00:01\n")
        tree.write("/sys/bus/pci/devices/0000:05:00.0/numa_node", "1\n")
        tree.link("/sys/class/net/eno1/device", "../../devices/virtio0")
        tree.tool("ethtool", sh=(
            'case "$*" in\n'
            "'-i ens5f0') printf 'driver: ixgbe\\nbus-info: 0000:05:00.0\\n';;\n"
            "ens5f0) printf '\\tSpeed: 10000Mb/s\\n\\tDuplex: Full\\n\\tLink detected: yes\\n';;\n"
            "'-i eno1') printf 'driver: virtio_net\\nbus-info: virtio0\\n';;\n"
            "eno1) printf '\\tSpeed: Unknown!\\n\\tDuplex: Unknown! (255)\\n';;\n"
            "'-i odd0') printf 'driver: veth\\nbus-info: \\n';;\n"
            "*) echo 'asked for '\"$*\" >&2; exit 1;; esac"
        ))  # fmt: skip
        nics = {nic["name"]: nic for nic in tree.hardware()["nics"]}
        assert set(nics) == {"ens5f0", "eno1"}
        assert nics["ens5f0"] == {
            "name": "ens5f0", "driver": "ixgbe", "mac": "3c:ec:ef:00:00:01", "speed_mbps": 10000,
            "duplex": "full", "link": True, "mtu": 1500, "pci_address": "0000:05:00.0",
            "numa_node": 1,
        }  # fmt: skip
        assert nics["eno1"]["speed_mbps"] is None
        assert nics["eno1"]["link"] is None

    @given(st.dictionaries(st.sampled_from(["name", "type", "size", "children"]), st.none()))
    def test_an_odd_device_is_no_disk(self, entry: dict[str, Any]) -> None:
        assert reader.parse_lsblk({"blockdevices": [entry]}, {}) == []


@given(st.text())
def test_dmidecode_never_raises(text: str) -> None:
    reader.parse_dmidecode(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:17:00.0", "0000:17:00.0"),
        ("0000:CA:00.0", "0000:ca:00.0"),
        ("17:00.0", "0000:17:00.0"),
        ("0:1:0", "0000:01:00.0"),
        ("00010000:81:00.0", "10000:81:00.0"),
        ("virtio0", None),
        ("", None),
    ],
)
def test_pci_addresses_have_one_form(text: str, address: str | None) -> None:
    assert reader.pci_address(text) == address
