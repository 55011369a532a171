/*
 * softgpu/atomic.h - atomic functions, vector and cached loads and stores: CUDA C++ Programming Guide, "Atomic
 * Functions" and "Load Functions Using Cache Hints". Included by softgpu_prelude.h.
 *
 * Atomic between all threads that run kernels, relaxed in order as CUDA's are. All are templates, so that a user's own
 * `atomicAdd(double *, double)`, which many programs bring for old GPUs, is preferred and clashes with nothing.
 */
#ifndef SOFTGPU_ATOMIC_H
#define SOFTGPU_ATOMIC_H
#pragma GCC system_header

#include "softgpu/thread.h"

namespace softgpu
{

/* The type of a parameter from which T is not to be deduced: the pointer decides. */
template <class T> struct same {
    typedef T type;
};
template <class T> using given = typename same<T>::type;

template <bool Condition, class T> using only_if = typename std::enable_if<Condition, T>::type;

template <class T>
constexpr bool
is_word()
{
    return std::is_integral<T>::value && (sizeof(T) == 4 || sizeof(T) == 8);
}

template <class T>
constexpr bool
is_number()
{
    return is_word<T>() || std::is_same<T, float>::value || std::is_same<T, double>::value;
}

/* The unsigned integer of a size, allowed to be any other type's memory. */
template <size_t Bytes> struct bits_of;
template <> struct bits_of<2> {
    typedef unsigned short __attribute__((may_alias)) type;
};
template <> struct bits_of<4> {
    typedef unsigned int __attribute__((may_alias)) type;
};
template <> struct bits_of<8> {
    typedef unsigned long long __attribute__((may_alias)) type;
};

/* *address = next(*address), atomically; returns what was there. Values are compared bit by bit, so NaNs do no harm. */
template <class T, class Next>
inline T
atomic_update(T *address, Next next)
{
    typedef typename bits_of<sizeof(T)>::type bits;
    bits *const there = reinterpret_cast<bits *>(address);
    bits old = __atomic_load_n(there, __ATOMIC_RELAXED), wanted;
    T value;
    do {
        __builtin_memcpy(static_cast<void *>(&value), &old, sizeof(T));
        const T following = next(value);
        __builtin_memcpy(&wanted, static_cast<const void *>(&following), sizeof(T));
    } while (!__atomic_compare_exchange_n(there, &old, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return value;
}

/* Integers add and subtract as the processor does: wrapping. */
template <class T>
inline only_if<std::is_integral<T>::value, T>
atomic_add(T *address, T value)
{
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

template <class T>
inline only_if<!std::is_integral<T>::value, T>
atomic_add(T *address, T value)
{
    return atomic_update(address, [value](T old) { return static_cast<T>(old + value); });
}

} // namespace softgpu

#define SOFTGPU_ATOMIC(name, condition, body)                                                                          \
    template <class T> SOFTGPU_INLINE softgpu::only_if<condition, T> name(T *address, softgpu::given<T> value)         \
    {                                                                                                                  \
        return body;                                                                                                   \
    }                                                                                                                  \
    template <class T> SOFTGPU_INLINE softgpu::only_if<condition, T> name##_block(T *address, softgpu::given<T> value) \
    {                                                                                                                  \
        return body;                                                                                                   \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    SOFTGPU_INLINE softgpu::only_if<condition, T> name##_system(T *address, softgpu::given<T> value)                   \
    {                                                                                                                  \
        return body;                                                                                                   \
    }

SOFTGPU_ATOMIC(atomicAdd, softgpu::is_number<T>(), softgpu::atomic_add(address, value))
SOFTGPU_ATOMIC(atomicSub, softgpu::is_word<T>(), __atomic_fetch_sub(address, value, __ATOMIC_RELAXED))
SOFTGPU_ATOMIC(atomicAnd, softgpu::is_word<T>(), __atomic_fetch_and(address, value, __ATOMIC_RELAXED))
SOFTGPU_ATOMIC(atomicOr, softgpu::is_word<T>(), __atomic_fetch_or(address, value, __ATOMIC_RELAXED))
SOFTGPU_ATOMIC(atomicXor, softgpu::is_word<T>(), __atomic_fetch_xor(address, value, __ATOMIC_RELAXED))
SOFTGPU_ATOMIC(atomicMax, softgpu::is_word<T>(),
               softgpu::atomic_update(address, [value](T old) { return old < value ? value : old; }))
SOFTGPU_ATOMIC(atomicMin, softgpu::is_word<T>(),
               softgpu::atomic_update(address, [value](T old) { return value < old ? value : old; }))
SOFTGPU_ATOMIC(atomicExch, softgpu::is_number<T>(), softgpu::atomic_update(address, [value](T) { return value; }))

/* ((old >= value) ? 0 : (old + 1)) and ((old == 0 || old > value) ? value : (old - 1)), as the guide has them. */
SOFTGPU_ATOMIC(atomicInc, (std::is_same<T, unsigned>::value),
               softgpu::atomic_update(address, [value](T old) { return old >= value ? 0u : old + 1; }))
SOFTGPU_ATOMIC(atomicDec, (std::is_same<T, unsigned>::value),
               softgpu::atomic_update(address, [value](T old) { return old == 0 || old > value ? value : old - 1; }))
#undef SOFTGPU_ATOMIC

#define SOFTGPU_CAS(name)                                                                                             \
    template <class T>                                                                                                \
    SOFTGPU_INLINE softgpu::only_if<std::is_integral<T>::value && (sizeof(T) == 2 || softgpu::is_word<T>()), T> name( \
        T *address, softgpu::given<T> expected, softgpu::given<T> value)                                              \
    {                                                                                                                 \
        __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);            \
        return expected;                                                                                              \
    }
SOFTGPU_CAS(atomicCAS)
SOFTGPU_CAS(atomicCAS_block)
SOFTGPU_CAS(atomicCAS_system)
#undef SOFTGPU_CAS

/* Each number of a vector by itself. */
#define SOFTGPU_ADD_VECTOR(name)                                                                                  \
    SOFTGPU_INLINE float2 name(float2 *address, float2 v)                                                         \
    {                                                                                                             \
        return make_float2(atomicAdd(&address->x, v.x), atomicAdd(&address->y, v.y));                             \
    }                                                                                                             \
    SOFTGPU_INLINE float4 name(float4 *address, float4 v)                                                         \
    {                                                                                                             \
        return make_float4(atomicAdd(&address->x, v.x), atomicAdd(&address->y, v.y), atomicAdd(&address->z, v.z), \
                           atomicAdd(&address->w, v.w));                                                          \
    }
SOFTGPU_ADD_VECTOR(atomicAdd)
SOFTGPU_ADD_VECTOR(atomicAdd_block)
SOFTGPU_ADD_VECTOR(atomicAdd_system)
#undef SOFTGPU_ADD_VECTOR

/* ---- cache hints: there is one cache here ---- */

#define SOFTGPU_LOAD(name)                                     \
    template <class T> SOFTGPU_INLINE T name(const T *address) \
    {                                                          \
        return *address;                                       \
    }
SOFTGPU_LOAD(__ldg)
SOFTGPU_LOAD(__ldcg)
SOFTGPU_LOAD(__ldca)
SOFTGPU_LOAD(__ldcs)
SOFTGPU_LOAD(__ldlu)
#undef SOFTGPU_LOAD

/* "Don't cache and fetch again": what another thread may have written meanwhile. */
template <class T>
SOFTGPU_INLINE T
__ldcv(const T *address)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return *address;
}

#define SOFTGPU_STORE(name)                                                          \
    template <class T> SOFTGPU_INLINE void name(T *address, softgpu::given<T> value) \
    {                                                                                \
        *address = value;                                                            \
    }
SOFTGPU_STORE(__stwb)
SOFTGPU_STORE(__stcg)
SOFTGPU_STORE(__stcs)
SOFTGPU_STORE(__stwt)
#undef SOFTGPU_STORE

#endif
