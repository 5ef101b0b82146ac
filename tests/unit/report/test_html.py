"""The page: complete, self-contained, and safe against what a node prints."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from tests.unit.report import sample

from nodeprep.model.lifecycle import State
from nodeprep.model.run import Fault, NodeResult
from nodeprep.model.verdict import Outcome, Verdict
from nodeprep.report import html, words

VOID = {"meta", "link", "line", "circle", "polyline", "br"}


class Page(HTMLParser):
    """What a browser would make of it: elements, texts, and whether all that opens is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(*nodes: NodeResult, verb: str = "provision") -> Page:
    return Page(html.render(sample.run(verb, *nodes)))


def test_it_names_the_site_the_verb_every_node_and_its_state() -> None:
    text = page().text
    for said in ("la nodeprep provision", "2026-11-30 16:50 UTC", "took 4 min 12 s",
                  "2 joined", "1 quarantined", "exit 2: drift, or a gate failed",
                  "gpu3", "10.77.0.13:22 did not answer within 10 s",
                  "is the node powered on"):  # fmt: skip
        assert said in text


def test_a_gate_has_value_threshold_margin_source_and_its_marks() -> None:
    text = page(sample.refused()).text
    assert "172.4 GB/s gate 180 GB/s -4.2 %" in text
    assert sample.DERIVED in text
    assert "provisional gate simulated" in text
    assert "not measured" in text  # iperf3


def test_rented_stands_beside_standing() -> None:
    assert "memory 512 GiB in 16 DIMMs 512 GiB in 16 DIMMs" in page(sample.joined()).text


def test_a_part_that_is_not_as_rented_is_marked_in_its_row() -> None:
    text = page(sample.short_of_a_gpu()).text
    assert "GPUs 4 x NVIDIA A100-SXM4-40GB 3 x NVIDIA A100-SXM4-40GB fail" in text
    assert "NICs ens5f0 10 Gb/s ens5f0 10 Gb/s unknown" in text


def test_a_note_on_a_passed_gate_is_shown() -> None:
    node = sample.nas().model_copy(update={"verdicts": (sample.h2d(22.5),)})
    assert "22.5 GB/s is past the warning at 24" in page(node).text


def test_failing_roles_come_first_and_what_passed_is_folded() -> None:
    found = page(sample.planned())
    text = found.text
    assert text.index("nccl fail file:/etc/nccl.conf") < text.index("package:chrony")
    folded = [a for a in found.of("details") if a.get("class") == "passed"]
    assert folded
    assert all("open" not in attributes for attributes in folded)


def test_memory_is_the_sum_of_its_modules_and_a_lack_is_told() -> None:
    lab = sample.hardware().model_copy(
        update={"memory_kib": 24 * 1024**2, "simulated": ("gpus", "dimms")}
    )
    assert words.standing(lab)["memory"] == "512 GiB in 16 DIMMs"
    real = lab.model_copy(update={"simulated": ()})
    assert words.standing(real)["memory"] == "512 GiB in 16 DIMMs, the kernel has 24 GiB"
    bare = real.model_copy(update={"dimms": None})
    assert words.standing(bare)["memory"] == "24 GiB"


def test_figures_of_several_nodes_stand_side_by_side() -> None:
    found = page(*sample.fleet())
    assert "The fleet" in found.text
    assert "behind its sisters" in found.text
    assert "12 sisters: median 226 GB/s" in found.text
    assert sum(a.get("class") == "across" for a in found.of("table")) == 1
    assert "The fleet" not in page(sample.nas()).text


def test_links_between_nodes_are_one_heat_map() -> None:
    found = page(*sample.fleet())
    assert any(a.get("id") == "links" for a in found.of("div"))
    assert [a.get("class") for a in found.of("td")].count("bad") >= 2


