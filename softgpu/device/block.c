/*
 * block.c - runs the threads of a block, one at a time, on as few fibers as they need.
 *
 * The first fiber runs thread 0, then 1, 2, ... as a loop, until a thread waits for others (a barrier, a warp
 * collective). Then another fiber continues with the next thread. When all have been started, fibers that may continue
 * do so first in, first out: each warp advances by one collective per turn, which is what code that (rightly or not)
 * counts on warps running alike needs.
 *
 * Called by the code that softgpu-cc generates, on a thread of the stand-in's driver. It must not call into CUDA, but
 * for softgpuLaunchAbandon, which is made for that.
 */
#include "block.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- one block ---- */

/* All have arrived. `runs`: of the warp that begins with `first`, the lanes that do not wait. Once for many threads:
 * those who call it have few registers to save. */
static __attribute__((noinline)) void
release_barrier(struct block *block, unsigned first, unsigned runs)
{
    ++races_meetings;
    block->vote_result[SOFTGPU_VOTE_AND] = block->vote_and;
    block->vote_result[SOFTGPU_VOTE_OR] = block->vote_or;
    block->vote_result[SOFTGPU_VOTE_COUNT] = block->vote_count;
    block->vote_and = 1;
    block->vote_or = block->vote_count = 0;
    block->arrived = 0;
    for (unsigned i = 0; i < block->thread_count;) {
        const unsigned lane_0 = block->starts[i].number, behind = block->thread_count - lane_0;
        const unsigned lanes = block->warps[lane_0 / WARP_LANES].live & ~(lane_0 == first ? runs : 0);
        if (lanes != 0)
            block_make_ready(block, lane_0, lanes);
        i += behind < WARP_LANES ? behind : WARP_LANES;
    }
}

static inline void
end_thread(struct block *block)
{
    const unsigned number = softgpu_thread.number;
    warp_lane_ended(block, &block->warps[number / WARP_LANES], number % WARP_LANES);
    --block->live;

    /* A thread that has ended is not waited for. */
    if (block->arrived != 0 && block->arrived == block->live)
        release_barrier(block, 0, 0);
}

struct fiber *
block_end_step(struct block *block)
{
    struct fiber *self = block_running(block);
    end_thread(block);
#ifndef FIBER_UCONTEXT
    self->stack_pointer = NULL;
#endif
    struct fiber *other = block->live == 0 ? &block->main : block_take_ready(block);
    block->idle[block->idle_count++] = self;
    return block_switch(self, other);
}

/* The running fiber takes the next thread. */
static inline void
run_next_thread(struct block *block, struct fiber *self)
{
    const struct softgpu_place place = softgpu_thread.place = block->starts[block->next_thread++];
    block->fibers[place.number] = self;
    block->thread(block->launch, place.thread, softgpu_thread.indices_of_fibers.block);
}

void
fiber_begin(void)
{
    struct block *block = block_here;
    struct fiber *self = block->beginning;
    if (fiber_is_watched)
        fiber_after_switch(self);
    for (;;) {
        run_next_thread(block, self);
        if (block->next_thread < block->thread_count)
            end_thread(block);
        else
            block_end_thread(block);
    }
}

struct fiber *
block_run_step(struct block *block, void **frame)
{
    block_return(&block->main, frame, frame);
    return block_switch(&block->main, block_choose(block));
}

void
block_begin(struct block *block)
{
    spin_begin();
    block->live = block->thread_count;
    block->next_thread = 0;
    block->arrived = 0;
    block->parked_count = 0;
    block->vote_and = 1;
    block->vote_or = block->vote_count = 0;
    for (unsigned w = 0, left = block->thread_count; left > 0; ++w) {
        unsigned lanes = left < WARP_LANES ? left : WARP_LANES;
        warp_reset(&block->warps[w], lanes);
        left -= lanes;
    }
}

/* ---- many blocks ---- */

static void
number_threads(struct block *block, const unsigned size[3])
{
    struct softgpu_place place = {0, {0, 0, 0}};
    memcpy(block->shape, size, sizeof(block->shape));
    for (; place.thread.z < size[2]; ++place.thread.z) {
        for (place.thread.y = 0; place.thread.y < size[1]; ++place.thread.y) {
            for (place.thread.x = 0; place.thread.x < size[0]; ++place.thread.x, ++place.number)
                block->places[place.number] = place;
        }
    }
    block->thread_count = place.number;
}

void
block_prepare(struct block *block, const struct softgpu_launch *launch, const char *kernel, softgpu_thread_fn thread)
{
    block->kernel = kernel;
    block->launch = launch;
    block->thread = thread;
    if (memcmp(block->shape, launch->block, sizeof(block->shape)) != 0)
        number_threads(block, launch->block);
    block->starts = block->places;
}

