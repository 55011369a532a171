/*
 * arena.c - shared memory: one arena for each OS thread that runs blocks.
 *
 *   static part: [64 unused] [frame of the kernel that runs] [variables declared in functions] | guard page
 *   dynamic part:                                 [rounded up to 128 bytes, against the end]   | guard page
 *
 * Kernels' frames lie over each other, for one block runs at a time. Nothing is cleared between blocks: shared memory
 * has no initial value in CUDA.
 */
#include "block.h"

#include <pthread.h>
#include <stdint.h>
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
};

__thread char *softgpu_static_shared SOFTGPU_INITIAL_EXEC;
__thread char *softgpu_dynamic_shared SOFTGPU_INITIAL_EXEC;

/* Start of this OS thread's mapping. */
static __thread char *arena SOFTGPU_INITIAL_EXEC;

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
    return STATIC_BYTES + page_bytes() + DYNAMIC_LIMIT + page_bytes();
}

static void
unmap_arena(void *memory)
{
    munmap(memory, arena_bytes());
}

static void
make_key(void)
{
    if (pthread_key_create(&arena_key, unmap_arena) != 0)
        softgpu_kernel_fatal("this process has no thread-specific keys left");
}

static void
map_arena(void)
{
    pthread_once(&arena_once, make_key);
    char *memory =
        mmap(NULL, arena_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + STATIC_BYTES, page_bytes(), PROT_NONE) != 0 ||
        mprotect(memory + STATIC_BYTES + page_bytes() + DYNAMIC_LIMIT, page_bytes(), PROT_NONE) != 0)
        softgpu_kernel_fatal("no memory for its shared memory");
    pthread_setspecific(arena_key, memory);
    arena = memory;
}

void
arena_prepare(size_t dynamic_bytes)
{
    if (dynamic_bytes > DYNAMIC_LIMIT)
        softgpu_kernel_fatal("%zu bytes of dynamic shared memory are more than %d", dynamic_bytes, DYNAMIC_LIMIT);
    if (arena == NULL)
        map_arena();
    const size_t rounded = (dynamic_bytes + DYNAMIC_ALIGNMENT - 1) & ~(size_t)(DYNAMIC_ALIGNMENT - 1);
    softgpu_static_shared = arena;
    softgpu_dynamic_shared = arena + STATIC_BYTES + page_bytes() + DYNAMIC_LIMIT - rounded;
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
