/*
 * fiber.c - see fiber.h.
 */
#include "fiber.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    DEFAULT_STACK_KB = 256,
    LEAST_STACK_KB = 16,
    MOST_STACK_KB = 64 << 10,
    COLOUR_BYTES =
        320, /* stacks start at different places in their page, or all would compete for the same cache sets */
    COLOUR_COUNT = 11,
    /* Each stack with a guard is two of the 65,530 maps that a process may have; large groups of blocks need more. */
    GUARDED_CHUNKS = 512,
};

struct fiber_chunk {
    struct fiber_chunk *next;
    char *memory; /* FIBER_CHUNK times guard page and stack */
    size_t bytes;
    size_t stride;
    size_t guard_bytes;
    struct fiber *fibers[FIBER_CHUNK];
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

/* Whom the switch leaves that this OS thread is in; NULL in none. */
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
    if (__sanitizer_finish_switch_fiber == NULL || left_fiber == NULL)
        return;
    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &bytes);

    /* The bounds of an OS thread's own stack are learned here; those of a fiber are known. */
    if (left_fiber->stack_bottom == NULL) {
        left_fiber->stack_bottom = bottom;
        left_fiber->stack_bytes = bytes;
    }
    left_fiber = NULL;
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

/* Makes `fiber` begin on its stack. */
static void
prepare(struct fiber *fiber, void (*begin)(void))
{
#ifdef FIBER_UCONTEXT
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = (void *)fiber->stack_bottom;
    fiber->context.uc_stack.ss_size = fiber->stack_bytes;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, begin, 0);
#else
    (void)begin; /* FIBER_RESUME jumps to fiber_begin() */
    /* As if fiber_begin() had just been called: a return address of 0 ends back traces, and the stack is aligned as
     * after a call. */
    void **frame = (void **)fiber - 1;
    *frame = NULL;
    fiber->stack_top = frame;
#endif
}

/* A fiber in stack `i` of the chunk. It lies at the stack's end, beside what its threads use first: the next page down
 * is one that few of them come to. */
static struct fiber *
make_fiber(const struct fiber_chunk *chunk, size_t i, void (*begin)(void))
{
    char *bottom = chunk->memory + i * chunk->stride + chunk->guard_bytes;
    char *end = chunk->memory + (i + 1) * chunk->stride - i % COLOUR_COUNT * COLOUR_BYTES;
    struct fiber *fiber = (struct fiber *)((uintptr_t)end & ~(uintptr_t)(_Alignof(struct fiber) - 1)) - 1;
    fiber->stack_bottom = bottom;
    fiber->stack_bytes = (size_t)((char *)fiber - bottom);
    if (__tsan_create_fiber != NULL)
        fiber->shadow_state = __tsan_create_fiber(0);
    prepare(fiber, begin);
    return fiber;
}

bool
fiber_make_some(struct fiber_chunk **chunks, struct fiber *made[FIBER_CHUNK], void (*begin)(void))
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t stack = (stack_bytes_wanted() + page - 1) & ~(page - 1);

    struct fiber_chunk *chunk = calloc(1, sizeof(*chunk));
    if (chunk == NULL)
        return false;
    chunk->guard_bytes = page;
    chunk->stride = stack + page;
    chunk->bytes = chunk->stride * FIBER_CHUNK;
    chunk->memory = mmap(NULL, chunk->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (chunk->memory == MAP_FAILED)
        goto free_chunk;

    static _Atomic unsigned made_chunks;
    for (size_t i = 0; i < FIBER_CHUNK && made_chunks < GUARDED_CHUNKS; ++i) {
        if (mprotect(chunk->memory + i * chunk->stride, page, PROT_NONE) != 0)
            goto unmap;
    }
    for (size_t i = 0; i < FIBER_CHUNK; ++i)
        chunk->fibers[i] = made[i] = make_fiber(chunk, i, begin);
    chunk->next = *chunks;
    *chunks = chunk;
    ++made_chunks;
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
        for (size_t i = 0; i < FIBER_CHUNK; ++i) {
            if (__tsan_destroy_fiber != NULL)
                __tsan_destroy_fiber(chunks->fibers[i]->shadow_state);
        }
        munmap(chunks->memory, chunks->bytes);
        free(chunks);
        chunks = next;
    }
}
