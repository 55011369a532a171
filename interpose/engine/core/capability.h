/*
 * capability.h - who may call a function: one that holds the engine's lock, or has the issuer's role. clang holds
 * callers to it (tests/lint/clang.sh, -Wthread-safety); for other compilers these words mean nothing.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_CAPABILITY_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_CAPABILITY_H

#include <pthread.h>

#ifdef __clang__
#define CAPABILITY(name) __attribute__((capability(name)))
#define ACQUIRES(...)    __attribute__((acquire_capability(__VA_ARGS__)))
#define RELEASES(...)    __attribute__((release_capability(__VA_ARGS__)))
#define REQUIRES(...)    __attribute__((requires_capability(__VA_ARGS__)))
#define GUARDED_BY(...)  __attribute__((guarded_by(__VA_ARGS__)))
#define NOT_ANALYSED     __attribute__((no_thread_safety_analysis))
#else
#define CAPABILITY(name)
#define ACQUIRES(...)
#define RELEASES(...)
#define REQUIRES(...)
#define GUARDED_BY(...)
#define NOT_ANALYSED
#endif

/* glibc declares them without. */
int pthread_mutex_lock(pthread_mutex_t *mutex) ACQUIRES(*mutex);
int pthread_mutex_unlock(pthread_mutex_t *mutex) RELEASES(*mutex);

#endif
