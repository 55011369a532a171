/*
 * save.h - writes a model's parameters to the files that the samples compare.
 */
#ifndef SAMPLES_TORCH_SAVE_H
#define SAMPLES_TORCH_SAVE_H

#include <torch/torch.h>

#include <ddprun.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "common/parameter_file.h"
}

/* As float; `path` has %d for the rank. Ends the program if the file cannot be written. */
inline void
save_parameters(const torch::OrderedDict<std::string, torch::Tensor> &parameters, const std::string &path)
{
    std::vector<parameter> saved;
    std::vector<torch::Tensor> values;
    for (const auto &item : parameters) {
        values.push_back(item.value().detach().to(torch::kCPU, torch::kFloat).contiguous());
        parameter one = {};
        std::strncpy(one.name, item.key().c_str(), sizeof(one.name) - 1);
        one.count = static_cast<size_t>(values.back().numel());
        one.values = values.back().data_ptr<float>();
        saved.push_back(one);
    }
    if (parameter_file_write(path.c_str(), DDP_RANK(), saved.data(), saved.size()) != 0)
        std::exit(1);
}

#endif
