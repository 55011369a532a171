/*
 * plug_nccl.c - a plug-in of NCCL's (net or tuner): wrap_nccl.c opens it, and it looks the runtime up by itself.
 */
#include "runtime_calls.h"

void plug_nccl(void);

__attribute__((visibility("default"))) void
plug_nccl(void)
{
    call_runtime();
}
