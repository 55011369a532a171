#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include <curand.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "mf.h"

namespace cg = cooperative_groups;

#define CU(call)                                                                        \
  do {                                                                                  \
    cudaError_t e_ = (call);                                                            \
    if (e_ != cudaSuccess) {                                                            \
      std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));   \
      std::exit(1);                                                                     \
    }                                                                                   \
  } while (0)

#define CURAND(call)                                                              \
  do {                                                                            \
    curandStatus_t s_ = (call);                                                   \
    if (s_ != CURAND_STATUS_SUCCESS) {                                            \
      std::fprintf(stderr, "%s:%d curand status %d\n", __FILE__, __LINE__, (int)s_); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

namespace {

constexpr int kThreads = 128;

struct Table {  // managed memory
  int rows = 0;
  int *start = nullptr, *other = nullptr;
  float* value = nullptr;
};

template <typename T>
T* managed(const std::vector<T>& v) {
  T* p;
  CU(cudaMallocManaged(&p, v.size() * sizeof(T)));
  for (size_t i = 0; i < v.size(); ++i) p[i] = v[i];
  return p;
}

Table make_table(const Csr& c) {
  Table t;
  t.rows = static_cast<int>(c.start.size()) - 1;
  t.start = managed(c.start);
  t.other = managed(c.other);
  t.value = managed(c.value);
  return t;
}

__global__ void center(float* w, float scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) w[i] = scale * (2.0f * w[i] - 1.0f);
}

// One warp for each row, one lane for each of the 32 factors.
__global__ void factor_step(Table t, const float* __restrict__ mine,
                            const float* __restrict__ theirs, float* __restrict__ out,
                            float* loss) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  const int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (row >= t.rows) return;
  const int lane = warp.thread_rank();
  const float w = mine[row * kRank + lane];
  const int begin = t.start[row], end = t.start[row + 1];
  float g = 0.0f, squares = 0.0f;
  for (int e = begin; e < end; ++e) {
    const float q = theirs[t.other[e] * kRank + lane];
    const float err = cg::reduce(warp, w * q, cg::plus<float>()) - t.value[e];
    squares += err * err;
    g += err * q;
  }
  out[row * kRank + lane] = w - kRate * (g / max(end - begin, 1) * 8.0f + kDecay * w);
  if (loss && lane == 0) atomicAdd(loss, squares);
}

// Whole-grid evaluation: partial sums by block, a grid barrier, then block 0 adds them up.
__global__ void evaluate(Table t, const float* user, const float* item, float* partial,
                         float* rmse, int count) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  __shared__ float block_sum;
  if (block.thread_rank() == 0) block_sum = 0.0f;
  block.sync();
  const int warps = grid.size() / 32;
  for (int row = grid.thread_rank() / 32; row < t.rows; row += warps)
    for (int e = t.start[row]; e < t.start[row + 1]; ++e) {
      float dot = user[row * kRank + warp.thread_rank()] *
                  item[t.other[e] * kRank + warp.thread_rank()];
      for (int offset = warp.size() / 2; offset > 0; offset /= 2)
        dot += warp.shfl_down(dot, offset);
      const float err = dot - t.value[e];
      if (warp.thread_rank() == 0) atomicAdd(&block_sum, err * err);
    }
  block.sync();
  if (block.thread_rank() == 0) partial[blockIdx.x] = block_sum;
  grid.sync();
  if (grid.thread_rank() == 0) {
    float sum = 0.0f;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += partial[b];
    *rmse = sqrtf(sum / count);
  }
}

int blocks_for_rows(int rows) { return (rows * 32 + kThreads - 1) / kThreads; }

}  // namespace

