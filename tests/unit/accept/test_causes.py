"""Known words of tools that gave up: each leads to its cause and to what a technician can do."""

from __future__ import annotations

import pytest

from nodeprep.accept.causes import UNMEASURED, what_now, why_not


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
