/*
 * habits.cpp - how people train by libtorch, each habit a function: habits NAME... [--save PREFIX] trains them one
 * after the other, and writes the parameters of each to PREFIX-NAME-RANK. The functions after `mistakes` make one,
 * which ddprun has to name.
 */
#include <torch/torch.h>

#include <ddprun_torch.h>

#include <cstdio>
#include <cstring>

extern "C" {
#include "common/parameter_file.h"
}

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

/* ---- habits ---- */

/* The head has no gradient, so that the optimizer leaves it alone: no weight decay. */
Parameters
unused()
{
    Net net;
    Parallel parallel(net.named_parameters(), net.named_buffers());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        net.loss(share(step)).backward();
        parallel.step();
        optimizer.step();
    }
    return net.named_parameters();
}

/* What zero_grad() does in libtorch 2; and the head has a gradient in some steps, on one rank. */
Parameters
none()
{
    Net net;
    Parallel parallel(net.named_parameters(), net.named_buffers());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        to_none(net);
        const Batch own = share(step);
        Tensor loss = net.loss(own);
        if (step % 3 == 1 && DDP_RANK() == 0) /* of the first item of the batch */
            loss = loss + net.loss_of_head({own.images.narrow(0, 0, 1), own.labels.narrow(0, 0, 1)}) *
                              static_cast<double>(DDP_WORLD_SIZE());
        loss.backward();
        parallel.step();
        optimizer.step();
    }
    return net.named_parameters();
}

/* All parameters have a gradient in the first step, and the head in few later ones. */
Parameters
sometimes()
{
    Net net;
    Parallel parallel(net.named_parameters(), net.named_buffers(), ParallelOptions().find_unused_parameters(true));
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        to_none(net);
        const Batch own = share(step);
        (step % 2 == 0 ? net.loss(own) + net.loss_of_head(own) : net.loss(own)).backward();
        parallel.step();
        optimizer.step();
    }
    return net.named_parameters();
}

/* Two optimizers that step in turn, of two models. */
Parameters
adversaries()
{
    Net generator, critic;
    for (const auto &item : critic.named_parameters())
        item.value().detach().mul_(0.5);
    Parallel of_generator(generator.named_parameters(), generator.named_buffers());
    Parallel of_critic(critic.named_parameters(), critic.named_buffers());
    auto first = adamw(generator);
    torch::optim::SGD second(critic.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int step = 0; step < STEPS; ++step) {
        const Batch own = share(step);
        second.zero_grad();
        torch::mse_loss(critic.features(own.images), generator.features(own.images).detach()).backward();
        of_critic.step();
        second.step();
        first.zero_grad();
        (generator.loss(own) + torch::mse_loss(critic.features(own.images), generator.features(own.images))).backward();
        of_generator.step();
        first.step();
    }
    Parameters all;
    for (const auto &item : generator.named_parameters())
        all.insert("g." + item.key(), item.value());
    for (const auto &item : critic.named_parameters())
        all.insert("c." + item.key(), item.value());
    return all;
}

/* A frozen layer that is trained from the middle on. */
Parameters
thaws()
{
    Net net;
    for (Tensor parameter : net.convolution->parameters())
        parameter.requires_grad_(false);
    Parallel parallel(net.named_parameters(), net.named_buffers());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        if (step == STEPS / 2) {
            for (Tensor parameter : net.convolution->parameters())
                parameter.requires_grad_(true);
        }
        optimizer.zero_grad();
        net.loss(share(step)).backward();
        parallel.step();
        optimizer.step();
    }
    return net.named_parameters();
}

/* Two models, whose passes without averaging are the same. */
Parameters
accumulates()
{
    Net net, other;
    Parallel parallel(net.named_parameters(), net.named_buffers());
    Parallel second(other.named_parameters(), other.named_buffers());
    auto optimizer = adamw(net), optimizer_of_other = adamw(other);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        optimizer_of_other.zero_grad();
        {
            const auto no_sync = parallel.no_sync(), no_sync_of_other = second.no_sync();
            net.loss(share(2 * step)).backward();
            other.loss(share(2 * step)).backward();
        }
        net.loss(share(2 * step + 1)).backward();
        other.loss(share(2 * step + 1)).backward();
        parallel.step();
        second.step();
        torch::nn::utils::clip_grad_norm_(net.parameters(), 1.0);
        optimizer.step();
        optimizer_of_other.step();
    }
    return net.named_parameters();
}

