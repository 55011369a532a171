/*
 * main.cpp - the framework's command: small [--type float|double] [--batch N] [--steps N] [--rank R --count N]
 * [--clip NORM] [--batch-means] [--save FILE]. --batch is that of one process; --rank and --count say which part of
 * the data it reads.
 */
#include "solver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

struct options {
    bool is_double = false, batch_means = false;
    int batch = 30, steps = 40, rank = 0, count = 1;
    double clip = 0.6;
    const char *save = nullptr;
};

template <class T>
static void
save(Net<T> &net, const char *path)
{
    FILE *const file = std::fopen(path, "w");
    SMALL_CHECK(file == nullptr);
    for (const Param<T> *param : net.params()) {
        std::vector<T> values(param->value.count());
        SMALL_CHECK(cudaMemcpy(values.data(), param->value.data, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
        for (T value : values)
            std::fprintf(file, "%s %.17g\n", param->name.c_str(), (double)value);
    }
    SMALL_CHECK(std::fclose(file));
}

template <class T>
static int
train(const options &options)
{
    Net<T> net(options.batch, options.batch_means);
    Loader<T> loader(options.batch, options.rank, options.count);
    Solver<T> solver(net, loader, (T)options.clip);
    double loss = 0;
    for (int step = 0; step < options.steps; ++step)
        loss = (double)solver.step();
    if (options.rank == 0)
        std::printf("%d steps, %d clipped, loss %.4f\n", options.steps, solver.clipped, loss);
    if (options.save != nullptr)
        save(net, options.save);
    return 0;
}

int
main(int argc, char **argv)
{
    options options;
    for (int i = 1; i < argc; ++i) {
        const char *const value = i + 1 < argc ? argv[i + 1] : "";
        if (std::strcmp(argv[i], "--batch-means") == 0) {
            options.batch_means = true;
            continue;
        }
        if (std::strcmp(argv[i], "--type") == 0)
            options.is_double = std::strcmp(value, "double") == 0;
        else if (std::strcmp(argv[i], "--batch") == 0)
            options.batch = std::atoi(value);
        else if (std::strcmp(argv[i], "--steps") == 0)
            options.steps = std::atoi(value);
        else if (std::strcmp(argv[i], "--rank") == 0)
            options.rank = std::atoi(value);
        else if (std::strcmp(argv[i], "--count") == 0)
            options.count = std::atoi(value);
        else if (std::strcmp(argv[i], "--clip") == 0)
            options.clip = std::atof(value);
        else if (std::strcmp(argv[i], "--save") == 0)
            options.save = value;
        else {
            std::fprintf(stderr, "small: what is %s?\n", argv[i]);
            return 2;
        }
        ++i;
    }
    return options.is_double ? train<double>(options) : train<float>(options);
}
