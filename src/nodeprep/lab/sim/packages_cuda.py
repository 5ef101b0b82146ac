"""CUDA, NCCL, GDRCopy and test tools: names, versions, dependencies of NVIDIA's repository."""

from __future__ import annotations

from . import dkms
from .deb import Deb

UPSTREAM = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
_PIN = "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
_CUDA = "/usr/local/cuda-12.1"
_LIB = f"{_CUDA}/targets/x86_64-linux/lib"
_VERSION_JSON = """\
{
   "cuda" : {
      "name" : "CUDA SDK",
      "version" : "12.1.1"
   },
   "cuda_cudart" : {
      "name" : "CUDA Runtime (cudart)",
      "version" : "12.1.105"
   },
   "cuda_nvcc" : {
      "name" : "CUDA NVCC",
      "version" : "12.1.105"
   }
}
"""
_ALTERNATIVES = f"""\
update-alternatives --quiet --install /usr/local/cuda cuda {_CUDA} 121
update-alternatives --quiet --install /usr/local/cuda-12 cuda-12 {_CUDA} 121
"""
_NO_ALTERNATIVES = f"""\
update-alternatives --quiet --remove cuda {_CUDA} || true
update-alternatives --quiet --remove cuda-12 {_CUDA} || true
"""
_NCCL_H = """\
#ifndef NCCL_H_
#define NCCL_H_
#define NCCL_MAJOR {major}
#define NCCL_MINOR {minor}
#define NCCL_PATCH {patch}
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE {code}
#endif
"""
# A real build stops here as well: gdrdrv is compiled against the driver's own source.
_NEEDS_SOURCE = """\
if ! ls -d /usr/src/nvidia-* >/dev/null 2>&1; then
    echo "Error! Bad return status for module build: nv-p2p.h not found, is the driver's source" \
"installed?" >&2
    exit 10
fi
"""
_RUNTIME = """\
[nvidia-container-runtime]
log-level = "info"
mode = "auto"
runtimes = ["runc", "crun"]
"""
_DCGM = """\
[Unit]
Description=NVIDIA DCGM service

[Service]
User=root
PrivateTmp=false
Type=simple
ExecStart=/usr/bin/nv-hostengine -n --service-account nvidia-dcgm
Restart=on-abort

[Install]
WantedBy=multi-user.target
"""


def keyring(key: bytes) -> Deb:
    return Deb(
        "cuda-keyring", "1.1-1", "GPG keyring for the CUDA repository", architecture="all",
        section="utils", binaries={KEYRING: key} if key else {},
        files={"/etc/apt/sources.list.d/cuda-ubuntu2204-x86_64.list":
               f"deb [signed-by={KEYRING}] {UPSTREAM} /\n",
               "/etc/apt/preferences.d/cuda-repository-pin-600": _PIN},
    )  # fmt: skip


def cuda() -> list[Deb]:
    """The 12.1.1 toolkit, and the `cuda` metapackage that would pull a driver of branch 530."""
    config = "cuda-toolkit-12-1-config-common"
    return [
        Deb("cuda-toolkit-12-1", "12.1.1-1", "CUDA Toolkit 12.1 meta-package",
            depends="cuda-cudart-12-1 (>= 12.1.105), cuda-cudart-dev-12-1 (>= 12.1.105), "
                    "cuda-nvcc-12-1 (>= 12.1.105), libcublas-12-1 (>= 12.1.3.1), "
                    f"libcublas-dev-12-1 (>= 12.1.3.1), {config} (>= 12.1.105)"),
        Deb(config, "12.1.105-1", "Common config package for CUDA Toolkit 12.1.",
            architecture="all", postinst=_ALTERNATIVES, postrm=_NO_ALTERNATIVES,
            files={f"{_CUDA}/version.json": _VERSION_JSON,
                   "/etc/ld.so.conf.d/988_cuda-12.conf": "/usr/local/cuda-12/targets/x86_64-linux/"
                                                         "lib\n"}),
        Deb("cuda-cudart-12-1", "12.1.105-1", "CUDA Runtime native Libraries",
            depends=config, part="cuda",
            libraries=(f"{_LIB}/libcudart.so.12",),
            links={f"{_CUDA}/lib64": "targets/x86_64-linux/lib",
                   f"{_CUDA}/include": "targets/x86_64-linux/include"}),
        Deb("cuda-cudart-dev-12-1", "12.1.105-1", "CUDA Runtime native dev links, headers",
            depends="cuda-cudart-12-1 (>= 12.1.105)",
            files={f"{_CUDA}/targets/x86_64-linux/include/cuda.h": "#define CUDA_VERSION 12010\n"}),
        Deb("cuda-nvcc-12-1", "12.1.105-1", "CUDA nvcc", depends=config,
            tools=(f"{_CUDA}/bin/nvcc",)),
        Deb("libcublas-12-1", "12.1.3.1-1", "CUBLAS native runtime libraries", depends=config,
            libraries=(f"{_LIB}/libcublas.so.12",)),
        Deb("libcublas-dev-12-1", "12.1.3.1-1", "CUBLAS native dev links, headers",
            depends="libcublas-12-1 (>= 12.1.3.1)"),
        Deb("cuda", "12.1.1-1", "CUDA meta-package", depends="cuda-12-1 (>= 12.1.1)"),
        Deb("cuda-12-1", "12.1.1-1", "CUDA 12.1 meta-package",
            depends="cuda-runtime-12-1 (>= 12.1.1), cuda-toolkit-12-1 (>= 12.1.1)"),
        Deb("cuda-runtime-12-1", "12.1.1-1", "CUDA Runtime 12.1 meta-package",
            depends="cuda-drivers (>= 530.30.02), cuda-cudart-12-1 (>= 12.1.105)"),
        Deb("cuda-drivers", "530.30.02-1", "CUDA Driver meta-package",
            depends="cuda-drivers-530 (= 530.30.02-1)"),
        Deb("cuda-drivers-530", "530.30.02-1", "CUDA Driver meta-package, branch-specific",
            depends="nvidia-driver-530 (>= 530.30.02)"),
    ]  # fmt: skip


