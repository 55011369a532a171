/*
 * net.h - the model of habits.cpp and mistakes.h, and its batches.
 */
#ifndef TESTS_SAMPLES_TORCH_NET_H
#define TESTS_SAMPLES_TORCH_NET_H

#include <torch/torch.h>

#include <ddprun_torch.h>

namespace
{

using ddprun::torch::Parallel;
using ddprun::torch::ParallelOptions;
using torch::Tensor;
using Parameters = torch::OrderedDict<std::string, Tensor>;

enum { STEPS = 8, BATCH = 12, SIZE = 6, CLASSES = 4 };

struct Batch {
    Tensor images, labels;
};

/* The batch of a step, the same in each run. */
Batch
whole(int64_t step)
{
    const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step) + 100);
    return {torch::randn({BATCH, 1, SIZE, SIZE}, generator),
            torch::randint(0, CLASSES, {BATCH}, generator).to(torch::kLong)};
}

/* This rank's share of it. */
Batch
share(int64_t step)
{
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    const Batch all = whole(step);
    const auto begin = static_cast<int64_t>(first), items = static_cast<int64_t>(count);
    return {all.images.narrow(0, begin, items), all.labels.narrow(0, begin, items)};
}

struct Net : torch::nn::Module {
    torch::nn::Conv2d convolution{nullptr};
    torch::nn::BatchNorm2d norm{nullptr};
    torch::nn::Linear hidden{nullptr}, output{nullptr}, head{nullptr};
    Net()
    {
        torch::manual_seed(5);
        convolution = register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 3)));
        norm = register_module("norm", torch::nn::BatchNorm2d(3));
        hidden = register_module("hidden", torch::nn::Linear(3 * (SIZE - 2) * (SIZE - 2), 8));
        output = register_module("output", torch::nn::Linear(8, CLASSES));
        head = register_module("head", torch::nn::Linear(8, CLASSES));
        norm->eval(); /* statistics of a share are not those of the batch */
    }
    Tensor features(const Tensor &images)
    {
        return torch::relu(hidden(torch::relu(norm(convolution(images))).flatten(1)));
    }
    Tensor loss(const Batch &batch)
    {
        return torch::nn::functional::cross_entropy(output(features(batch.images)), batch.labels);
    }
    Tensor loss_of_head(const Batch &batch)
    {
        return torch::nn::functional::cross_entropy(head(features(batch.images)), batch.labels);
    }
};

torch::optim::AdamW
adamw(const torch::nn::Module &net)
{
    return torch::optim::AdamW(net.parameters(), torch::optim::AdamWOptions(0.01).weight_decay(0.1));
}

void
to_none(const torch::nn::Module &net)
{
    for (Tensor parameter : net.parameters())
        parameter.mutable_grad().reset();
}

} // namespace

#endif
