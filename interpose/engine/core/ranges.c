/*
 * ranges.c - what the engine does, as ranges of NVTX in the domain "ddprun", for Nsight Systems and others that listen.
 *
 * NVTX is headers only: its first call looks for a listener (NVTX_INJECTION64_PATH); without one the domain is NULL,
 * and nothing more happens. docs/insight.md has what is shown.
 */
#include "interpose/engine/core/observer.h"

#include <nvtx3/nvToolsExt.h>

#include <stdarg.h>

static nvtxDomainHandle_t domain; /* set once, before the first range */

void
ranges_open(void)
{
    domain = nvtxDomainCreateA("ddprun");
    watch(WATCH_RANGES, domain != NULL);
}

void
range_begin(const char *format, ...)
{
    char text[256];
    va_list arguments;
    if (domain == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                        .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                        .message = {.ascii = text}};
    (void)nvtxDomainRangePushEx(domain, &attributes);
}

void
range_end(void)
{
    if (domain != NULL)
        (void)nvtxDomainRangePop(domain);
}
