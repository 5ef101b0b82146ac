"""Outputs as the field prints them: noise changes nothing, garbage passes nothing.

The kinds are tried, not samples: each on what the stand-ins print in the formats of all versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.accept.parsers.kernel_log import parse_kernel_log
from nodeprep.accept.parsers.nccl_log import parse_nccl_log
from nodeprep.accept.parsers.nccl_tests import parse_nccl_test
from nodeprep.accept.parsers.nvbandwidth import parse_nvbandwidth
from nodeprep.accept.parsers.nvlink import parse_nvlink, parse_nvlink_errors
from nodeprep.accept.parsers.smi import GpuHealth, parse_smi
from nodeprep.accept.parsers.text import ParseError
from nodeprep.accept.parsers.topology import parse_p2p, parse_topology
from nodeprep.model.verdict import Outcome
from nodeprep.probe import reader
from tests.unit.accept.nodes import Answer, profile
from tests.unit.accept.simulated import Server, judged, red, server
from tests.unit.accept.test_catalogue import VERSIONS

Parse = Callable[[str], object]
NCCL = "all_reduce_perf -b 512M -e 4G -f 2 -g 4"
TOOLS: dict[str, tuple[str, Parse]] = {
    "smi": ("nvidia-smi -q -x", parse_smi),
    "reader": ("nvidia-smi -q -x", reader.parse_nvidia_smi),
    "topology": ("nvidia-smi topo -m", parse_topology),
    "p2p": ("nvidia-smi topo -p2p r", parse_p2p),
    "nvlink": ("nvidia-smi nvlink -s", parse_nvlink),
    "nvlink errors": ("nvidia-smi nvlink -e", parse_nvlink_errors),
    "nccl tests": (NCCL, parse_nccl_test),
    "nccl log": (NCCL, parse_nccl_log),
    "nvbandwidth": ("nvbandwidth -t device_to_device_memcpy_read_ce", parse_nvbandwidth),
    "kernel log": ("journalctl -k -o short-unix", parse_kernel_log),
}
UNSAID = ("N/A", "[N/A]", "ERR!", "[Unknown Error]", "Unknown Error", "GPU is lost",
          "[GPU is lost]", "Not Supported", "[Insufficient Permissions]",
          "Requested functionality has been deprecated",
          "[Function Not Found]", "Unable to query", "", "???", "nicht verfügbar")  # fmt: skip
ASIDE = (
    "WARNING: infoROM is corrupted at gpu 0000:17:00.0",
    "Warnung: Gebietsschema kann nicht gesetzt werden",
    "perl: warning: Setting locale failed.",
    "libibverbs: Warning: couldn't load driver 'libhfi1verbs-rdmav34.so'",
    "Authorization required, but no authorization protocol specified",
    "警告: 内核模块已过期",
    "bash: /opt/conda/lib/libtinfo.so.6: no version information available (required by bash)",
    "\x1b[33m*** scheduled maintenance on Sunday ***\x1b[0m",
    "",
)


@pytest.fixture(scope="module", params=sorted(VERSIONS))
def printed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    one = server(tmp_path_factory.mktemp(request.param) / "node", versions=VERSIONS[request.param])
    return {
        name: one.tool(command.split(), {"NCCL_DEBUG": "INFO"}).stdout
        for name, (command, _) in TOOLS.items()
    }


Printed = dict[str, str]


@pytest.mark.parametrize("name", TOOLS)
class TestNoise:
    """What stands around an output, or in how it is written, is not part of what it says."""

    def test_carriage_returns(self, printed: Printed, name: str) -> None:
        text, parse = printed[name], TOOLS[name][1]
        assert parse(text.replace("\n", "\r\n")) == parse(text)

    def test_colours(self, printed: Printed, name: str) -> None:
        text, parse = printed[name], TOOLS[name][1]
        assert parse(re.sub(r"(?m)^(.+)$", "\x1b[1m\\1\x1b[0m", text)) == parse(text)

    def test_words_before_and_after_it(self, printed: Printed, name: str) -> None:
        text, parse = printed[name], TOOLS[name][1]
        said = parse(text)
        for aside in ASIDE:
            assert parse(f"{aside}\n{text}") == said, aside
            assert parse(f"{text}\n{aside}\n") == said, aside

    @given(draw=st.data())
    @settings(max_examples=20)
    def test_damage_is_a_typed_error_or_a_result(
        self, printed: Printed, name: str, draw: st.DataObject
    ) -> None:
        text, parse = printed[name], TOOLS[name][1]
        for _ in range(draw.draw(st.integers(1, 4))):
            at = draw.draw(st.integers(0, len(text)))
            end = draw.draw(st.integers(at, min(len(text), at + 300)))
            patch = draw.draw(st.one_of(st.sampled_from([*UNSAID, *ASIDE, "9" * 400, "\x00"]),
                                        st.text(max_size=8)))  # fmt: skip
            text = text[:at] + patch + text[end:]
        try:
            parse(text)
        except (ParseError, reader.Failed):
            return


@pytest.mark.parametrize("name", ["smi", "reader"])
class TestDocument:
    @given(share=st.floats(0, 0.999))
    @settings(max_examples=25)
    def test_cut_short_it_is_no_document(self, printed: Printed, name: str, share: float) -> None:
        text = printed[name].rstrip()
        with pytest.raises((ParseError, reader.Failed)):
            TOOLS[name][1](text[: int(len(text) * share)])

    def test_elements_that_nobody_knows(self, printed: Printed, name: str) -> None:
        text, parse = printed[name], TOOLS[name][1]
        more = "<edpp_multiplier>N/A</edpp_multiplier><new><block>1</block></new>"
        assert parse(re.sub(r"(</\w+>)", rf"\1{more}", text, count=40)) == parse(text)

    def test_the_power_limit_under_every_name(self, printed: Printed, name: str) -> None:
        text, parse = printed[name], TOOLS[name][1]
        block, limit = r"(</?)(?:gpu_)?power_readings>", r"(</?)(?:current_)?power_limit>"
        for words in (("power_readings", "power_limit"), ("gpu_power_readings", "power_limit"),
                      ("gpu_power_readings", "current_power_limit")):  # fmt: skip
            other = re.sub(block, rf"\1{words[0]}>", text)
            assert parse(re.sub(limit, rf"\1{words[1]}>", other)) == parse(text), words

    def test_elements_in_another_order(self, printed: Printed, name: str) -> None:
        text, parse = printed[name], TOOLS[name][1]
        link = re.compile(r"(<pcie_gen>.*?</pcie_gen>)(\s*)(<link_widths>.*?</link_widths>)", re.S)
        assert parse(link.sub(r"\3\2\1", text)) == parse(text)


TEXTS = ("vbios", "compute_mode")
# Of GpuHealth, the fields whose element this text of the document is.
LEAVES = {
    "vbios": "vbios_version", "ecc_on": "current_ecc", "remap_pending": "remapped_row_pending",
    "remap_failure": "remapped_row_failure", "temperature": "gpu_temp",
    "power_limit": "power_limit|current_power_limit", "pcie_gen_max": "max_link_gen",
    "pcie_width": "current_link_width", "replays": "replay_counter",
    "compute_mode": "compute_mode",
    "reasons": r"clocks_(?:event|throttle)_reason_hw_slowdown",
    "ecc_uncorrectable": "dram_uncorrectable",
    "sram_aggregate": "sram_uncorrectable|sram_uncorrectable_secded",
}  # fmt: skip


@pytest.mark.parametrize("field", LEAVES)
def test_what_is_not_said_is_none(printed: Printed, field: str) -> None:
    # Of what is text anyway, that it is another text is for the proof to say.
    words = [
        word for word in UNSAID if field not in TEXTS or word not in ("???", "nicht verfügbar")
    ]
    for word in words:
        text = re.sub(rf"<({LEAVES[field]})>[^<]*</", rf"<\1>{word}</", printed["smi"])
        assert text != printed["smi"]
        assert [getattr(gpu, field) for gpu in parse_smi(text)] == [None] * 4, word


def test_every_figure_that_proofs_need_is_tried() -> None:
    known = {field.name for field in fields(GpuHealth)}
    assert set(LEAVES) <= known


HEALTH = {"gpu.ecc", "gpu.memory_repair", "gpu.throttle", "gpu.temperature_max",
          "gpu.power_limit", "gpu.pcie", "gpu.alike", "gpu.unused",
          "gpu.compute_mode", "gpu.pcie_replays"}  # fmt: skip


@pytest.fixture
def one(tmp_path: Path) -> Server:
    return server(tmp_path / "node")


@pytest.mark.parametrize("word", UNSAID)
def test_a_gpu_that_says_nothing_passes_nothing(
    one: Server, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name, place and number are known, as of a GPU that is lost; all else is `word`."""
    whole = one.tool(["nvidia-smi", "-q", "-x"], {}).stdout
    head, gpu, rest = whole.partition('<gpu id="00000000:31:00.0">')
    mine, end, others = rest.partition("</gpu>")
    mute = re.sub(r"<(?!product_name|pci_bus)(\w+)>[^<>]*</\1>", rf"<\1>{word}</\1>", mine)
    answer = Answer(head + gpu + mute + end + others)
    one.answers = {"nvidia-smi -q -x": answer, **one.answers}
    mesh = profile("a100-sxm4-40g-x4")
    found = red(judged(one, mesh, monkeypatch, roles=("nvidia_driver",)))
    assert found.keys() >= HEALTH
    assert {found[name].verdict for name in HEALTH} <= {Outcome.UNKNOWN, Outcome.FAIL}


