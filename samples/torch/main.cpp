/*
 * main.cpp - a perceptron that reads handwritten digits, in libtorch: alone, and on several ranks of ddprun by the
 * lines that name `ddprun` or a DDP_ macro. --batch is the batch of all ranks together. With --time N rank 0 prints the
 * median time of the last N steps.
 */
#include "save.h"

#include <torch/torch.h>

#include <ddprun_torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace
{

enum { PIXELS = 64, CLASSES = 10 };

struct Options {
    std::string data = "samples/data/digits.csv", save;
    int epochs = 5, batch = 60, hidden = 48, seed = 1, time = 0;
};

Options
read_options(int argc, char **argv)
{
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
        if (name == "--data" && !value.empty()) {
            options.data = value;
        } else if (name == "--save" && !value.empty()) {
            options.save = value;
        } else if (name == "--epochs" && std::atoi(value.c_str()) > 0) {
            options.epochs = std::atoi(value.c_str());
        } else if (name == "--batch" && std::atoi(value.c_str()) > 0) {
            options.batch = std::atoi(value.c_str());
        } else if (name == "--hidden" && std::atoi(value.c_str()) > 0) {
            options.hidden = std::atoi(value.c_str());
        } else if (name == "--seed") {
            options.seed = std::atoi(value.c_str());
        } else if (name == "--time" && std::atoi(value.c_str()) > 0) {
            options.time = std::atoi(value.c_str());
        } else {
            std::fprintf(stderr, "torch: usage: [--data FILE] [--save FILE] [--epochs N] [--batch N] [--hidden N] "
                                 "[--seed N] [--time STEPS]\n");
            std::exit(2);
        }
    }
    if (options.batch % DDP_WORLD_SIZE() != 0) {
        std::fprintf(stderr, "torch: %d ranks cannot divide a batch of %d evenly\n", DDP_WORLD_SIZE(), options.batch);
        std::exit(2);
    }
    return options;
}

/* Images of 64 pixels and their digits. */
class Digits : public torch::data::Dataset<Digits>
{
  public:
    explicit Digits(const std::string &path)
    {
        std::ifstream file(path);
        std::vector<float> numbers;
        for (std::string line, field; std::getline(file, line);) {
            for (std::istringstream fields(line); std::getline(fields, field, ',');)
                numbers.push_back(std::stof(field));
        }
        if (numbers.empty() || numbers.size() % (PIXELS + 1) != 0) {
            std::fprintf(stderr, "torch: %s: no rows of %d numbers\n", path.c_str(), PIXELS + 1);
            std::exit(1);
        }
        const torch::Tensor rows = torch::tensor(numbers).view({-1, PIXELS + 1});
        images_ = rows.narrow(1, 0, PIXELS) / 16;
        labels_ = rows.select(1, PIXELS).to(torch::kLong);
    }
    torch::data::Example<> get(size_t index) override
    {
        return {images_[static_cast<int64_t>(index)], labels_[static_cast<int64_t>(index)]};
    }
    torch::optional<size_t> size() const override
    {
        return static_cast<size_t>(labels_.size(0));
    }

  private:
    torch::Tensor images_, labels_;
};

struct Net : torch::nn::Module {
    torch::nn::Linear input{nullptr}, output{nullptr};
    explicit Net(int hidden)
    {
        input = register_module("input", torch::nn::Linear(PIXELS, hidden));
        output = register_module("output", torch::nn::Linear(hidden, CLASSES));
    }
    torch::Tensor forward(const torch::Tensor &images)
    {
        return output(torch::relu(input(images)));
    }
};

using Clock = std::chrono::steady_clock;

/* Of the last `count` steps. `ends` has the end of each step. */
void
print_median_time(const std::vector<Clock::time_point> &ends, int count)
{
    std::vector<double> times;
    for (size_t i = ends.size(); i-- > 1 && times.size() < static_cast<size_t>(count);)
        times.push_back(std::chrono::duration<double, std::milli>(ends[i] - ends[i - 1]).count());
    if (times.empty())
        return;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    std::printf("step %.4f ms\n", *middle);
}

} // namespace

int
main(int argc, char **argv)
{
    const Options options = read_options(argc, argv);
    torch::manual_seed(options.seed);
    torch::set_num_threads(1);

    const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
    Net net(options.hidden);
    net.to(device);
    ddprun::torch::Parallel parallel(net.named_parameters(), net.named_buffers());
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    auto data = Digits(options.data).map(torch::data::transforms::Stack<>());
    const ddprun::torch::Sampler sampler(*data.size(), true, static_cast<uint64_t>(options.seed));
    const auto batch = static_cast<size_t>(options.batch / DDP_WORLD_SIZE());
    auto loader =
        torch::data::make_data_loader(std::move(data), sampler, torch::data::DataLoaderOptions(batch).drop_last(true));

    std::vector<Clock::time_point> ends;
    for (int epoch = 1; epoch <= options.epochs; ++epoch) {
        float loss_of_epoch = 0;
        int steps = 0;
        for (auto &example : *loader) {
            optimizer.zero_grad();
            torch::Tensor loss =
                torch::nn::functional::cross_entropy(net.forward(example.data.to(device)), example.target.to(device));
            loss.backward();
            parallel.step();
            optimizer.step();
            loss_of_epoch += loss.item<float>();
            ++steps;
            ends.push_back(Clock::now());
        }
        loss_of_epoch /= static_cast<float>(steps);
        DDP_MEAN_AS("loss", &loss_of_epoch);
        if (DDP_RANK() == 0)
            std::printf("epoch %d of %d: loss %.4f\n", epoch, options.epochs, static_cast<double>(loss_of_epoch));
    }
    if (options.time > 0 && DDP_RANK() == 0)
        print_median_time(ends, options.time);
    if (!options.save.empty())
        save_parameters(net.named_parameters(), options.save);
}
