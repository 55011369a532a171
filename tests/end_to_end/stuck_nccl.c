/*
 * stuck_nccl.c - a libnccl whose ncclCommInitRankConfig never returns. All other functions are found in the library
 * that this one is linked with. For nccl.sh.
 */
#include <nccl.h>
#include <unistd.h>

__attribute__((visibility("default"))) ncclResult_t
ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    (void)comm, (void)ranks, (void)id, (void)rank, (void)config;
    for (;;)
        pause();
}