/* Two types, a weight that two modules share, and memory in another order of dimensions. */
Parameters
mixed()
{
    Net net;
    net.head->weight = net.head->register_parameter("shared", net.output->weight);
    net.hidden->to(torch::kDouble);
    Tensor &kernel = net.convolution->weight;
    kernel.set_data(kernel.contiguous(torch::MemoryFormat::ChannelsLast));
    Parallel parallel(net.named_parameters(), net.named_buffers());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        const Batch own = share(step);
        optimizer.zero_grad();
        const Tensor maps = torch::relu(net.norm(net.convolution(own.images))).flatten(1).to(torch::kDouble);
        const Tensor features = torch::relu(net.hidden(maps)).to(torch::kFloat);
        (torch::nn::functional::cross_entropy(net.output(features), own.labels) +
         torch::nn::functional::cross_entropy(net.head(features), own.labels))
            .backward();
        parallel.step();
        optimizer.step();
    }
    net.hidden->to(torch::kFloat);
    return net.named_parameters();
}

/* All items of an epoch that this rank gets, in batches of 4. */
std::vector<size_t>
items_of(ddprun::torch::Sampler &sampler)
{
    std::vector<size_t> items;
    sampler.reset();
    while (auto batch = sampler.next(4))
        items.insert(items.end(), batch->begin(), batch->end());
    return items;
}

void
require(bool holds, const char *what)
{
    if (holds)
        return;
    std::fprintf(stderr, "habits: the sampler: %s\n", what);
    std::exit(3);
}

/* Epochs are permutations that differ, by their numbers, whether set_epoch() is called or not; ranks divide each. */
Parameters
samples()
{
    enum { ITEMS = 23 };
    const auto ranks = static_cast<size_t>(DDP_WORLD_SIZE());
    ddprun::torch::Sampler sampler(ITEMS, true, 7), copy = sampler, cut(ITEMS, false, 0, true);
    const std::vector<size_t> first = items_of(sampler), second = items_of(sampler);
    require(first != second, "without set_epoch() the second epoch is another one");
    copy.set_epoch(0);
    require(items_of(sampler) == first, "a copy's set_epoch() counts for all");
    require(items_of(sampler) == second, "the epoch after a set one is the next");
    require(first.size() == (ITEMS + ranks - 1) / ranks, "each rank has as many items");
    const std::vector<size_t> in_order = items_of(cut);
    require(in_order.size() == ITEMS / ranks && in_order[1] == static_cast<size_t>(DDP_RANK()) + ranks,
            "drop_last cuts, and without a shuffle the order is that of the dataset");
    std::vector<int32_t> seen(ITEMS);
    for (const size_t item : first)
        ++seen[item];
    DDP_REDUCE(seen.data(), seen.size(), DDP_INT32, DDP_OP_SUM, 0);
    size_t twice = 0;
    for (const int32_t times : seen) {
        require(times >= 1 && times <= 2, "the ranks have all items");
        twice += times == 2;
    }
    require(twice == first.size() * ranks - ITEMS, "what fills up an epoch is there twice");
    return Parameters();
}

/* ---- mistakes ---- */

Parameters
before_backward()
{
    Net net;
    Parallel parallel(net.named_parameters());
    parallel.step();
    return Parameters();
}

Parameters
loses_gradient()
{
    Net net;
    Parallel parallel(net.named_parameters());
    for (int step = 0; step < STEPS; ++step) {
        to_none(net);
        (step == 0 ? net.loss(share(0)) + net.loss_of_head(share(0)) : net.loss(share(step))).backward();
        parallel.step();
    }
    return Parameters();
}

Parameters
sparse()
{
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(8, 4).sparse(true));
    Parallel parallel(table->named_parameters());
    table(torch::arange(4)).sum().backward();
    parallel.step();
    return Parameters();
}

Parameters
moved()
{
    Net net;
    Parallel parallel(net.named_parameters());
    net.to(torch::kDouble);
    parallel.step();
    return Parameters();
}

