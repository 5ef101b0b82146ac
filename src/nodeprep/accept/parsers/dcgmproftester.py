"""`dcgmproftester12 -t 1004`: GFLOPS of FP16 matrix products on the tensor cores, once a second."""

from __future__ import annotations

import re

from nodeprep.accept.parsers.text import ParseError, clean, excerpt, number

TOOL = "dcgmproftester"
# `Worker 0:0[1004]: TensorEngineActive: generated ???, dcgm 0.000 (250362.2 gflops)`; newer ones
# write 1.89e+05 and a space before the bracket, those before 2.1 name no worker.
_RATE = re.compile(
    r"^(?:Worker (\d+):\d+ ?\[1004\]: )?TensorEngineActive: .*\(([\d.eE+]+) gflops\)", re.MULTILINE
)


def parse_gemm(text: str) -> dict[int, tuple[float, ...]]:
    """TFLOPS by GPU, in the order of time. ParseError without any."""
    found: dict[int, list[float]] = {}
    for worker, rate in _RATE.findall(clean(text)):
        value = number(rate)
        if value is not None and value >= 0:
            found.setdefault(int(worker or 0), []).append(value / 1000)
    if not found:
        raise ParseError(TOOL, f"no rates in: {excerpt(text) or 'nothing'}")
    return {gpu: tuple(rates) for gpu, rates in found.items()}
