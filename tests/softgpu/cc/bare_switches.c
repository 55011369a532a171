/*
 * bare_switches.c - what switching stacks costs by itself, for bench_kernels.cu: the stacks and the switch of
 * softgpu/device/, one stack for each thread of a block, and nothing that decides who runs.
 */
#include "device/fiber.c"

enum { STACKS_AT_MOST = 1024 };

static struct fiber host;
static struct fiber *ring[STACKS_AT_MOST + 1]; /* each switches to the next, the last to the host */
static struct fiber **starting;

#ifdef FIBER_UCONTEXT
#define bare_switch fiber_raw_switch
#else
void bare_switch(struct fiber *from, struct fiber *to);
__asm__(".text\n\t.p2align 4\nbare_switch:\n\t.cfi_startproc\n\t" FIBER_SAVE
        "movq %rsp, 48(%rsp)\n\tmovq %rsp, (%rdi)\n\tmovq %rsi, %rax\n\t" FIBER_RESUME ".cfi_endproc\n");
#endif

void
fiber_begin(void)
{
    struct fiber **const next = starting + 1;
    for (struct fiber *self = *starting;;)
        bare_switch(self, *next);
}

/* Makes a ring of `count` stacks, a multiple of FIBER_CHUNK, through which bare_switches() runs. False: no memory. */
bool
bare_switches_prepare(unsigned count)
{
    static struct fiber_chunk *chunks;
    for (unsigned made = 0; made < count; made += FIBER_CHUNK) {
        if (!fiber_make_some(&chunks, &ring[made], fiber_begin))
            return false;
    }
    for (unsigned i = 0; i < count; ++i) {
        struct fiber *const next = ring[i + 1];
        ring[i + 1] = &host; /* it begins, and is back */
        starting = &ring[i];
        bare_switch(&host, ring[i]);
        ring[i + 1] = next;
    }
    ring[count] = &host;
    return true;
}

/* Once through the ring: each stack is switched to once. */
void
bare_switches(void)
{
    bare_switch(&host, ring[0]);
}
