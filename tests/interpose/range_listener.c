/*
 * range_listener.c - a listener of NVTX, as Nsight Systems has one: NVTX_INJECTION64_PATH names this library. Each
 * range of a domain becomes two lines of $RANGES.PID, "> TEXT" and "<", each after the thread's number.
 */
#include <nvtx3/nvToolsExt.h>

#include <fcntl.h>

static int to = -1;

static int NVTX_API
push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    (void)domain;
    dprintf(to, "%d > %s\n", (int)gettid(), attributes->message.ascii);
    return 0;
}

static int NVTX_API
pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    dprintf(to, "%d <\n", (int)gettid());
    return 0;
}

static nvtxDomainHandle_t NVTX_API
create(const char *name)
{
    static int any;
    dprintf(to, "0 domain %s\n", name);
    return (nvtxDomainHandle_t)&any;
}

int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

__attribute__((visibility("default"))) int NVTX_API
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int count = 0;
    char path[4096];
    if (callbacks == NULL || getenv("RANGES") == NULL ||
        callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &count) != 1 ||
        count <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    snprintf(path, sizeof(path), "%s.%d", getenv("RANGES"), (int)getpid());
    to = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return to >= 0;
}
