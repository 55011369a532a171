/*
 * launch_pmix.c - what launch.py starts under mpirun: joins PMIx as an engine of ddprun does (rank 0 publishes a
 * blob, all take part in one collecting fence and read it), and leaves in order.
 */
#include <pmix.h>

int
main(void)
{
    pmix_proc_t self, other;
    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
        return 1;
    char text[64] = "a blob of 64 bytes";
    pmix_value_t blob = {.type = PMIX_BYTE_OBJECT}, *found = NULL;
    blob.data.bo.bytes = text;
    blob.data.bo.size = sizeof(text);
    if (self.rank == 0 && PMIx_Put(PMIX_GLOBAL, "bench.blob", &blob) != PMIX_SUCCESS)
        return 1;
    bool collect = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    PMIX_LOAD_PROCID(&other, self.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Commit() != PMIX_SUCCESS || PMIx_Fence(&other, 1, &info, 1) != PMIX_SUCCESS)
        return 1;
    PMIX_LOAD_PROCID(&other, self.nspace, 0);
    if (PMIx_Get(&other, "bench.blob", NULL, 0, &found) != PMIX_SUCCESS || found->data.bo.size != sizeof(text))
        return 1;
    PMIX_VALUE_RELEASE(found);
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
