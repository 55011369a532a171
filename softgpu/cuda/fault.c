/*
 * fault.c - faults of kernels (an address that is not there, an instruction that traps), said with the kernel and the
 * allocation, and what then becomes of the stream.
 *
 * The rules of this file
 *
 *   1. A fault is raised by the very instruction at hand: in a kernel's code no lock of the driver is held, so the
 *      handler may take them. Where that is not certain (memory_describe) locks are only tried.
 *   2. A thread whose kernel faulted never continues: what its code held or had half done is unknown. It sleeps
 *      for ever, another thread continues with its stream (workers.c), and the context has failed, as on a GPU.
 *   3. A signal that no kernel raised is passed on to the handler that was there before, as if this one were not there.
 */
#include "driver.h"

#include "softgpu/private_calls.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

enum { STACK_REACH = 64 << 10, NULL_REACH = 64 << 10, WRITE_BIT = 2 };

static const struct {
    int signal;
    CUresult result;
    const char *what;
} faults[] = {
    {SIGSEGV, CUDA_ERROR_ILLEGAL_ADDRESS, NULL},
    {SIGBUS, CUDA_ERROR_ILLEGAL_ADDRESS, NULL},
    {SIGFPE, CUDA_ERROR_LAUNCH_FAILED, "an integer is divided by zero"},
    {SIGILL, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a trap, or an instruction that this CPU does not have"},
};
enum { FAULT_COUNT = sizeof faults / sizeof faults[0] };

static struct sigaction previous[FAULT_COUNT]; /* written once, before the handler can run */

/* What libsoftgpu.so knows of shared memory. NULL: no kernel has come from softgpu-cc. */
static bool (*_Atomic more_description)(uintptr_t address, char *text, size_t room);

void
softgpuFaultDescription(bool (*describe)(uintptr_t address, char *text, size_t room))
{
    atomic_store(&more_description, describe);
}

/* ---- the handler ---- */

/* As if the handler that was there before had been called by the system. */
static void
pass_on(size_t fault, siginfo_t *info, void *context)
{
    const struct sigaction *old = &previous[fault];
    int number = faults[fault].signal;
    bool has_info = (old->sa_flags & SA_SIGINFO) != 0;
    if (!has_info && old->sa_handler == SIG_IGN && info->si_code <= 0) {
        return;
    }
    if (!has_info && (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN)) {
        (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        if (info->si_code <= 0) {
            raise(number); /* was sent: nothing would raise it again */
        }
        return; /* the instruction runs again, and now ends the program */
    }
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, &old->sa_mask, &mask);
    if (old->sa_flags & SA_NODEFER) {
        sigset_t own;
        sigemptyset(&own);
        sigaddset(&own, number);
        pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    }
    if (has_info) {
        old->sa_sigaction(number, info, context);
    } else {
        old->sa_handler(number);
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static const char *
access_of(const ucontext_t *context)
{
#ifdef __x86_64__
    return context->uc_mcontext.gregs[REG_ERR] & WRITE_BIT ? "writes" : "reads";
#else
    (void)context;
    return "reads or writes";
#endif
}

static bool
near_stack(const ucontext_t *context, uintptr_t address)
{
#ifdef __x86_64__
    uintptr_t top = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
    return address - (top - STACK_REACH) < 2 * STACK_REACH;
#else
    (void)context, (void)address;
    return false;
#endif
}

/* The instruction is a move of vectors that must be aligned: compilers have them for float4 and the like. Opcodes as in
 * "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2, MOVAPS, MOVDQA, MOVNTPS, MOVNTDQ. */
static bool
moves_aligned(const ucontext_t *context)
{
#ifdef __x86_64__
    const unsigned char *at = (const unsigned char *)context->uc_mcontext.gregs[REG_RIP];
    bool wide = *at == 0x66; /* in the form without VEX */
    at += wide;
    at += (*at & 0xf0) == 0x40; /* REX */
    if (*at == 0xc5 || *at == 0xc4) {
        wide = (at[*at == 0xc5 ? 1 : 2] & 3) == 1;
        at += *at == 0xc5 ? 2 : 3;
    } else if (*at == 0x0f) {
        ++at;
    } else {
        return false;
    }
    return *at == 0x28 || *at == 0x29 || *at == 0x2b || (wide && (*at == 0x6f || *at == 0x7f || *at == 0xe7));
#else
    (void)context;
    return false;
#endif
}

static void
describe(size_t fault, const siginfo_t *info, const ucontext_t *context, char *text, size_t room)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    char where[256];
    bool (*more)(uintptr_t, char *, size_t) = atomic_load(&more_description);
    if (faults[fault].what != NULL) {
        snprintf(text, room, "%s", faults[fault].what);
    } else if (info->si_code == SI_KERNEL) {
        snprintf(text, room, "it uses an address that no pointer can have: an uninitialised or overwritten pointer");
    } else if (address < NULL_REACH) {
        snprintf(text, room, "it %s address %#lx: a null pointer", access_of(context), (unsigned long)address);
    } else if (more != NULL && more(address, where, sizeof where)) {
        snprintf(text, room, "it %s %s", access_of(context), where);
    } else if (!memory_is_ours(address) && near_stack(context, address)) {
        snprintf(text, room, "the stack of one of its threads is full; SOFTGPU_STACK_KB makes stacks larger");
    } else if (memory_describe(address, where, sizeof where)) {
        snprintf(text, room, "it %s address %#lx, %s", access_of(context), (unsigned long)address, where);
    } else {
        snprintf(text, room, "it %s address %#lx, and no memory of the device is there", access_of(context),
                 (unsigned long)address);
    }
}

static void
on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    size_t fault = 0;
    while (faults[fault].signal != number) {
        ++fault;
    }
    bool raised = info->si_code > 0; /* by an instruction, not by kill() */
    char text[512];
    if (raised && workers_kernel() != NULL) {
        if (driver.unruly && info->si_code == SI_KERNEL && moves_aligned(context)) {
            softgpuLaunchAbandon(CUDA_ERROR_MISALIGNED_ADDRESS,
                                 "it reads or writes a vector at an address that is not aligned to the vector's size");
        }
        describe(fault, info, context, text, sizeof text);
        softgpuLaunchAbandon((int)(driver.fault_result != 0 ? driver.fault_result : faults[fault].result), text);
    }
    uintptr_t address = (uintptr_t)info->si_addr;
    if (raised && faults[fault].what == NULL && info->si_code != SI_KERNEL && memory_is_ours(address) &&
        memory_describe(address, text, sizeof text)) {
        say("%s %s address %#lx, %s%s",
            driver_is_thread() ? "a copy, memset or host function in a stream" : "host code", access_of(context),
            (unsigned long)address, text,
            driver_is_thread() ? "" : "; the host may use device memory only through cudaMemcpy");
    }
    errno = saved;
    pass_on(fault, info, context);
}

void
fault_watch(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < FAULT_COUNT; ++i) {
        (void)sigaction(faults[i].signal, NULL, &previous[i]);
    }
    for (size_t i = 0; i < FAULT_COUNT; ++i) {
        (void)sigaction(faults[i].signal, &action, NULL);
    }
}
