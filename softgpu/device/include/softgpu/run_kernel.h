/*
 * softgpu/run_kernel.h - a kernel as code that runs blocks: on fibers, where its threads may wait for each other, or as
 * loops over its threads, which become vector code. Included by launch.h.
 */
#ifndef SOFTGPU_RUN_KERNEL_H
#define SOFTGPU_RUN_KERNEL_H
#pragma GCC system_header

#include "softgpu/object.h"

namespace softgpu
{

template <unsigned... I> struct numbers {
};
template <unsigned N, unsigned... I> struct count_to : count_to<N - 1, N - 1, I...> {
};
template <unsigned... I> struct count_to<0, I...> {
    typedef numbers<I...> type;
};

/* Holds a lambda without captures, which cannot be default-constructed before C++20 and has nothing to construct. */
template <class Body> union husk {
    char none;
    Body body;
    husk() : none(0)
    {
    }
};

enum mode {
    MODE_FIBERS = 1,   /* threads may wait for each other */
    MODE_INDICES = 2,  /* functions that the kernel calls ask for threadIdx and its relatives */
    MODE_UNSIGNED = 4, /* the kernel counts its elements with an unsigned type, */
    MODE_64_BITS = 8,  /* of 64 bits: hints for run_line, without effect on results */
    MODE_STRIDES = 16, /* the kernel is a grid-stride loop, which takes a struct turn */
};

/* What the code of a grid-stride loop is to do. */
struct turn {
    bool single; /* one turn, the first; else all */
    bool ask;    /* none, but to say whether there is one */
    bool more;   /* the answer */
};

/* The code of a kernel, for one thread. */
template <class Body, class... A>
inline __attribute__((always_inline)) void
enter(std::true_type, Body &body, turn &turn, const ::uint3 &thread, const ::uint3 &block, const ::dim3 &block_dim,
      const ::dim3 &grid_dim, A &...parameters)
{
    body(thread, block, block_dim, grid_dim, turn, parameters...);
}

template <class Body, class... A>
inline __attribute__((always_inline)) void
enter(std::false_type, Body &body, turn &, const ::uint3 &thread, const ::uint3 &block, const ::dim3 &block_dim,
      const ::dim3 &grid_dim, A &...parameters)
{
    body(thread, block, block_dim, grid_dim, parameters...);
}

template <int Mode> using is_strided = std::integral_constant<bool, (Mode & MODE_STRIDES) != 0>;

template <int Mode>
using counter =
    typename std::conditional<(Mode & MODE_64_BITS) != 0,
                              typename std::conditional<(Mode & MODE_UNSIGNED) != 0, size_t, long>::type,
                              typename std::conditional<(Mode & MODE_UNSIGNED) != 0, unsigned, int>::type>::type;

#if defined(__x86_64__) && !defined(__AVX2__)
#define SOFTGPU_WIDE_VECTORS 1
#endif

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* where vector code is not possible, that is no news */
#define SOFTGPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define SOFTGPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* The type in which such a kernel multiplies blockIdx.x by blockDim.x: with an int, still unsigned. */
template <int Mode>
using product = typename std::conditional<std::is_same<counter<Mode>, int>::value, unsigned, counter<Mode>>::type;

/*
 * threadIdx and its relatives for the functions that a kernel calls, in the frame of a loop over its threads. Where
 * such a function is inlined, the compiler finds in it what the loop stored here; and since no pointer among the
 * kernel's arguments can point into this frame, the stores do not stand in the way of vector code.
 */
template <bool Wanted> struct frame_indices {
    inline __attribute__((always_inline)) void set(const ::uint3 &, const ::uint3 &, const ::dim3 &, const ::dim3 &)
    {
    }
};

template <> struct frame_indices<true> {
    indices here;

    inline __attribute__((always_inline)) frame_indices()
    {
        self().here = reinterpret_cast<softgpu_indices *>(&here);
    }
    inline __attribute__((always_inline)) void set(const ::uint3 &thread, const ::uint3 &block, const ::dim3 &block_dim,
                                                   const ::dim3 &grid_dim)
    {
        here.thread.x = thread.x, here.thread.y = thread.y, here.thread.z = thread.z;
        here.block.x = block.x, here.block.y = block.y, here.block.z = block.z;
        here.block_dim.x = block_dim.x, here.block_dim.y = block_dim.y, here.block_dim.z = block_dim.z;
        here.grid_dim.x = grid_dim.x, here.grid_dim.y = grid_dim.y, here.grid_dim.z = grid_dim.z;
    }
};

/*
 * Blocks and threads in one dimension, fewer than 2^31 threads: `int i = blockIdx.x * blockDim.x + threadIdx.x; if (i <
 * n) ...`. The loop counts that i, in the type that the kernel has for it, so that the compiler finds it again (b + (i
 * - b) is i), sees that neighbouring threads touch neighbouring elements, and splits the loop where i reaches n.
 * Unsigned numbers may wrap, which would forbid all that; the ranges say that they do not, also where only a part of a
 * block runs (order.c). Threads may run in any order, and so may be vectorised: a kernel that orders them has a
 * barrier, and is not run by this loop.
 */
#define SOFTGPU_RUN_THREADS(is_single)                                                                 \
    SOFTGPU_INDEPENDENT                                                                                \
    for (counter<Mode> i = begin; i < end; ++i) {                                                      \
        const product<Mode> x = static_cast<product<Mode>>(i) - offset;                                \
        if (x < 0 || x > 1023 || i < 0)                                                                \
            __builtin_unreachable();                                                                   \
        const ::uint3 thread = {static_cast<unsigned>(x), 0, 0};                                       \
        turn here = {is_single, false, false};                                                         \
        known.set(thread, block, block_dim, grid_dim);                                                 \
        enter(is_strided<Mode>(), hull.body, here, thread, block, block_dim, grid_dim, parameters...); \
    }

/*
 * The same for all turns of a grid-stride loop (stride.c of softgpu-cc): turn t of block b is block b + t * gridDim.x
 * of a grid that covers all elements. Where its numbers would leave 31 bits, the program's own loop continues.
 */
#define SOFTGPU_RUN_LINE                                                                                          \
    husk<Body> hull;                                                                                              \
    frame_indices<(Mode & MODE_INDICES) != 0> known;                                                              \
    const unsigned width = launch->block[0], before = launch->threads_before, behind = launch->threads_behind;    \
    const ::dim3 block_dim(width, 1, 1), grid_dim(launch->grid[0], 1, 1);                                         \
    if (width - 1 > 1023 || before >= width || behind > width)                                                    \
        __builtin_unreachable();                                                                                  \
    for (uint64_t b = launch->block_begin; b < launch->block_end; ++b) {                                          \
        for (uint64_t v = b;; v += launch->grid[0]) {                                                             \
            const ::uint3 block = {static_cast<unsigned>(v), 0, 0};                                               \
            const unsigned first = block.x * width;                                                               \
            if (first > 0x7ffffbffu)                                                                              \
                __builtin_unreachable();                                                                          \
            const product<Mode> offset = static_cast<product<Mode>>(block.x) * static_cast<product<Mode>>(width); \
            const counter<Mode> begin = static_cast<counter<Mode>>(offset + before),                              \
                                end = static_cast<counter<Mode>>(offset + (width - behind));                      \
            if (is_strided<Mode>::value && (v + launch->grid[0] + 1) * width > 0x7fffffffu) {                     \
                SOFTGPU_RUN_THREADS(false)                                                                        \
                break;                                                                                            \
            }                                                                                                     \
            SOFTGPU_RUN_THREADS(true)                                                                             \
            if (!is_strided<Mode>::value)                                                                         \
                break;                                                                                            \
            turn next = {true, true, false};                                                                      \
            enter(is_strided<Mode>(), hull.body, next, ::uint3{0, 0, 0},                                          \
                  ::uint3{static_cast<unsigned>(v + launch->grid[0]), 0, 0}, block_dim, grid_dim, parameters...); \
            if (!next.more)                                                                                       \
                break;                                                                                            \
        }                                                                                                         \
    }

/* A kernel's parameter in its argument's place. A reference (to managed memory) stands there as an address. */
template <class P> struct parameter {
    typedef P stored;
    static const P &of(const void *arg)
    {
        return *(const P *)arg;
    }
    template <class Where> static void *place(const Where &where)
    {
        return (void *)(uintptr_t)where; /* g++ -Wcast-qual takes no cast from `T *__restrict *` */
    }
};
template <class P> struct parameter<P &> {
    typedef P *stored;
    static P &of(const void *arg)
    {
        return **(P *const *)arg;
    }
    template <class Where> static void *place(const Where &where)
    {
        return (void *)&where;
    }
};

/* 0, or the alignment that a pointer to numbers has not; vectors show it by themselves, where they are loaded. */
template <class T>
inline size_t
missed_alignment(T *pointer)
{
    typedef typename std::conditional<std::is_arithmetic<T>::value, T, char>::type element;
    return reinterpret_cast<uintptr_t>(pointer) % alignof(element) != 0 ? alignof(element) : 0;
}
template <class T>
inline size_t
missed_alignment(const T &)
{
    return 0;
}

/* What is the same for all kernels is no template here and below: the compiler would make it anew for each. */
static __attribute__((noinline, unused)) void
report_missed(const char *kernel, const size_t *missed, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        if (missed[i] != 0)
            softgpu_object_calls->misaligned(kernel, i, missed[i]);
    }
}

