"""Runs on the node, by its own Python: all its GPUs multiply matrices in TF32, round after round.

One process a GPU drives the cuBLAS that role cuda installed. Every round is the same work on the
same numbers, and cuBLAS promises the same bits for that from GPUs of one kind ("Results
reproducibility" in its documentation): a round with another checksum was computed wrongly. A round
adds its products up, so that a wrong one still shows at its end. Stdlib only, Python 3.8. Prints

    gpu 0 TFLOPS 128.31 result 5b8c01f2     for each round
"""

import array
import ctypes
import os
import random
import sys
import zlib

ROWS, INNER = 4096, 16384  # of (ROWS x INNER) times (INNER x ROWS)
OPERATIONS = 2 * ROWS * ROWS * INNER  # of one product
FACTOR_BYTES, RESULT_BYTES = 4 * ROWS * INNER, 4 * ROWS * ROWS
CHUNK = 16 << 20
RELEASES = (
    ("libcudart.so.12", "libcublas.so.12"),
    ("libcudart.so.13", "libcublas.so.13"),
    ("libcudart.so.11.0", "libcublas.so.11"),
)
FOLDERS = ("", "/usr/local/cuda/lib64/")  # "": wherever the loader finds them
# Of cuda_runtime_api.h, library_types.h and cublas_api.h.
TO_DEVICE, TO_HOST, R_32F, COMPUTE_FAST_TF32, DEFAULT_ALGORITHM = 1, 2, 0, 77, -1


class Refused(Exception):
    pass


class Cuda:
    """The runtime and cuBLAS; what they refuse is an exception that names the call."""

    def __init__(self) -> None:
        self.runtime, self.cublas = _libraries()
        self.runtime.cudaGetErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *args: object) -> None:
        status = getattr(self.runtime, name)(*args)
        if status:
            text = self.runtime.cudaGetErrorString(status).decode()
            raise Refused(f"{name}: {text} ({status})")

    def blas(self, name: str, *args: object) -> None:
        status = getattr(self.cublas, name)(*args)
        if status:
            raise Refused(f"{name}: status {status} of cublas_api.h")

    def memory(self, size: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self.call("cudaEventCreate", ctypes.byref(event))
        return event


def main(gpus: int, rounds: int, products: int) -> int:
    """`products`: in one round."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # numbered as nvidia-smi does
    children = [_started(gpu, rounds, products) for gpu in range(gpus)]
    return max(1 if os.waitpid(child, 0)[1] else 0 for child in children)


def _started(gpu: int, rounds: int, products: int) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        _work(gpu, rounds, products)
        status = 0
    except (AttributeError, OSError, Refused) as problem:
        os.write(2, f"GPU{gpu}: {problem}\n".encode())
    finally:
        os._exit(status)


def _work(gpu: int, rounds: int, products: int) -> None:
    cuda = Cuda()
    cuda.call("cudaSetDevice", gpu)
    left, right = (_filled(cuda, seed) for seed in (1, 2))
    result = cuda.memory(RESULT_BYTES)
    handle, begin, end = ctypes.c_void_p(), cuda.event(), cuda.event()
    cuda.blas("cublasCreate_v2", ctypes.byref(handle))
    one, took = ctypes.c_float(1.0), ctypes.c_float()

    def add_product() -> None:
        cuda.blas(
            "cublasGemmEx", handle, 0, 0, ROWS, ROWS, INNER, ctypes.byref(one), left, R_32F, ROWS,
            right, R_32F, INNER, ctypes.byref(one), result, R_32F, ROWS, COMPUTE_FAST_TF32,
            DEFAULT_ALGORITHM,
        )  # fmt: skip

    add_product()  # the first one also loads the kernel
    for _ in range(rounds):
        cuda.call("cudaMemset", result, 0, ctypes.c_size_t(RESULT_BYTES))
        cuda.call("cudaEventRecord", begin, None)
        for _ in range(products):
            add_product()
        cuda.call("cudaEventRecord", end, None)
        cuda.call("cudaEventSynchronize", end)
        cuda.call("cudaEventElapsedTime", ctypes.byref(took), begin, end)
        tflops = products * OPERATIONS / (took.value * 1e9)
        line = f"gpu {gpu} TFLOPS {tflops:.2f} result {_checksum(cuda, result):08x}\n"
        os.write(1, line.encode())


def _filled(cuda: Cuda, seed: int) -> ctypes.c_void_p:
    """A factor: one row of numbers over and over, of a length that no row of the matrix has."""
    dice = random.Random(seed)
    tile = array.array("f", (dice.uniform(-1, 1) for _ in range(65537))).tobytes()
    memory = cuda.memory(FACTOR_BYTES)
    for at in range(0, FACTOR_BYTES, len(tile)):
        size = min(len(tile), FACTOR_BYTES - at)
        place = ctypes.c_void_p((memory.value or 0) + at)
        cuda.call("cudaMemcpy", place, tile, ctypes.c_size_t(size), TO_DEVICE)
    return memory


def _checksum(cuda: Cuda, memory: ctypes.c_void_p) -> int:
    chunk, checksum = ctypes.create_string_buffer(CHUNK), 0
    for at in range(0, RESULT_BYTES, CHUNK):
        place = ctypes.c_void_p((memory.value or 0) + at)
        cuda.call("cudaMemcpy", chunk, place, ctypes.c_size_t(CHUNK), TO_HOST)
        checksum = zlib.crc32(chunk, checksum)
    return checksum


def _libraries() -> "tuple[ctypes.CDLL, ctypes.CDLL]":
    problem = ""
    for names in RELEASES:
        for folder in FOLDERS:
            try:
                runtime, cublas = (ctypes.CDLL(folder + name) for name in names)
            except OSError as error:
                problem = problem or str(error)
            else:
                return runtime, cublas
    raise Refused("the CUDA runtime and cuBLAS are missing: " + problem)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