Parameters
resized()
{
    Net net;
    Parallel parallel(net.named_parameters());
    net.output->bias.set_data(torch::zeros({CLASSES + 1}));
    parallel.step();
    return Parameters();
}

Parameters
has_holes()
{
    Parameters parameters;
    parameters.insert("column", torch::zeros({4, 4}).select(1, 0).requires_grad_());
    Parallel parallel(parameters);
    return Parameters();
}

Parameters
integers()
{
    Parameters parameters;
    parameters.insert("count", torch::zeros({4}, torch::kLong));
    Parallel parallel(parameters);
    return Parameters();
}

/* Each rank updates by its own gradients. */
Parameters
update_first()
{
    Net net;
    Parallel parallel(net.named_parameters());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        net.loss(share(step)).backward();
        optimizer.step();
        parallel.step();
    }
    return Parameters();
}

/* What a rank does to its own parameters after the last step. */
Parameters
last_update()
{
    Net net;
    Parallel parallel(net.named_parameters());
    net.loss(share(0)).backward();
    parallel.step();
    net.hidden->bias.detach().add_(DDP_RANK());
    return Parameters();
}

Parameters
no_step()
{
    Net net;
    Parallel parallel(net.named_parameters());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        net.loss(share(step)).backward();
        optimizer.step();
    }
    return Parameters();
}

Parameters
undivided()
{
    Net net;
    Parallel parallel(net.named_parameters());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        net.loss(whole(step)).backward();
        parallel.step();
        optimizer.step();
    }
    return Parameters();
}

Parameters
initialises_later()
{
    Net net;
    Parallel parallel(net.named_parameters());
    torch::NoGradGuard no_grad;
    torch::manual_seed(DDP_RANK());
    torch::nn::init::normal_(net.output->weight);
    torch::AutoGradMode grad(true);
    net.loss(share(0)).backward();
    parallel.step();
    return Parameters();
}

Parameters
clips_first()
{
    Net net;
    Parallel parallel(net.named_parameters());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        net.loss(share(step)).backward();
        torch::nn::utils::clip_grad_norm_(net.parameters(), 0.1);
        parallel.step();
        optimizer.step();
    }
    return Parameters();
}

const struct {
    const char *name;
    Parameters (*train)();
} habits[] = {{"unused", unused},
              {"none", none},
              {"sometimes", sometimes},
              {"adversaries", adversaries},
              {"thaws", thaws},
              {"accumulates", accumulates},
              {"mixed", mixed},
              {"samples", samples},
              {"before_backward", before_backward},
              {"loses_gradient", loses_gradient},
              {"sparse", sparse},
              {"moved", moved},
              {"resized", resized},
              {"has_holes", has_holes},
              {"integers", integers},
              {"update_first", update_first},
              {"last_update", last_update},
              {"no_step", no_step},
              {"undivided", undivided},
              {"initialises_later", initialises_later},
              {"clips_first", clips_first}};

void
write(const Parameters &parameters, const std::string &path)
{
    std::vector<parameter> saved;
    std::vector<Tensor> values;
    for (const auto &item : parameters) {
        values.push_back(item.value().detach().to(torch::kFloat).contiguous());
        parameter one = {};
        std::strncpy(one.name, item.key().c_str(), sizeof(one.name) - 1);
        one.count = static_cast<size_t>(values.back().numel());
        one.values = values.back().data_ptr<float>();
        saved.push_back(one);
    }
    if (parameter_file_write(path.c_str(), DDP_RANK(), saved.data(), saved.size()) != 0)
        std::exit(1);
}

} // namespace

int
main(int argc, char **argv)
{
    std::string prefix;
    torch::set_num_threads(1);
    if (argc > 3 && std::strcmp(argv[argc - 2], "--save") == 0) {
        prefix = argv[argc - 1];
        argc -= 2;
    }
    for (int i = 1; i < argc; ++i) {
        for (const auto &habit : habits) {
            if (std::strcmp(argv[i], habit.name) != 0)
                continue;
            const Parameters trained = habit.train();
            if (!prefix.empty())
                write(trained, prefix + "-" + habit.name + "-%d");
        }
    }
}