def nccl(version: str) -> list[Deb]:
    """`version` with its CUDA build, as 2.16.5-1+cuda12.0."""
    numbers = version.partition("-")[0]
    major, minor, patch = numbers.split(".")
    header = _NCCL_H.format(major=major, minor=minor, patch=patch,
                            code=int(major) * 10000 + int(minor) * 100 + int(patch))  # fmt: skip
    return [
        Deb("libnccl2", version, "NVIDIA Collective Communication Library (NCCL) Runtime",
            depends="libc6 (>= 2.17)", part="nccl"),
        Deb("libnccl-dev", version, "NVIDIA Collective Communication Library (NCCL) Development",
            depends=f"libnccl2 (= {version})", files={"/usr/include/nccl.h": header}),
    ]  # fmt: skip


def gdrcopy() -> list[Deb]:
    return [
        Deb("gdrdrv-dkms", "2.4-1", "gdrdrv driver in DKMS format.", section="contrib/kernel",
            postinst_first=_NEEDS_SOURCE, part="gdrdrv", dkms=("gdrdrv", "2.4"),
            files=dkms.source("gdrdrv", "gdrdrv", "2.4", against="nvidia/nv-p2p.h")),
        Deb("libgdrapi", "2.4-1", "Library for gdrdrv", depends="gdrdrv-dkms (>= 2.4)",
            files={"/usr/include/gdrapi.h": "#define GDR_API_MAJOR_VERSION 2\n"
                                            "#define GDR_API_MINOR_VERSION 4\n"}),
        Deb("gdrcopy-tests", "2.4-1", "Tests and benchmarks for GDRCopy",
            depends="libgdrapi (>= 2.4)",
            tools=("/usr/bin/gdrcopy_sanity", "/usr/bin/gdrcopy_copybw")),
        Deb("gdrcopy", "2.4-1", "Meta package for GDRCopy",
            depends="libgdrapi (>= 2.4), gdrdrv-dkms (>= 2.4), gdrcopy-tests (>= 2.4)"),
    ]  # fmt: skip


def tools() -> list[Deb]:
    """Those of nccl-tests, nvbandwidth and OSU have no packages upstream: the names are our own."""
    perf = ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf")
    return [
        Deb("nccl-tests", "2.13.6-1", "NCCL tests", depends="libnccl2", part="nccl-tests",
            tools=tuple("/usr/bin/" + name for name in perf)),
        Deb("nvbandwidth", "0.8-1", "Bandwidth measurements on NVIDIA GPUs", part="nvbandwidth",
            tools=("/usr/bin/nvbandwidth",)),
        Deb("osu-micro-benchmarks", "7.2-1", "MPI micro-benchmarks, built for CUDA",
            tools=("/usr/bin/osu_bw",)),
        Deb("datacenter-gpu-manager", "1:3.3.5", "NVIDIA Data Center GPU Management",
            tools=("/usr/bin/dcgmi", "/usr/bin/nv-hostengine", "/usr/bin/dcgmproftester12"),
            part="dcgm",
            files={"/lib/systemd/system/nvidia-dcgm.service": _DCGM},
            units=("nvidia-dcgm.service",)),
    ]  # fmt: skip


def container_toolkit() -> list[Deb]:
    """As NVIDIA's CUDA repositories have them since 1.13."""
    version, exact = "1.17.8-1", "(= 1.17.8-1)"
    return [
        Deb("libnvidia-container1", version, "NVIDIA container runtime library"),
        Deb("libnvidia-container-tools", version, "NVIDIA container runtime library, tools",
            depends=f"libnvidia-container1 {exact}"),
        Deb("nvidia-container-toolkit-base", version, "NVIDIA Container Toolkit Base",
            tools=("/usr/bin/nvidia-ctk",),
            files={"/etc/nvidia-container-runtime/config.toml": _RUNTIME,
                   "/usr/share/nvidia-container-toolkit/README": "simulated\n"}),
        Deb("nvidia-container-toolkit", version, "NVIDIA Container toolkit",
            depends=f"nvidia-container-toolkit-base {exact}, libnvidia-container-tools {exact}"),
    ]  # fmt: skip


def all_debs() -> list[Deb]:
    builds = ("2.16.5-1+cuda12.0", "2.16.2-1+cuda11.8", "2.17.1-1+cuda12.1", "2.21.5-1+cuda12.4")
    return [*cuda(), *(deb for build in builds for deb in nccl(build)), *gdrcopy(), *tools(),
            *container_toolkit()]  # fmt: skip
