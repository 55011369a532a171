/*
 * rendezvous.c - see rendezvous.h: chooses the way, by what the launcher has put into the environment.
 */
#include "comm/rendezvous_way.h"

#include "base/protocol.h"

#include <stdatomic.h>
#include <stdlib.h>

static const struct rendezvous_way *_Atomic chosen; /* once open */

bool
rendezvous_open(struct rendezvous *rendezvous, struct comm_error *error)
{
    const struct rendezvous_way *way =
        getenv(DDPRUN_ENV_SUPERVISOR) != NULL ? &rendezvous_supervisor : &rendezvous_pmix;
    if (!way->open(rendezvous, error))
        return false;
    atomic_store(&chosen, rendezvous->way);
    return true;
}

bool
rendezvous_has_links(const struct rendezvous *rendezvous)
{
    return rendezvous->way->links != NULL;
}

bool
rendezvous_links(struct rendezvous *rendezvous, int *links, int timeout_s, struct comm_error *error)
{
    return rendezvous->way->links(rendezvous, links, timeout_s, error);
}

bool
rendezvous_share(struct rendezvous *rendezvous, const char *key, const void *mine, void *out, size_t bytes,
                 int timeout_s, struct comm_error *error)
{
    return rendezvous->way->share(rendezvous, key, mine, out, bytes, timeout_s, error);
}

void
rendezvous_abort(struct rendezvous *rendezvous, int status, const char *message)
{
    if (rendezvous->open)
        rendezvous->way->abort(rendezvous, status, message);
}

bool
rendezvous_launcher_is_gone(void)
{
    const struct rendezvous_way *way = atomic_load(&chosen);
    return way != NULL && way->launcher_is_gone();
}

void
rendezvous_close(struct rendezvous *rendezvous)
{
    if (rendezvous->open)
        rendezvous->way->close(rendezvous);
    rendezvous->open = false;
}

void
rendezvous_forget(struct rendezvous *rendezvous)
{
    if (rendezvous->open && rendezvous->way->forget != NULL)
        rendezvous->way->forget(rendezvous);
}
