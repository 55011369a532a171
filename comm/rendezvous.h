/*
 * rendezvous.h - which rank am I, and how do I reach the others?
 *
 * Three ways behind one interface. On one node this process is a client of the launcher's own PMIx server, or, where
 * the program has joined another server's job before, meets the others in the job folder (rendezvous_pmix.c). Under a
 * cluster's launcher (DDPRUN_ENV_SUPERVISOR is set) the PMIx client is the supervisor, and this process asks that for
 * its place and for sockets to the other ranks (rendezvous_supervisor.c). Used at start-up; what ranks say to each
 * other while they train goes through control.h, because PMIx keeps every value ever published.
 *
 * One rendezvous in a process. Not in a forked child: PMIx there hangs (facts), so the shim turns the hooks off.
 */
#ifndef DDPRUN_COMM_RENDEZVOUS_H
#define DDPRUN_COMM_RENDEZVOUS_H

#include "comm/error.h"

#include <stdbool.h>
#include <stddef.h>

struct rendezvous {
    int rank;
    int world_size;
    int local_rank;
    unsigned generation; /* set by the caller once open: how many programs were this rank before */
    bool open;
    const struct rendezvous_way *way;
};

/* Joins the job. Threads that PMIx starts block all signals. */
bool rendezvous_open(struct rendezvous *rendezvous, struct comm_error *error) __attribute__((warn_unused_result));

/* The sockets of the control plane come from the launcher, with rendezvous_links(). */
bool rendezvous_has_links(const struct rendezvous *rendezvous);

/*
 * Connected sockets to the other ranks, which the caller owns: on rank 0 links[world_size] with its own left as it is,
 * on other ranks links[0], to rank 0. Collective; waits at most timeout_s seconds.
 */
bool rendezvous_links(struct rendezvous *rendezvous, int *links, int timeout_s, struct comm_error *error)
    __attribute__((warn_unused_result));

/*
 * Collective, once for each `key` in a generation: every rank may publish bytes under it (NULL: nothing), and after the
 * call rank 0's are in out[bytes]. Waits at most timeout_s seconds for the others. With links: after
 * rendezvous_links(), and not beside an exchange over them.
 */
bool rendezvous_share(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes,
                      int timeout_s, struct comm_error *error) __attribute__((warn_unused_result));

/* Asks the launcher to end the whole job, with `status` as its exit code. Returns when the launcher has the request. */
void rendezvous_abort(struct rendezvous *rendezvous, int status, const char *message);

/* Whether the launcher has gone without ending this process: PMIx notices about a second later. Any thread. */
bool rendezvous_launcher_is_gone(void);

/* Leaves cleanly. */
void rendezvous_close(struct rendezvous *rendezvous);

/* In a forked child: lets go of what the parent continues to use. */
void rendezvous_forget(struct rendezvous *rendezvous);

#endif