Run train_on_device(const Ratings& r) {
  Run run;
  Table users = make_table(r.by_user), items = make_table(r.by_item);
  constexpr int np = kUsers * kRank, nq = kItems * kRank;
  float *p[2], *q[2], *loss, *partial;
  for (int i = 0; i < 2; ++i) {
    CU(cudaMalloc(&p[i], np * sizeof(float)));
    CU(cudaMalloc(&q[i], nq * sizeof(float)));
  }
  CU(cudaMallocManaged(&loss, 2 * sizeof(float)));

  curandGenerator_t gen;
  CURAND(curandCreateGenerator(&gen, CURAND_RNG_PSEUDO_PHILOX4_32_10));
  CURAND(curandSetPseudoRandomGeneratorSeed(gen, 1234ULL));
  CURAND(curandGenerateUniform(gen, p[0], np));
  CURAND(curandGenerateUniform(gen, q[0], nq));
  CURAND(curandDestroyGenerator(gen));
  center<<<(np + kThreads - 1) / kThreads, kThreads>>>(p[0], 0.3f, np);
  center<<<(nq + kThreads - 1) / kThreads, kThreads>>>(q[0], 0.3f, nq);
  CU(cudaGetLastError());
  run.user0.resize(np);
  run.item0.resize(nq);
  CU(cudaMemcpy(run.user0.data(), p[0], np * sizeof(float), cudaMemcpyDeviceToHost));
  CU(cudaMemcpy(run.item0.data(), q[0], nq * sizeof(float), cudaMemcpyDeviceToHost));

  cudaStream_t main_stream, side;
  CU(cudaStreamCreateWithFlags(&main_stream, cudaStreamNonBlocking));
  CU(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  cudaEvent_t fork, join, begin, end;
  CU(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CU(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  CU(cudaEventCreate(&begin));
  CU(cudaEventCreate(&end));

  // Two steps make one graph, as the factors go from buffer 0 to 1 and back. Users and
  // items are updated at the same time on two streams.
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CU(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
  CU(cudaMemsetAsync(loss, 0, 2 * sizeof(float), main_stream));
  for (int i = 0; i < 2; ++i) {
    CU(cudaEventRecord(fork, main_stream));
    CU(cudaStreamWaitEvent(side, fork, 0));
    factor_step<<<blocks_for_rows(kUsers), kThreads, 0, main_stream>>>(users, p[i], q[i],
                                                                       p[1 - i], loss + i);
    factor_step<<<blocks_for_rows(kItems), kThreads, 0, side>>>(items, q[i], p[i], q[1 - i],
                                                                nullptr);
    CU(cudaEventRecord(join, side));
    CU(cudaStreamWaitEvent(main_stream, join, 0));
  }
  CU(cudaStreamEndCapture(main_stream, &graph));
  CU(cudaGraphInstantiate(&exec, graph, 0));

  CU(cudaEventRecord(begin, main_stream));
  for (int step = 0; step < kSteps; step += 2) {
    CU(cudaGraphLaunch(exec, main_stream));
    CU(cudaStreamSynchronize(main_stream));
    for (int i = 0; i < 2; ++i) run.loss.push_back(loss[i] / r.count);
    if (step % 10 == 0) std::printf("step %2d  mse %.6f\n", step, run.loss[step]);
  }
  CU(cudaEventRecord(end, main_stream));
  CU(cudaEventSynchronize(end));
  float ms = 0.0f;
  CU(cudaEventElapsedTime(&ms, begin, end));

  int blocks = 4, count = r.count;
  CU(cudaMalloc(&partial, blocks * sizeof(float)));
  void* args[] = {&users, &p[0], &q[0], &partial, &loss, &count};
  CU(cudaLaunchCooperativeKernel((void*)evaluate, dim3(blocks), dim3(kThreads), args, 0,
                                 main_stream));
  CU(cudaStreamSynchronize(main_stream));
  run.final_rmse = loss[0];
  std::printf("final rmse %.6f, %.2f ms in the training loop\n", run.final_rmse, ms);

  CU(cudaGraphExecDestroy(exec));
  CU(cudaGraphDestroy(graph));
  for (cudaEvent_t e : {fork, join, begin, end}) CU(cudaEventDestroy(e));
  CU(cudaStreamDestroy(side));
  CU(cudaStreamDestroy(main_stream));
  for (Table* t : {&users, &items}) {
    CU(cudaFree(t->start));
    CU(cudaFree(t->other));
    CU(cudaFree(t->value));
  }
  for (float* ptr : {p[0], p[1], q[0], q[1], loss, partial}) CU(cudaFree(ptr));
  return run;
}
