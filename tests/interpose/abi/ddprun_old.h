/*
 * ddprun.h as it last was with each interface version before today's, without its comments. -DDDP_INTERFACE_VERSION=N
 * says which: what came later stands inside of `#if`, but for names of types. Lines are added, and none changes again.
 * abi.sh builds programs with it.
 */
#ifndef DDPRUN_H
#define DDPRUN_H
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
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
enum ddp_operation { DDP_OP_SUM = 1, DDP_OP_MEAN = 2, DDP_OP_MIN = 3, DDP_OP_MAX = 4 };
struct ddp_site {
    const char *text;
    const char *file;
    int line;
};
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
#if DDP_INTERFACE_VERSION >= 2
    void (*gradient_group)(int id, const struct ddp_site *site);
    void (*step_group)(int id, void *stream, const struct ddp_site *site);
    void (*no_sync)(int begins, const struct ddp_site *site);
    void (*buffer)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*gradient_ready)(void *ptr, void *stream, const struct ddp_site *site);
#endif
#if DDP_INTERFACE_VERSION >= 3
    void (*state)(void *ptr, size_t count, int type, const struct ddp_site *site);
    void (*weight)(size_t count, size_t total, const struct ddp_site *site);
    void (*mean_as)(const char *label, float *value, const struct ddp_site *site);
#endif
#if DDP_INTERFACE_VERSION >= 4
    void (*step_parameters)(int group, void *stream, const struct ddp_site *site);
    void (*sync)(void *stream, const struct ddp_site *site);
    void (*reduce)(void *ptr, size_t count, int type, int op, void *stream, const struct ddp_site *site);
#endif
#if DDP_INTERFACE_VERSION >= 5
    void (*mean_of)(const char *label, void *value, int type, const struct ddp_site *site);
#endif
};
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
    *first = 0;
    *count = total;
}
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
#define DDP_PARAMETER(ptr, count, type) DDP_CALL_(parameter, ptr, (void *)(ptr), (size_t)(count), (int)(type))
#define DDP_GRADIENT(ptr, count, type)  DDP_CALL_(gradient, ptr, (void *)(ptr), (size_t)(count), (int)(type))
#define DDP_STEP(stream)                DDP_CALL_(step, stream, ddp_stream((uintptr_t)(stream)))
#define DDP_SHARD(total, first, count)                              \
    do {                                                            \
        ddp_shard_alone((size_t)(total), (first), (count));         \
        DDP_CALL_(shard, total, (size_t)(total), (first), (count)); \
    } while (0)
#define DDP_FORGET(ptr)  DDP_CALL_(forget, ptr, (void *)(ptr))
#define DDP_RANK()       (ddp_interface_get() != NULL ? ddp_interface_get()->rank() : 0)
#define DDP_WORLD_SIZE() (ddp_interface_get() != NULL ? ddp_interface_get()->world_size() : 1)
#define DDP_LOCAL_RANK() (ddp_interface_get() != NULL ? ddp_interface_get()->local_rank() : 0)
#if DDP_INTERFACE_VERSION >= 2
#define DDP_GRADIENT_GROUP(id)          DDP_CALL_(gradient_group, id, (int)(id))
#define DDP_STEP_GROUP(id, stream)      DDP_CALL_(step_group, stream, (int)(id), ddp_stream((uintptr_t)(stream)))
#define DDP_NO_SYNC_BEGIN()             DDP_CALL_(no_sync, DDP_NO_SYNC_BEGIN, 1)
#define DDP_NO_SYNC_END()               DDP_CALL_(no_sync, DDP_NO_SYNC_END, 0)
#define DDP_GRADIENT_READY(ptr, stream) DDP_CALL_(gradient_ready, ptr, (void *)(ptr), ddp_stream((uintptr_t)(stream)))
#define DDP_BUFFER(ptr, count, type)    DDP_CALL_(buffer, ptr, (void *)(ptr), (size_t)(count), (int)(type))
#endif
#if DDP_INTERFACE_VERSION >= 3
#define DDP_STATE(ptr, count, type)     DDP_CALL_(state, ptr, (void *)(ptr), (size_t)(count), (int)(type))
#define DDP_MEAN(pointer_to_host_float) DDP_CALL_(mean, pointer_to_host_float, DDP_FLOAT_AT_(pointer_to_host_float))
#define DDP_MEAN_AS(label, pointer_to_host_float) \
    DDP_CALL_(mean_as, pointer_to_host_float, (label), DDP_FLOAT_AT_(pointer_to_host_float))
#define DDP_FLOAT_AT_(pointer)   ((void)sizeof(char[sizeof(*(pointer)) == sizeof(float) ? 1 : -1]), (pointer))
#define DDP_WEIGHT(count, total) DDP_CALL_(weight, count, (size_t)(count), (size_t)(total))
#else
#define DDP_MEAN(pointer_to_host_float) DDP_CALL_(mean, pointer_to_host_float, (float *)(pointer_to_host_float))
#endif
#if DDP_INTERFACE_VERSION >= 4
#define DDP_STEP_PARAMETERS(stream) DDP_STEP_PARAMETERS_GROUP(0, stream)
#define DDP_STEP_PARAMETERS_GROUP(id, stream) \
    DDP_CALL_(step_parameters, stream, (int)(id), ddp_stream((uintptr_t)(stream)))
#define DDP_SYNC(stream) DDP_CALL_(sync, stream, ddp_stream((uintptr_t)(stream)))
#define DDP_REDUCE(ptr, count, type, op, stream) \
    DDP_CALL_(reduce, ptr, (void *)(ptr), (size_t)(count), (int)(type), (int)(op), ddp_stream((uintptr_t)(stream)))
#endif
#if DDP_INTERFACE_VERSION >= 5
#undef DDP_MEAN
#undef DDP_MEAN_AS
#undef DDP_SYNC
#if !defined(__cplusplus)
#define DDP_TYPE_OF(pointer)    __extension__ _Generic(*(pointer), float : DDP_FLOAT32, double : DDP_FLOAT64)
#define DDP_MEAN_TYPE_(pointer) __extension__ _Generic((pointer), float * : DDP_FLOAT32, double * : DDP_FLOAT64)
#else
#define DDP_MEAN_TYPE_(pointer) sizeof(ddp_mean_type_(pointer))
extern "C++" {
char (&ddp_mean_type_(float *))[DDP_FLOAT32];
char (&ddp_mean_type_(double *))[DDP_FLOAT64];
#if __cplusplus >= 201103L
#define DDP_TYPE_OF(pointer) static_cast<ddp_type>(sizeof(ddp_type_of_(pointer)))
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
#define DDP_MEAN(pointer) DDP_CALL_(mean_of, pointer, NULL, (void *)(pointer), (int)DDP_MEAN_TYPE_(pointer))
#define DDP_MEAN_AS(label, pointer) \
    DDP_CALL_(mean_of, pointer, (label), (void *)(pointer), (int)DDP_MEAN_TYPE_(pointer))
#define DDP_SYNC(stream) ((void)(stream))
#endif
#endif