struct block *
block_new(void)
{
    struct block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        softgpu_kernel_fatal("no memory to run its threads");
    block->begin = fiber_begin;
    block->yield = softgpu_yield;
    fiber_adopt_thread(&block->main);
    return block;
}

/* When the last block has ended, which need not be the one that wrote. */
void
block_check_shared_memory(void)
{
    size_t offset, bytes;
    if (arena_overrun(&offset, &bytes))
        kernel_fail(RESULT_ILLEGAL_ADDRESS,
                    "it wrote byte %zu of its dynamic shared memory, which has %zu bytes (third launch argument)",
                    offset, bytes);
}

const struct softgpu_launch *
softgpu_loop_begin(const struct softgpu_launch *launch, const char *kernel)
{
    kernel_here = kernel;
    spin_begin();
    arena_prepare(launch->dynamic_shared_bytes);
    return launch->draw != 0 ? order_first_part(launch) : launch;
}

const struct softgpu_launch *
softgpu_loop_next(const struct softgpu_launch *part)
{
    if (part->draw != 0 && (part = order_next_part()) != NULL)
        return part;
    softgpu_thread.here = NULL; /* the loop's frame is gone */
    block_check_shared_memory();
    softgpu_thread.static_shared = NULL;
    kernel_here = NULL;
    return NULL;
}

/* ---- barriers ---- */

struct fiber *
block_barrier_step(void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse("__syncthreads");
    if (++block->arrived == block->live) {
        const unsigned number = softgpu_thread.number;
        release_barrier(block, number & -WARP_LANES, 1u << number % WARP_LANES);
        return block_return(block_running(block), frame, frame);
    }
    return block_return_later(block, frame, frame);
}

struct fiber *
block_vote_step(int predicate, enum softgpu_vote vote, void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse("__syncthreads_and, _or or _count");
    block->vote_and &= predicate != 0;
    block->vote_or |= predicate != 0;
    block->vote_count += predicate != 0;
    struct fiber *next = block_barrier_step(frame);
    frame[FIBER_RESULT] = &block->vote_result[vote];
    return next;
}

struct fiber *
block_wait_step(const void *object, void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse("cuda::barrier or cuda::pipeline");
    if (object == SOFTGPU_GRID && !block->launch->cooperative)
        softgpu_kernel_fatal("grid.sync() is called: launch the kernel by cudaLaunchCooperativeKernel");
    block->parked[block->parked_count] = softgpu_thread.number;
    block->parked_for[block->parked_count++] = object;
    return block_return_later(block, frame, frame);
}

struct fiber *
block_yield_step(void **frame)
{
    struct block *block = block_here;
    if (block == NULL)
        block_refuse("__nanosleep");
    block_make_thread_ready(block, softgpu_thread.number);
    return block_return_later(block, frame, frame);
}

void
softgpu_wake(const void *object)
{
    struct block *block = block_here;
    unsigned stay = 0;
    ++races_meetings;
    for (unsigned i = 0; block != NULL && i < block->parked_count; ++i) {
        if (block->parked_for[i] == object) {
            block_make_thread_ready(block, block->parked[i]);
            continue;
        }
        block->parked[stay] = block->parked[i];
        block->parked_for[stay++] = block->parked_for[i];
    }
    if (block != NULL)
        block->parked_count = stay;
}

/* ---- the functions that wait, around their steps ---- */

#ifndef FIBER_UCONTEXT

/*
 * softgpu_barrier() and the others, as assembly: `sp` is the instruction that gives the step the stack pointer, as the
 * parameter after those of the function itself.
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
DEFINE_WAIT(softgpu_wait, block_wait_step, "movq %rsp, %rsi")
DEFINE_WAIT(softgpu_yield, block_yield_step, "movq %rsp, %rdi")
DEFINE_WAIT(block_run, block_run_step, "movq %rsp, %rsi")

/*
 * Where there is a next thread, fiber_begin() takes it. Where there is none, the fiber's stack is as good as empty, and
 * nothing is saved. A sanitizer in the program wants its functions to return first.
 */
_Static_assert(offsetof(struct block, thread_count) == 0 && offsetof(struct block, next_thread) == 4, "as below");
__asm__(".text\n\t.p2align 4\n\t.globl softgpu_thread_end\n\t"
        ".type softgpu_thread_end, @function\nsoftgpu_thread_end:\n\t.cfi_startproc\n\tendbr64\n\t"
        "movq block_here@gottpoff(%rip), %rdi\n\tmovq %fs:(%rdi), %rdi\n\t"
        "movl 4(%rdi), %ecx\n\tcmpl (%rdi), %ecx\n\tjb 4f\n\t"
        "cmpb $0, fiber_is_watched(%rip)\n\tjne 4f\n"
        "block_end_thread:\n\tsubq $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n\tcall block_end_step\n\t" FIBER_RESUME
        "4:\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n\t.size softgpu_thread_end, .-softgpu_thread_end\n");

