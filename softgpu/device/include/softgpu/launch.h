/*
 * softgpu/launch.h - what softgpu-cc writes into a program: kernels as stubs, their images, shared and device
 * variables.
 *
 * A kernel
 *     __global__ void k(const float *x, int n) { BODY }
 * becomes a host function of the same name, the stub, whose body is
 *     struct softgpu_kernel { char tag; };
 *     auto softgpu_body = [](uint3 threadIdx, uint3 blockIdx, dim3 blockDim, dim3 gridDim, const float *x, int n) {
 * BODY }; softgpu::stub<MODE, softgpu_kernel, decltype(softgpu_body), const float *, int>(NAME, BOUNDS, &x, &n); and a
 * launch  k<<<grid, block>>>(x, n)  becomes  (softgpu::push_config(grid, block) ? (void)0 : k(x, n)), as nvcc makes it.
 *
 * The stub launches through the runtime's entry points, named here in the user's own translation unit, so that the
 * macros which choose the per-thread default stream apply. C++11 and later.
 */
#ifndef SOFTGPU_LAUNCH_H
#define SOFTGPU_LAUNCH_H
#pragma GCC system_header

#include "softgpu/object.h"

#ifdef __GXX_RTTI
#include <typeinfo>
#endif
#ifdef SOFTGPU_MODULE
#include <cxxabi.h>
#endif

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

/* What `softgpu_kernel` names outside the body of a kernel: see shared(). */
struct softgpu_kernel;

namespace softgpu
{

/* ---- shared memory ---- */

/* How much of a kernel's frame is used; a function's __shared__ variables (Kernel = ::softgpu_kernel) have none. */
template <class Kernel> struct frame {
    static size_t used;
    static size_t *used_pointer()
    {
        return &used;
    }
};
template <class Kernel> size_t frame<Kernel>::used = 0;

template <> struct frame<::softgpu_kernel> {
    static size_t *used_pointer()
    {
        return nullptr;
    }
};

template <class Variables, class Kernel> struct place {
    static size_t value;
};

/* When the program is loaded, so that images know their kernels' shared memory from the start. */
template <class Variables, class Kernel>
size_t place<Variables, Kernel>::value = softgpu_shared_place(&place<Variables, Kernel>::value,
                                                              frame<Kernel>::used_pointer(), sizeof(Variables),
                                                              alignof(Variables));

/* The __shared__ variables of one declaration, as members of a struct, in the arena of this OS thread. */
template <class Variables, class Kernel>
inline Variables &
shared()
{
    /* 0: a kernel launched by the constructor of a global object, or more than there is, which is reported now. */
    size_t at = __atomic_load_n(&place<Variables, Kernel>::value, __ATOMIC_RELAXED);
    if (__builtin_expect(at == 0, 0))
        at = softgpu_shared_place(&place<Variables, Kernel>::value, frame<Kernel>::used_pointer(), sizeof(Variables),
                                  alignof(Variables));
    return *reinterpret_cast<Variables *>(self().static_shared + at);
}

/* The element of `extern __shared__ T x[]`, from T[1]. */
template <class Array> using element = typename std::remove_extent<Array>::type;

template <class T>
inline T *
dynamic_shared()
{
    return reinterpret_cast<T *>(self().dynamic_shared);
}

/* Stands beside the pointer that such an array outside of functions becomes, and has it set in every thread. */
struct __attribute__((visibility("hidden"))) dynamic_variable {
    softgpu_pointer entry;

