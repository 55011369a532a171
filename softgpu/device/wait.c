/*
 * wait.c - the exported functions in which a thread of a block waits or ends, around their steps in block.c and warp.c:
 * saves where the thread stands, asks the step which fiber runs next, and continues there (fiber.h).
 */
#include "block.h"

#ifndef FIBER_UCONTEXT

/*
 * softgpu_barrier() and the others, as assembly: `sp` is the instruction that gives the step the stack pointer, as the
 * parameter behind those of the function itself.
 */
#define DEFINE_WAIT(name, step, sp)                                                                          \
    __asm__(".text\n\t.p2align 4\n\t.globl " #name "\n\t"                                                    \
            ".type " #name ", @function\n" #name ":\n\t"                                                     \
            ".cfi_startproc\n\t"                                                                             \
            "endbr64\n\t" FIBER_SAVE sp "\n\tcall " #step "\n\t" FIBER_RESUME ".cfi_endproc\n\t.size " #name \
            ", .-" #name "\n");

DEFINE_WAIT(softgpu_barrier, block_barrier_step, "movq %rsp, %rdi")
DEFINE_WAIT(softgpu_barrier_vote, block_vote_step, "movq %rsp, %rdx")
DEFINE_WAIT(softgpu_active_mask, warp_active_mask_step, "movq %rsp, %rsi")
DEFINE_WAIT(softgpu_meet, warp_meet_step, "movq %rsp, %rax\n\tpushq %rax\n\tpushq %rax")
DEFINE_WAIT(block_run, block_run_step, "movq %rsp, %rsi")

/*
 * Where the fiber has no further thread to take, its stack is as good as empty, and nothing is saved. A sanitizer in
 * the program wants its functions to return first.
 */
__asm__(".text\n\t.p2align 4\n\t.globl softgpu_thread_end\n\t"
        ".type softgpu_thread_end, @function\nsoftgpu_thread_end:\n\t.cfi_startproc\n\tendbr64\n\t"
        "cmpb $0, fiber_is_watched(%rip)\n\tjne 4f\n"
        "end_thread:\n\tsubq $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n\tcall block_end_step\n\t"
        "testq %rax, %rax\n\tjnz 5f\n\taddq $8, %rsp\n"
        "4:\tret\n"
        "5:\t" FIBER_RESUME ".cfi_endproc\n\t.size softgpu_thread_end, .-softgpu_thread_end\n");

void end_thread(void);

void
block_after_thread(struct fiber *self)
{
    (void)self;
    if (__builtin_expect(fiber_is_watched, 0))
        end_thread();
}

#else

/* The running fiber, if any: without one, the step reports the mistake. */
static struct fiber *
running(void)
{
    return block_here != NULL ? block_here->running : NULL;
}

void
softgpu_barrier(void)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, block_barrier_step(frame));
}

int
softgpu_barrier_vote(int predicate, enum softgpu_vote vote)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, block_vote_step(predicate, vote, frame));
    return *(const int *)frame[FIBER_RESULT];
}

unsigned
softgpu_active_mask(const void *site)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, warp_active_mask_step(site, frame));
    return *(const unsigned *)frame[FIBER_RESULT];
}

struct softgpu_word
softgpu_meet(const struct softgpu_gathering *gathering, unsigned mask, struct softgpu_word brought, int argument,
             const void *context)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, warp_meet_step(gathering, mask, brought, argument, context, frame));
    return *(const struct softgpu_word *)frame[FIBER_RESULT];
}

void
block_run(struct block *block)
{
    void *frame[FIBER_FRAME];
    fiber_switch(&block->main, block_run_step(block, frame));
}

void
softgpu_thread_end(void)
{
}

void
block_after_thread(struct fiber *self)
{
    struct fiber *other = block_end_step();
    if (other != NULL)
        fiber_switch(self, other); /* it lies idle in there, and is taken from there */
}

#endif
