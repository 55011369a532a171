/*
 * descriptors.h - descriptors that libraries open here, and that ranks must not inherit.
 *
 * What ddprun was started with is passed on to the ranks (`ddprun ./train <(list)`); what it opens itself is closed on
 * execve by the flag it is opened with. Libraries do not all set it. Called around their start, on one thread.
 */
#ifndef DDPRUN_LAUNCHER_CLUSTER_DESCRIPTORS_H
#define DDPRUN_LAUNCHER_CLUSTER_DESCRIPTORS_H

#include <stddef.h>

struct descriptors {
    int *fds;
    size_t count;
};

/* Those that are open now; descriptors_free() releases the list. Empty where /proc cannot be read. */
struct descriptors descriptors_list(void);
void descriptors_free(struct descriptors *descriptors);

/* Sets FD_CLOEXEC on all that are open now and were not then; on none if nothing was known then. */
void descriptors_keep_new(const struct descriptors *then);

#endif
