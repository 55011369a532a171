/*
 * ddprun_torch_unheld.h - a part of ddprun_torch.h: finds tensors that a program trains and that no Parallel holds, for
 * example a second model. Each rank would train them by itself.
 *
 * Each backward pass goes through libtorch's engine, of which a program may set its own (set_default_engine_stub()).
 * The one here walks the graph, notes the leaves that get a gradient and are no Parallel's, and gives the pass to
 * libtorch's. Of each leaf it keeps a few values from the first pass after a step(). A leaf that has gradients in two
 * intervals between steps, and whose values have changed a little in between, is trained: an optimizer takes small
 * steps. An input that requires a gradient is another tensor in each step, or gets a batch of other values; a frozen
 * model, or one that is only evaluated, has no gradient or keeps its values.
 *
 * Not seen: what is trained while no Parallel steps; in a program that has its own engine already (Python's).
 */
#ifndef DDPRUN_TORCH_UNHELD_H
#define DDPRUN_TORCH_UNHELD_H

#include <torch/torch.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ddprun
{
namespace torch
{
namespace detail
{

/* A tensor that a rank trains without a Parallel. */
struct Trained {
    std::string text; /* shape and type */
    int64_t count;    /* of elements */
    /* Shape and type as a number, and the norm of some of its values: the same on ranks that train it alike. */
    std::pair<double, double> key;
};

/*
 * Of this rank's tensors those that all ranks train, each by itself. `keys_of_ranks` has the keys of each rank's
 * tensors. A tensor that is the same on all ranks is trained alike, one that a rank lacks is the others' own.
 */
inline std::vector<Trained>
trained_apart(const std::vector<Trained> &mine, const std::vector<std::set<std::pair<double, double>>> &keys_of_ranks)
{
    const auto all_have = [&](const std::pair<double, double> &key) {
        return std::all_of(keys_of_ranks.begin(), keys_of_ranks.end(),
                           [&](const auto &keys) { return keys.count(key) > 0; });
    };
    const auto differs = [&](const std::set<std::pair<double, double>> &keys, double shape) {
        return std::any_of(keys.begin(), keys.end(),
                           [&](const auto &key) { return key.first == shape && !all_have(key); });
    };
    std::vector<Trained> apart;
    for (const Trained &tensor : mine) {
        const bool everywhere = std::all_of(keys_of_ranks.begin(), keys_of_ranks.end(),
                                            [&](const auto &keys) { return differs(keys, tensor.key.first); });
        if (everywhere && !all_have(tensor.key))
            apart.push_back(tensor);
    }
    return apart;
}

/* "a tensor of [4, 8] Float is trained" */
inline std::string
trained_text(const std::vector<Trained> &tensors)
{
    const auto largest = std::max_element(tensors.begin(), tensors.end(),
                                          [](const Trained &a, const Trained &b) { return a.count < b.count; });
    if (tensors.size() == 1)
        return "a tensor of " + largest->text + " is trained";
    return std::to_string(tensors.size()) + " tensors are trained, the largest of " + largest->text + ",";
}

/* A few of a tensor's values, in a tensor of their own. */
inline at::Tensor
some_values(const at::Tensor &tensor)
{
    constexpr int64_t at_least = 256;
    const at::NoGradGuard no_grad;
    at::Tensor flat = tensor.detach();
    if (flat.is_complex())
        flat = at::view_as_real(flat);
    flat = flat.reshape({-1});
    const int64_t stride = std::max<int64_t>(1, flat.numel() / at_least);
    return flat.slice(0, 0, flat.numel(), stride).to(at::kDouble, false, true);
}

class Unheld
{
  public:
    /* Tensors of a Parallel, which may be held twice. */
    void hold(const at::Tensor &tensor)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++held_[tensor.unsafeGetTensorImpl()];
        leaves_.erase(tensor.unsafeGetTensorImpl());
    }

    void let_go(const at::Tensor &tensor)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = held_.find(tensor.unsafeGetTensorImpl());
        if (found != held_.end() && --found->second == 0)
            held_.erase(found);
    }

    /* After each step() of any Parallel. */
    void next_interval()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++interval_;
    }

    /* Before a backward pass from these edges; with `ends`, they are the leaves themselves. In any thread. */
    void see(const ::torch::autograd::edge_list &edges, bool ends)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::unordered_set<const ::torch::autograd::Node *> seen;
        std::vector<const ::torch::autograd::Node *> open;
        const auto add = [&](const ::torch::autograd::edge_list &next) {
            for (const ::torch::autograd::Edge &edge : next) {
                if (edge.function != nullptr && seen.insert(edge.function.get()).second)
                    open.push_back(edge.function.get());
            }
        };
        add(edges);
        while (!open.empty()) {
            const ::torch::autograd::Node *node = open.back();
            open.pop_back();
            const auto *leaf = dynamic_cast<const ::torch::autograd::AccumulateGrad *>(node);
            if (leaf != nullptr)
                see_leaf(leaf->variable);
            else if (!ends)
                add(node->next_edges());
        }
    }

    /* Waits for the device. */
    std::vector<Trained> trained()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::vector<Trained> found;
        for (const auto &item : leaves_) {
            const Leaf &leaf = item.second;
            if (leaf.tensor.expired() || !leaf.before.defined())
                continue;
            const double size = leaf.now.norm().item<double>(), change = (leaf.now - leaf.before).norm().item<double>();
            if (change > 0 && change < SMALL * size)
                found.push_back({leaf.text, leaf.count, {number_of(leaf.text), size}});
        }
        return found;
    }

  private:
    static constexpr double SMALL = 0.3; /* of a batch to the next the change is about as large as the values */

    using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

    struct Leaf {
        Weak tensor;
        std::string text; /* shape and type */
        int64_t count;    /* of elements */
        uint64_t interval = 0;
        at::Tensor before = at::Tensor(), now = at::Tensor(); /* some of its values, in the last two intervals with a
                                                                 gradient of it */
    };

    static std::string text_of(const at::Tensor &tensor)
    {
        std::ostringstream text;
        text << tensor.sizes() << " " << c10::toString(tensor.scalar_type());
        return text.str();
    }

    /* Neither 0 nor rounded: all ranks compute the same. FNV-1a, 32 bits. */
    static double number_of(const std::string &text)
    {
        uint32_t hash = UINT32_C(2166136261);
        for (const char c : text)
            hash = (hash ^ static_cast<unsigned char>(c)) * UINT32_C(16777619);
        return 1.0 + hash;
    }

    void see_leaf(const at::Tensor &tensor)
    {
        const c10::TensorImpl *key = tensor.unsafeGetTensorImpl();
        if (held_.count(key) > 0 || tensor.layout() != at::kStrided || tensor.numel() == 0)
            return;
        auto found = leaves_.find(key); /* no other tensor's: the weak pointer keeps the address */
        if (found == leaves_.end()) {
            forget_gone();
            found = leaves_.emplace(key, Leaf{Weak(tensor.getIntrusivePtr()), text_of(tensor), tensor.numel()}).first;
        }
        Leaf &leaf = found->second;
        if (leaf.now.defined() && leaf.interval == interval_)
            return;
        leaf.before = leaf.now;
        leaf.now = some_values(tensor);
        leaf.interval = interval_;
    }

    /* Batches come and go: each time that there are twice as many. */
    void forget_gone()
    {
        if (leaves_.size() < look_at_)
            return;
        for (auto item = leaves_.begin(); item != leaves_.end();)
            item = item->second.tensor.expired() ? leaves_.erase(item) : std::next(item);
        look_at_ = 2 * leaves_.size() + 64;
    }

    std::mutex mutex_; /* of all below */
    std::map<const c10::TensorImpl *, int> held_;
    std::map<const c10::TensorImpl *, Leaf> leaves_;
    uint64_t interval_ = 0;
    size_t look_at_ = 64;
};

/* Sees each backward pass. Never destroyed, as libtorch's own. */
class Watch : public ::torch::autograd::Engine
{
  public:
    Unheld unheld;

    static Watch &get()
    {
        static Watch *watch = open();
        return *watch;
    }

    ::torch::autograd::variable_list execute(const ::torch::autograd::edge_list &roots,
                                             const ::torch::autograd::variable_list &inputs, bool keep_graph,
                                             bool create_graph, bool accumulate_grad,
                                             const ::torch::autograd::edge_list &outputs) override
    {
        if (accumulate_grad) /* and no torch::autograd::grad() */
            unheld.see(outputs.empty() ? roots : outputs, !outputs.empty());
        return Engine::get_base_engine().execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    }

  private:
    static Watch *open()
    {
        auto *made = new Watch;
        if (&Engine::get_default_engine() == &Engine::get_base_engine())
            ::torch::autograd::set_default_engine_stub(engine);
        return made;
    }

    static ::torch::autograd::Engine &engine()
    {
        return get();
    }
};

inline Unheld &
unheld()
{
    return Watch::get().unheld;
}

} // namespace detail
} // namespace torch
} // namespace ddprun

#endif
