/*
 * habits.cpp - how people train by libtorch, each habit a function: habits NAME... [--save PREFIX] trains them one
 * after the other, and writes the parameters of each to PREFIX-NAME-RANK. Names of mistakes.h make one.
 */
#include "mistakes.h"
#include "torch/save.h"

#include <cstdio>
#include <cstring>
#include <sstream>

namespace
{

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

void
train_alone(Net &net, torch::optim::Optimizer &optimizer, const Batch &batch)
{
    optimizer.zero_grad();
    net.loss(batch).backward();
    optimizer.step();
}

/* Tensors that get gradients, and that no Parallel has to hold: a teacher that follows the model, a critic that nothing
 * trains, a tensor of each rank that nothing trains, one that grad() moves, an input that lives as long as the program
 * and one of each step, a model that all ranks train alike, and one of rank 0. */
Parameters
bystanders()
{
    Net net, teacher, critic, alike, of_rank_0;
    Parallel parallel(net.named_parameters(), net.named_buffers());
    auto optimizer = adamw(net), optimizer_alike = adamw(alike), optimizer_of_rank_0 = adamw(of_rank_0);
    const Tensor still = torch::full({3}, 1.0 + DDP_RANK()).requires_grad_();
    Tensor drifting = torch::full({5}, 1.0 + DDP_RANK()).requires_grad_();
    Tensor lasting = share(0).images.clone().requires_grad_();
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        const Batch own = share(step);
        lasting.data().copy_(own.images);
        const Tensor passing = own.images.clone().requires_grad_(), features = net.features(lasting);
        const Tensor slope = torch::autograd::grad({net.features(passing).sum()}, {passing}, {}, true, true)[0];
        (net.loss(own) + slope.square().sum(1).mean() + torch::mse_loss(features, teacher.features(lasting)) +
         still.sum() + torch::mse_loss(critic.features(lasting), features))
            .backward();
        parallel.step();
        optimizer.step();
        train_alone(alike, optimizer_alike, whole(step));
        if (DDP_RANK() == 0)
            train_alone(of_rank_0, optimizer_of_rank_0, own);
        const Tensor pull = torch::autograd::grad({drifting.square().sum()}, {drifting})[0];
        const torch::NoGradGuard no_grad;
        drifting.sub_(0.01 * pull);
        for (size_t i = 0; i < net.parameters().size(); ++i)
            teacher.parameters()[i].mul_(0.9).add_(net.parameters()[i], 0.1);
    }
    return net.named_parameters();
}

/* What a program does to gradients before step() and which is right: a loss that was scaled against underflow, decay of
 * weights. */
Parameters
prepares()
{
    Net net;
    Parallel parallel(net.named_parameters(), net.named_buffers());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        (net.loss(share(step)) * 256).backward();
        for (Tensor &parameter : net.parameters()) {
            if (!parameter.grad().defined())
                continue;
            parameter.mutable_grad().div_(256);
            if (step % 2 == 1)
                parameter.mutable_grad().add_(parameter.detach(), 0.01);
        }
        parallel.step();
        optimizer.step();
    }
    return net.named_parameters();
}

/* Each rank trains a model of its own beside the common one, and says so. */
Parameters
own_models()
{
    Net net, own_model;
    Parallel parallel(net.named_parameters(), net.named_buffers(), ParallelOptions().allow_unheld(true));
    auto optimizer = adamw(net), optimizer_of_own = adamw(own_model);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        net.loss(share(step)).backward();
        parallel.step();
        optimizer.step();
        train_alone(own_model, optimizer_of_own, share(step));
    }
    return net.named_parameters();
}

/* A Parallel of the same model again, and of a part of the same buffer, which only forgotten memory allows. A backward
 * pass after the end of an object belongs to none. */
Parameters
again()
{
    Net net;
    const Tensor seen = torch::zeros({3});
    auto optimizer = adamw(net);
    for (int time = 0; time < 2; ++time) {
        Tensor late_loss;
        {
            Parameters buffers;
            buffers.insert("seen", seen.narrow(0, 0, 3 - time));
            Parallel parallel(net.named_parameters(), buffers);
            for (int step = 0; step < STEPS / 2; ++step) {
                optimizer.zero_grad();
                net.loss(share(step + time)).backward();
                parallel.step();
                optimizer.step();
            }
            late_loss = net.loss(whole(time));
        }
        late_loss.backward();
    }
    return net.named_parameters();
}