/*
 * Nearly always a lane joins the only group of its warp, which is not complete yet, and its turn is not over. That is
 * warp_meet_step(), block_return_later() and block_take_lane() here, in registers that are saved already.
 */
_Static_assert(offsetof(struct block, turn.warp) == 8 && offsetof(struct block, turn.first) == 16 &&
                   offsetof(struct block, turn.lanes) == 20 && offsetof(struct block, places) == 32 &&
                   offsetof(struct block, fibers) == 16416 && offsetof(struct softgpu_thread, place) == 32,
               "as below");
_Static_assert(offsetof(struct warp, live) == 0 && offsetof(struct warp, group_count) == 4 &&
                   offsetof(struct warp, groups[0].mask) == 8 && offsetof(struct warp, groups[0].missing) == 12 &&
                   offsetof(struct warp, groups[0].what) == 16 && offsetof(struct warp, meeting.argument) == 780 &&
                   offsetof(struct warp, meeting.brought) == 912 && offsetof(struct warp, meeting.result) == 1424,
               "as below");
__asm__(".text\n\t.p2align 4\n\t.globl softgpu_meet\n\t.type softgpu_meet, @function\n"
        "softgpu_meet:\n\t.cfi_startproc\n\tendbr64\n\t" FIBER_SAVE
        "movq block_here@gottpoff(%rip), %rbx\n\tmovq %fs:(%rbx), %rbx\n\t"
        "testq %rbx, %rbx\n\tjz 5f\n\t"
        "movl 20(%rbx), %ebp\n\ttestl %ebp, %ebp\n\tjz 5f\n\t"
        "cmpb $0, fiber_is_watched(%rip)\n\tjne 5f\n\t"
        "movq 8(%rbx), %r12\n\t"
        "cmpl $1, 4(%r12)\n\tjne 5f\n\t"
        "cmpl %esi, 8(%r12)\n\tjne 5f\n\t"
        "cmpq %rdi, 16(%r12)\n\tjne 5f\n\t"
        "movq softgpu_thread@gottpoff(%rip), %r13\n\tmovl %fs:32(%r13), %r14d\n\t"
        "movl 12(%r12), %r15d\n\tbtrl %r14d, %r15d\n\tjnc 5f\n\t"
        "testl %r15d, (%r12)\n\tjz 5f\n\t"
        "movl %r15d, 12(%r12)\n\t"
        /* What the lane brings, and where it finds what it gets. */
        "movl %r14d, %eax\n\tandl $31, %eax\n\tmovl %r8d, 780(%r12, %rax, 4)\n\t"
        "shll $4, %eax\n\tmovq %rdx, 912(%r12, %rax)\n\tmovq %rcx, 920(%r12, %rax)\n\t"
        "leaq 1424(%r12, %rax), %rax\n\tmovq %rax, 48(%rsp)\n\t"
        "movq 16416(%rbx, %r14, 8), %rax\n\tmovq %rsp, (%rax)\n\t"
        /* The next lane. */
        "rep bsfl %ebp, %edx\n\taddl 16(%rbx), %edx\n\t"
        "leal -1(%rbp), %ecx\n\tandl %ecx, %ebp\n\tmovl %ebp, 20(%rbx)\n\t"
        "movq 16416 + 8 * 3(%rbx, %rdx, 8), %rcx\n\tprefetcht0 (%rcx)\n\t" /* AHEAD */
        "prefetcht0 -128(%rcx)\n\tprefetcht0 -192(%rcx)\n\tprefetcht0 -256(%rcx)\n\t"
        "movq 16416(%rbx, %rdx, 8), %rax\n\t"
        "shll $4, %edx\n\tmovups 32(%rbx, %rdx), %xmm0\n\tmovups %xmm0, %fs:32(%r13)\n\t"
        "movq (%rax), %rsp\n\tjmp 3f\n"
        "5:\tmovq %rsp, %rax\n\tpushq %rax\n\tpushq %rax\n\tcall warp_meet_step\n\t" FIBER_RESUME
        ".cfi_endproc\n\t.size softgpu_meet, .-softgpu_meet\n");

#else

/* The running fiber, if any: without one, the step reports the mistake. */
static struct fiber *
running(void)
{
    return block_here != NULL ? block_running(block_here) : NULL;
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

void
softgpu_wait(const void *object)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, block_wait_step(object, frame));
}

void
softgpu_yield(void)
{
    void *frame[FIBER_FRAME];
    struct fiber *self = running();
    fiber_switch(self, block_yield_step(frame));
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
block_end_thread(struct block *block)
{
    struct fiber *self = block_running(block);
    fiber_switch(self, block_end_step(block)); /* it lies idle in there, and is taken from there */
}

#endif
