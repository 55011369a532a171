#include "device_utils.cuh"
#include "kernels.cuh"
#include "problem.hpp"

History train_on_device(const Config& cfg, const Dataset& data) {
  const int N = cfg.samples, F = cfg.features, C = cfg.classes, K = cfg.hard;
  const int num_params = C * F + C;
  const int threads = 128, sample_blocks = (N + threads - 1) / threads;

  DeviceArray<float> x(data.x);
  DeviceArray<int> labels(data.y);
  DeviceArray<float> params(num_params), velocity(num_params), grad(num_params);
  float* w = params;
  float* b = params + C * F;
  DeviceArray<float> logits(N * C), loss(N), sorted_loss(N), running(N), scalars(3);
  DeviceArray<int> ids(N), sorted_ids(N), selected(N), num_selected(1), correct(N), num_correct(1);
  DeviceArray<unsigned char> flags(N);
  CubWorkspace cub_ws;

  iota_kernel<<<sample_blocks, threads>>>(ids, N);
  CUDA_CHECK(cudaGetLastError());

  // Start from the class means: group the samples by label.
  {
    DeviceArray<int> counts(C), offsets(C), sorted_labels(N);
    DeviceArray<float> means(C * F);
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceHistogram::HistogramEven(tmp, bytes, labels.ptr, counts.ptr, C + 1, 0, C,
                                                 N);
    });
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceScan::ExclusiveSum(tmp, bytes, counts.ptr, offsets.ptr, C);
    });
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(tmp, bytes, labels.ptr, sorted_labels.ptr, ids.ptr,
                                             sorted_ids.ptr, N, 0, 4);  // labels need 4 bits
    });
    class_means<<<dim3(C, F), kReduceThreads>>>(x, sorted_ids, offsets, counts, means, F);
    init_from_means<<<C, 32>>>(means, w, b, cfg.init_scale, F);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
  }

  cublasHandle_t cublas;
  CUBLAS_CHECK(cublasCreate(&cublas));
  const float one = 1.0f, zero = 0.0f;

  History h;
  for (int step = 0; step < cfg.steps; ++step) {
    // Row-major logits[N, C] = x[N, F] * w[C, F]^T, seen by cuBLAS as [C, N].
    CUBLAS_CHECK(cublasSgemm(cublas, CUBLAS_OP_T, CUBLAS_OP_N, C, N, F, &one, w, F, x, F, &zero,
                             logits, C));
    const int rows_per_block = kRowThreads / kRowLanes;
    softmax_rows<<<(N + rows_per_block - 1) / rows_per_block, kRowThreads>>>(
        logits, b, labels, loss, correct, N, C);
    CUDA_CHECK(cudaGetLastError());

    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceRadixSort::SortPairsDescending(tmp, bytes, loss.ptr, sorted_loss.ptr,
                                                       ids.ptr, sorted_ids.ptr, N);
    });
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceReduce::Sum(tmp, bytes, sorted_loss.ptr, scalars.ptr, K);
    });
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceScan::InclusiveSum(tmp, bytes, sorted_loss.ptr, running.ptr, N);
    });
    mark_top<<<sample_blocks, threads>>>(sorted_ids, flags, K, N);
    CUDA_CHECK(cudaGetLastError());
    // Back to sample order, so that the gradient reads memory in ascending order.
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceSelect::Flagged(tmp, bytes, ids.ptr, flags.ptr, selected.ptr,
                                        num_selected.ptr, N);
    });
    gradient<<<dim3(C, F + 1), kReduceThreads>>>(x, logits, selected, num_selected, grad, F, C);
    CUDA_CHECK(cudaGetLastError());
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceReduce::Reduce(tmp, bytes, grad.ptr, scalars.ptr + 1, num_params,
                                       AbsMaxOp(), 0.0f);
    });
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceReduce::Max(tmp, bytes, loss.ptr, scalars.ptr + 2, N);
    });
    cub_ws.run([&](void* tmp, size_t& bytes) {
      return cub::DeviceReduce::Sum(tmp, bytes, correct.ptr, num_correct.ptr, N);
    });
    sgd_update<<<(num_params + threads - 1) / threads, threads>>>(
        params, velocity, grad, cfg.learning_rate, cfg.momentum, cfg.l2, num_params);
    CUDA_CHECK(cudaGetLastError());

    const std::vector<float> s = scalars.to_host();
    h.hard_loss.push_back(s[0] / K);
    h.coverage.push_back(running.at(K - 1) / running.at(N - 1));
    h.correct = num_correct.at(0);
    if (num_selected.at(0) != K) {
      std::fprintf(stderr, "selected %d samples instead of %d\n", num_selected.at(0), K);
      std::exit(EXIT_FAILURE);
    }
    if (step % 5 == 0 || step + 1 == cfg.steps)
      std::printf("step %2d  hard loss %.5f  coverage %.3f  max loss %.3f  max |grad| %.4f  "
                  "accuracy %.3f\n",
                  step, h.hard_loss.back(), h.coverage.back(), s[2], s[1],
                  static_cast<double>(h.correct) / N);
  }
  CUBLAS_CHECK(cublasDestroy(cublas));

  const std::vector<float> final_params = params.to_host();
  h.weights.assign(final_params.begin(), final_params.end());
  return h;
}
