/*
 * outer.cu - the kernels of an outer step: parameters that ranks have averaged move the anchor, from which the average
 * began, by SGD with Nesterov's momentum, and become what the anchor is then (comm/outer.h).
 *
 * Built as wire.cu is, behind it; launched by comm/outer.c with any number of threads and blocks. The anchor and its
 * velocity are float32, or float64 for float64. They touch nothing outside of the `count` values.
 */

/* Parameters in 16 bits began as the rounded anchor: what was rounded off is no part of the ranks' updates. */
template <typename Format, typename Stored, typename Wide>
__device__ static void
step_outer(Stored *values, Wide *anchor, Wide *velocity, unsigned long long count, Wide rate, Wide momentum)
{
    each_value<Stored>(count, [=](unsigned long long i) {
        Wide gradient = Format::widen(Format::narrow(anchor[i])) - Format::widen(values[i]);
        if (velocity != nullptr) {
            velocity[i] = momentum * velocity[i] + gradient;
            gradient += momentum * velocity[i];
        }
        anchor[i] -= rate * gradient;
        values[i] = Format::narrow(anchor[i]);
    });
}

template <typename Format, typename Stored, typename Wide>
__device__ static void
set_anchor(const Stored *values, Wide *anchor, unsigned long long count)
{
    each_value<Stored>(count, [=](unsigned long long i) { anchor[i] = Format::widen(values[i]); });
}

#define OUTER_KERNELS(name, Format, Stored, Wide)                                                                 \
    extern "C" __global__ void ddprun_outer_##name(Stored *values, Wide *anchor, Wide *velocity,                  \
                                                   unsigned long long count, double rate, double momentum)        \
    {                                                                                                             \
        step_outer<Format>(values, anchor, velocity, count, (Wide)rate, (Wide)momentum);                          \
    }                                                                                                             \
    extern "C" __global__ void ddprun_anchor_##name(const Stored *values, Wide *anchor, unsigned long long count) \
    {                                                                                                             \
        set_anchor<Format>(values, anchor, count);                                                                \
    }

OUTER_KERNELS(float32, plain<float>, float, float)
OUTER_KERNELS(float64, plain<double>, double, double)
OUTER_KERNELS(float16, float16, unsigned short, float)
OUTER_KERNELS(bfloat16, bfloat16, unsigned short, float)
