/*
 * fake_nccl.c - what a rank sees of the NCCL of version FAKE_VERSION (as NCCL_VERSION()): its version, and a
 * configuration of its layout or none. Compiled once for each version that test_nccl.c looks at, and without nccl.h,
 * which has one version only.
 *
 * The layouts are those of the headers of NVIDIA's releases 2.18.3, 2.21.5, 2.24.3, 2.28.9 and 2.32.3, written down by
 * types: FAKE_BYTES is what sizeof(ncclConfig_t) says there.
 */
#include <limits.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, UNDEFINED = INT_MIN, MAGIC = (int)0xcafebeef, ID_BYTES = 128 };

struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
    int numbers_2_17[3];
    const char *name_2_17;
    int number_2_18;
#if FAKE_VERSION >= 22600
    int number_2_26;
#endif
#if FAKE_VERSION >= 22700
    const char *name_2_27;
    int numbers_2_27[4];
#endif
#if FAKE_VERSION >= 22800
    int numbers_2_28[2];
#endif
#if FAKE_VERSION >= 22900
    int numbers_2_29[2];
#endif
#if FAKE_VERSION >= 23007
    int numbers_2_30[2];
#endif
#if FAKE_VERSION >= 23100
    int numbers_2_31[4];
#endif
#if FAKE_VERSION >= 23200
    int number_2_32;
#endif
};
_Static_assert(sizeof(struct config) == FAKE_BYTES, "as in the header of that release");

struct id {
    char internal[ID_BYTES];
};

static char last_error[256];

EXPORT int ncclGetVersion(int *version);
EXPORT const char *ncclGetErrorString(int result);
EXPORT const char *ncclGetLastError(void *comm);
EXPORT int ncclCommInitRankConfig(void **comm, int ranks, struct id id, int rank, struct config *config);

EXPORT int
ncclGetVersion(int *version)
{
    *version = FAKE_VERSION;
    return SUCCESS;
}

EXPORT const char *
ncclGetErrorString(int result)
{
    return result == SUCCESS ? "no error" : "invalid argument";
}

EXPORT const char *
ncclGetLastError(void *comm)
{
    (void)comm;
    return last_error;
}

static int
refuse(const char *what)
{
    snprintf(last_error, sizeof(last_error), "NCCL %d: %s", FAKE_VERSION, what);
    return INVALID_ARGUMENT;
}

/* Whether these fields are left to NCCL. */
static int
are_undefined(const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (numbers[i] != UNDEFINED)
            return 0;
    }
    return 1;
}
#define LEFT(field) are_undefined((const int *)&config->field, sizeof(config->field) / sizeof(int))

EXPORT int
ncclCommInitRankConfig(void **comm, int ranks, struct id id, int rank, struct config *config)
{
    static char communicator;
    if (config->size != sizeof(*config))
        return refuse("the configuration has another size");
    if (config->magic != (unsigned)MAGIC || config->version != FAKE_VERSION)
        return refuse("the configuration has another magic number or version");
    if (config->blocking != 0 && config->blocking != 1)
        return refuse("blocking is neither 0 nor 1");
    if (!LEFT(numbers_2_17) || config->name_2_17 != NULL || !LEFT(number_2_18))
        return refuse("a field of 2.18 is not left to NCCL");
#if FAKE_VERSION >= 22600
    if (!LEFT(number_2_26))
        return refuse("a field of 2.26 is not left to NCCL");
#endif
#if FAKE_VERSION >= 22800
    if (config->name_2_27 != NULL || !LEFT(numbers_2_27) || !LEFT(numbers_2_28))
        return refuse("a field of 2.27 or 2.28 is not left to NCCL");
#endif
#if FAKE_VERSION >= 23200
    if (!LEFT(numbers_2_29) || !LEFT(numbers_2_30) || !LEFT(numbers_2_31) || !LEFT(number_2_32))
        return refuse("a field of 2.29 to 2.32 is not left to NCCL");
#endif
    if (rank < 0 || rank >= ranks || id.internal[0] != 'i' || id.internal[ID_BYTES - 1] != 'd')
        return refuse("the other arguments are not where they should be");
    *comm = &communicator;
    return SUCCESS;
}

/* The others only have to exist. */
#define EXIST(name) __asm__(".globl " #name "\n.set " #name ", ncclGetVersion\n");
EXIST(ncclGetUniqueId)
EXIST(ncclCommAbort)
EXIST(ncclCommDestroy)
EXIST(ncclCommFinalize)
EXIST(ncclCommGetAsyncError)
EXIST(ncclAllGather)
EXIST(ncclAllReduce)
EXIST(ncclBroadcast)
