/* library.c - see library.h. */
#include "launcher/cluster/pmix/library.h"

#include "base/protocol.h"
#include "launcher/cluster/addresses.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/environment.h"

#include <dlfcn.h>

static const struct pmix_library *
no_library(const char *why, struct error *error)
{
    (void)!error_set(error, DDPRUN_EXIT_NOT_RUN,
                     "cannot open PMIx, by which ddprun joins a job of srun or mpirun: %s; for such jobs install PMIx "
                     "(Debian: libpmix2) and " PMIX_LIBRARY " of this ddprun (its package ddprun-pmix)",
                     why);
    return NULL;
}

const struct pmix_library *
pmix_library_open(struct error *error)
{
    char *path = installation_library(PMIX_LIBRARY);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    const struct pmix_library *found = library != NULL ? dlsym(library, PMIX_LIBRARY_SYMBOL) : NULL;
    if (found == NULL)
        return no_library(dlerror(), error);
    return found->protocol == DDPRUN_PROTOCOL_VERSION ? found : no_library("it is another version of ddprun's", error);
}

int
pmix_claim_rank(struct error *error)
{
    enum { KEPT = 60 }; /* of the job's name: its end, with the numbers (slurm.pmix.7.0, prterun-HOST-PROCESS@1) */
    const char *job = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK"); /* launched_look() has seen both */
    size_t length = strlen(job);
    char *name = xasprintf("%s-%s", length > KEPT ? job + length - KEPT : job, rank);
    int claim = addresses_claim(name);
    free(name);
    if (claim < 0)
        error_set(error, DDPRUN_EXIT_USAGE,
                  "another ddprun already is rank %s of this launcher's job (%s); start one for each rank", rank,
                  strerror(errno));
    return claim;
}
