/*
 * ddprun.h - tell `ddprun` which memory holds parameters and gradients. Header only; nothing to link.
 *
 * A program with these lines runs as before when it is started by itself: every macro is then a test of one pointer.
 * Started as `ddprun -n 8 ./train`, it becomes one of eight ranks that train one model together.
 *
 *     cudaMalloc(&w, n * sizeof(float));  cudaMalloc(&dw, n * sizeof(float));
 *     initialise(w);
 *     DDP_PARAMETER(w, n, DDP_FLOAT32);          // after the initialisation: all ranks take rank 0's values
 *     DDP_GRADIENT(dw, n, DDP_FLOAT32);
 *     for (...) {
 *         DDP_SHARD(batch, &first, &count);      // this rank's part of the batch
 *         forward_and_backward(first, count);
 *         DDP_STEP(0);                           // from here on dw holds the mean over all ranks
 *         sgd<<<...>>>(w, dw, n);
 *     }
 *
 * The contract of an annotation: a kernel reaches a gradient only through a pointer that is one of its arguments, that
 * is inside a struct passed by value, or that the host wrote to memory (docs/annotations.md, "Pointers in memory"). A
 * library call reaches a gradient only through its documented pointer arguments.
 *
 * C (C99 and later) and C++ (DDP_TYPE_OF: C++11 and later). Works in executables (PIE or not) and shared libraries;
 * `ddprun` refuses fully static executables. DDP_STEP, DDP_MEAN and DDP_ANY: in one thread at a time; other macros: in
 * any thread. Misuse ends the whole job with one line that names the rank and the line of the source.
 */
#ifndef DDPRUN_H
#define DDPRUN_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

/* Version of struct ddp_interface. A shim serves every version up to its own; a newer header ends the job. */
#define DDP_INTERFACE_VERSION 6

/* Types of elements. Integers are for DDP_STATE and DDP_REDUCE only, DDP_UINT32 and DDP_UINT64 for DDP_REDUCE only. */
enum ddp_type {
    DDP_FLOAT32 = 1,
    DDP_FLOAT64 = 2,
    DDP_FLOAT16 = 3,
    DDP_BFLOAT16 = 4,
    DDP_INT32 = 5,
    DDP_INT64 = 6,
    DDP_UINT8 = 7,
    DDP_UINT32 = 8,
    DDP_UINT64 = 9
};

/* What DDP_REDUCE makes of the elements of all ranks. */
enum ddp_operation { DDP_OP_SUM = 1, DDP_OP_MEAN = 2, DDP_OP_MIN = 3, DDP_OP_MAX = 4 };

/* Where an annotation stands, for messages. Static storage. */
struct ddp_site {
    const char *text; /* the annotated expression, as written */
    const char *file;
    int line;
};

/* What the shim offers. Obtained once per source file; never freed. Fields are only ever added at the end. */
struct ddp_interface {
    unsigned version;
    void (*parameter)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*gradient)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*step)(void *stream, const struct ddp_site *site);
    void (*mean)(float *value, const struct ddp_site *site);
    void (*shard)(size_t total, size_t *first, size_t *count, const struct ddp_site *site);
    void (*forget)(void *ptr, const struct ddp_site *site);
    int (*rank)(void);
    int (*world_size)(void);
    int (*local_rank)(void);
    /* since version 2 */
    void (*gradient_group)(int id, const struct ddp_site *site);
    void (*step_group)(int id, void *stream, const struct ddp_site *site);
    void (*no_sync)(int begins, const struct ddp_site *site);
    void (*buffer)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*gradient_ready)(void *ptr, void *stream, const struct ddp_site *site);
    /* since version 3 */
    void (*state)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*weight)(size_t count, size_t total, const struct ddp_site *site);
    void (*mean_as)(const char *label, float *value, const struct ddp_site *site);
    /* since version 4; `sync` does nothing any more */
    void (*step_parameters)(int group, void *stream, const struct ddp_site *site);
    void (*sync)(void *stream, const struct ddp_site *site);
    void (*reduce)(void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site);
    /* since version 5; DDP_FLOAT32 or DDP_FLOAT64; label NULL: called as the site's text */
    void (*mean_of)(const char *label, void *value, int type, const struct ddp_site *site);
    /* since version 6; turn_begin returns the region's number, 0: there is none. turn_end of a region that has ended
     * does nothing; region 0 is the open one. */
    int (*any)(volatile int *flag, const struct ddp_site *site);
    uint64_t (*turn_begin)(const struct ddp_site *site);
    void (*turn_end)(uint64_t region, const struct ddp_site *site);
    int (*turn_mine)(void);
    int (*turn_updates)(void);
};

