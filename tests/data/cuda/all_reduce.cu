// A small all_reduce_perf: every GPU of the node adds ones with NCCL, and each sum is looked at.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>
#ifdef MPI_SUPPORT
#include <mpi.h>
#endif

static void check(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

static void check(ncclResult_t error, const char *what) {
  if (error == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, ncclGetErrorString(error));
  std::exit(1);
}

__global__ void fill(float *values, size_t count) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    values[i] = 1;
}

int main(int argc, char **argv) {
  int nccl = 0, cuda = 0, gpus = 0;
#ifdef MPI_SUPPORT
  MPI_Init(&argc, &argv);
#endif
  check(ncclGetVersion(&nccl), "ncclGetVersion");
  check(cudaRuntimeGetVersion(&cuda), "cudaRuntimeGetVersion");
  std::printf("NCCL %d (headers %d), CUDA %d (headers %d)\n", nccl, NCCL_VERSION_CODE, cuda,
              CUDART_VERSION);
  std::fflush(stdout);
  check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");

  const size_t count = 1 << 20;
  std::vector<ncclComm_t> ranks(gpus);
  std::vector<float *> values(gpus);
  check(ncclCommInitAll(ranks.data(), gpus, nullptr), "ncclCommInitAll");
  for (int gpu = 0; gpu < gpus; gpu++) {
    check(cudaSetDevice(gpu), "cudaSetDevice");
    check(cudaMalloc(&values[gpu], count * sizeof(float)), "cudaMalloc");
    fill<<<64, 256>>>(values[gpu], count);
  }
  check(ncclGroupStart(), "ncclGroupStart");
  for (int gpu = 0; gpu < gpus; gpu++)
    check(ncclAllReduce(values[gpu], values[gpu], count, ncclFloat, ncclSum, ranks[gpu], nullptr),
          "ncclAllReduce");
  check(ncclGroupEnd(), "ncclGroupEnd");
  for (int gpu = 0; gpu < gpus; gpu++) {
    float sum = 0;
    check(cudaSetDevice(gpu), "cudaSetDevice");
    check(cudaMemcpy(&sum, values[gpu], sizeof sum, cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (sum != gpus) return std::fprintf(stderr, "GPU %d: %g\n", gpu, sum), 1;
  }
#ifdef MPI_SUPPORT
  MPI_Finalize();
#endif
}
