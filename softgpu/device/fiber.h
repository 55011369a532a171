/*
 * fiber.h - stacks on which the threads of a block run, and the switch between them.
 *
 * A fiber belongs to the OS thread that made it and is only ever resumed there. This file knows nothing of kernels:
 * block.c decides who runs. On x86-64 the switch is part of the exported functions that wait; elsewhere, and under
 * sanitizers, it is swapcontext().
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
    void *stack_pointer; /* where it waits; NULL: nowhere, it begins. Offset 0 and 8: the switch reads them */
    void *stack_top;     /* where it begins */
#endif
    /* For sanitizers. */
    const void *stack_bottom;
    size_t stack_bytes;
    void *fake_stack;
    void *shadow_state;
} __attribute__((aligned(64)));

/* A run of stacks mapped together; a pool is a chain of them. */
enum { FIBER_CHUNK = 32 };
struct fiber_chunk;

/*
 * Makes FIBER_CHUNK fibers that will start with `begin`, which is fiber_begin(). Stacks are SOFTGPU_STACK_KB (default
 * 256) KiB of memory that is touched only as it is used, with a guard page below. Returns false with errno set when
 * memory is short.
 */
bool fiber_make_some(struct fiber_chunk **chunks, struct fiber *made[FIBER_CHUNK], void (*begin)(void));

/* Where a fiber begins, on its empty stack; block.c's. */
void fiber_begin(void) __attribute__((noreturn));

/* Unmaps all fibers of the chain. None of them may be running. */
void fiber_free_all(struct fiber_chunk *chunks);

/* Tells a sanitizer that this OS thread's own stack takes part in switches. */
void fiber_adopt_thread(struct fiber *self);
void fiber_release_thread(struct fiber *self);

/* Sanitizers in the program, even where this library was built without. */
extern bool fiber_is_watched __attribute__((visibility("hidden"))); /* assembly reads it */
void fiber_before_switch(struct fiber *from, struct fiber *to);
void fiber_after_switch(struct fiber *self);

/* ---- the switch ---- */

/* What a fiber that waits is to return with: the address of a struct softgpu_word or of its first bytes, of which 16
 * can be read. */
enum { FIBER_RESULT = 6, FIBER_FRAME = 8 };

#ifdef FIBER_UCONTEXT

static inline void
fiber_raw_switch(struct fiber *from, struct fiber *to)
{
    swapcontext(&from->context, &to->context);
}

/* `from` is the running fiber. Returns when another fiber switches back to it. */
static inline void
fiber_switch(struct fiber *from, struct fiber *to)
{
    if (from == to)
        return;
    fiber_before_switch(from, to);
    fiber_raw_switch(from, to);
    fiber_after_switch(from);
}

#else

/*
 * A function that waits is FIBER_SAVE, a call of its step, which decides who runs next and returns that fiber, and
 * FIBER_RESUME, which continues there. The step is given the stack pointer, at which a frame lies:
 *     [0..5] registers   [FIBER_RESULT] set by the step   [7] return address
 * and the stack pointer goes into the waiting fiber.
 *
 * FIBER_RESUME does not return by `ret`. Processors expect a `ret` to go where the last `call` came from, and that was
 * another thread's, from another place: each barrier would be a misprediction, of 10 ns and more. The indirect jump is
 * predicted by where the jumps before it went, and all threads of a block that waited in the same place go there in a
 * row. Each function that waits has a copy, so that their histories are apart.
 */
#define FIBER_SAVE                                  \
    "subq $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n\t" \
    "pushq %rbp\n\t.cfi_adjust_cfa_offset 8\n\t"    \
    "pushq %rbx\n\t.cfi_adjust_cfa_offset 8\n\t"    \
    "pushq %r12\n\t.cfi_adjust_cfa_offset 8\n\t"    \
    "pushq %r13\n\t.cfi_adjust_cfa_offset 8\n\t"    \
    "pushq %r14\n\t.cfi_adjust_cfa_offset 8\n\t"    \
    "pushq %r15\n\t.cfi_adjust_cfa_offset 8\n\t"

#define FIBER_RESUME                      \
    "movq (%rax), %rcx\n\t"               \
    "testq %rcx, %rcx\n\t"                \
    "jz 1f\n\t"                           \
    "movq %rcx, %rsp\n\t"                 \
    "cmpb $0, fiber_is_watched(%rip)\n\t" \
    "jne 2f\n"                            \
    "3:\tpopq %r15\n\t"                   \
    "popq %r14\n\t"                       \
    "popq %r13\n\t"                       \
    "popq %r12\n\t"                       \
    "popq %rbx\n\t"                       \
    "popq %rbp\n\t"                       \
    "popq %rcx\n\t"                       \
    "movq (%rcx), %rax\n\t"               \
    "movq 8(%rcx), %rdx\n\t"              \
    "popq %rcx\n\t"                       \
    "notrack jmp *%rcx\n"                 \
    "1:\tmovq 8(%rax), %rsp\n\t"          \
    "xorl %ebp, %ebp\n\t"                 \
    "jmp fiber_begin\n"                   \
    "2:\tmovq %rax, %rdi\n\t"             \
    "call fiber_after_switch\n\t"         \
    "jmp 3b\n\t"

#endif

#endif