/*
 * The shim's interface, or NULL when the program was not started by ddprun. By dlsym, because a weak reference does not
 * bind in an executable that is not position independent.
 */
static inline const struct ddp_interface *
ddp_interface_get(void)
{
    static const struct ddp_interface *found;
    static int looked;
    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
        typedef const struct ddp_interface *(*query_fn)(unsigned version);
        union {
            void *object;
            query_fn function;
        } query;
        query.object = dlsym(RTLD_DEFAULT, "ddprun_interface");
        if (query.object != NULL)
            __atomic_store_n(&found, query.function(DDP_INTERFACE_VERSION), __ATOMIC_RELAXED);
        __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&found, __ATOMIC_RELAXED);
}

static inline void
ddp_shard_alone(size_t total, size_t *first, size_t *count)
{
    if (first == NULL || count == NULL) /* ddprun ends the job, and names the place */
        return;
    *first = 0;
    *count = total;
}

/* DDP_ANY of one process. The flag is read once: a signal handler may write it meanwhile. */
static inline int
ddp_any_alone(volatile int *flag)
{
    if (*flag == 0)
        return 0;
    *flag = 1;
    return 1;
}

/* The value of DDP_ANY(flag), which stands at this place. */
static inline int
ddp_any_at(volatile int *flag, const char *text, const char *file, int line)
{
    const struct ddp_interface *found = ddp_interface_get();
    struct ddp_site site;
    if (found == NULL)
        return ddp_any_alone(flag);
    site.text = text;
    site.file = file;
    site.line = line;
    return found->any(flag, &site);
}

/* A region of turns (DDP_TURN_BEGIN), and where it begins. */
struct ddp_region {
    uint64_t number; /* 0: there is none */
    const struct ddp_site *site;
};

static inline struct ddp_region
ddp_region_begin(const struct ddp_site *site)
{
    const struct ddp_interface *found = ddp_interface_get();
    struct ddp_region region;
    region.number = found != NULL ? found->turn_begin(site) : 0;
    region.site = site;
    return region;
}

/* At the end of the block: the region is over, unless DDP_TURN_END has ended it. */
static inline void
ddp_region_end(const struct ddp_region *region)
{
    if (region->number != 0)
        ddp_interface_get()->turn_end(region->number, region->site);
}

/* CUDA's stream 0 is another stream in code compiled for per-thread default streams; say which one is meant. */
static inline void *
ddp_stream(uintptr_t stream)
{
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
    return (void *)(stream == 0 ? (uintptr_t)0x2 : stream);
#else
    return (void *)(stream == 0 ? (uintptr_t)0x1 : stream);
#endif
}

