"""Known words of tools that gave up: each leads to its cause and to what a technician can do."""

from __future__ import annotations

import pytest

from nodeprep.accept.causes import UNMEASURED, what_now, why_not
from nodeprep.accept.parsers.text import excerpt

HEAD = """\
# nThread 1 nGpus 4 minBytes 536870912 maxBytes 4294967296 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid   4711 on       gpu1 device  0 [0x17] NVIDIA A100-SXM4-40GB
gpu1:4711:4711 [0] NCCL INFO Bootstrap : Using ens5f0:10.7.0.11<0>
gpu1:4711:4711 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v6 symbol.
"""
TAIL = """\
gpu1:4711:4719 [1] NCCL INFO init.cc:1358 -> 1
gpu1: Test NCCL failure common.cu:958 'unhandled {kind} error (run with NCCL_DEBUG=INFO)'
 .. gpu1 pid 4711: Test failure common.cu:842
"""


@pytest.mark.parametrize(
    ("tool", "rc", "said", "cause", "action"),
    [
        ("nvidia-smi", 127, "", "is missing", "converge the role"),
        ("nvidia-smi", 9, "NVIDIA-SMI has failed", "no driver is loaded", "load the driver"),
        ("nvidia-smi", 15, "Unable to determine the device handle for GPU0000:31:00.0: GPU is lost",
         "off the bus: 0000:31:00.0", "power the node off and on"),
        ("nvidia-smi", 18, "Failed to initialize NVML: Driver/library version mismatch",
         "version mismatch", "reboot"),
        ("nvidia-smi", 6, "No devices were found", "No devices", "nouveau"),
        ("all_reduce_perf", 2, "Test CUDA failure 'system not yet initialized'",
         "not yet initialized", "nvidia-fabricmanager"),
        ("all_reduce_perf", 3, "CUDA error 802", "802", "nvidia-fabricmanager"),
        ("nvbandwidth", 1, "CUDA_ERROR_OUT_OF_MEMORY: out of memory", "memory", "gpu.unused"),
        ("all_reduce_perf", 127, "error while loading shared libraries: libnccl.so.2",
         "ended with 127", "brings the library"),
        ("nvbandwidth", 139, "", "crashed (SIGSEGV)", "by hand"),
        ("nvbandwidth", -9, "", "was killed (SIGKILL)", "by hand"),
        ("nvbandwidth", 1, "something new", "something new", UNMEASURED),
        ("nvbandwidth", 1, "", "no word", UNMEASURED),
    ],
)  # fmt: skip
def test_a_tool_that_gave_up(tool: str, rc: int, said: str, cause: str, action: str) -> None:
    assert cause in why_not(tool, rc, said)
    assert action in what_now(tool, rc, said)


@pytest.mark.parametrize(
    ("warning", "kind", "action"),
    [
        ("enqueue.cc:47 NCCL WARN Cuda failure 'named symbol not found'", "cuda", "one CUDA"),
        ("include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'", "cuda", "gpu.unused"),
        ("transport/p2p.cc:71 NCCL WARN Cuda failure 217 'peer access is not supported between "
         "these two devices'", "cuda", "gpu.p2p"),
        ("misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Q1 to 9637892 bytes",
         "system", "/dev/shm"),
        ("init.cc:1 NCCL WARN Cuda failure 'uncorrectable NVLink error detected'", "cuda",
         "gpu.nvlink"),
        ("init.cc:1 NCCL WARN Cuda failure 'unspecified launch failure'", "cuda", "gpu.xid"),
    ],
)  # fmt: skip
def test_a_collective_that_crashed(warning: str, kind: str, action: str) -> None:
    """What NCCL warns of is the cause; it stands far below the start of the output."""
    text = f"{HEAD}gpu1:4711:4719 [1] {warning}\n{TAIL.format(kind=kind)}"
    said = why_not("all_reduce_perf", 3, excerpt(text))
    assert warning in said
    assert "NCCL INFO" not in said
    assert action in what_now("all_reduce_perf", 3, text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD + TAIL.format(kind="system"), "unhandled system error"),
        ("nvbandwidth Version: v0.8\n" + "x\n" * 80 + "WAIVED: no peers\n", "WAIVED: no peers"),
        ("perl: warning: Setting locale failed.\n" * 9 + "NVML: GPU is lost\nFailed to init\n",
         "Failed to init"),
    ],
)  # fmt: skip
def test_of_a_long_output_the_complaint_is_told(text: str, told: str) -> None:
    assert told in excerpt(text)
