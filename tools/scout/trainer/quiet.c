/*
 * quiet.c - what a kernel prints comes once: while its launch is repeated, stdout goes into memory.
 *
 * The descriptor is exchanged, not the stream: drivers have their own. What other threads of the trainer print in that
 * time cannot be told from it, and is lost.
 */
#include "tools/scout/trainer/scout.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int kept = -1, memory = -1;

bool
quiet_begin(void)
{
    (void)fflush(stdout);
    if (memory < 0)
        memory = memfd_create("ddprun-scout", MFD_CLOEXEC);
    kept = dup(STDOUT_FILENO);
    return memory >= 0 && kept >= 0 && dup2(memory, STDOUT_FILENO) >= 0;
}

bool
quiet_has_text(void)
{
    (void)fflush(stdout);
    return lseek(memory, 0, SEEK_CUR) > 0;
}

void
quiet_end(void)
{
    if (kept < 0)
        return;
    (void)fflush(stdout);
    (void)dup2(kept, STDOUT_FILENO);
    (void)close(kept);
    kept = -1;
    (void)lseek(memory, 0, SEEK_SET);
    (void)ftruncate(memory, 0);
}