@pytest.mark.parametrize("noise", ASIDE)
def test_a_healthy_node_with_noisy_tools_is_accepted(
    one: Server, noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = one.tool

    def noisy(argv: list[str], settings: dict[str, str]) -> Answer:
        answer = quiet(argv, settings)
        return Answer(f"{noise}\r\n{answer.stdout}", answer.rc, answer.stderr)

    monkeypatch.setattr(one, "tool", noisy)
    found = red(judged(one, profile("a100-sxm4-40g-x4"), monkeypatch))
    tools = {name: v.reason for name, v in found.items() if not name.startswith("hardware/")}
    assert tools == {}


class TestVariantsOfTheField:
    """Kinds of output seen in public that no stand-in prints."""

    def test_nccl_tests_under_mpirun_that_tags_its_lines(self, printed: Printed) -> None:
        text = printed["nccl tests"]
        tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines())
        assert parse_nccl_test(tagged).rows == parse_nccl_test(text).rows
        assert parse_nccl_test(tagged).out_of_bounds == 0

    def test_nccl_tests_indented(self, printed: Printed) -> None:
        text = printed["nccl tests"]
        indented = "".join(f"    {line}\n" for line in text.splitlines())
        assert parse_nccl_test(indented) == parse_nccl_test(text)

    def test_links_without_a_uuid(self, printed: Printed) -> None:
        text = re.sub(r" \(UUID: [^)]*\)", "", printed["nvlink"])
        assert [len(gpu.active) for gpu in parse_nvlink(text)] == [12] * 4

    @pytest.mark.parametrize("instead", [r"\1N/A", ""])
    def test_a_gpu_that_tells_no_errors_of_its_links_has_not_passed(
        self, printed: Printed, instead: str
    ) -> None:
        head, gpu, rest = printed["nvlink errors"].partition("GPU 3: ")
        mute = re.sub(r"(?m)^(\s+Link .*: )\d+$", instead, rest)
        with pytest.raises(ParseError, match="no counter of GPU 3"):
            parse_nvlink_errors(head + gpu + mute)

    def test_a_decimal_comma(self, printed: Printed) -> None:
        text = re.sub(r"(\d)\.(\d\d?\b)(?!\.)", r"\1,\2", printed["nccl tests"])
        assert parse_nccl_test(text).busbw() == parse_nccl_test(printed["nccl tests"]).busbw()

    @pytest.mark.parametrize(
        "line",
        [
            "[Mon Nov 30 12:00:00 2026] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen",
            "Nov 30 12:00:00 gpu1 kernel: NVRM: Xid (0000:17:00): 79, GPU has fallen off the bus.",
            "[  12.345678] NVRM: GPU 0000:17:00.0: GPU has fallen off the bus.",
            "[  12.345678] NVRM: GPU at 0000:17:00.0 has fallen off the bus.",
            "kern  :err   : [  12.345678] NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', x",
        ],
    )
    def test_a_gpu_that_left_with_or_without_its_xid(self, line: str) -> None:
        (xid,) = parse_kernel_log(line).since(2e9)
        assert (xid.code, xid.bus.startswith("0000:17:00")) == (79, True)

    @pytest.mark.parametrize("where", ["GPU-I:05", "GPU-I:01 GPU-CI:02"])
    def test_an_xid_of_one_instance_of_a_gpu(self, where: str) -> None:
        line = f"[  12.345678] NVRM: Xid (PCI:0000:17:00 {where}): 95, pid=7, Uncontained: LTC TAG"
        (xid,) = parse_kernel_log(line).xids
        assert (xid.code, xid.bus, xid.text) == (95, "0000:17:00", "pid=7, Uncontained: LTC TAG")

    @pytest.mark.parametrize("head", ["1800000000.5 gpu1 kernel: ", "2027-01-15T08:00:00,5+00:00 "])
    @pytest.mark.parametrize("stamped", [True, False])
    def test_a_message_of_several_lines_has_one_time_and_one_gpu(
        self, head: str, stamped: bool
    ) -> None:
        text = (
            "NVRM: The NVIDIA GPU 0000:B3:00.0\n"
            "NVRM: (PCI ID: 10de:20b0) installed in this system has\n"
            "NVRM: fallen off the bus and is not responding to commands."
        )
        log = head + text.replace("\n", "\n" + (head if stamped else " " * len(head)))
        (xid,) = parse_kernel_log(log).xids
        assert (xid.code, xid.bus) == (79, "0000:b3:00.0")
        assert parse_kernel_log(log).since(1_800_000_001) == ()

    def test_errors_of_switches_count_when_they_are_fatal(self) -> None:
        log = parse_kernel_log(
            "[  1.000000] nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 11004, Non-fatal, Link 36\n"
            "[  2.000000] nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM\n"
        )
        assert [(found.code, found.bus) for found in log.switches] == [(20034, "0000:c4:00.0")]
        assert log.xids == ()