    explicit dynamic_variable(void *pointer)
    {
        entry.target = SOFTGPU_TARGET_DYNAMIC_SHARED;
        softgpu_pointer_add(&entry, pointer);
    }
};

/* ---- a kernel as code that runs blocks ---- */

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

/* ---- launching ---- */

inline bool
push_config(::dim3 grid, ::dim3 block, size_t shared = 0, cudaStream_t stream = nullptr)
{
    return __cudaPushCallConfiguration(grid, block, shared, stream) != 0;
}

/* The kernel's name for the linker, from that of the struct in its body: "_Z3sgdPf" from "Z3sgdPfE14softgpu_kernel".
 * Null for extern "C", whose name is a plain word, and without RTTI (`inner` is null). */
inline const char *
linked_name(const char *inner)
{
    const size_t length = inner != nullptr ? __builtin_strlen(inner) : 0, behind = sizeof("E14softgpu_kernel") - 1;
    if (length <= behind + 1 || inner[0] != 'Z' || __builtin_strcmp(inner + length - behind, "E14softgpu_kernel") != 0)
        return nullptr;
    size_t word = 0, at = 1; /* "3sgd" alone */
    while (inner[at] >= '0' && inner[at] <= '9')
        word = word * 10 + static_cast<size_t>(inner[at++] - '0');
    if (at > 1 && at + word == length - behind)
        return nullptr;
    char *name = static_cast<char *>(__builtin_malloc(length - behind + 2));
    if (name == nullptr)
        return nullptr;
    name[0] = '_';
    __builtin_memcpy(name + 1, inner, length - behind);
    name[length - behind + 1] = '\0';
    return name;
}

#ifdef SOFTGPU_MODULE
/* The same for messages: "void scale<float>(float *, int)". */
inline const char *
readable_name(const char *inner)
{
    const char *linked = linked_name(inner);
    const char *readable = linked != nullptr ? abi::__cxa_demangle(linked, nullptr, nullptr, nullptr) : nullptr;
    if (readable != nullptr)
        return readable;
    /* extern "C": "Z3sgdE14softgpu_kernel" or, with a parameter list, "Z3sgdPfE14softgpu_kernel". */
    size_t length = 0;
    const char *word = inner + 1;
    for (; *word >= '0' && *word <= '9'; ++word)
        length = length * 10 + static_cast<size_t>(*word - '0');
    return __builtin_strndup(word, length);
}
#endif

/* The size and alignment of a parameter. */
struct extent {
    size_t bytes, alignment;
};

/* `image` with its names and its parameters, laid out as in the parameter block of a GPU. Before, its names are those
 * of the stub and of the struct in its body. */
static __attribute__((noinline, unused)) softgpu_image
finish_image(softgpu_image image, softgpu_param *params, const extent *extents, const char **name) noexcept
{
    size_t offset = 0;
    for (unsigned i = 0; i < image.param_count; ++i) {
        offset = (offset + extents[i].alignment - 1) & ~(extents[i].alignment - 1);
        params[i] = {offset, extents[i].bytes};
        offset += extents[i].bytes;
    }
    image.name = *name = softgpu_kernel_name(image.name);
    image.linked_name = linked_name(image.linked_name);
    return image;
}

#ifdef SOFTGPU_MODULE

/* ---- kernels of a module ---- */

} // namespace softgpu

extern "C" {
/* SOFTGPU_MODULE_KERNELS. */
__attribute__((weak, visibility("default"))) const softgpu_module_kernel *softgpu_module_kernels;
}

