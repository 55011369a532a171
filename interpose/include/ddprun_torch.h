/*
 * ddprun_torch.h - ddprun for libtorch's C++ frontend: what DistributedDataParallel and DistributedSampler are in
 * Python. Header only, beside ddprun.h; C++17, libtorch 1.13 and later.
 *
 *     ddprun::torch::Parallel parallel(model->named_parameters(), model->named_buffers()); // after the initialisation
 *     auto loader = torch::data::make_data_loader(std::move(data), ddprun::torch::Sampler(size),
 *                                                 batch / DDP_WORLD_SIZE());
 *     for (auto &example : *loader) {
 *         optimizer.zero_grad();
 *         loss(model->forward(example.data), example.target).backward();
 *         parallel.step(); // from here on each gradient is the mean over all ranks
 *         optimizer.step();
 *     }
 *
 * Without ddprun, Parallel does nothing and Sampler yields all items. Misuse ends the program, and with it the job, by
 * one line that names the place of Parallel or step() and the tensor.
 */
#ifndef DDPRUN_TORCH_H
#define DDPRUN_TORCH_H

#include "ddprun.h"
#include "ddprun_torch_sampler.h"
#include "ddprun_torch_tensors.h"
#include "ddprun_torch_unheld.h"

#include <torch/torch.h>

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun
{
namespace torch
{

/* Named as the arguments of torch.nn.parallel.DistributedDataParallel. */
struct ParallelOptions {
    /* Other parameters may have a gradient in each step, and on each rank. Not needed where the first step shows it. */
    TORCH_ARG(bool, find_unused_parameters) = false;
    /* Each rank may train tensors by itself that no Parallel holds. */
    TORCH_ARG(bool, allow_unheld) = false;
};

/*
 * The parameters and buffers of a model that all ranks train together, from its construction to its destruction.
 *
 * At the construction all ranks take rank 0's parameters. `grad` of each parameter becomes a part of one flat tensor
 * for each type, where ddprun averages it; this is kept by zero_grad(false), and done again, by a copy, after
 * gradients were set to none. Buffers become rank 0's at each step(), as do those of DistributedDataParallel before
 * each forward pass. Frozen parameters (requires_grad is false) have no gradient; one that is no longer frozen gets one
 * at the next step().
 *
 * Several models or optimizers that step separately have a Parallel each, made in the same order on all ranks. All
 * functions are for the thread that trains. The tensors live at least as long as this object.
 *
 * Ends the program: a parameter that is sparse, or has holes, or a type without a mean; tensors on several devices;
 * tensors that were resized, or moved to other memory, after the construction; the end of an object whose gradients
 * were computed, without any step(); tensors that no Parallel holds and that the ranks train apart
 * (ddprun_torch_unheld.h).
 */
class Parallel
{
  public:
    using Tensors = ::torch::OrderedDict<std::string, at::Tensor>;

    /* `file` and `line`: the caller's place, for messages. */
    explicit Parallel(const Tensors &named_parameters, const Tensors &named_buffers = Tensors(),
                      ParallelOptions options = ParallelOptions(), const char *file = __builtin_FILE(),
                      int line = __builtin_LINE())
        : place_{file, line}, interface_(ddp_interface_get()), group_(place_), options_(options)
    {
        if (interface_ == nullptr)
            return;
        add(parameters_, named_parameters, "parameter");
        add(buffers_, named_buffers, "buffer");
        for (const detail::Entry &entry : parameters_)
            refuse_parameter(entry);
        interface_->gradient_group(group_.id(), site("Parallel", place_));
        annotate_parameters();
        make_gradients(true);
        for (const detail::Entry &entry : buffers_)
            annotate(interface_->buffer, entry);
        interface_->gradient_group(0, site("Parallel", place_));
        hold(true);
    }

    ~Parallel()
    {
        if (interface_ == nullptr)
            return;
        refuse_end();
        hold(false);
        for (detail::Entry &entry : parameters_) {
            if (entry.gradient.defined()) {
                entry.accumulator->del_post_hook(entry.hook);
                interface_->forget(entry.gradient.data_ptr(), site(entry.name, place_));
            }
            interface_->forget(entry.memory, site(entry.name, place_));
        }
        for (const detail::Entry &entry : buffers_)
            interface_->forget(entry.memory, site(entry.name, place_));
    }

    Parallel(const Parallel &) = delete;
    Parallel &operator=(const Parallel &) = delete;

    /*
     * After backward and before the gradients are used: clipping, norms, optimizer.step(). Gradients become the mean
     * over all ranks, on torch's current stream; those in memory of the host are there when it returns.
     *
     * A parameter that has no gradient on this rank and has one on another gets the mean, as if this rank's were 0. One
     * without a gradient on all ranks keeps none. Where a parameter has none in the first step, or with
     * find_unused_parameters, the ranks compare at each step which ones are used, and the host waits for it. Ends the
     * program: a parameter that loses its gradient later without find_unused_parameters; a step without any gradient.
     */
    void step(const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        if (interface_ == nullptr)
            return;
        const detail::Place here = {file, line};
        if (NoSync::depth_of_all() > 0)
            detail::stop(here, "step() is called while no_sync() holds: the gradients would not be averaged; end its "
                               "block before the last backward pass of a step");
        refuse_moved(here);
        make_gradients(false);
        refuse_unheld(here);
        const size_t missing = place_gradients();
        say_scaled(here);
        share_missing(missing, here);
        interface_->step_group(group_.id(), detail::current_stream(device()), site("parallel.step()", here));
        for (detail::Entry &entry : parameters_) {
            if (entry.gradient.defined() && !entry.is_missing)
                entry.tensor.mutable_grad() = entry.gradient;
        }
        ++steps_;
        if (interface_->world_size() > 1)
            detail::unheld().next_interval();
    }

    /* Until it goes out of scope, backward passes add to the gradients and nothing is sent: as no_sync() of
     * DistributedDataParallel, for all passes of an accumulation but the last. */
    class [[nodiscard]] NoSync
    {
      public:
        explicit NoSync(Parallel &parallel, const ddp_site *site) : parallel_(parallel), site_(site)
        {
            ++parallel_.no_sync_depth_;
            if (depth_of_all()++ == 0 && parallel_.interface_ != nullptr)
                parallel_.interface_->no_sync(1, site_);
        }
        ~NoSync()
        {
            --parallel_.no_sync_depth_;
            if (--depth_of_all() == 0 && parallel_.interface_ != nullptr)
                parallel_.interface_->no_sync(0, site_);
        }
        NoSync(const NoSync &) = delete;
        NoSync &operator=(const NoSync &) = delete;

      private:
        friend class Parallel;
        /* Of all objects of Parallel: the interface has one such state for the process. */
        static int &depth_of_all()
        {
            static int depth;
            return depth;
        }
        Parallel &parallel_;
        const ddp_site *site_;
    };

    NoSync no_sync(const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return NoSync(*this, site("parallel.no_sync()", {file, line}));
    }

  private:
    friend class NoSync;
    using Annotate = void (*)(void *, size_t, int, const ddp_site *);

    /* Each place and name once; they live as long as the process. */
    static const ddp_site *site(const std::string &text, const detail::Place &place)
    {
        static auto *sites = new std::map<std::pair<std::string, std::pair<std::string, int>>, ddp_site>;
        const auto made = sites->emplace(std::make_pair(text, std::make_pair(std::string(place.file), place.line)),
                                         ddp_site{nullptr, nullptr, place.line});
        ddp_site &found = made.first->second;
        if (made.second) {
            found.text = detail::keep(text);
            found.file = detail::keep(place.file);
        }
        return &found;
    }

    const c10::Device device() const
    {
        return parameters_.empty() ? c10::Device(c10::kCPU) : parameters_.front().tensor.device();
    }

    [[noreturn]] void refuse(const char *kind, const std::string &name, const std::string &what) const
    {
        detail::stop(place_, std::string(kind) + " `" + name + "` " + what);
    }

    /* A tensor that several modules share is there once. */
    void add(std::vector<detail::Entry> &entries, const Tensors &tensors, const char *kind)
    {
        std::set<const void *> seen;
        for (const auto &item : tensors) {
            const at::Tensor &tensor = item.value();
            if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second)
                continue;
            if (tensor.layout() != at::kStrided)
                refuse(kind, item.key(), "is sparse; ddprun averages dense tensors");
            if (!tensor.is_non_overlapping_and_dense())
                refuse(kind, item.key(), "has holes in its memory; make it contiguous()");
            if (!parameters_.empty() && tensor.device() != device())
                refuse(kind, item.key(),
                       "is on " + tensor.device().str() + ", others are on " + device().str() +
                           "; move the model to one device first");
            detail::Entry entry;
            entry.name = item.key();
            entry.tensor = tensor;
            entry.storage = tensor.storage();
            entry.memory = tensor.data_ptr();
            entry.count = tensor.numel();
            entries.push_back(std::move(entry));
        }
    }

    void refuse_parameter(const detail::Entry &entry) const
    {
        const at::Tensor &tensor = entry.tensor;
        if (!tensor.is_floating_point() && !tensor.is_complex())
            refuse("parameter", entry.name,
                   std::string("has the type ") + c10::toString(tensor.scalar_type()) +
                       ", which has no mean; register it as a buffer");
        if (!tensor.is_leaf())
            refuse("parameter", entry.name, "is the result of an operation, and autograd keeps no gradient of it");
        if (!tensor.is_cpu() && !(DDP_TORCH_HAS_CUDA_ && tensor.is_cuda()))
            refuse("parameter", entry.name,
                   "is on " + tensor.device().str() + ", and this program was compiled without c10/cuda/CUDAStream.h");
    }

    void annotate(Annotate function, const detail::Entry &entry) const
    {
        const detail::Elements elements = detail::elements_of(entry.tensor);
        function(entry.memory, elements.count, elements.type, site(entry.name, place_));
    }

    /* A frozen one is state: ddprun shares and compares it, and misses no gradient of it. */
    void annotate_parameters() const
    {
        for (const detail::Entry &entry : parameters_)
            annotate(entry.tensor.requires_grad() ? interface_->parameter : interface_->state, entry);
    }

    /* Gives gradients to parameters that need one and have none: at the construction, or when they are frozen no
     * longer. */
    void make_gradients(bool at_first)
    {
        std::map<at::ScalarType, std::vector<detail::Entry *>> by_type;
        for (detail::Entry &entry : parameters_) {
            if (entry.tensor.requires_grad() && !entry.gradient.defined() && entry.count > 0)
                by_type[entry.tensor.scalar_type()].push_back(&entry);
        }
        if (by_type.empty())
            return;
        at::NoGradGuard no_grad;
        if (!at_first)
            interface_->gradient_group(group_.id(), site("Parallel", place_));
        for (const auto &type : by_type)
            make_flat(type.second);
        if (!at_first)
            interface_->gradient_group(0, site("Parallel", place_));
    }

    void make_flat(const std::vector<detail::Entry *> &entries)
    {
        int64_t total = 0;
        for (const detail::Entry *entry : entries)
            total += entry->count;
        const at::TensorOptions options = entries.front()->tensor.options().requires_grad(false);
        const at::Tensor flat = at::zeros({total}, options);
        int64_t begin = 0;
        for (detail::Entry *entry : entries) {
            /* No view, which zero_grad() could not detach. */
            entry->gradient = at::empty({0}, options);
            entry->gradient.set_(flat.storage(), begin, entry->tensor.sizes(), entry->tensor.strides());
            begin += entry->count;
            const detail::Elements elements = detail::elements_of(entry->gradient);
            interface_->gradient(entry->gradient.data_ptr(), elements.count, elements.type, site(entry->name, place_));
            entry->accumulator = ::torch::autograd::impl::grad_accumulator(entry->tensor);
            entry->hook = entry->accumulator->add_post_hook(
                std::make_unique<detail::Hook>([this, entry] { gradient_accumulated(*entry); }));
        }
    }

    /* In a thread of autograd. */
    void gradient_accumulated(detail::Entry &entry)
    {
        entry.accumulated = true;
        if (!place_gradient(entry))
            return;
        if (looks())
            entry.computed = detail::some_values(entry.gradient);
        if (no_sync_depth_ > 0)
            return;
        interface_->gradient_ready(entry.gradient.data_ptr(), detail::current_stream(entry.tensor.device()), ready_);
    }

    /* Its `grad` is where ddprun averages it. False: it has none. */
    bool place_gradient(detail::Entry &entry)
    {
        at::Tensor &grad = entry.tensor.mutable_grad();
        if (!grad.defined())
            return false;
        if (grad.layout() != at::kStrided)
            refuse("parameter", entry.name, "has a sparse gradient; ddprun averages dense ones: sparse(false)");
        if (grad.data_ptr() == entry.gradient.data_ptr())
            return true;
        at::NoGradGuard no_grad;
        entry.gradient.copy_(grad);
        grad = entry.gradient;
        if (entry.was_placed)
            say_copied();
        entry.was_placed = true;
        return true;
    }

    void say_copied()
    {
        if (said_copied_ || interface_->rank() != 0)
            return;
        said_copied_ = true;
        std::fprintf(stderr,
                     "ddprun: %s:%d: gradients are set to none (zero_grad() of libtorch 2 does that), and are copied "
                     "to where they are averaged in each step; zero_grad(false) saves the copy\n",
                     place_.file, place_.line);
    }

    /* All that have a gradient now; returns how many do not. */
    size_t place_gradients()
    {
        size_t missing = 0;
        at::NoGradGuard no_grad;
        for (detail::Entry &entry : parameters_) {
            entry.is_missing = entry.gradient.defined() && !place_gradient(entry);
            if (!entry.is_missing)
                continue;
            entry.gradient.zero_(); /* the mean is that of the ranks that have one */
            missing += entry.tensor.requires_grad();
        }
        return missing;
    }

    /* Of what this rank has no gradient of, another may have one: then it gets the mean. */
    void share_missing(size_t missing, const detail::Place &here)
    {
        if (steps_ == 0 && !options_.find_unused_parameters()) {
            volatile int any = missing > 0;
            options_.find_unused_parameters(interface_->any(&any, site("parallel.step()", here)) != 0);
        }
        if (!options_.find_unused_parameters()) {
            if (missing > 0)
                refuse_missing(here);
            return;
        }
        std::vector<int32_t> used;
        for (const detail::Entry &entry : parameters_)
            used.push_back(entry.gradient.defined() && !entry.is_missing);
        interface_->reduce(used.data(), used.size(), DDP_INT32, DDP_OP_MAX, ddp_stream(0),
                           site("used parameters", here));
        bool any = false;
        for (size_t i = 0; i < used.size(); ++i) {
            parameters_[i].is_missing = parameters_[i].gradient.defined() && used[i] == 0;
            any = any || used[i] != 0;
        }
        if (!any)
            detail::stop(here, "no parameter has a gradient; call step() after backward()");
    }

    [[noreturn]] void refuse_missing(const detail::Place &here) const
    {
        size_t missing = 0, gradients = 0;
        const detail::Entry *first = nullptr;
        for (const detail::Entry &entry : parameters_) {
            gradients += entry.gradient.defined();
            if (entry.is_missing && missing++ == 0)
                first = &entry;
        }
        if (missing == gradients)
            detail::stop(here, "no parameter has a gradient; call step() after backward()");
        detail::stop(here, "parameter `" + first->name + "` has no gradient in step " + std::to_string(steps_ + 1) +
                               ", and all had one in step 1; if the loss does not use it in every step, say "
                               "ParallelOptions().find_unused_parameters(true)");
    }

    /* Backward passes, and no step(). */
    void refuse_end() const
    {
        if (steps_ > 0 || interface_->world_size() == 1 || std::uncaught_exceptions() > 0)
            return;
        for (const detail::Entry &entry : parameters_) {
            if (entry.accumulated)
                detail::stop(place_, "gradients were computed, and step() was never called: each rank has trained by "
                                     "itself; call step() between backward() and the optimizer");
        }
    }

    void refuse_moved(const detail::Place &here) const
    {
        for (const std::vector<detail::Entry> *entries : {&parameters_, &buffers_}) {
            for (const detail::Entry &entry : *entries) {
                if (entry.tensor.numel() != entry.count)
                    detail::stop(here, "`" + entry.name + "` has " + std::to_string(entry.tensor.numel()) +
                                           " elements, and had " + std::to_string(entry.count) +
                                           " when Parallel was made (" + place_.file + ":" +
                                           std::to_string(place_.line) + "); make Parallel after it has its size");
                if (entry.tensor.data_ptr() != entry.memory)
                    detail::stop(here, "`" + entry.name + "` is in other memory than when Parallel was made (" +
                                           place_.file + ":" + std::to_string(place_.line) +
                                           "); call torch::load(), to() and set_data() before that");
            }
        }
    }

    void hold(bool holds) const
    {
        if (interface_->world_size() == 1)
            return;
        for (const detail::Entry &entry : parameters_) {
            if (holds)
                detail::unheld().hold(entry.tensor);
            else
                detail::unheld().let_go(entry.tensor);
        }
    }

    /* In steps 1, 2, 4, 8, ..., because a look waits for the device and for the other ranks. */
    bool looks() const
    {
        return interface_->world_size() > 1 && (steps_ & (steps_ + 1)) == 0;
    }

    void refuse_unheld(const detail::Place &here) const
    {
        if (!looks() || options_.allow_unheld())
            return;
        const std::vector<detail::Trained> mine = detail::unheld().trained();
        const ddp_site *call = site("tensors without a Parallel", here);
        volatile int any = !mine.empty();
        if (interface_->any(&any, call) == 0)
            return;
        const std::vector<detail::Trained> apart = detail::trained_apart(mine, share_keys(mine, call));
        if (!apart.empty())
            detail::stop(here, detail::trained_text(apart) +
                                   " without a Parallel: each rank trains by itself, and the ranks' values differ; "
                                   "make a Parallel of the model that has it, or add it to the parameters of one; if "
                                   "each rank is to have its own, say ParallelOptions().allow_unheld(true)");
    }

    /* All gradients are so many times what backward left; 1 also where something else was done to them. */
    double find_scale()
    {
        std::vector<at::Tensor> computed, now;
        for (detail::Entry &entry : parameters_) {
            if (!entry.computed.defined())
                continue;
            computed.push_back(std::move(entry.computed));
            now.push_back(detail::some_values(entry.gradient));
            entry.computed = at::Tensor();
        }
        if (computed.empty())
            return 1;
        const at::Tensor before = at::cat(computed), after = at::cat(now);
        const double square = before.dot(before).item<double>();
        const double scale = before.dot(after).item<double>() / square;
        const double rest = (after - scale * before).norm().item<double>();
        return rest <= rounding() * after.norm().item<double>() ? scale : 1;
    }

    /* Of a gradient that is multiplied, in its type, at most. */
    double rounding() const
    {
        const bool is_short = std::any_of(parameters_.begin(), parameters_.end(),
                                          [](const detail::Entry &entry) { return entry.tensor.element_size() < 4; });
        return is_short ? 1e-2 : 1e-6;
    }

    /* Each rank by another number: as clipping by a norm does. */
    void say_scaled(const detail::Place &here)
    {
        if (!looks() || said_scaled_)
            return;
        const double scale = find_scale();
        const ddp_site *call = site("scaled gradients", here);
        volatile int any = std::abs(scale - 1) > rounding();
        if (interface_->any(&any, call) == 0)
            return;
        double least[] = {scale, -scale};
        interface_->reduce(least, 2, DDP_FLOAT64, DDP_OP_MIN, ddp_stream(0), call);
        const double smallest = least[0], largest = -least[1];
        if (largest - smallest <= 10 * rounding() * std::abs(largest))
            return;
        said_scaled_ = true;
        if (interface_->rank() == 0)
            std::fprintf(stderr,
                         "ddprun: %s:%d: gradients were scaled between backward() and step(), by %.3g on one rank and "
                         "%.3g on another: clipping by the norm of a rank's own gradients is not that of one process; "
                         "clip after step()\n",
                         here.file, here.line, smallest, largest);
    }

    /* The keys of all ranks' tensors. */
    std::vector<std::set<std::pair<double, double>>> share_keys(const std::vector<detail::Trained> &mine,
                                                                const ddp_site *call) const
    {
        const auto rank = static_cast<size_t>(interface_->rank());
        const auto ranks = static_cast<size_t>(interface_->world_size());
        int64_t most = static_cast<int64_t>(mine.size());
        interface_->reduce(&most, 1, DDP_INT64, DDP_OP_MAX, ddp_stream(0), call);
        const auto places = static_cast<size_t>(most);
        std::vector<double> all(2 * ranks * places, 0.0);
        for (size_t i = 0; i < mine.size(); ++i) {
            all[2 * (rank * places + i)] = mine[i].key.first;
            all[2 * (rank * places + i) + 1] = mine[i].key.second;
        }
        interface_->reduce(all.data(), all.size(), DDP_FLOAT64, DDP_OP_SUM, ddp_stream(0), call);
        std::vector<std::set<std::pair<double, double>>> keys(ranks);
        for (size_t i = 0; i < ranks * places; ++i) {
            if (all[2 * i] != 0)
                keys[i / places].emplace(all[2 * i], all[2 * i + 1]);
        }
        return keys;
    }

    const detail::Place place_;
    const ddp_interface *const interface_; /* null: not started by ddprun */
    detail::Group group_;
    ParallelOptions options_;
    std::vector<detail::Entry> parameters_, buffers_; /* their number is fixed: hooks point to entries */
    const ddp_site *const ready_ = site("parallel", place_);
    uint64_t steps_ = 0;
    int no_sync_depth_ = 0;
    bool said_copied_ = false, said_scaled_ = false;
};

} // namespace torch
} // namespace ddprun

#endif
