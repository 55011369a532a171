/*
 * private_calls.h - the few calls by which the stand-in's own libraries speak with its driver, beyond CUDA's interface.
 *
 * They are looked up like every other function of the driver: by cuGetProcAddress (version 13000), or by dlsym in
 * libcuda.so.1. Programs have no use for them. C and C++.
 */
#ifndef SOFTGPU_PRIVATE_CALLS_H
#define SOFTGPU_PRIVATE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Tells the driver that [address, address + bytes) is a __device__ or __constant__ variable of the program: copies,
 * memset and pointer attributes then treat it as device memory of the current context. Telling it again is harmless,
 * also with fewer bytes. Returns a CUresult; needs a current context.
 */
int softgpuGlobalRegister(void *address, size_t bytes);

/*
 * For a kernel's code while it runs: the launch has failed with `result` (a CUresult, such as CUDA_ERROR_ASSERT), for
 * the reason `what`, which is printed in one line. The context is lost from then on, as on a GPU: every later call
 * returns `result`. Returns; the kernel should end soon.
 */
void softgpuLaunchFailed(int result, const char *what);

/*
 * The same for code that cannot continue (a fault, a deadlock): never returns. The calling thread sleeps for ever, and
 * another thread continues with its stream, where nothing but errors is left. Outside of a kernel it ends the program.
 */
void softgpuLaunchAbandon(int result, const char *what) __attribute__((noreturn));

/*
 * Gives the driver a function that knows of more memory than the driver: asked when a kernel's code faults at
 * `address`, in the thread and in the handler of the fault. It returns false for an address that is not its own, or
 * writes what the kernel reads or writes there, to stand after "it reads" or "it writes". The last one given counts.
 */
void softgpuFaultDescription(bool (*describe)(uintptr_t address, char *text, size_t room));

/*
 * How many commands of all streams run at this moment: kernels, host functions and launches of graphs. One that asks
 * from its own code counts, too.
 */
int softgpuWorkRunning(void);

/* Whether SOFTGPU_UNRULY is set. */
bool softgpuUnruly(void);

/*
 * For the code of a collective's kernel: it uses the link from here on, and until it ends that, kernels and host
 * functions of other streams take `slows` times as long; at least 1.
 */
void softgpuLinkBegins(double slows);
void softgpuLinkEnds(void);

#ifdef __cplusplus
}
#endif

#endif
