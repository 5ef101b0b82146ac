"""The catalogue of faults that can be injected into a board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import faults_gpu, faults_host, faults_software

if TYPE_CHECKING:
    from .fault import Fault

CATALOGUE: dict[str, Fault] = {
    fault.name: fault
    for fault in (*faults_gpu.FAULTS, *faults_host.FAULTS, *faults_software.FAULTS)
}
