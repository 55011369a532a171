/*
 * launched.c - see launched.h.
 *
 * Sources: torchrun's "Environment Variables" (torch.distributed.elastic), Kubeflow's training operator (PET_*),
 * srun(1), mpirun(1) of Open MPI, PMI's of MPICH.
 */
#include "launcher/cluster/launched.h"

#include "base/printable.h"
#include "base/protocol.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NEEDS_AT_MOST = 6 };

/* One way in which launchers say that a process is one of several. */
struct launch_way {
    enum launched_by by;
    bool can_join;                    /* ddprun finds the others by it */
    const char *needs[NEEDS_AT_MOST]; /* its variables; the first is the launcher's own */
    const char *size, *rank;          /* which of them say how many processes there are, and which this is; or NULL */
};

/* In the order in which they count. */
static const struct launch_way ways[] = {
    {LAUNCHED_BY_TORCHRUN,
     true,
     {"TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"},
     "WORLD_SIZE",
     "RANK"},
    {LAUNCHED_BY_PMIX, true, {"PMIX_NAMESPACE", "PMIX_RANK"}, NULL, NULL},
    {LAUNCHED_BY_PYTORCHJOB, false, {"PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR"}, "PET_NNODES", "PET_NODE_RANK"},
    {LAUNCHED_BY_VARIABLES, true, {"WORLD_SIZE", "RANK", "MASTER_ADDR"}, "WORLD_SIZE", "RANK"},
    {LAUNCHED_BY_SLURM,
     false,
     {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NODELIST"},
     "SLURM_STEP_NUM_TASKS",
     "SLURM_PROCID"},
    {LAUNCHED_BY_MPI, false, {"OMPI_COMM_WORLD_SIZE"}, "OMPI_COMM_WORLD_SIZE", NULL},
    {LAUNCHED_BY_MPI, false, {"PMI_SIZE"}, "PMI_SIZE", NULL},
    {LAUNCHED_BY_MPI, false, {"MV2_COMM_WORLD_SIZE"}, "MV2_COMM_WORLD_SIZE", NULL},
};
enum { WAY_COUNT = sizeof(ways) / sizeof(ways[0]) };

/* ---- variables ---- */

static const char *
value_of(const char *variable)
{
    const char *value = variable != NULL ? getenv(variable) : NULL;
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* What the variable begins with: "2:4" is at least 2. */
static int
number_of(const char *variable)
{
    const char *value = value_of(variable);
    return value != NULL ? atoi(value) : 0;
}

static bool
is_complete(const struct launch_way *way)
{
    for (int i = 0; i < NEEDS_AT_MOST && way->needs[i] != NULL; ++i) {
        if (value_of(way->needs[i]) == NULL)
            return false;
    }
    return true;
}

/* "A, B and C": those of the way that are set, or those that are not. */
static void
name_variables(const struct launch_way *way, bool that_are_set, char text[LAUNCHED_NAMES_BYTES])
{
    const char *names[NEEDS_AT_MOST];
    int count = 0;
    for (int i = 0; i < NEEDS_AT_MOST && way->needs[i] != NULL; ++i) {
        if ((value_of(way->needs[i]) != NULL) == that_are_set)
            names[count++] = way->needs[i];
    }
    text[0] = '\0';
    for (int i = 0; i < count; ++i)
        printable_append(text, LAUNCHED_NAMES_BYTES, "%s%s", i == 0 ? "" : i == count - 1 ? " and " : ", ", names[i]);
}

/* ---- refusals ---- */

static bool
refuse_slurm_tasks(int tasks, struct error *error)
{
    bool by_pmi = value_of("PMI_RANK") != NULL;
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "Slurm started ddprun as %d tasks%s%s, which do not know each other, and each would train "
                     "alone; add --mpi=pmix: srun --mpi=pmix -n %d ddprun ...",
                     tasks, by_pmi ? " with --mpi=pmi2" : "", by_pmi ? "" : " without --mpi=pmix", tasks);
}

static bool
refuse_mpi(const struct launch_way *way, struct error *error)
{
    return error_set(
        error, DDPRUN_EXIT_USAGE,
        "another launcher started ddprun %d times (%s) without PMIx, and each would train alone; use mpirun of "
        "Open MPI 4 or later, prterun or srun --mpi=pmix, or start ddprun once, with -n",
        number_of(way->size), way->size);
}

/* The variables say that there are others, and ddprun cannot join them. */
static bool
refuse_way(const struct launch_way *way, int rank_count, struct error *error)
{
    char set[LAUNCHED_NAMES_BYTES], missing[LAUNCHED_NAMES_BYTES], given[64] = "";
    if (way->by == LAUNCHED_BY_SLURM)
        return refuse_slurm_tasks(number_of(way->size), error);
    if (way->by == LAUNCHED_BY_MPI)
        return refuse_mpi(way, error);
    name_variables(way, true, set);
    name_variables(way, false, missing);
    if (rank_count > 0)
        snprintf(given, sizeof(given), "; -n %d does not count beside %s", rank_count, way->size);
    if (missing[0] != '\0')
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "%s=%.40s says that ddprun is one of several processes, but %s %s not set: each would train "
                         "alone; set what is missing, or unset %s%s",
                         way->size, value_of(way->size), missing, strstr(missing, " and ") != NULL ? "are" : "is",
                         way->size, given);
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "%s (%s=%.40s) say that ddprun is one of several processes, and ddprun cannot join them by these "
                     "variables: each would train alone; use mpirun, prterun or srun --mpi=pmix, or start ddprun once "
                     "with -n, and unset %s%s",
                     set, way->size, value_of(way->size), way->size, given);
}

