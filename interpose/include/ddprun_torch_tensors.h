/*
 * ddprun_torch_tensors.h - a part of ddprun_torch.h: how a tensor of torch stands for the memory that ddprun.h
 * annotates, and how a mistake ends the program.
 */
#ifndef DDPRUN_TORCH_TENSORS_H
#define DDPRUN_TORCH_TENSORS_H

#include "ddprun.h"

#include <torch/torch.h>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <unistd.h>

/* This file is there in a libtorch with CUDA only; c10/cuda/CUDAStream.h may be there in others. */
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>) && __has_include(<cuda_runtime_api.h>)
#include <c10/cuda/CUDAStream.h>
#define DDP_TORCH_HAS_CUDA_ 1
#else
#define DDP_TORCH_HAS_CUDA_ 0
#endif

namespace ddprun
{
namespace torch
{
namespace detail
{

/* Where a call stands in the program. */
struct Place {
    const char *file;
    int line;
};

/*
 * One line, and the process ends: the other ranks would wait for this one. It may be called in a thread of autograd,
 * where exit() can wait for the caller itself: so nothing here waits for another thread, and no destructor runs. What
 * was printed to stdout is written, unless another thread is printing.
 */
[[noreturn]] inline void
stop(const Place &place, const std::string &what)
{
    const std::string line = "ddprun: rank " + std::to_string(DDP_RANK()) + ": " + place.file + ":" +
                             std::to_string(place.line) + ": " + what + "\n";
    if (ftrylockfile(stdout) == 0) {
        std::fflush(stdout);
        funlockfile(stdout);
    }
    const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    (void)written; /* there is nowhere else to say it */
    std::_Exit(EXIT_FAILURE);
}

/* The interface keeps pointers to names until the process ends. */
inline const char *
keep(const std::string &name)
{
    static auto *names = new std::set<std::string>;
    return names->insert(name).first->c_str();
}

/* The stream of torch's current work on this device, as the interface takes it. */
inline void *
current_stream(const c10::Device &device)
{
#if DDP_TORCH_HAS_CUDA_
    if (device.is_cuda())
        return ddp_stream(reinterpret_cast<uintptr_t>(c10::cuda::getCurrentCUDAStream(device.index()).stream()));
#endif
    (void)device;
    return ddp_stream(0);
}

/* How the interface sees a tensor's memory. */
struct Elements {
    int type;
    size_t count;
};

/* Of a complex number both parts; of a type without a name in ddprun.h its bytes, which only buffers may have. */
inline Elements
elements_of(const at::Tensor &tensor)
{
    const auto count = static_cast<size_t>(tensor.numel());
    switch (tensor.scalar_type()) {
    case at::kFloat:
        return {DDP_FLOAT32, count};
    case at::kDouble:
        return {DDP_FLOAT64, count};
    case at::kHalf:
        return {DDP_FLOAT16, count};
    case at::kBFloat16:
        return {DDP_BFLOAT16, count};
    case at::kComplexFloat:
        return {DDP_FLOAT32, 2 * count};
    case at::kComplexDouble:
        return {DDP_FLOAT64, 2 * count};
    case at::kInt:
        return {DDP_INT32, count};
    case at::kLong:
        return {DDP_INT64, count};
    default:
        return {DDP_UINT8, static_cast<size_t>(tensor.nbytes())};
    }
}

/* The groups of ddprun.h, one for each Parallel. */
class Group
{
  public:
    explicit Group(const Place &place)
    {
        if (ddp_interface_get() == nullptr)
            return;
        while (id_ < AT_MOST && taken()[id_])
            ++id_;
        if (id_ == AT_MOST)
            stop(place, "more than 16 objects of Parallel at a time");
        taken()[id_] = true;
    }
    ~Group()
    {
        taken()[id_] = false;
    }
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;
    int id() const
    {
        return id_;
    }

  private:
    enum { AT_MOST = 16 };
    static bool *taken()
    {
        static bool groups[AT_MOST];
        return groups;
    }
    int id_ = 0;
};

/* A parameter or buffer, and what was annotated of it. */
struct Entry {
    std::string name;
    at::Tensor tensor;
    c10::Storage storage; /* keeps the annotated memory until it is forgotten */
    void *memory = nullptr;
    int64_t count = 0;
    at::Tensor gradient; /* undefined: it has none, or is frozen */
    std::shared_ptr<::torch::autograd::Node> accumulator;
    uintptr_t hook = 0;
    bool accumulated = false; /* by a backward pass */
    bool was_placed = false;  /* its `grad` has been in `gradient` before */
    bool is_missing = false;  /* in this step it has no gradient on this rank */
    at::Tensor computed;      /* in a step that looks, some values of its gradient, as backward left it */
};

/* Called after a gradient has been accumulated. */
class Hook : public ::torch::autograd::FunctionPostHook
{
  public:
    explicit Hook(std::function<void()> function) : function_(std::move(function))
    {
    }
    ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list &outputs,
                                                const ::torch::autograd::variable_list &) override
    {
        function_();
        return outputs;
    }

  private:
    std::function<void()> function_;
};

} // namespace detail
} // namespace torch
} // namespace ddprun

#endif