def test_what_changed_since_the_last_run_is_a_section() -> None:
    was = sample.run("accept", sample.joined().model_copy(update={"name": "gpu2"}))
    now = Page(html.render(sample.run("accept", sample.refused()), was)).text
    assert "Changed since 2026-11-30 16:50 UTC gpu2 joined now quarantined" in now
    assert "nccl/proof:all_reduce: 223.6 GB/s, now 172.4 GB/s (-22.9 %)" in now
    assert "Nothing: every state and every check is as it was." in Page(html.render(was, was)).text
    assert "Changed since" not in page(sample.refused()).text


def test_diffs_are_shown_line_by_line() -> None:
    found = page(sample.planned())
    assert "+NCCL_SOCKET_IFNAME==ens5f0" in found.text
    kinds = [attributes.get("class") for attributes in found.of("span")]
    assert kinds.count("plus") == kinds.count("minus") == 1


def test_simulated_is_stamped_only_where_it_is_true() -> None:
    assert "Simulated" in page(sample.joined()).text
    assert "imulated" not in page(sample.nas()).text


def test_pairs_and_curves_are_drawn() -> None:
    found = page(sample.refused())
    assert len(found.of("svg")) == 1
    assert [a.get("class") for a in found.of("td")].count("bad") == 2


def test_it_asks_nothing_of_the_network_and_runs_nothing() -> None:
    text = html.render(sample.run())
    found = Page(text)
    assert not {tag for tag, _ in found.tags} & {"script", "img", "iframe", "object", "base"}
    for _, attributes in found.tags:
        for name in ("href", "src", "action"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"@import|url\(|https?://", text)
    assert "default-src 'none'" in text


def test_with_many_nodes_only_those_that_want_attention_are_open() -> None:
    many = [sample.nas().model_copy(update={"name": f"n{n}"}) for n in range(9)]
    sections = [a for a in page(*many, sample.refused(), sample.silent()).of("details")
                if a.get("class") == "panel node"]  # fmt: skip
    assert ["open" in a for a in sections] == [False] * 9 + [True, True]


def test_no_nodes_and_a_bare_node_are_pages_too() -> None:
    empty = sample.run().model_copy(update={"nodes": ()})
    assert "nodes none" in Page(html.render(empty)).text
    assert "nothing was checked" in page(NodeResult(name="a", state=State.NEW)).text


NASTY = "</pre><script>alert(1)</script>\x00\x1b[31m\" onload='x' \udcff"


@pytest.mark.parametrize("outcome", list(Outcome))
def test_nothing_that_a_node_says_becomes_markup(outcome: Outcome) -> None:
    verdict = Verdict(
        claim=NASTY, role=NASTY, verdict=outcome, wanted=NASTY, read=NASTY, source=NASTY,
        reason=NASTY, action=NASTY, diff=f"+{NASTY}", unit=NASTY, gate=1.0,
        detail={NASTY: [NASTY], "matrix": {"rows": [NASTY], "cols": [NASTY], "values": [[1]],
                                           "unit": NASTY}},
    )  # fmt: skip
    fault = Fault(type=NASTY, message=NASTY, hint=NASTY, stage=NASTY)
    claim = verdict.model_copy(update={"gate": None})
    node = NodeResult(name=NASTY, state=State.DRIFTED, verdicts=(verdict, claim), fault=fault,
                      why=NASTY, changed=(NASTY,))  # fmt: skip
    text = html.render(sample.run("drift", node))
    text.encode("utf-8")
    found = Page(text)
    assert not found.of("script")
    assert not any("onload" in attributes for _, attributes in found.tags)
    assert "\x00" not in text
    assert "\x1b" not in text


def test_megabytes_of_output_do_not_become_megabytes_of_page() -> None:
    verdict = Verdict(claim="a/output:b", role="a", verdict=Outcome.FAIL, read="x" * 5_000_000)
    node = sample.nas().model_copy(update={"verdicts": (verdict,)})
    assert len(html.render(sample.run("drift", node))) < 200_000
