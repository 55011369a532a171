/* values.c - see values.h. */
#include "comm/values.h"

bool
values_compare(const struct wire_setting *setting, struct values_chunk chunk, ncclDataType_t type, CUdeviceptr found,
               CUstream stream, struct comm_error *error)
{
    void *arguments[] = {&chunk, &found};
    return wire_run(setting, setting->kernels.compare_values[wire_kernel_type(type)], chunk.count, type, arguments,
                    stream, "comparing values", error);
}

bool
values_sample(const struct wire_setting *setting, struct values_chunk chunk, ncclDataType_t type,
              struct values_sample sample, CUstream stream, struct comm_error *error)
{
    void *arguments[] = {&chunk, &sample};
    size_t like = sample.count + sample.marked < chunk.count ? sample.count + sample.marked : chunk.count;
    return wire_run(setting, setting->kernels.sample_values[wire_kernel_type(type)], like, type, arguments, stream,
                    "sampling values", error);
}