/* A buffer that each rank changes in its own way, as running statistics do: it is rank 0's. */
Parameters
statistics()
{
    Net net;
    const Tensor seen = net.register_buffer("seen", torch::zeros({3}));
    Parallel parallel(net.named_parameters(), net.named_buffers());
    auto optimizer = adamw(net);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        seen.add_(step + 1 + DDP_RANK());
        net.loss(share(step)).backward();
        parallel.step();
        optimizer.step();
    }
    Parameters all = net.named_parameters();
    all.insert("seen", seen);
    return all;
}

/* ---- the sampler ---- */

enum { ITEMS = 23 };

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

/* In the middle of an epoch a sampler is saved, and another one loads it. */
void
require_resumes()
{
    enum { EPOCH = 3 };
    ddprun::torch::Sampler saved(ITEMS, true, 7), loaded(ITEMS, true, 7);
    saved.set_epoch(EPOCH);
    saved.next(2);
    std::stringstream file;
    torch::serialize::OutputArchive output;
    saved.save(output);
    output.save_to(file);
    torch::serialize::InputArchive input;
    input.load_from(file);
    loaded.load(input);
    const auto rest = loaded.next(ITEMS), rest_of_saved = saved.next(ITEMS);
    require(loaded.epoch() == EPOCH && rest && rest_of_saved && *rest == *rest_of_saved,
            "one that is loaded goes on in the same epoch, after the saved items");
}

/* Epochs are permutations that differ, by their numbers, whether set_epoch() is called or not; ranks divide each. */
Parameters
samples()
{
    const auto ranks = static_cast<size_t>(DDP_WORLD_SIZE());
    ddprun::torch::Sampler sampler(ITEMS, true, 7), copy = sampler, cut(ITEMS, false, 0, true);
    const std::vector<size_t> first = items_of(sampler), second = items_of(sampler);
    require(first != second, "without set_epoch() the second epoch is another one");
    copy.set_epoch(0);
    require(items_of(sampler) == first, "a copy's set_epoch() counts for all");
    require(items_of(sampler) == second, "the epoch after a set one is the next");
    ddprun::torch::Sampler begun(ITEMS, true, 7), of_first_loader = begun, of_second_loader = begun;
    require(items_of(of_first_loader) == first && items_of(of_second_loader) == second,
            "a loader of each epoch, without set_epoch(): the next epoch");
    require(first.size() == (ITEMS + ranks - 1) / ranks, "each rank has as many items");
    const std::vector<size_t> in_order = items_of(cut);
    require(in_order.size() == ITEMS / ranks && in_order[1] == static_cast<size_t>(DDP_RANK()) + ranks,
            "drop_last cuts, and without a shuffle the order is that of the dataset");
    sampler.set_epoch(5);
    sampler.next(1);
    sampler.reset();
    require(sampler.epoch() == 5, "an epoch that is set while another one runs is that of the next begin");
    require_resumes();
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
              {"bystanders", bystanders},
              {"prepares", prepares},
              {"own_models", own_models},
              {"again", again},
              {"statistics", statistics},
              {"samples", samples},
              {"before_backward", before_backward},
              {"loses_gradient", loses_gradient},
              {"steps_twice", steps_twice},
              {"sparse", sparse},
              {"moved", moved},
              {"resized", resized},
              {"has_holes", has_holes},
              {"sparse_parameter", sparse_parameter},
              {"two_devices", two_devices},
              {"no_such_device", no_such_device},
              {"no_leaf", no_leaf},
              {"seventeen", seventeen},
              {"integers", integers},
              {"update_first", update_first},
              {"last_update", last_update},
              {"no_step", no_step},
              {"undivided", undivided},
              {"initialises_later", initialises_later},
              {"clips_first", clips_first},
              {"steps_in_no_sync", steps_in_no_sync},
              {"macro_in_no_sync", macro_in_no_sync},
              {"one_order", one_order},
              {"second_model", second_model},
              {"loose_parameter", loose_parameter},
              {"sparse_in_thread", sparse_in_thread}};

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
                save_parameters(trained, prefix + "-" + habit.name + "-%d");
        }
    }
}