namespace softgpu
{

/* A kernel in the module's list, from the time on when the module is loaded. Kernel: the struct in the kernel's body.
 */
template <int Mode, class Kernel, class Body, class... P> struct module_kernel {
    softgpu_module_kernel entry;

    module_kernel()
    {
        entry.image = image;
        entry.next = softgpu_module_kernels;
        softgpu_module_kernels = &entry;
    }

    static const softgpu_image *image()
    {
        typedef kernel<Mode, Body, P...> code;
        static const extent extents[] = {
            {sizeof(typename parameter<P>::stored), alignof(typename parameter<P>::stored)}..., {0, 1}};
        static softgpu_param params[sizeof...(P) + 1];
        const char *const inner = typeid(Kernel).name();
        static const softgpu_image made = finish_image(
            {SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, 0, readable_name(inner), code::run, sizeof...(P), params,
             __atomic_load_n(&frame<Kernel>::used, __ATOMIC_RELAXED), Kernel::max_threads, inner, nullptr},
            params, extents, &code::name);
        return &made;
    }

    static module_kernel listed;
};

template <int Mode, class Kernel, class Body, class... P>
module_kernel<Mode, Kernel, Body, P...> module_kernel<Mode, Kernel, Body, P...>::listed;

/* The body of every stub of a module. It is never called: that it names the entry makes the entry part of the module.
 */
template <int Mode, class Kernel, class Body, class... P, class... Where>
static inline __attribute__((always_inline)) void
stub(const Body &, const char *, unsigned, Where...)
{
    __asm__ volatile("" : : "r"(&module_kernel<Mode, Kernel, Body, P...>::listed));
}

/* A variable's name for the linker: of its own name, and of that of a pointer to a type in its scope,
 * "P15softgpu_scope_0" or "PN2ns15softgpu_scope_0E". */
inline const char *
variable_name(const char *pointer, const char *name, bool is_static)
{
    const char *scope = pointer + 2; /* after "PN" */
    const size_t scope_length = __builtin_strlen(pointer);
    const char *const local = is_static ? "L" : "";
    size_t end = 0; /* of the scope: where the number before "softgpu_scope_" begins */
    if (pointer[1] != 'N' && !is_static)
        return name;
    if (pointer[1] == 'N')
        end = static_cast<size_t>(__builtin_strstr(scope, "softgpu_scope_") - scope) - 2;
    const size_t room = scope_length + __builtin_strlen(name) + 32;
    char *made = static_cast<char *>(__builtin_malloc(room));
    if (made == nullptr)
        return name;
    if (pointer[1] == 'N')
        __builtin_snprintf(made, room, "_ZN%.*s%s%zu%sE", static_cast<int>(end), scope, local, __builtin_strlen(name),
                           name);
    else
        __builtin_snprintf(made, room, "_Z%s%zu%s", local, __builtin_strlen(name), name);
    return made;
}

/* What a name expression of nvrtcAddNameExpression() denotes: a kernel, or the address of a variable. */
template <class... P>
constexpr auto
named(void (*kernel)(P...)) -> void (*)(P...)
{
    return kernel;
}
template <class T>
constexpr T *
named(T *variable)
{
    return variable;
}

#else

/* The runtime's handle of an image. An error stays the runtime's last error, as after a failed launch. */
static __attribute__((noinline, unused)) void *
load_kernel(const softgpu_image &image)
{
    void *loaded = __atomic_load_n(image.handle, __ATOMIC_ACQUIRE);
    cudaLibrary_t library;
    cudaKernel_t mine;
    if (loaded == nullptr &&
        cudaLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess &&
        cudaLibraryGetKernel(&mine, library, image.name) == cudaSuccess &&
        __atomic_compare_exchange_n(image.handle, &loaded, (void *)mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        loaded = mine;
    return loaded;
}

/* The body of every stub, and in its frame: a launch has one frame of the stub's, as with nvcc, and then its caller's.
 * `where`: the addresses of its parameters. */
template <int Mode, class Kernel, class Body, class... P, class... Where>
static inline __attribute__((always_inline)) void
stub(const Body &, const char *pretty_function, unsigned max_threads, Where... where)
{
    typedef kernel<Mode, Body, P...> code;
    /* As nvcc's .nv_fatbin: a file with this section holds kernels. It has no other use. */
    __asm__(".pushsection .softgpu_kernels, \"a\", @progbits\n\t.byte 0\n\t.popsection");
#ifdef __GXX_RTTI
    const char *const inner = typeid(Kernel).name();
#else
    const char *const inner = nullptr;
#endif
    static const extent extents[] = {{sizeof(typename parameter<P>::stored), alignof(typename parameter<P>::stored)}...,
                                     {0, 1}};
    static softgpu_param params[sizeof...(P) + 1];
    static void *handle;
    static const softgpu_image image = finish_image(
        {SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, SOFTGPU_IMAGE_HANDLE, pretty_function, code::run, sizeof...(P),
         params, __atomic_load_n(&frame<Kernel>::used, __ATOMIC_RELAXED), max_threads, inner, &handle},
        params, extents, &code::name);
    const softgpu_image **const probe = softgpu_object_calls->thread_here()->probe;
    if (probe != nullptr) {
        *probe = &image;
        return;
    }

    ::dim3 grid, block;
    size_t shared_bytes = 0;
    cudaStream_t stream = nullptr;
    if (__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream) != cudaSuccess)
        return;
    void *const loaded = load_kernel(image);
    if (loaded == nullptr)
        return;
    void *args[] = {parameter<P>::place(where)..., nullptr};
    (void)cudaLaunchKernel(loaded, grid, block, args, shared_bytes, stream);
}

#endif

/* ---- __device__, __constant__ and __managed__ variables ---- */

/* Stands beside each of them, and makes it known to the runtime. */
struct __attribute__((visibility("hidden"))) variable {
    softgpu_variable entry;

    variable(const volatile void *address, size_t bytes, const char *name, bool is_constant, bool is_managed = false)
    {
        entry.name = name;
        entry.address = const_cast<void *>(address);
        entry.bytes = bytes;
        entry.is_constant = is_constant;
        entry.is_managed = is_managed;
        entry.next = nullptr;
        softgpu_variable_add(&entry);
    }
    variable(const variable &) = delete;
    variable &operator=(const variable &) = delete;
    ~variable()
    {
        softgpu_variable_remove(&entry);
    }
};

} // namespace softgpu

/* ---- C++ forms of the runtime API, which NVIDIA's header gives to nvcc only ---- */

template <class T>
static inline cudaError_t
cudaMemcpyToSymbol(const T &symbol, const void *source, size_t count, size_t offset = 0,
                   cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
    return ::cudaMemcpyToSymbol(static_cast<const void *>(&symbol), source, count, offset, kind);
}

template <class T>
static inline cudaError_t
cudaMemcpyToSymbolAsync(const T &symbol, const void *source, size_t count, size_t offset = 0,
                        cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0)
{
    return ::cudaMemcpyToSymbolAsync(static_cast<const void *>(&symbol), source, count, offset, kind, stream);
}

template <class T>
static inline cudaError_t
cudaMemcpyFromSymbol(void *target, const T &symbol, size_t count, size_t offset = 0,
                     cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
    return ::cudaMemcpyFromSymbol(target, static_cast<const void *>(&symbol), count, offset, kind);
}

template <class T>
static inline cudaError_t
cudaMemcpyFromSymbolAsync(void *target, const T &symbol, size_t count, size_t offset = 0,
                          cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0)
{
    return ::cudaMemcpyFromSymbolAsync(target, static_cast<const void *>(&symbol), count, offset, kind, stream);
}

template <class T>
static inline cudaError_t
cudaGetSymbolAddress(void **address, const T &symbol)
{
    return ::cudaGetSymbolAddress(address, static_cast<const void *>(&symbol));
}

template <class T>
static inline cudaError_t
cudaGetSymbolSize(size_t *bytes, const T &symbol)
{
    return ::cudaGetSymbolSize(bytes, static_cast<const void *>(&symbol));
}

template <class T>
static inline cudaError_t
cudaFuncSetCacheConfig(T *kernel, cudaFuncCache config)
{
    return ::cudaFuncSetCacheConfig(reinterpret_cast<const void *>(kernel), config);
}

template <class T>
static inline cudaError_t
cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value)
{
    return ::cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}

template <class T>
static inline cudaError_t
cudaFuncGetAttributes(cudaFuncAttributes *attributes, T *kernel)
{
    return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}

#endif
