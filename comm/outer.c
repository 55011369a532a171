/* outer.c - see wire.h. */
#include "comm/wire.h"

static size_t
anchor_bytes(const struct outer_values *values)
{
    return values->count * (values->type == ncclFloat64 ? sizeof(double) : sizeof(float));
}

size_t
outer_bytes(const struct outer_values *values, const struct outer_rule *rule)
{
    return anchor_bytes(values) * (rule->momentum > 0 ? 2 : 1);
}

bool
outer_begin(const struct outer_values *values, const struct outer_rule *rule, const struct wire_setting *setting,
            CUstream stream, struct comm_error *error)
{
    CUdeviceptr parameters = values->values, anchor = values->kept;
    unsigned long long count = values->count;
    void *arguments[] = {&parameters, &anchor, &count};
    size_t before = anchor_bytes(values), all = outer_bytes(values, rule);
    if (!wire_run(setting, setting->kernels.anchor[wire_kernel_type(values->type)], values->count, values->type,
                  arguments, stream, "setting the anchor of an outer step", error))
        return false;
    CUresult result =
        all > before ? setting->driver->cuMemsetD8Async_p(anchor + before, 0, all - before, stream) : CUDA_SUCCESS;
    return result == CUDA_SUCCESS || driver_fail(setting->driver, result, "clearing a velocity", error);
}

bool
outer_step(const struct outer_values *values, const struct outer_rule *rule, const struct wire_setting *setting,
           CUstream stream, struct comm_error *error)
{
    bool has_velocity = rule->momentum > 0;
    CUdeviceptr parameters = values->values, anchor = values->kept;
    CUdeviceptr velocity = has_velocity ? anchor + anchor_bytes(values) : 0;
    unsigned long long count = values->count;
    double rate = rule->rate, momentum = rule->momentum;
    void *arguments[] = {&parameters, &anchor, &velocity, &count, &rate, &momentum};
    return wire_run(setting, setting->kernels.outer[wire_kernel_type(values->type)], values->count, values->type,
                    arguments, stream, "an outer step", error);
}
