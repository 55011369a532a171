/*
 * nccl.h - what an NCCL says of itself, before a job uses it: for `ddprun doctor`, and for settings that depend on its
 * version. The library is opened in a child process (child.h), never in this one. Main thread, before any other is
 * started.
 */
#ifndef DDPRUN_LAUNCHER_START_NCCL_H
#define DDPRUN_LAUNCHER_START_NCCL_H

#include "launcher/start/child.h"

/*
 * Opens `name`, a path or a name for the loader, in a child, as the engine does in a rank. The child's text is
 * "nccl VERSION PATH", or "none WHY".
 */
void nccl_ask(const char *name, struct child_result *result);

/* Its version as NCCL reports it: 22809 for 2.28.9. 0: it cannot be opened, or does not say. As nccl_ask(). */
int nccl_version(const char *name);

#endif
