"""The CUDA toolkit and the NCCL whose versions the roles pin, put together from what is on PyPI.

NVIDIA publishes its headers, runtime, assembler (ptxas) and NCCL there, of those very versions. It
publishes no compiler before CUDA 13: Clang stands in for nvcc, and ptxas assembles what it makes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
CLANG = "clang-19"

_NVCC = """\
#!/bin/sh
home=$(dirname "$(dirname "$(readlink -f "$0")")")
for word; do
  shift
  case $word in -gencode=*code=sm_*) word=--cuda-gpu-arch=${word##*code=} ;; esac
  set -- "$@" "$word"
done
exec clang++-19 --cuda-path="$home" -isystem "$home/include" -Wl,-rpath,"$home/lib64" "$@"
"""

# Clang 19 names the parts of a fat binary as CUDA 12 took them, and this fatbinary is CUDA 13's.
_FATBINARY = """\
#!/bin/sh
for word; do
  shift
  case $word in
    *-image=profile=sm_*) word=--image3=kind=elf,sm=${word#*=profile=sm_} ;;
    *-image=profile=compute_*) word=--image3=kind=ptx,sm=${word#*=profile=compute_} ;;
  esac
  set -- "$@" "$word"
done
exec "$(dirname "$(readlink -f "$0")")/fatbinary-13" "$@"
"""


def pinned(role: str) -> dict[str, str]:
    """The default values of a role."""
    values: dict[str, str] = yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text())
    return values


def toolkit(folder: Path) -> Path:
    """`folder`/toolkit with bin, include, lib64, nvvm. Some 260 MB are downloaded."""
    release, nccl = pinned("cuda")["cuda_release"], pinned("nccl")["nccl_version"].partition("-")[0]
    wheels = [
        f"nvidia-cuda-runtime-cu12=={release}.*",
        f"nvidia-cuda-nvcc-cu12=={release}.*",
        f"nvidia-nccl-cu12=={nccl}",
        "nvidia-cuda-cccl-cu12==12.9.27",  # nv/target; the wheels of 12.1 lack it
        "nvidia-cuda-nvcc==13.0.88",  # fatbinary
    ]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", "wheels"]
    subprocess.run([*pip, *wheels], cwd=folder, check=True, timeout=900)
    there, home = folder / "wheels" / "nvidia", folder / "toolkit"
    for part in ("cuda_nvcc", "cuda_runtime", "nccl"):
        for kind, place in (("include", "include"), ("lib", "lib64")):
            shutil.copytree(there / part / kind, home / place, dirs_exist_ok=True)
    shutil.copytree(there / "cuda_cccl/include/nv", home / "include/nv")
    shutil.copytree(there / "cuda_nvcc/nvvm", home / "nvvm")
    (home / "bin").mkdir()
    shutil.copy(there / "cuda_nvcc/bin/ptxas", home / "bin/ptxas")
    shutil.copy(there / "cu13/bin/fatbinary", home / "bin/fatbinary-13")
    (home / "bin/nvcc").write_text(_NVCC)
    (home / "bin/fatbinary").write_text(_FATBINARY)
    for tool in (home / "bin").iterdir():
        tool.chmod(0o755)
    # Clang includes this header of cuRAND wherever CUDA is; nothing here uses it.
    (home / "include/curand_mtgp32_kernel.h").touch()
    for library in ("libcudart.so", "libnccl.so"):
        found = next((home / "lib64").glob(f"{library}.*"))
        (home / "lib64" / library).symlink_to(found.name)
    return home
