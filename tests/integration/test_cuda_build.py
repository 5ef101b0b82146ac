"""What role gpu_tools builds from source, built with the CUDA and the NCCL that the roles pin.

A lab of its own with one GPU node. The recipe of nccl-tests is the role's, its source a small one
of the same shape: lab nodes reach no GitHub. CUDA and NCCL are NVIDIA's own (tests/cuda.py). No GPU
is here, so what was built must say so, and no gate may take it for a pass.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import Rack, standing
from tests.cuda import CLANG, pinned, toolkit

pytestmark = pytest.mark.lab
LAB = "cuda"
BIN = Path(sys.executable).parent
DATA = Path(__file__).parents[1] / "data" / "cuda"
HOME = "/opt/cuda"
SOURCES = "/opt/sources"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "nccl-tests.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        tar.add(DATA, "nccl-tests")
    return file


def recipe(source: Path) -> dict[str, Any]:
    """The role's own, with a source that can be had here and the compiler that needs no nvcc."""
    recipes: Any = pinned("gpu_tools")["gpu_tools_recipes"]
    mine = next(one for one in recipes if one["name"] == "nccl-tests")
    return {
        **mine,
        "url": f"file://{SOURCES}/{source.name}",
        "sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        "build_depends": [*mine["build_depends"], CLANG],
    }


@pytest.fixture(scope="module")
def lab(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    home = toolkit(tmp_path_factory.mktemp("cuda"))
    with standing(LAB, gpus=1, nas=0) as found:
        found.bring("gpu1", home, HOME)
        found.bring("gpu1", source.parent, SOURCES)
        yield found


@pytest.fixture(scope="module")
def site(lab: Rack, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of a site that builds its tools."""
    file = lab.inventory(tmp_path_factory.mktemp("site"))
    data = yaml.safe_load(file.read_text())
    data["all"]["vars"] |= {
        "gpu_tools_from": "source", "gpu_tools_cuda_dir": HOME,
        "gpu_tools_recipes": [recipe(source)],
    }  # fmt: skip
    file.write_text(yaml.safe_dump(data))
    return file


def nodeprep(lab: Rack, verb: str, *words: str | Path) -> dict[str, Any]:
    done = subprocess.run(
        [BIN / "nodeprep", verb, *words, "--json"],
        env={**os.environ, "NODEPREP_BOOTSTRAP_PASSWORD": lab.password},
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.stdout, done.stderr
    node: dict[str, Any] = json.loads(done.stdout)["nodes"][0]
    return node


def test_the_recipe_builds_with_the_pinned_cuda_and_nccl(lab: Rack, site: Path) -> None:
    node = nodeprep(lab, "provision", site, "--yes", "--to", "converge")
    assert not node["fault"], node["fault"]["message"]
    assert "+np" in lab.run("gpu1", "dpkg-query", "-Wf", "${Version}", "nccl-tests")


def test_what_was_built_speaks_of_these_versions_and_finds_no_gpu(lab: Rack) -> None:
    done = lab.execute("gpu1", ["all_reduce_perf"])
    major, minor = pinned("cuda")["cuda_release"].split(".")
    cuda = 1000 * int(major) + 10 * int(minor)
    nccl = [int(part) for part in pinned("nccl")["nccl_version"].partition("-")[0].split(".")]
    version = 10_000 * nccl[0] + 100 * nccl[1] + nccl[2]
    assert done.stdout == f"NCCL {version} (headers {version}), CUDA {cuda} (headers {cuda})\n"
    assert done.returncode == 1
    assert done.stderr.startswith("cudaGetDeviceCount: ")


def test_a_tool_that_finds_no_gpu_is_no_pass(lab: Rack, site: Path) -> None:
    node = nodeprep(lab, "accept", site, "--level", "poc")
    found = {
        verdict["claim"]: verdict["verdict"]
        for verdict in node["verdicts"]
        if verdict["claim"].startswith("nccl/proof:nccl.all_reduce")
    }
    assert set(found.values()) == {"unknown"}, found