template <int Mode, class Body, class... P> struct kernel {
    static const char *name;

    static __attribute__((noinline)) void run_line(const softgpu_launch *launch, const P... parameters)
    {
        SOFTGPU_RUN_LINE
    }

#ifdef SOFTGPU_WIDE_VECTORS
    /* The same arithmetic, so the same results, with wider vectors and masked stores. No fused multiply-add: that would
     * differ. */
    static __attribute__((noinline, target("avx2"))) void run_line_wide(const softgpu_launch *launch,
                                                                        const P... parameters)
    {
        SOFTGPU_RUN_LINE
    }
#endif

    static __attribute__((noinline)) void run_any_shape(const softgpu_launch *launch, const P... parameters)
    {
        husk<Body> hull;
        frame_indices<(Mode & MODE_INDICES) != 0> known;
        const unsigned *size = launch->block;
        const ::dim3 block_dim(size[0], size[1], size[2]), grid_dim(launch->grid[0], launch->grid[1], launch->grid[2]);
        const uint64_t across = launch->grid[0], slice = across * launch->grid[1];
        const unsigned last = size[0] * size[1] * size[2] - launch->threads_behind;
        for (uint64_t b = launch->block_begin; b < launch->block_end; ++b) {
            const ::uint3 block = {static_cast<unsigned>(b % across), static_cast<unsigned>(b % slice / across),
                                   static_cast<unsigned>(b / slice)};
            for (unsigned z = 0, row = 0; z < size[2]; ++z) {
                for (unsigned y = 0; y < size[1]; ++y, row += size[0]) {
                    const unsigned begin = row < launch->threads_before ? launch->threads_before - row : 0,
                                   end = row >= last            ? 0
                                         : last - row < size[0] ? last - row
                                                                : size[0];
                    SOFTGPU_INDEPENDENT
                    for (unsigned x = begin; x < end; ++x) {
                        const ::uint3 thread = {x, y, z};
                        known.set(thread, block, block_dim, grid_dim);
                        turn all = {false, false, false};
                        enter(is_strided<Mode>(), hull.body, all, thread, block, block_dim, grid_dim, parameters...);
                    }
                }
            }
        }
    }

    template <unsigned... I> static inline void run_loops(const softgpu_launch *launch, numbers<I...>)
    {
#ifdef __OPTIMIZE__ /* else there are no vectors to be had */
        if (launch->grid[1] == 1 && launch->grid[2] == 1 && launch->block[1] == 1 && launch->block[2] == 1 &&
            static_cast<uint64_t>(launch->grid[0]) * launch->block[0] <= 0x7fffffffu && launch->block[0] <= 1024) {
#ifdef SOFTGPU_WIDE_VECTORS
            if (__builtin_cpu_supports("avx2"))
                return run_line_wide(launch, parameter<P>::of(launch->args[I])...);
#endif
            return run_line(launch, parameter<P>::of(launch->args[I])...);
        }
#endif
        run_any_shape(launch, parameter<P>::of(launch->args[I])...);
    }

    template <unsigned... I>
    static inline __attribute__((always_inline)) void call(const softgpu_launch *launch, ::uint3 thread, ::uint3 block,
                                                           numbers<I...>)
    {
        husk<Body> hull;
        turn all = {false, false, false};
        enter(is_strided<Mode>(), hull.body, all, thread, block,
              ::dim3(launch->block[0], launch->block[1], launch->block[2]),
              ::dim3(launch->grid[0], launch->grid[1], launch->grid[2]), parameter<P>::of(launch->args[I])...);
    }

    static void run_thread(const softgpu_launch *launch, softgpu_index thread, softgpu_index block)
    {
        call(launch, ::uint3{thread.x, thread.y, thread.z}, ::uint3{block.x, block.y, block.z},
             typename count_to<sizeof...(P)>::type());
        softgpu_thread_end();
    }

    template <unsigned... I> static void check_pointers(const softgpu_launch *launch, numbers<I...>)
    {
        const size_t missed[] = {missed_alignment(parameter<P>::of(launch->args[I]))..., 0};
        report_missed(name, missed, sizeof...(P));
    }

    static void run(const softgpu_launch *launch)
    {
        if (__builtin_expect(launch->draw != 0, 0)) /* SOFTGPU_UNRULY */
            check_pointers(launch, typename count_to<sizeof...(P)>::type());
        run_as(launch, std::integral_constant<bool, (Mode & MODE_FIBERS) != 0>());
    }

    static void run_as(const softgpu_launch *launch, std::true_type)
    {
        softgpu_run_fibers(launch, name, run_thread);
    }

    static void run_as(const softgpu_launch *launch, std::false_type)
    {
        for (launch = softgpu_loop_begin(launch, name); launch != nullptr; launch = softgpu_loop_next(launch))
            run_loops(launch, typename count_to<sizeof...(P)>::type());
    }
};

template <int Mode, class Body, class... P> const char *kernel<Mode, Body, P...>::name = "";

#undef SOFTGPU_RUN_LINE
#undef SOFTGPU_RUN_THREADS

} // namespace softgpu

#endif
