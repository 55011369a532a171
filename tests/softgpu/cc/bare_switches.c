/*
 * bare_switches.c - what switching stacks costs by itself, for bench_kernels.cu: the stacks and the switch of
 * softgpu/device/, one stack for each thread of a block, and nothing that decides who runs.
 */
#include "device/fiber.c"

static struct fiber host;
static struct fiber *first, *starting;

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
    for (struct fiber *self = starting;;)
        bare_switch(self, self->next);
}

/* Makes a ring of `count` stacks through which bare_switches() runs. False: no memory. */
bool
bare_switches_prepare(unsigned count)
{
    static struct fiber_chunk *chunks;
    struct fiber_list idle = {NULL, NULL}, ring = {NULL, NULL};
    while (count > 0) {
        struct fiber *fiber = fiber_take(&idle);
        if (fiber == NULL) {
            if (!fiber_make_some(&chunks, &idle, fiber_begin))
                return false;
            continue;
        }
        fiber->next = &host; /* it begins, and is back */
        starting = fiber;
        bare_switch(&host, fiber);
        fiber_append(&ring, fiber);
        --count;
    }
    ring.last->next = &host;
    first = ring.first;
    return true;
}

/* Once through the ring: each stack is switched to once. */
void
bare_switches(void)
{
    bare_switch(&host, first);
}
