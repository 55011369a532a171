/*
 * wrap_nccl.c - a libnccl that is another one (the stand-in's, or on GPUs the machine's) with what NCCLs elsewhere do
 * in front of it, written apart from the stand-in's own switches: a second witness. WRAP_NCCL says what:
 *
 *   calls       its start, and the first all-reduce of each size, call the shared runtime, in the caller's thread
 *   thread      the same in a thread that it starts
 *   plugin      a plug-in of its own does, which looks the runtime up by itself
 *   registered  an all-reduce of registered memory waits on the host for all ranks (2.24 to 2.30)
 *   all         each all-reduce does, unless NCCL_NVLS_ENABLE=0; it is 2.23
 *   stalls      the first all-reduce of more than 64 KiB never returns
 *
 * WRAP_FILE: a new file in which ranks count their calls. All other functions are found in the library that this one is
 * linked with. For nccl.sh, and on GPUs for first.sh (tests/gpu/programs.sh compiles it).
 */
#include "runtime_calls.h"

#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { REGISTRATIONS = 64, RANKS = 16, SIZES = 32, LARGE_BYTES = 64 << 10 };

static struct {
    uintptr_t begin, end;
} registered[REGISTRATIONS];
static int registered_count, rank, world, round_number;
static size_t sizes[SIZES];
static _Atomic int *rounds; /* [RANKS], shared by all ranks */

static bool
does(const char *what)
{
    const char *wanted = getenv("WRAP_NCCL");
    return wanted != NULL && strcmp(wanted, what) == 0;
}

static void *
find(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

#define NEXT(call) ((__typeof__(&(call)))(uintptr_t)find(#call))

/* ---- calls of the runtime ---- */

static void *
call_in_thread(void *unused)
{
    (void)unused;
    call_runtime();
    return NULL;
}

static void
call_plugin(void)
{
    void *library = dlopen(getenv("WRAP_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    void (*plug)(void) = library != NULL ? (void (*)(void))(uintptr_t)dlsym(library, "plug_nccl") : NULL;
    if (plug == NULL)
        abort();
    plug();
}

static void
call_what_is_wanted(void)
{
    pthread_t thread;
    if (does("calls"))
        call_runtime();
    if (does("plugin"))
        call_plugin();
    if (does("thread") && pthread_create(&thread, NULL, call_in_thread, NULL) == 0)
        pthread_join(thread, NULL);
}

/* Whether no all-reduce has had the size. */
static bool
is_new_size(size_t count)
{
    for (int i = 0; i < SIZES; ++i) {
        if (sizes[i] == count)
            return false;
        if (sizes[i] == 0) {
            sizes[i] = count;
            return true;
        }
    }
    return false;
}

/* ---- meetings ---- */

static void
open_rounds(void)
{
    const size_t bytes = RANKS * sizeof(*rounds);
    int fd = open(getenv("WRAP_FILE"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    rounds = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rounds == MAP_FAILED)
        abort();
    close(fd);
}

static bool
is_registered(const void *memory)
{
    for (int i = 0; i < registered_count; ++i) {
        if ((uintptr_t)memory >= registered[i].begin && (uintptr_t)memory < registered[i].end)
            return true;
    }
    return false;
}

static bool
meets(const void *memory)
{
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    if (nvls != NULL && strcmp(nvls, "0") == 0)
        return false;
    return does("all") || (does("registered") && is_registered(memory));
}

static void
meet(void)
{
    enum { PAUSE_US = 50 };
    atomic_store(&rounds[rank], ++round_number);
    for (int i = 0; i < world; ++i) {
        while (atomic_load(&rounds[i]) < round_number)
            usleep(PAUSE_US);
    }
}

/* ---- NCCL ---- */

EXPORT ncclResult_t
ncclGetVersion(int *version)
{
    if (!does("all"))
        return NEXT(ncclGetVersion)(version);
    *version = NCCL_VERSION(2, 23, 4);
    return ncclSuccess;
}

EXPORT ncclResult_t
ncclCommInitRankConfig(ncclComm_t *comm, int count, ncclUniqueId id, int number, ncclConfig_t *config)
{
    rank = number;
    world = count;
    if (rounds == NULL && (does("all") || does("registered")))
        open_rounds();
    call_what_is_wanted();
    return NEXT(ncclCommInitRankConfig)(comm, count, id, number, config);
}

EXPORT ncclResult_t
ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    if (registered_count < REGISTRATIONS) {
        registered[registered_count].begin = (uintptr_t)memory;
        registered[registered_count++].end = (uintptr_t)memory + bytes;
    }
    return NEXT(ncclCommRegister)(comm, memory, bytes, handle);
}

EXPORT ncclResult_t
ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
              cudaStream_t stream)
{
    if (is_new_size(count))
        call_what_is_wanted();
    if (meets(to))
        meet();
    while (does("stalls") && count > LARGE_BYTES / sizeof(uint32_t))
        pause();
    return NEXT(ncclAllReduce)(from, to, count, type, op, comm, stream);
}
