/*
 * fiber.c - see fiber.h.
 */
#include "fiber.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHUNK_FIBERS = 32,
    DEFAULT_STACK_KB = 256,
    LEAST_STACK_KB = 16,
    MOST_STACK_KB = 64 << 10,
    COLOUR_BYTES =
        320, /* stacks start at different places in their page, or all would compete for the same cache sets */
    COLOUR_COUNT = 11,
};

struct fiber_chunk {
    struct fiber_chunk *next;
    char *memory; /* CHUNK_FIBERS times guard page and stack */
    size_t bytes;
    size_t stride;
    size_t guard_bytes;
    struct fiber fibers[CHUNK_FIBERS];
};

/* A sanitizer's runtime may be in the program. Weak: absent otherwise. */
__attribute__((weak)) void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old,
                                                           size_t *size_old);
__attribute__((weak)) void *__tsan_get_current_fiber(void);
__attribute__((weak)) void *__tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void *fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void *fiber, unsigned flags);

/* Written by the constructor only. */
bool fiber_is_watched;

/* Whom the last switch of this OS thread left. */
static __thread struct fiber *left_fiber;

__attribute__((constructor)) static void
look_for_sanitizers(void)
{
    fiber_is_watched = __sanitizer_start_switch_fiber != NULL || __tsan_create_fiber != NULL;
}

void
fiber_before_switch(struct fiber *from, struct fiber *to)
{
    left_fiber = from;
    if (__sanitizer_start_switch_fiber != NULL)
        __sanitizer_start_switch_fiber(&from->fake_stack, to->stack_bottom, to->stack_bytes);
    if (__tsan_switch_to_fiber != NULL)
        __tsan_switch_to_fiber(to->shadow_state, 0);
}

void
fiber_after_switch(struct fiber *self)
{
    const void *bottom = NULL;
    size_t bytes = 0;
    if (__sanitizer_finish_switch_fiber == NULL)
        return;
    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &bytes);

    /* The bounds of an OS thread's own stack are learned here; those of a fiber are known. */
    if (left_fiber->stack_bottom == NULL) {
        left_fiber->stack_bottom = bottom;
        left_fiber->stack_bytes = bytes;
    }
}

void
fiber_adopt_thread(struct fiber *self)
{
    if (__tsan_get_current_fiber != NULL)
        self->shadow_state = __tsan_get_current_fiber();
}

void
fiber_release_thread(struct fiber *self)
{
    self->shadow_state = NULL;
}

static size_t
stack_bytes_wanted(void)
{
    const char *text = getenv("SOFTGPU_STACK_KB");
    long kb = text != NULL ? strtol(text, NULL, 10) : DEFAULT_STACK_KB;
    if (kb < LEAST_STACK_KB)
        kb = LEAST_STACK_KB;
    if (kb > MOST_STACK_KB)
        kb = MOST_STACK_KB;
    return (size_t)kb << 10;
}

/* Makes `fiber` start with body() on the stack that ends at `top`. */
static void
prepare(struct fiber *fiber, char *top, void (*body)(void))
{
#ifdef FIBER_UCONTEXT
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = (void *)fiber->stack_bottom;
    fiber->context.uc_stack.ss_size = (size_t)(top - (const char *)fiber->stack_bottom);
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, body, 0);
#else
    /* As if body() had just been called: a return address of 0 ends back traces, and the stack is aligned as after a
     * call. */
    uintptr_t aligned = (uintptr_t)top & ~(uintptr_t)63;
    void **frame = (void **)(aligned - sizeof(void *));
    *frame = NULL;
    fiber->stack_pointer = frame;
    fiber->frame_pointer = NULL;
    fiber->resume_at = (void *)(uintptr_t)body;
#endif
}

bool
fiber_make_some(struct fiber_chunk **chunks, struct fiber_list *idle, void (*body)(void))
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t stack = (stack_bytes_wanted() + page - 1) & ~(page - 1);

    struct fiber_chunk *chunk = aligned_alloc(_Alignof(struct fiber_chunk), sizeof(*chunk));
    if (chunk == NULL)
        return false;
    memset(chunk, 0, sizeof(*chunk));
    chunk->guard_bytes = page;
    chunk->stride = stack + page;
    chunk->bytes = chunk->stride * CHUNK_FIBERS;
    chunk->memory = mmap(NULL, chunk->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (chunk->memory == MAP_FAILED)
        goto free_chunk;

    for (size_t i = 0; i < CHUNK_FIBERS; ++i) {
        if (mprotect(chunk->memory + i * chunk->stride, page, PROT_NONE) != 0)
            goto unmap;
    }
    for (size_t i = 0; i < CHUNK_FIBERS; ++i) {
        struct fiber *fiber = &chunk->fibers[i];
        fiber->stack_bottom = chunk->memory + i * chunk->stride + page;
        fiber->stack_bytes = stack;
        if (__tsan_create_fiber != NULL)
            fiber->shadow_state = __tsan_create_fiber(0);
        prepare(fiber, (char *)fiber->stack_bottom + stack - i % COLOUR_COUNT * COLOUR_BYTES, body);
        fiber_append(idle, fiber);
    }
    chunk->next = *chunks;
    *chunks = chunk;
    return true;

unmap:
    munmap(chunk->memory, chunk->bytes);
free_chunk:
    free(chunk);
    return false;
}

void
fiber_free_all(struct fiber_chunk *chunks)
{
    while (chunks != NULL) {
        struct fiber_chunk *next = chunks->next;
        for (size_t i = 0; i < CHUNK_FIBERS; ++i) {
            if (__tsan_destroy_fiber != NULL)
                __tsan_destroy_fiber(chunks->fibers[i].shadow_state);
        }
        munmap(chunks->memory, chunks->bytes);
        free(chunks);
        chunks = next;
    }
}

bool
fiber_is_guard(const struct fiber_chunk *chunks, const void *address)
{
    for (; chunks != NULL; chunks = chunks->next) {
        size_t offset = (size_t)((const char *)address - chunks->memory);
        if ((const char *)address >= chunks->memory && offset < chunks->bytes)
            return offset % chunks->stride < chunks->guard_bytes;
    }
    return false;
}
