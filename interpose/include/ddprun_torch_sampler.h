/*
 * ddprun_torch_sampler.h - a part of ddprun_torch.h: what DistributedSampler is in Python.
 */
#ifndef DDPRUN_TORCH_SAMPLER_H
#define DDPRUN_TORCH_SAMPLER_H

#include "ddprun.h"

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace ddprun
{
namespace torch
{

/*
 * The items of a dataset that this rank trains, for torch::data::make_data_loader(): as DistributedSampler of Python
 * with the same arguments, in the same order. Each epoch is a permutation of all items by the seed and the number of
 * the epoch. Rank r of n takes the items r, r + n, r + 2n of it: the ranks' batches together are those of one process
 * whose batch is n times as large. So that all ranks have as many, the permutation is filled up from its beginning, or
 * cut with drop_last.
 *
 * `seed` is the same on all ranks. Copies share the epoch, so set_epoch() of the one that was given to a loader reaches
 * that loader. Without set_epoch() each epoch that a copy begins is the next one, also where each has a loader of its
 * own. Two epochs in a row with the same order are reported once, by rank 0.
 */
class Sampler : public ::torch::data::samplers::Sampler<>
{
    /* torch::optional or std::optional: as this libtorch has it. */
    template <typename Class, typename Argument> static Argument argument_of(void (Class::*)(Argument));
    using Base = ::torch::data::samplers::Sampler<>;
    using OptionalSize = decltype(argument_of(&Base::reset));
    using OptionalBatch = decltype(std::declval<Base &>().next(0));

  public:
    explicit Sampler(size_t size, bool shuffle = true, uint64_t seed = 0, bool drop_last = false)
        : shuffle_(shuffle), seed_(seed), drop_last_(drop_last), epoch_(std::make_shared<Epoch>())
    {
        divide(size);
    }

    /* From the next begin() of the loader on. */
    void set_epoch(size_t epoch)
    {
        *epoch_ = {epoch, true};
    }

    size_t epoch() const
    {
        return epoch_->number;
    }

    /* Items of this rank in an epoch. */
    size_t size() const
    {
        return count_;
    }

    void reset(OptionalSize new_size = OptionalSize()) override
    {
        if (new_size)
            divide(*new_size);
        if (epoch_->has_begun && !epoch_->is_set)
            ++epoch_->number;
        epoch_->is_set = false;
        epoch_->has_begun = false;
        order_.clear();
        next_ = 0;
    }

    OptionalBatch next(size_t batch_size) override
    {
        TORCH_CHECK(batch_size > 0,
                    "ddprun::torch::Sampler: a batch of 0 items: there are more ranks than items in a batch");
        if (order_.empty())
            permute();
        epoch_->has_begun = true;
        if (next_ == count_)
            return OptionalBatch();
        std::vector<size_t> batch;
        for (; next_ < count_ && batch.size() < batch_size; ++next_)
            batch.push_back(order_[(rank_ + next_ * ranks_) % order_.size()]);
        last_order().is_complete = next_ == count_;
        return OptionalBatch(std::move(batch));
    }

    void save(::torch::serialize::OutputArchive &archive) const override
    {
        archive.write("epoch", at::tensor(static_cast<int64_t>(epoch_->number)), true);
        archive.write("next", at::tensor(static_cast<int64_t>(next_)), true);
    }

    void load(::torch::serialize::InputArchive &archive) override
    {
        at::Tensor epoch = at::empty({}, at::kLong), next = at::empty({}, at::kLong);
        archive.read("epoch", epoch, true);
        archive.read("next", next, true);
        set_epoch(static_cast<size_t>(epoch.item<int64_t>()));
        order_.clear();
        next_ = static_cast<size_t>(next.item<int64_t>());
    }

  private:
    struct Epoch {
        size_t number = 0;
        bool is_set = false;
        bool has_begun = false; /* since it was set, or became the next one */
    };

    /* The latest epoch of the samplers that have the same items and seed. */
    struct Order {
        size_t epoch = 0;
        bool is_complete = false; /* all its items were taken */
    };

    void divide(size_t size)
    {
        const size_t left = size % ranks_;
        size_ = size;
        count_ = size / ranks_ + (left > 0 && !drop_last_);
    }

    void permute()
    {
        const auto size = static_cast<int64_t>(size_);
        const at::Tensor order = shuffle_ ? at::randperm(size, at::detail::createCPUGenerator(seed_ + epoch_->number))
                                          : at::arange(size, at::kLong);
        order_.assign(order.data_ptr<int64_t>(), order.data_ptr<int64_t>() + size);
        if (shuffle_ && last_order().is_complete && last_order().epoch == epoch_->number)
            say_repeated();
        last_order() = {epoch_->number, false};
    }

    Order &last_order() const
    {
        static thread_local std::map<std::pair<size_t, uint64_t>, Order> orders;
        return orders[{size_, seed_}];
    }

    void say_repeated() const
    {
        static bool said;
        if (said || ddp_interface_get() == nullptr || rank_ != 0)
            return;
        said = true;
        std::fprintf(stderr,
                     "ddprun: a Sampler of %zu items has the same order in two epochs, that of epoch %zu: call "
                     "set_epoch() with the number of the epoch, or make one Sampler for all epochs\n",
                     size_, epoch_->number);
    }

    const bool shuffle_;
    const uint64_t seed_;
    const bool drop_last_;
    const size_t ranks_ = static_cast<size_t>(DDP_WORLD_SIZE()), rank_ = static_cast<size_t>(DDP_RANK());
    std::shared_ptr<Epoch> epoch_;
    size_t size_ = 0, count_ = 0, next_ = 0;
    std::vector<size_t> order_;
};

} // namespace torch
} // namespace ddprun

#endif
