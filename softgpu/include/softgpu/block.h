/*
 * block.h - between the code that softgpu-cc generates for a kernel and libsoftgpu.so, which runs the threads of a
 * block.
 *
 * One OS thread runs a block from its first thread to its last. Kernels that softgpu-cc has proven free of barriers are
 * loops in the program itself and only call softgpu_loop_begin() and softgpu_loop_end(). All others go through
 * softgpu_run_fibers(): threads run one after another on one fiber, and only when a thread has to wait does another
 * fiber continue with the next.
 *
 * What is thread-local here belongs to the OS thread that runs the block; different blocks, of the same launch or of
 * others, run at the same time on other OS threads. C and C++. Included by the device headers; not for users.
 */
#ifndef SOFTGPU_BLOCK_H
#define SOFTGPU_BLOCK_H

#include "softgpu/image.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Thread-local variables are reached without a call. */
#define SOFTGPU_INITIAL_EXEC __attribute__((tls_model("initial-exec")))

/* Layout of CUDA's uint3 and dim3. */
struct softgpu_index {
    unsigned x, y, z;
};

/* A thread of a block: its number, x fastest, of which 32 in a row are a warp, and threadIdx. */
struct softgpu_place {
    unsigned number;
    struct softgpu_index thread;
} __attribute__((aligned(16)));

/* threadIdx, blockIdx, blockDim, gridDim. */
struct softgpu_indices {
    struct softgpu_index thread, block, block_dim, grid_dim;
};

/* What device code may ask at any place. One for each OS thread. */
struct softgpu_thread {
    /*
     * The indices of the thread that runs now, for code that cannot have them as parameters (__device__ functions).
     * Threads that run as a loop have them in the frame of that loop, where a compiler can follow them; those on fibers
     * share indices_of_fibers. Device code reads them as struct indices of softgpu/thread.h, with CUDA's types.
     */
    struct softgpu_indices *here;

    /* Where this OS thread keeps the shared memory of the block that it runs. static_shared is NULL while none runs. */
    char *static_shared, *dynamic_shared;

    /* Set by softgpu_stub_image() around its call of a stub: where the stub is to put the address of its image. */
    const struct softgpu_image **probe;

    /* Of threads that run on fibers; others have no number. */
    union {
        struct softgpu_place place;
        struct {
            unsigned number;
            struct softgpu_indices indices_of_fibers;
        };
    };
};

#ifndef __cplusplus
/* libsoftgpu.so's own. Device code finds it through softgpu/object.h, which needs no symbol of a library. */
extern __thread struct softgpu_thread softgpu_thread SOFTGPU_INITIAL_EXEC;
#endif

/* ---- running ---- */

/* One thread of a kernel, from its first statement to its last. */
typedef void (*softgpu_thread_fn)(const struct softgpu_launch *launch, struct softgpu_index thread,
                                  struct softgpu_index block);

/*
 * The last that a softgpu_thread_fn calls. It continues with other threads from here, where it can; where it cannot, it
 * returns, and so must the softgpu_thread_fn.
 */
void softgpu_thread_end(void);

/* Runs launch->block_begin..block_end; `kernel` names it in messages. Must not be called from within a kernel. */
void softgpu_run_fibers(const struct softgpu_launch *launch, const char *kernel, softgpu_thread_fn thread);

/*
 * Around the loops of a kernel without barriers: the first sets the thread-local values above, except the indices.
 * Both return what the loops are to run now: `launch`, or where warps have a drawn order one warp after another. When
 * all has run, the second ends the kernel and returns NULL.
 */
const struct softgpu_launch *softgpu_loop_begin(const struct softgpu_launch *launch, const char *kernel);
const struct softgpu_launch *softgpu_loop_next(const struct softgpu_launch *part);

/* ---- waiting for each other: __syncthreads and its relatives ---- */

enum softgpu_vote { SOFTGPU_VOTE_AND, SOFTGPU_VOTE_OR, SOFTGPU_VOTE_COUNT };

void softgpu_barrier(void);
int softgpu_barrier_vote(int predicate, enum softgpu_vote vote);

/* ---- lanes of a warp meeting: shuffles, votes, reductions ---- */

