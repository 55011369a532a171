/*
 * capability.h - who may call a function: one that holds the engine's lock, or has the issuer's role. clang holds
 * callers to it (tests/lint/clang.sh, -Wthread-safety); for other compilers these words mean nothing.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_CAPABILITY_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_CAPABILITY_H

#include <pthread.h>

#ifdef __clang__
#define CAPABILITY(name)     __attribute__((capability(name)))
#define ACQUIRES(...)        __attribute__((acquire_capability(__VA_ARGS__)))
#define ACQUIRES_SHARED(...) __attribute__((acquire_shared_capability(__VA_ARGS__)))
#define RELEASES(...)        __attribute__((release_capability(__VA_ARGS__)))
#define RELEASES_SHARED(...) __attribute__((release_shared_capability(__VA_ARGS__)))
#define RELEASES_ANY(...)    __attribute__((release_generic_capability(__VA_ARGS__)))
#define REQUIRES(...)        __attribute__((requires_capability(__VA_ARGS__)))
#define REQUIRES_SHARED(...) __attribute__((requires_shared_capability(__VA_ARGS__)))
#define EXCLUDES(...)        __attribute__((locks_excluded(__VA_ARGS__)))
#define GUARDED_BY(...)      __attribute__((guarded_by(__VA_ARGS__)))
#define NOT_ANALYSED         __attribute__((no_thread_safety_analysis))
#else
#define CAPABILITY(name)
#define ACQUIRES(...)
#define ACQUIRES_SHARED(...)
#define RELEASES(...)
#define RELEASES_SHARED(...)
#define RELEASES_ANY(...)
#define REQUIRES(...)
#define REQUIRES_SHARED(...)
#define EXCLUDES(...)
#define GUARDED_BY(...)
#define NOT_ANALYSED
#endif

/* A capability that no mutex stands for. */
struct CAPABILITY("role") capability {
    char unused;
};

/* For clang alone; nothing happens. Not analysed: these three are what the capability is. */
static inline void capability_take(struct capability *capability) ACQUIRES(*capability);
static inline void capability_share(struct capability *capability) ACQUIRES_SHARED(*capability);
static inline void capability_give(struct capability *capability) RELEASES_ANY(*capability);
static inline void NOT_ANALYSED
capability_take(struct capability *capability)
{
    (void)capability;
}
static inline void NOT_ANALYSED
capability_share(struct capability *capability)
{
    (void)capability;
}
static inline void NOT_ANALYSED
capability_give(struct capability *capability)
{
    (void)capability;
}

/* glibc declares them without. */
int pthread_mutex_lock(pthread_mutex_t *mutex) ACQUIRES(*mutex);
int pthread_mutex_unlock(pthread_mutex_t *mutex) RELEASES(*mutex);

#endif
