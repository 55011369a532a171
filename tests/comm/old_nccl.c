/* old_nccl.c - an NCCL that is too old: all functions that comm/ asks for, and the version OLD_VERSION. */
#include <nccl.h>

__attribute__((visibility("default"))) ncclResult_t
ncclGetVersion(int *version)
{
    *version = OLD_VERSION;
    return ncclSuccess;
}

/* The others only have to exist. */
#define EXIST(name) __asm__(".globl " #name "\n.set " #name ", ncclGetVersion\n");
EXIST(ncclGetUniqueId)
EXIST(ncclCommInitRankConfig)
EXIST(ncclCommDestroy)
EXIST(ncclCommFinalize)
EXIST(ncclCommGetAsyncError)
EXIST(ncclGetErrorString)
EXIST(ncclGetLastError)
EXIST(ncclAllGather)
EXIST(ncclAllReduce)
EXIST(ncclBroadcast)
