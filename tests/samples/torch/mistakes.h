/*
 * mistakes.h - how people who train by libtorch go wrong, each mistake a function. ddprun has to name each.
 */
#ifndef TESTS_SAMPLES_TORCH_MISTAKES_H
#define TESTS_SAMPLES_TORCH_MISTAKES_H

#include "net.h"

#include <cstdio>
#include <memory>
#include <thread>

namespace
{

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
steps_twice()
{
    Net net;
    Parallel parallel(net.named_parameters());
    (net.loss(share(0)) + net.loss_of_head(share(0))).backward();
    parallel.step();
    to_none(net);
    parallel.step();
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

Parameters
parameters_of(const char *name, const Tensor &tensor)
{
    Parameters parameters;
    parameters.insert("weight", torch::zeros({4}).requires_grad_());
    parameters.insert(name, tensor);
    return parameters;
}

Parameters
sparse_parameter()
{
    Parallel parallel(parameters_of("pairs", torch::zeros({4, 4}).to_sparse()));
    return Parameters();
}

Parameters
two_devices()
{
    Parallel parallel(parameters_of("elsewhere", torch::zeros({4}, torch::kMeta)));
    return Parameters();
}

Parameters
no_such_device()
{
    Parameters parameters;
    parameters.insert("elsewhere", torch::zeros({4}, torch::kMeta));
    Parallel parallel(parameters);
    return Parameters();
}

Parameters
no_leaf()
{
    Parallel parallel(parameters_of("product", torch::ones({4}).requires_grad_() * 2));
    return Parameters();
}

Parameters
seventeen()
{
    std::vector<std::unique_ptr<Parallel>> all;
    for (int i = 0; i < 17; ++i)
        all.emplace_back(new Parallel(Parameters()));
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

Parameters
steps_in_no_sync()
{
    Net net;
    Parallel parallel(net.named_parameters());
    const auto no_sync = parallel.no_sync();
    net.loss(share(0)).backward();
    parallel.step();
    return Parameters();
}

/* By the macro, which the header does not see. */
Parameters
macro_in_no_sync()
{
    Net net;
    Parallel parallel(net.named_parameters());
    const auto no_sync = parallel.no_sync();
    net.loss(share(0)).backward();
    DDP_STEP(0);
    return Parameters();
}

/* Each epoch has a sampler of its own, whose epoch is never set. */
Parameters
one_order()
{
    for (int epoch = 0; epoch < 3; ++epoch) {
        ddprun::torch::Sampler sampler(BATCH);
        sampler.reset();
        while (sampler.next(2))
            continue;
    }
    return Parameters();
}

/* The critic has no Parallel. */
Parameters
second_model()
{
    Net generator, critic;
    Parallel parallel(generator.named_parameters(), generator.named_buffers());
    auto optimizer = adamw(generator), optimizer_of_critic = adamw(critic);
    for (int step = 0; step < STEPS; ++step) {
        const Batch own = share(step);
        optimizer_of_critic.zero_grad();
        torch::mse_loss(critic.features(own.images), generator.features(own.images).detach() + 1).backward();
        optimizer_of_critic.step();
        optimizer.zero_grad();
        (generator.loss(own) + torch::mse_loss(critic.features(own.images), generator.features(own.images))).backward();
        parallel.step();
        optimizer.step();
    }
    return Parameters();
}

/* A parameter outside of the model, which the optimizer has and Parallel has not; another one is trained alike on all
 * ranks, and is not meant. */
Parameters
loose_parameter()
{
    Net net;
    const Tensor temperature = torch::full({2}, 1.5).requires_grad_(), alike = torch::full({2}, 2.0).requires_grad_();
    Parallel parallel(net.named_parameters(), net.named_buffers());
    std::vector<Tensor> parameters = net.parameters();
    parameters.insert(parameters.end(), {temperature, alike});
    torch::optim::SGD optimizer(parameters, 0.1);
    for (int step = 0; step < STEPS; ++step) {
        optimizer.zero_grad();
        (net.loss(share(step)) * temperature.prod() + alike.sum()).backward();
        parallel.step();
        optimizer.step();
    }
    return Parameters();
}

/* Joined at the end of the program, as programs do: exit() in this thread would wait for itself. */
struct Joined {
    std::thread thread;
    ~Joined()
    {
        if (thread.joinable())
            thread.join();
    }
};

/* What ends the program is found in another thread. */
Parameters
sparse_in_thread()
{
    static Joined joined;
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(8, 4).sparse(true));
    Parallel parallel(table->named_parameters());
    std::printf("before the backward pass");
    joined.thread = std::thread([&] { table(torch::arange(4)).sum().backward(); });
    joined.thread.join();
    return Parameters();
}

} // namespace

#endif
