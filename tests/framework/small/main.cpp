/*
 * main.cpp - the framework's command: small [--type float|double] [--batch N] [--steps N] [--rank R --count N]
 * [--clip NORM] [--batch-means] [--save FILE]. --batch is that of one process; --rank and --count say which part of
 * the data it reads.
 */
#include "small.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

int
main(int argc, char **argv)
{
    options options;
    for (int i = 1; i < argc; ++i) {
        const auto is = [&](const char *name) { return std::strcmp(argv[i], name) == 0; };
        int *const number = is("--batch")   ? &options.batch
                            : is("--steps") ? &options.steps
                            : is("--rank")  ? &options.rank
                            : is("--count") ? &options.count
                                            : nullptr;
        if (is("--batch-means"))
            options.batch_means = true;
        else if (i + 1 < argc && number != nullptr)
            *number = std::atoi(argv[++i]);
        else if (i + 1 < argc && is("--type"))
            options.is_double = std::strcmp(argv[++i], "double") == 0;
        else if (i + 1 < argc && is("--clip"))
            options.clip = std::atof(argv[++i]);
        else if (i + 1 < argc && is("--save"))
            options.save = argv[++i];
        else
            return std::fprintf(stderr, "small: what is %s?\n", argv[i]), 2;
    }
    return options.is_double ? train<double>(options) : train<float>(options);
}
