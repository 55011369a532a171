/*
 * type_of.cpp - DDP_TYPE_OF in generic code. Compiled by type_of.sh, and not run: with
 * the headers of CUDA's types in front of ddprun.h or behind it, and with -DWRONG=TYPE, which must not compile.
 */
#ifdef HALF_FIRST
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
#include "ddprun.h"
#ifdef HALF_LAST
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

static_assert(DDP_TYPE_OF((float *)nullptr) == DDP_FLOAT32, "");
static_assert(DDP_TYPE_OF((const double *)nullptr) == DDP_FLOAT64, "");
static_assert(DDP_TYPE_OF((const volatile float *)nullptr) == DDP_FLOAT32, "");

namespace trainer
{
template <typename T, int type>
void
annotate(T *gradient, const T *weight, volatile T *buffer)
{
    static_assert(DDP_TYPE_OF(gradient) == type && DDP_TYPE_OF(weight) == type && DDP_TYPE_OF(buffer) == type, "");
    DDP_GRADIENT(gradient, 8, DDP_TYPE_OF(gradient));
    T several[2];
    DDP_REDUCE(several, 2, DDP_TYPE_OF(several), DDP_OP_SUM, 0);
}
template void annotate<float, DDP_FLOAT32>(float *, const float *, volatile float *);
template void annotate<double, DDP_FLOAT64>(double *, const double *, volatile double *);
#if defined(HALF_FIRST) || defined(HALF_LAST)
template void annotate<__half, DDP_FLOAT16>(__half *, const __half *, volatile __half *);
template void annotate<__nv_bfloat16, DDP_BFLOAT16>(__nv_bfloat16 *, const __nv_bfloat16 *, volatile __nv_bfloat16 *);

/* Becomes CUDA's types by itself, and is another one. */
struct alike {
    operator __half() const;
    operator __nv_bfloat16() const;
};
#endif
} // namespace trainer

#ifdef WRONG
int wrong = DDP_TYPE_OF((WRONG *)nullptr);
#endif
