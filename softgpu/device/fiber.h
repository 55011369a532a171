/*
 * fiber.h - stacks on which the threads of a block run, and the switch between them.
 *
 * A fiber belongs to the OS thread that made it and is only ever resumed there. This file knows nothing of kernels:
 * block.c decides who runs. On x86-64 the switch is a few inline instructions, so that the jump back to each waiting
 * place has a branch predictor entry of its own; elsewhere, and under sanitizers, it is swapcontext().
 */
#ifndef SOFTGPU_DEVICE_FIBER_H
#define SOFTGPU_DEVICE_FIBER_H

#include "softgpu/block.h"

#include <stdbool.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FIBER_UCONTEXT 1
#endif
#endif
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FIBER_UCONTEXT 1
#endif

#ifdef FIBER_UCONTEXT
#include <ucontext.h>
#endif

/* What a switch touches comes first and fills one cache line. */
struct fiber {
#ifdef FIBER_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer; /* the three places that the switch reads and writes: offsets 0, 8, 16 */
    void *frame_pointer;
    void *resume_at;
#endif
    struct fiber *next;          /* in whichever list it waits */
    struct softgpu_index thread; /* the kernel's thread that it runs */
    unsigned number;             /* the same, linear in the block */

    /* For sanitizers. */
    const void *stack_bottom;
    size_t stack_bytes;
    void *fake_stack;
    void *shadow_state;
} __attribute__((aligned(64)));

struct fiber_list {
    struct fiber *first, *last;
};

static inline void
fiber_append(struct fiber_list *list, struct fiber *fiber)
{
    fiber->next = NULL;
    if (list->last != NULL)
        list->last->next = fiber;
    else
        list->first = fiber;
    list->last = fiber;
}

/* Moves all of `from` to the end of `list`. */
static inline void
fiber_append_all(struct fiber_list *list, struct fiber_list *from)
{
    if (from->first == NULL)
        return;
    if (list->last != NULL)
        list->last->next = from->first;
    else
        list->first = from->first;
    list->last = from->last;
    from->first = from->last = NULL;
}

static inline struct fiber *
fiber_take(struct fiber_list *list)
{
    struct fiber *fiber = list->first;
    if (fiber != NULL) {
        list->first = fiber->next;
        if (list->first == NULL)
            list->last = NULL;
    }
    return fiber;
}

/* A run of stacks mapped together; a pool is a chain of them. */
struct fiber_chunk;

/*
 * Makes some fibers that will start with body(), which must not return, and appends them to *idle. Stacks are
 * SOFTGPU_STACK_KB (default 256) KiB of memory that is touched only as it is used, with a guard page below. Returns
 * false with errno set when memory is short.
 */
bool fiber_make_some(struct fiber_chunk **chunks, struct fiber_list *idle, void (*body)(void));

/* Unmaps all fibers of the chain. None of them may be running. */
void fiber_free_all(struct fiber_chunk *chunks);

/* Whether `address` lies in a guard page of the chain: a thread of the kernel ran out of stack. */
bool fiber_is_guard(const struct fiber_chunk *chunks, const void *address);

/* Tells a sanitizer that this OS thread's own stack takes part in switches. */
void fiber_adopt_thread(struct fiber *self);
void fiber_release_thread(struct fiber *self);

/* Sanitizers in the program, even where this library was built without. */
extern bool fiber_is_watched;
void fiber_before_switch(struct fiber *from, struct fiber *to);
void fiber_after_switch(struct fiber *self);

/* ---- the switch ---- */

#ifdef FIBER_UCONTEXT

static inline void
fiber_raw_switch(struct fiber *from, struct fiber *to)
{
    swapcontext(&from->context, &to->context);
}

#else

#ifdef __AVX512F__
#define FIBER_AVX512_CLOBBERS                                                                                     \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", \
        "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define FIBER_AVX512_CLOBBERS
#endif

/*
 * Saves where `from` stands and goes on where `to` stands. Everything that the compiler may keep in registers is
 * clobbered, so that it saves only what is live here; the vector registers above 15 and the masks exist for the
 * compiler only with AVX-512. Nothing is pushed: a leaf function may have data below its stack pointer (the red zone),
 * and nobody else uses a waiting fiber's stack. endbr64 is for processors that check where an indirect jump lands.
 */
static inline __attribute__((always_inline)) void
fiber_raw_switch(struct fiber *from, struct fiber *to)
{
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "movq %%rsp, 0(%0)\n\t"
                     "movq %%rbp, 8(%0)\n\t"
                     "movq %%rax, 16(%0)\n\t"
                     "movq 0(%1), %%rsp\n\t"
                     "movq 8(%1), %%rbp\n\t"
                     "jmp *16(%1)\n\t"
                     ".p2align 4\n"
                     "1:\tendbr64\n"
                     : "+D"(from), "+S"(to)
                     :
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15" FIBER_AVX512_CLOBBERS);
}

#endif

/* `from` is the running fiber. Returns when somebody switches back to it. */
static inline __attribute__((always_inline)) void
fiber_switch(struct fiber *from, struct fiber *to)
{
    if (__builtin_expect(fiber_is_watched, 0)) {
        fiber_before_switch(from, to);
        fiber_raw_switch(from, to);
        fiber_after_switch(from);
        return;
    }
    fiber_raw_switch(from, to);
}

#endif
