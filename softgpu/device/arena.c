/*
 * arena.c - shared memory: one arena for each OS thread that runs blocks.
 *
 *   static part: [64 unused] [frame of the kernel that runs] [variables declared in functions] | guard page
 *   dynamic part:                    [what the launch asks for] [filling, up to 128 bytes]     | guard of 1 MiB
 *
 * Kernels' frames lie over each other, for one block runs at a time. Nothing is cleared between blocks: shared memory
 * has no initial value in CUDA.
 *
 * An access past the dynamic part ends the launch with its offset: at once where it hits the guard, of which the
 * driver's handler of faults asks describe_fault(); at the end of the launch where it has changed the filling.
 */
#include "block.h"
#include "softgpu/calls.h"

#include "softgpu/private_calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    FRAME_BEGIN = 64, /* so that no place is 0, which means "none yet" */
    FRAME_LIMIT = 48 << 10,
    FUNCTIONS_BEGIN = 64 << 10,
    FUNCTIONS_LIMIT = 960 << 10,
    STATIC_BYTES = 1 << 20,
    DYNAMIC_LIMIT = 256 << 10,
    DYNAMIC_ALIGNMENT = 128,
    DYNAMIC_GUARD = 1 << 20,
    FILLING = 0xb5,
};

/* Pointers of programs that every OS thread sets before it runs a kernel, newest first; only grows. */
static _Atomic(struct softgpu_pointer *) pointers;

__thread char *arena_here SOFTGPU_INITIAL_EXEC;

/* What the launch that runs has asked for. */
static __thread size_t dynamic_size SOFTGPU_INITIAL_EXEC;

/* Guards every *place_p and *frame_p that is handed to softgpu_shared_place(), and functions_used. */
static pthread_mutex_t place_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t functions_used;

static pthread_key_t arena_key;
static pthread_once_t arena_once = PTHREAD_ONCE_INIT;

static size_t
page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t
arena_bytes(void)
{
    return STATIC_BYTES + page_bytes() + DYNAMIC_LIMIT + DYNAMIC_GUARD;
}

static char *
dynamic_end(void)
{
    return arena_here + STATIC_BYTES + page_bytes() + DYNAMIC_LIMIT;
}

/* For the driver (private_calls.h): whether `address` is past the dynamic shared memory of this OS thread. */
static bool
describe_fault(uintptr_t address, char *text, size_t room)
{
    if (arena_here == NULL || address - (uintptr_t)dynamic_end() >= DYNAMIC_GUARD)
        return false;
    snprintf(text, room, "byte %zu of its dynamic shared memory, which has %zu bytes (third launch argument)",
             (size_t)(address - (uintptr_t)softgpu_thread.dynamic_shared), dynamic_size);
    return true;
}

static void
give_description(void)
{
    void (*give)(bool (*)(uintptr_t, char *, size_t)) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *found = driver != NULL ? dlsym(driver, "softgpuFaultDescription") : NULL;
    memcpy(&give, &found, sizeof(found));
    if (give != NULL)
        give(describe_fault);
}

void
arena_unmap(void *memory)
{
    munmap(memory, arena_bytes());
}

static void
begin_once(void)
{
    if (pthread_key_create(&arena_key, arena_unmap) != 0)
        softgpu_kernel_fatal("this process has no thread-specific keys left");
    give_description();
}

static void
map_arena(void)
{
    pthread_once(&arena_once, begin_once);
    char *memory =
        mmap(NULL, arena_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + STATIC_BYTES, page_bytes(), PROT_NONE) != 0 ||
        mprotect(memory + STATIC_BYTES + page_bytes() + DYNAMIC_LIMIT, DYNAMIC_GUARD, PROT_NONE) != 0)
        softgpu_kernel_fatal("no memory for its shared memory");
    if (pthread_getspecific(arena_key) == NULL) /* else it is a block's (blocks.c) */
        pthread_setspecific(arena_key, memory);
    arena_here = memory;
}

void
softgpu_pointer_add(struct softgpu_pointer *pointer, void *variable)
{
    pointer->distance = (uintptr_t)variable - (uintptr_t)&softgpu_thread;
    pointer->next = atomic_load(&pointers);
    while (!atomic_compare_exchange_weak(&pointers, &pointer->next, pointer))
        ;
}

static void
set_pointers(void)
{
    for (const struct softgpu_pointer *p = atomic_load(&pointers); p != NULL; p = p->next) {
        void **variable = (void **)((uintptr_t)&softgpu_thread + p->distance); /* another object: as numbers */
        *variable = p->target == SOFTGPU_TARGET_THREAD ? (void *)&softgpu_thread : softgpu_thread.dynamic_shared;
    }
}

void
arena_prepare(size_t dynamic_bytes)
{
    if (dynamic_bytes > DYNAMIC_LIMIT)
        softgpu_kernel_fatal("%zu bytes of dynamic shared memory are more than %d", dynamic_bytes, DYNAMIC_LIMIT);
    if (arena_here == NULL)
        map_arena();
    const size_t rounded = (dynamic_bytes + DYNAMIC_ALIGNMENT - 1) & ~(size_t)(DYNAMIC_ALIGNMENT - 1);
    softgpu_thread.static_shared = arena_here;
    softgpu_thread.dynamic_shared = dynamic_end() - rounded;
    set_pointers();
    dynamic_size = dynamic_bytes;
    memset(softgpu_thread.dynamic_shared + dynamic_bytes, FILLING, rounded - dynamic_bytes);
}

bool
arena_holds(const void *address)
{
    return (uintptr_t)address - (uintptr_t)arena_here < arena_bytes();
}

bool
arena_overrun(size_t *offset_p, size_t *bytes_p)
{
    for (const char *at = softgpu_thread.dynamic_shared + dynamic_size; at < dynamic_end(); ++at) {
        if (*at != (char)FILLING) {
            *offset_p = (size_t)(at - softgpu_thread.dynamic_shared);
            *bytes_p = dynamic_size;
            return true;
        }
    }
    return false;
}

size_t
softgpu_shared_place(size_t *place_p, size_t *frame_p, size_t bytes, size_t alignment)
{
    pthread_mutex_lock(&place_lock);
    size_t place = *place_p;
    if (place == 0) {
        size_t *used_p = frame_p != NULL ? frame_p : &functions_used;
        const size_t begin = frame_p != NULL ? FRAME_BEGIN : FUNCTIONS_BEGIN;
        const size_t limit = frame_p != NULL ? FRAME_LIMIT : FUNCTIONS_LIMIT;
        const size_t at = (*used_p + alignment - 1) & ~(alignment - 1);
        if (at + bytes > limit) {
            pthread_mutex_unlock(&place_lock);
            if (kernel_here == NULL)
                return 0;
            softgpu_kernel_fatal("its __shared__ variables need %zu bytes, more than %zu; use dynamic shared memory",
                                 at + bytes, limit);
        }
        __atomic_store_n(used_p, at + bytes, __ATOMIC_RELAXED); /* the stub reads it without the lock, for the image */
        place = begin + at;

        /* Read without the lock by softgpu::shared(). */
        __atomic_store_n(place_p, place, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&place_lock);
    return place;
}