/* 16 bytes, the largest value that a lane can bring. */
struct softgpu_word {
    uint64_t part[2];
};

/* What the lanes of one meeting brought, and what each is to get. Only lanes in `arrived` are valid. */
struct softgpu_meeting {
    unsigned arrived;
    int argument[32];
    struct softgpu_word brought[32];
    struct softgpu_word result[32];
};

/* A kind of meeting: `finish` runs once, in the lane that comes last, and fills in the results of all that arrived. */
struct softgpu_gathering {
    const char *name; /* the intrinsic, for messages; lanes that meet under different names are an error */
    void (*finish)(struct softgpu_meeting *meeting, const void *context);
};

/*
 * Waits until all lanes in `mask` that have not ended have come, and returns this lane's result. `context` is passed on
 * to `finish` from the lane that came first. A mask that leaves out the calling lane, or lanes that meet in different
 * gatherings, end the program with a message, for there is no right answer.
 */
struct softgpu_word softgpu_meet(const struct softgpu_gathering *gathering, unsigned mask, struct softgpu_word brought,
                                 int argument, const void *context);

/*
 * __activemask: the lanes that are here together. Threads do not run in lockstep, so this lets every lane of the warp
 * run as far as it can, and then answers those that wait at the same `site` (a code address).
 */
unsigned softgpu_active_mask(const void *site);

/* Returns once another thread of the block has called softgpu_wake() for the same object. */
void softgpu_wait(const void *object);
void softgpu_wake(const void *object);

/*
 * Objects of softgpu_wait() that need no softgpu_wake(): it returns when all threads of the grid, or of the cluster,
 * wait for the object. A grid that is not launched as cooperative ends with a message.
 */
#define SOFTGPU_GRID    ((const void *)1)
#define SOFTGPU_CLUSTER ((const void *)2)

/* The launch that runs on fibers in this OS thread. */
const struct softgpu_launch *softgpu_launch_here(void);

/* Where the block of this rank of the cluster has the shared variable that is at `address` in the calling one. */
void *softgpu_shared_of(const void *address, unsigned rank);

/* Lets the other threads of the block run before it returns. */
void softgpu_yield(void);

/* ---- changes that nothing orders: objects that are compiled with SOFTGPU_RACES=1 ---- */

/* The calling thread is about to change `bytes` bytes at `place`; reports a race with another thread. */
void softgpu_changed(const void *place, size_t bytes, const char *file, unsigned line);

/* The calling thread waits for others, or lets them go on, by an atomic. */
void softgpu_ordered(void);

/* ---- shared memory, stubs ---- */

/*
 * Gives the __shared__ variable whose place is kept in *place_p (0: none yet) a place in the arena, and returns it.
 * Variables of one kernel share a frame (`frame_p`: bytes used so far); those declared in functions come after all
 * frames, and pass NULL. The place is the same in all OS threads. More than CUDA allows ends the program with a
 * message if a kernel runs; else it returns 0, for a kernel that is never launched does no harm.
 */
size_t softgpu_shared_place(size_t *place_p, size_t *frame_p, size_t bytes, size_t alignment);

/* "void ns::scale(T*, int) [with T = float]" -> "ns::scale<float>". Never freed. */
const char *softgpu_kernel_name(const char *pretty_function);

/* Moves the five words of an XORWOW generator on by n * 2^power numbers; power is at most 67. */
void softgpu_xorwow_jump(unsigned v[5], unsigned long long n, unsigned power);

/*
 * Ends the launch: prints "softgpu: kernel K: block (x,y,z): what", and the context has failed, as on a GPU. The
 * calling thread sleeps for ever. Outside a kernel, or where there is no driver, it ends the program.
 */
void softgpu_kernel_fatal(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The same with CUDA_ERROR_MISALIGNED_ADDRESS: of the pointer that is the kernel's parameter `number`, from 0 on. */
void softgpu_misaligned(const char *kernel, unsigned number, size_t alignment) __attribute__((noreturn));

/* The same for __trap() and assert(): names the thread too. Outside a kernel, assert() is the host's own. */
void softgpu_trap(void) __attribute__((noreturn));
void softgpu_assert_fail(const char *expression, const char *file, unsigned line, const char *function)
    __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
#endif