#define DDP_CALL_(member, first_arg, ...)                                          \
    do {                                                                           \
        static const struct ddp_site ddp_site_ = {#first_arg, __FILE__, __LINE__}; \
        const struct ddp_interface *ddp_found_ = ddp_interface_get();              \
        if (ddp_found_ != NULL)                                                    \
            ddp_found_->member(__VA_ARGS__, &ddp_site_);                           \
    } while (0)

/*
 * DDP_TYPE_OF(pointer): the type of the elements that `pointer` points to, for code that is generic in it:
 * DDP_GRADIENT(g, n, DDP_TYPE_OF(g)). A constant; the pointer is not evaluated. Types: float, double and, in C++,
 * __half of cuda_fp16.h and __nv_bfloat16 of cuda_bf16.h, also const or volatile. These headers may be included before
 * or after ddprun.h. A pointer to another type does not compile.
 */
#if !defined(__cplusplus)
#define DDP_TYPE_OF(pointer)    __extension__ _Generic(*(pointer), float : DDP_FLOAT32, double : DDP_FLOAT64)
#define DDP_MEAN_TYPE_(pointer) __extension__ _Generic((pointer), float * : DDP_FLOAT32, double * : DDP_FLOAT64)
#define DDP_SIZE_(pointer)      __extension__ _Generic((pointer), size_t * : (pointer))
#define DDP_FLAG_(pointer)      __extension__ _Generic((pointer), int * : (pointer), volatile int * : (pointer))
#else
#define DDP_FLAG_(pointer)      (pointer)
#define DDP_SIZE_(pointer)      (pointer)
#define DDP_MEAN_TYPE_(pointer) sizeof(ddp_mean_type_(pointer))
extern "C++" {
char (&ddp_mean_type_(float *))[DDP_FLOAT32];
char (&ddp_mean_type_(double *))[DDP_FLOAT64];
#if __cplusplus >= 201103L
#define DDP_TYPE_OF(pointer) static_cast<ddp_type>(sizeof(ddp_type_of_(pointer)))
/* Becomes a T and nothing else. A class of CUDA is known by its header's function that makes a float of it, which is
 * looked up when T is known. */
template <typename T> struct ddp_exactly_ {
    operator T() const;
};
template <typename T, typename = float> struct ddp_half_ {
    enum { type = 0 };
};
template <typename T> struct ddp_half_<T, decltype(__half2float(ddp_exactly_<T>()))> {
    enum { type = DDP_FLOAT16 };
};
template <typename T, typename = float> struct ddp_type_ {
    enum { type = ddp_half_<T>::type };
    static_assert(type != 0, "DDP_TYPE_OF takes a pointer to float, double, __half (include cuda_fp16.h) or "
                             "__nv_bfloat16 (include cuda_bf16.h)");
};
template <typename T> struct ddp_type_<T, decltype(__bfloat162float(ddp_exactly_<T>()))> {
    enum { type = DDP_BFLOAT16 };
};
template <> struct ddp_type_<float> {
    enum { type = DDP_FLOAT32 };
};
template <> struct ddp_type_<double> {
    enum { type = DDP_FLOAT64 };
};
template <typename T> char (&ddp_type_of_(const volatile T *))[ddp_type_<T>::type];
#endif
}
#endif

#define DDP_WHOLE ((size_t)-1) /* as a count: up to the end of the allocation (DDP_PARAMETER) */

/*
 * A pointer to a pointer (&g for g) is no memory of numbers: the compiler refuses it, in C and in C++11 and later.
 * Nothing is evaluated.
 */
#define DDP_POINTER_MESSAGE_ "ddprun: a pointer to a pointer is annotated; leave the & out"
/*
 * Nor do a float * or double * point to elements of a type that has another size, where the type is known to the
 * compiler: the count would be of other elements. DDP_UINT8 may be bytes of anything.
 */
#define DDP_TYPE_MESSAGE_      "ddprun: the elements that are annotated have another size than the type says"
#define DDP_NOT_4_BYTES_       (1 << DDP_FLOAT64 | 1 << DDP_FLOAT16 | 1 << DDP_BFLOAT16 | 1 << DDP_INT64)
#define DDP_NOT_8_BYTES_       (1 << DDP_FLOAT32 | 1 << DDP_FLOAT16 | 1 << DDP_BFLOAT16 | 1 << DDP_INT32)
#define DDP_OTHERS_(bytes)     (((bytes) == 4) * DDP_NOT_4_BYTES_ + ((bytes) == 8) * DDP_NOT_8_BYTES_)
#define DDP_FITS_(bytes, type) ((DDP_OTHERS_(bytes) >> ((type)&31) & 1) == 0)
#if !defined(__cplusplus)
/* `ptr`, or a pointer to char where it points to nothing that has a size; then what it points to, if that is one, too.
 */
#define DDP_POINTER_(ptr) \
    __extension__ _Generic((ptr), void * : (char *)0, const void * : (char *)0, volatile void * : (char *)0, \
                           default : __builtin_choose_expr(__builtin_classify_type(ptr) == 5, (ptr), (char *)0))
#define DDP_INNER_(ptr) \
    __builtin_choose_expr(__builtin_classify_type(*DDP_POINTER_(ptr)) == 5, *DDP_POINTER_(ptr), (char *)0)
#define DDP_BYTES_(ptr) \
    __extension__ _Generic((ptr), float * : 4, const float * : 4, double * : 8, const double * : 8, default : 0)
#define DDP_KNOWN_(type) __builtin_choose_expr(__builtin_constant_p(type), (type), DDP_UINT8)
/* An array has another type than the address of its first element. */
#define DDP_CHECK_(ptr, type)                                                                           \
    __extension__ _Static_assert(                                                                       \
        !__builtin_types_compatible_p(__typeof__(*DDP_POINTER_(ptr)), __typeof__(&DDP_INNER_(ptr)[0])), \
        DDP_POINTER_MESSAGE_);                                                                          \
    __extension__ _Static_assert(DDP_FITS_(DDP_BYTES_(ptr), DDP_KNOWN_(type)), DDP_TYPE_MESSAGE_)
#elif __cplusplus >= 201103L
extern "C++" {
template <typename T> struct ddp_element_ {
    enum { is_pointer = 0, bytes = 0 };
};
template <typename T> struct ddp_element_<T *> {
    enum { is_pointer = 1, bytes = 0 };
};
template <> struct ddp_element_<float> {
    enum { is_pointer = 0, bytes = 4 };
};
template <> struct ddp_element_<double> {
    enum { is_pointer = 0, bytes = 8 };
};
template <typename T> ddp_element_<T> ddp_element_of_(const volatile T *);
ddp_element_<void> ddp_element_of_(...);
}
#define DDP_KNOWN_(type) (__builtin_constant_p(type) ? (int)(type) : (int)DDP_UINT8)
#define DDP_CHECK_(ptr, type)                                                         \
    static_assert(!decltype(ddp_element_of_(ptr))::is_pointer, DDP_POINTER_MESSAGE_); \
    static_assert(DDP_FITS_((int)decltype(ddp_element_of_(ptr))::bytes, DDP_KNOWN_(type)), DDP_TYPE_MESSAGE_)
#else
#define DDP_CHECK_(ptr, type) (void)0
#endif

/* A call about memory ptr[0..count). */
#define DDP_MEMORY_CALL_(member, ptr, count, type)                           \
    do {                                                                     \
        DDP_CHECK_(ptr, type);                                               \
        DDP_CALL_(member, ptr, (void *)(ptr), (size_t)(count), (int)(type)); \
    } while (0)

/*
 * DDP_PARAMETER(ptr, count, type): memory ptr[0..count) holds weights; it is device, managed or host memory. Call it
 * after their initialisation, once for each tensor, before the first DDP_STEP. At once, all ranks take the values of
 * rank 0, after all work that this process has enqueued so far (the context is synchronised once). Annotate the same
 * tensors, in the same order, on all ranks, and from one thread. Annotating the same range again with the same count
 * and type changes nothing. Annotate a reallocated parameter again before the next DDP_STEP: a parameter that is freed
 * and not annotated again ends the job there, unless DDP_FORGET was called. Call DDP_FORGET before host memory is
 * freed. With count 0 nothing is annotated. Ends the job: memory that is neither a device's nor the process's own, a
 * pointer in place of the device memory that it points to, a range that overlaps another annotated one, another count,
 * type, expression, line or kind of memory than rank 0's.
 *
 * DDP_WHOLE for the count, here and in the macros below that annotate memory: all elements from ptr to the end of the
 * allocation. CUDA has to have made it: of malloc() memory only the program knows the size.
 */
#define DDP_PARAMETER(ptr, count, type) DDP_MEMORY_CALL_(parameter, ptr, count, type)

/*
 * DDP_STATE(ptr, count, type): memory ptr[0..count) holds state of the optimizer: momentum, Adam's moments and step
 * counter. The rules of DDP_PARAMETER hold: call it after the state is initialised or read from a checkpoint; all ranks
 * take rank 0's values at once; ddprun compares the ranks' state as it compares parameters. A program in which only
 * rank 0 reads the checkpoint needs it. Types: those of gradients, and DDP_INT32, DDP_INT64, DDP_UINT8.
 */
#define DDP_STATE(ptr, count, type) DDP_MEMORY_CALL_(state, ptr, count, type)

/*
 * DDP_GRADIENT(ptr, count, type): memory ptr[0..count) receives a gradient during backward. Call it before the first
 * DDP_STEP. From then on the memory holds the mean over all ranks from each DDP_STEP to the next write. Each rank
 * divides its loss by the size of its own share, as a single GPU divides by its batch. Annotate a reallocated gradient
 * again, in the same order, before backward writes it. Ends the job: what ends it in DDP_PARAMETER.
 */
#define DDP_GRADIENT(ptr, count, type) DDP_MEMORY_CALL_(gradient, ptr, count, type)

/*
 * DDP_STEP(stream): averages the gradients. Work that is enqueued on `stream` after this call, and work on any other
 * stream from its first touch of a gradient on, sees averaged gradients; all work before it sees this rank's own
 * values. Call it after backward and before the first use of the gradients: clipping, norms, checks for infinities, the
 * optimizer. Call it once for each optimizer step, the same number of times on all ranks. Where gradients are averaged
 * during backward, the host waits until they are averaged and it is known that no rank has written one since then; the
 * averages are written into the gradients in stream order. If gradients of the group, or buffers, are in memory that
 * the host reaches, DDP_STEP waits for the device, and returns when the averages are in place. `stream` is a
 * cudaStream_t or CUstream; 0 is the default stream of this source file's compilation. Ends the job: no gradient
 * annotated, ranks that annotated different things, host gradients or buffers in a captured stream.
 */
#define DDP_STEP(stream) DDP_CALL_(step, stream, ddp_stream((uintptr_t)(stream)))

/*
 * DDP_GRADIENT_GROUP(id): gradients that are annotated after this call, in any thread, belong to group id, 0 to 15;
 * before it, to group 0. Programs with two optimizers (a GAN, a critic and its actor) have two groups of gradients,
 * each with its own DDP_STEP_GROUP. A gradient has the same group on all ranks, and when it is annotated again.
 * Parameters and state belong to the group, too, but only DDP_STEP_PARAMETERS_GROUP uses that.
 */
#define DDP_GRADIENT_GROUP(id) DDP_CALL_(gradient_group, id, (int)(id))

/*
 * DDP_STEP_GROUP(id, stream): as DDP_STEP, for the gradients of group id only; DDP_STEP is the step of group 0. All
 * ranks step the groups in the same order. Gradients may be touched at any time: a value that another optimizer's
 * backward pass leaves in a gradient counts for the next step of that gradient's own group.
 */
#define DDP_STEP_GROUP(id, stream) DDP_CALL_(step_group, stream, (int)(id), ddp_stream((uintptr_t)(stream)))

/*
 * DDP_STEP_PARAMETERS(stream): averages the parameters of a program without gradient buffers, which updates its
 * parameters inside backward (for example by a gemm with alpha = -rate and beta = 1 into the weights), or of one that
 * averages after every K-th update only. Call it after the update, the same number of times on all ranks. From this
 * call on the annotated parameters, and each DDP_STATE of a float type, hold the mean over all ranks. Stream order and
 * overlap are as with DDP_STEP: a parameter is averaged after its last update, while backward still works on the
 * others. Integer state is compared, never averaged. DDP_WEIGHT weights this mean, too. DDP_NO_SYNC_BEGIN and
 * DDP_GRADIENT_READY work for parameters as for gradients.
 *
 * The result equals one rank's step for plain SGD, also with momentum, if each layer's input gradient is computed
 * before its weights change; `ddprun check` reports if it does not. Ends the job: see the next macro.
 */
#define DDP_STEP_PARAMETERS(stream) DDP_STEP_PARAMETERS_GROUP(0, stream)

/*
 * DDP_STEP_PARAMETERS_GROUP(id, stream): as DDP_STEP_PARAMETERS, for the parameters and states that were annotated
 * after DDP_GRADIENT_GROUP(id). A program that has gradients for some parameters, and updates others inside backward,
 * puts the others in a group of their own. Ends the job: a group that has gradients or no parameters, a captured
 * stream, --reduce sum, --compress.
 */
#define DDP_STEP_PARAMETERS_GROUP(id, stream) \
    DDP_CALL_(step_parameters, stream, (int)(id), ddp_stream((uintptr_t)(stream)))

/* DDP_SYNC(stream): does nothing any more, and will go. To average parameters now, call DDP_STEP_PARAMETERS. */
#define DDP_SYNC(stream) ((void)(stream))

/*
 * Gradient accumulation over a number of backward passes that differs from step to step; each BEGIN has its END:
 *
 *     DDP_NO_SYNC_BEGIN();
 *     for (i = 0; i + 1 < passes; ++i)
 *         forward_and_backward(...);
 *     DDP_NO_SYNC_END();
 *     forward_and_backward(...);      // the last pass: gradients are sent as soon as they are complete
 *     DDP_STEP(stream);
 *
 * Work that is enqueued between the two macros counts as work on gradients, but not as a part of the step's pattern,
 * and no gradient is sent early. Not needed if the number of passes is constant. Ends the job: DDP_STEP between them.
 */
#define DDP_NO_SYNC_BEGIN() DDP_CALL_(no_sync, DDP_NO_SYNC_BEGIN, 1)
#define DDP_NO_SYNC_END()   DDP_CALL_(no_sync, DDP_NO_SYNC_END, 0)

/* The region of a block: it ends as its variable goes out of scope. */
#if !defined(__cplusplus)
#define DDP_TURN_REGION_(site_, line)                                                                  \
    struct ddp_region DDP_TURN_JOIN_(region_, line) __attribute__((unused, cleanup(ddp_region_end))) = \
        ddp_region_begin(&site_)
#else
extern "C++" {
class ddp_turn_region_
{
  public:
    explicit ddp_turn_region_(const ddp_site *site) : region(ddp_region_begin(site))
    {
    }
    ~ddp_turn_region_()
    {
        ddp_region_end(&region);
    }

  private:
    ddp_region region;
    ddp_turn_region_(const ddp_turn_region_ &);
    ddp_turn_region_ &operator=(const ddp_turn_region_ &);
};
}
#define DDP_TURN_REGION_(site_, line) ddp_turn_region_ DDP_TURN_JOIN_(region_, line) __attribute__((unused)) (&site_)
#endif
#define DDP_TURN_JOINED_(name, line) ddp_turn_##name##line
#define DDP_TURN_JOIN_(name, line)   DDP_TURN_JOINED_(name, line)

/*
 * DDP_TURN_BEGIN(): a region begins in which ranks take turns: N ranks train N batches in the time of one. N batches
 * are a round: rank 0 computes the first, rank 1 the second. All ranks run all host code, and load each batch:
 *
 *     for (...) {
 *         load(batch);
 *         DDP_TURN_BEGIN();            // before the first kernel, memset or library call of the batch
 *         forward_and_backward(batch); // on the device for the rank whose turn it is; the other ranks leave it out
 *         DDP_STEP(0);                 // averages at the round's last batch; has no effect at the others
 *         update();                    // on the device once a round, on all ranks
 *     }                                // the region ends with its block, or at DDP_TURN_END()
 *
 * The one rule: between DDP_TURN_BEGIN and its end the host may launch, copy and count; it may not decide, nor keep,
 * anything that this batch's device work has computed, unless DDP_TURN_MINE() is not 0.
 *
 * DDP_TURN_BEGIN is a statement; its region belongs to its thread. In the turn of another rank these are left out and
 * report success: launches, launches of graphs, calls of cuBLAS, cuBLASLt and cuDNN, memsets, copies from device to
 * device. These always run: copies from and to the host, and from managed memory; work that is captured into a graph;
 * work that writes only memory that the region's thread has allocated since DDP_TURN_BEGIN. After a DDP_STEP that has
 * no effect, all ranks leave out the same. The first batch is computed by all ranks, so that the update can make its
 * state. A last round that is not complete makes no update.
 *
 * Each group of gradients has a DDP_TURN_BEGIN of its own line, and one DDP_STEP in each region. A region that ends
 * without DDP_STEP is a pass of the batch, and the next region of the same line another. Ends the job: a region in a
 * region; DDP_STEP after a region, or of another group, or captured, or twice in a region; the launch of a graph that
 * holds DDP_STEP; DDP_MEAN or DDP_REDUCE between DDP_TURN_BEGIN and DDP_STEP; DDP_SHARD or DDP_WEIGHT in a program that
 * has turns; ranks that have begun different numbers of regions, or have left different batches out.
 */
#define DDP_TURN_BEGIN()                                                                                   \
    static const struct ddp_site DDP_TURN_JOIN_(site_, __LINE__) = {"DDP_TURN_BEGIN", __FILE__, __LINE__}; \
    DDP_TURN_REGION_(DDP_TURN_JOIN_(site_, __LINE__), __LINE__)

/* DDP_TURN_OPEN(): as DDP_TURN_BEGIN, for a region over several functions: it ends at DDP_TURN_END only. Ends the job:
 * the end of the program before that. */
#define DDP_TURN_OPEN()                                                                 \
    do {                                                                                \
        static const struct ddp_site ddp_site_ = {"DDP_TURN_OPEN", __FILE__, __LINE__}; \
        (void)ddp_region_begin(&ddp_site_);                                             \
    } while (0)

/* DDP_TURN_END(): ends the region of DDP_TURN_OPEN, or that of DDP_TURN_BEGIN before its block ends. Ends the job:
 * there is no region. */
#define DDP_TURN_END() DDP_CALL_(turn_end, DDP_TURN_END, 0)

/* Whether this rank computes the batch of the open region; 1 outside of regions, and without ddprun. */
#define DDP_TURN_MINE() (ddp_interface_get() == NULL || ddp_interface_get()->turn_mine())

/* Whether the update of the open region is made: the batch is the last of its round. For what the host does in an
 * update: if (DDP_TURN_UPDATES()) ++adam_steps. 1 outside of regions, and without ddprun. */
#define DDP_TURN_UPDATES() (ddp_interface_get() == NULL || ddp_interface_get()->turn_updates())

/*
 * DDP_GRADIENT_READY(ptr, stream): the gradient that `ptr` points into is complete for this step after the work that
 * `stream` holds now. For gradients whose work ddprun cannot see, or sees too late. From this call on, touches of the
 * gradient do not count, in this step and in later ones: in a step without the call, the gradient is averaged at
 * DDP_STEP. A gradient that is written after the call in the same step is averaged once more, at DDP_STEP.
 */
#define DDP_GRADIENT_READY(ptr, stream) DDP_CALL_(gradient_ready, ptr, (void *)(ptr), ddp_stream((uintptr_t)(stream)))

/*
 * DDP_BUFFER(ptr, count, type): memory ptr[0..count) holds state that is no parameter, for example running statistics.
 * At every DDP_STEP, of any group, all ranks take the bytes of rank 0, in stream order. Call it before the first
 * DDP_STEP. Types: those of DDP_STATE. Ends the job: what else ends it in DDP_GRADIENT.
 */
#define DDP_BUFFER(ptr, count, type) DDP_MEMORY_CALL_(buffer, ptr, count, type)

/*
 * DDP_MEAN(&value): replaces a float or double in host memory by its mean over all ranks, with the same bits on all
 * ranks: a loss to print, a validation score. It blocks the host until all ranks have called it. All ranks make the
 * same number of calls, or the job ends after the time limit. Ends the job: a null pointer, device memory.
 */
#define DDP_MEAN(pointer) DDP_CALL_(mean_of, pointer, NULL, (void *)(pointer), (int)DDP_MEAN_TYPE_(pointer))

/*
 * DDP_MEAN_AS(label, &value): as DDP_MEAN, and ddprun shows the value under this label in its progress line, page and
 * summary: DDP_MEAN_AS("loss", &x). `label` is a string; its first 31 bytes are shown. Calls with the same
 * label are one row, at whatever line they stand. With a null label it is DDP_MEAN. Ends the job: an empty label, and
 * what ends it in DDP_MEAN.
 */
#define DDP_MEAN_AS(label, pointer) \
    DDP_CALL_(mean_of, pointer, (label), (void *)(pointer), (int)DDP_MEAN_TYPE_(pointer))

/*
 * DDP_ANY(&flag): has a rank set its flag? `flag` is an int in host memory, for example a volatile sig_atomic_t that a
 * signal handler writes. Where one rank's flag is not 0, the flag of each rank becomes 1, and the value of the macro is
 * 1 on all ranks. Else the value is 0 on all ranks, and no flag is written. All ranks leave the loop at the same step:
 *
 *     for (...) {
 *         ...
 *         if (DDP_ANY(&stop_asked))          // the value, and not `stop_asked`
 *             break;
 *     }
 *
 * Use the value of the macro. The flag is read once, when the call begins: a signal that comes later counts at the next
 * call, and may already have set this rank's flag when the program looks at it. The call blocks the host until all
 * ranks have called it; it waits for no work of the device. All ranks make the same number of calls, or the job ends
 * after the time limit. Without ddprun, and with one rank, the flag becomes 1 if it is not 0, and nothing is waited
 * for. A pointer to another type than int does not compile. Ends the job: a null pointer, device memory.
 */
#define DDP_ANY(flag) ddp_any_at(DDP_FLAG_(flag), #flag, __FILE__, __LINE__)

/*
 * DDP_REDUCE(ptr, count, type, op, stream): replaces each of the elements ptr[0..count) by its sum, mean, minimum or
 * maximum over all ranks (op: DDP_OP_SUM, DDP_OP_MEAN, DDP_OP_MIN, DDP_OP_MAX), for loops that sum over data without
 * being a training: clusters, histograms, statistics. It needs no annotation and no DDP_STEP; groups,
 * DDP_NO_SYNC_BEGIN, DDP_WEIGHT, --reduce and --compress do not affect it. Types: DDP_INT32, DDP_INT64, DDP_UINT32,
 * DDP_UINT64 and the float types; integers wrap around on overflow, and have no mean.
 *
 * Device memory is reduced in the order of `stream`, as by a kernel there; the host does not wait. For host memory,
 * pageable or pinned, and managed memory, the call waits for all streams of the device, and the result is there when
 * the call returns. All ranks then hold the same bits. With one rank, and without ddprun, the call does nothing and
 * does not wait.
 *
 * All ranks make the same calls in the same order, in one thread at a time. At the first call of each combination of
 * source line, count, type and operation, the host waits for the other ranks, to compare it. With count 0 the call does
 * nothing. Ends the job: an operation that the type does not have, a null pointer, memory of an annotated gradient, of
 * another device or beyond its allocation, host memory that is not the process's, a stream that is being captured into
 * a CUDA graph, ranks whose calls differ.
 */
#define DDP_REDUCE(ptr, count, type, op, stream)                                       \
    do {                                                                               \
        DDP_CHECK_(ptr, type);                                                         \
        DDP_CALL_(reduce, ptr, (void *)(ptr), (size_t)(count), (int)(type), (int)(op), \
                  ddp_stream((uintptr_t)(stream)));                                    \
    } while (0)

/*
 * DDP_SHARD(total, &first, &count): gives this rank's share [first, first + count) of `total` items; `first` and
 * `count` are size_t. Without ddprun they become 0 and total. Shares differ by at most one item. If they differ, the
 * mean of the ranks' means is not the mean over all items; ddprun reports this once, and DDP_WEIGHT corrects it.
 */
#define DDP_SHARD(total, first, count)                                        \
    do {                                                                      \
        ddp_shard_alone((size_t)(total), DDP_SIZE_(first), DDP_SIZE_(count)); \
        DDP_CALL_(shard, total, (size_t)(total), (first), (count));           \
    } while (0)

/*
 * DDP_WEIGHT(count, total): this rank's gradient in the coming step is the mean over `count` items of the `total` items
 * that all ranks have together. The mean over ranks is weighted by these counts, so it is the mean over all items, also
 * if shares are unequal:
 *
 *     DDP_SHARD(batch, &first, &count);
 *     DDP_WEIGHT(count, batch);
 *     forward_and_backward(first, count);   // the loss is divided by count
 *     DDP_STEP(0);
 *
 * Call it before the backward pass, on all ranks in the same steps, in the thread that calls DDP_STEP. Several calls
 * before one DDP_STEP add up: one for each pass of a gradient accumulation. Each group of gradients adds up all calls
 * since its own last step. A rank with count 0 adds nothing, whatever its gradients hold. A step without DDP_WEIGHT, or
 * with equal shares, has the same bits as before. A DDP_STEP that is captured into a CUDA graph keeps the weight of its
 * capture in every launch. In the first step with DDP_WEIGHT the host waits until all ranks have compared their totals.
 * After a call within backward, gradients that were sent before are sent once more at DDP_STEP. Ends the job: a count
 * above the total, totals that differ between ranks, counts that do not add up to the total, --reduce sum.
 */
#define DDP_WEIGHT(count, total) DDP_CALL_(weight, count, (size_t)(count), (size_t)(total))

/*
 * DDP_FORGET(ptr): removes the annotation of the range at ptr. Call it before the memory gets another use. All ranks
 * forget the same ranges between the same steps. Unknown pointers are ignored.
 */
#define DDP_FORGET(ptr) DDP_CALL_(forget, ptr, (void *)(ptr))

/* This process's rank in 0..DDP_WORLD_SIZE()-1; 0 without ddprun. */
#define DDP_RANK() (ddp_interface_get() != NULL ? ddp_interface_get()->rank() : 0)

/* Number of ranks; 1 without ddprun. */
#define DDP_WORLD_SIZE() (ddp_interface_get() != NULL ? ddp_interface_get()->world_size() : 1)

/* Number of this rank among those on its node; 0 without ddprun. */
#define DDP_LOCAL_RANK() (ddp_interface_get() != NULL ? ddp_interface_get()->local_rank() : 0)

#endif