/* ---- the way that counts ---- */

/* A complete way whose numbers mean nothing would leave the process alone, too. */
static bool
check_numbers(const struct launch_way *way, struct error *error)
{
    const char *size = value_of(way->size), *rank = value_of(way->rank);
    if (size != NULL && (strspn(size, "0123456789") != strlen(size) || atoi(size) < 1))
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "%s=%.40s is not a number of processes, which is fixed in a job of ddprun; set it, or unset it", way->size,
            size);
    if (rank == NULL || (strspn(rank, "0123456789") == strlen(rank) && atoi(rank) < number_of(way->size)))
        return true;
    return error_set(error, DDPRUN_EXIT_USAGE, "%s=%.40s is not one of the processes of %s=%.40s, counted from 0",
                     way->rank, rank, way->size, size);
}

/* The first that is complete, else the first that says that there are others; NULL: this process is alone. */
static const struct launch_way *
find_way(void)
{
    for (int i = 0; i < WAY_COUNT; ++i) {
        if (is_complete(&ways[i]))
            return &ways[i];
    }
    for (int i = 0; i < WAY_COUNT; ++i) {
        if (value_of(ways[i].needs[0]) != NULL && number_of(ways[i].size) > 1)
            return &ways[i];
    }
    return NULL;
}

static bool
check_port(unsigned *port_p, struct error *error)
{
    const char *port = value_of("MASTER_PORT");
    *port_p = (unsigned)number_of("MASTER_PORT");
    return port == NULL ||
           (strspn(port, "0123456789") == strlen(port) && strlen(port) <= 5 && *port_p >= 1 && *port_p <= UINT16_MAX) ||
           error_set(error, DDPRUN_EXIT_USAGE, "MASTER_PORT=%.40s is not a port, 1 to 65535", port);
}

/* What torch's variables say of the others. */
static bool
take_torch(struct launched *launched, struct error *error)
{
    if (value_of("MASTER_ADDR") == NULL || launched->by == LAUNCHED_BY_PMIX)
        return true;
    launched->rank = number_of("RANK");
    launched->world_size = number_of("WORLD_SIZE");
    launched->local_rank = value_of("LOCAL_RANK") != NULL ? number_of("LOCAL_RANK") : -1;
    launched->address = value_of("MASTER_ADDR");
    launched->run = value_of("TORCHELASTIC_RUN_ID");
    launched->restart = (unsigned)number_of("TORCHELASTIC_RESTART_COUNT");
    return check_port(&launched->port, error);
}

/* Some of torch's variables alone, as a shell's profile has them. */
static void
name_leftovers(char text[LAUNCHED_NAMES_BYTES])
{
    static const struct launch_way leftovers = {
        .needs = {"TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "PET_NNODES"}};
    name_variables(&leftovers, true, text);
}

bool
launched_look(int rank_count, struct launched *launched_p, struct error *error)
{
    struct launched launched = {.by = LAUNCHED_ALONE};
    const char *outer = getenv(DDPRUN_ENV_JOB_DIR);
    if (outer != NULL && getenv(DDPRUN_ENV_PROTOCOL) != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "ddprun was started inside a rank of another ddprun (%s=%s); start it once, outside",
                         DDPRUN_ENV_JOB_DIR, outer);
    const struct launch_way *way = find_way();
    if (way != NULL && is_complete(way) && !check_numbers(way, error))
        return false;
    bool is_alone = way == NULL || (way->size != NULL && is_complete(way) && number_of(way->size) == 1);
    if (!is_alone && !(way->can_join && is_complete(way)))
        return refuse_way(way, rank_count, error);
    if (is_alone) {
        name_leftovers(launched.variables);
    } else {
        launched.by = way->by;
        name_variables(way, true, launched.variables);
        if (!take_torch(&launched, error))
            return false;
    }
    *launched_p = launched;
    return true;
}
