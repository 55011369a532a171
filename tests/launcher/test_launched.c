/*
 * test_launched.c - which launcher started this process, by its variables: the first way that is complete counts; where
 * none is, a number of processes above 1 is refused with what is missing, so that no process trains alone in silence;
 * what says nothing of others is left alone.
 */
#include "base/protocol.h"
#include "launcher/cluster/launched.h"

#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#define TORCH  "RANK=1 WORLD_SIZE=2 MASTER_ADDR=h1 MASTER_PORT=29500"
#define RUN    TORCH " LOCAL_RANK=1 TORCHELASTIC_RUN_ID=none"
#define PMIX   "PMIX_NAMESPACE=job PMIX_RANK=1"
#define PODS   "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=h1"
#define SLURM  "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_STEP_NODELIST=h1"
#define JOINED "use mpirun, prterun or srun --mpi=pmix, or start ddprun once with -n, and unset "

/* Every variable that a row sets. */
static void
set_variables(const char *variables)
{
    char *words = strdup(variables), *rest = words;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(word, '=');
        if (value == NULL)
            continue;
        *value = '\0';
        setenv(word, value + 1, 1);
    }
    free(words);
}

static const struct launched_row {
    const char *variables;
    int rank_count;
    enum launched_by by;
    const char *words; /* the variables that say so; of a refusal, a part of its line */
    bool is_refused;
} rows[] = {
    {"", 0, LAUNCHED_ALONE, "", false},
    {PMIX, 0, LAUNCHED_BY_PMIX, "PMIX_NAMESPACE and PMIX_RANK", false},
    {PMIX " " TORCH, 0, LAUNCHED_BY_PMIX, "PMIX_NAMESPACE and PMIX_RANK", false},
    {PMIX " " PODS " " SLURM, 0, LAUNCHED_BY_PMIX, "PMIX_NAMESPACE and PMIX_RANK", false},

    {TORCH, 0, LAUNCHED_BY_VARIABLES, "WORLD_SIZE, RANK and MASTER_ADDR", false},
    {TORCH " " SLURM " OMPI_COMM_WORLD_SIZE=2", 4, LAUNCHED_BY_VARIABLES, "WORLD_SIZE, RANK and MASTER_ADDR", false},
    {PMIX " " RUN " " PODS, 0, LAUNCHED_BY_TORCHRUN,
     "TORCHELASTIC_RUN_ID, RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR", false},

    /* complete, and ddprun cannot join */
    {PODS, 4, LAUNCHED_ALONE, JOINED "PET_NNODES; -n 4 does not count beside PET_NNODES", true},
    {PODS, 0, LAUNCHED_ALONE, "PET_NNODES, PET_NODE_RANK and PET_MASTER_ADDR (PET_NNODES=2) say", true},
    {PODS " " TORCH, 0, LAUNCHED_ALONE, "PET_NNODES, PET_NODE_RANK and PET_MASTER_ADDR (PET_NNODES=2) say", true},
    {SLURM, 0, LAUNCHED_ALONE, "Slurm started ddprun as 2 tasks without --mpi=pmix", true},
    {SLURM " PMI_RANK=1", 0, LAUNCHED_ALONE, "Slurm started ddprun as 2 tasks with --mpi=pmi2", true},

    /* not complete */
    {"WORLD_SIZE=2", 0, LAUNCHED_ALONE,
     "WORLD_SIZE=2 says that ddprun is one of several processes, but RANK and "
     "MASTER_ADDR are not set: each would train alone",
     true},
    {"WORLD_SIZE=2 RANK=0", 8, LAUNCHED_ALONE,
     "but MASTER_ADDR is not set: each would train alone; set what is missing, "
     "or unset WORLD_SIZE; -n 8 does not count beside WORLD_SIZE",
     true},
    {"WORLD_SIZE=2 RANK= MASTER_ADDR=h1", 0, LAUNCHED_ALONE, "but RANK is not set", true},
    {"WORLD_SIZE=2 TORCHELASTIC_RUN_ID=7 RANK=1", 0, LAUNCHED_ALONE, "but LOCAL_RANK and MASTER_ADDR are not set",
     true},
    {"PET_NNODES=2:4", 0, LAUNCHED_ALONE, "PET_NNODES=2:4 says that ddprun is one of", true},
    {"SLURM_STEP_NUM_TASKS=4", 0, LAUNCHED_ALONE, "Slurm started ddprun as 4 tasks without --mpi=pmix", true},
    {"OMPI_COMM_WORLD_SIZE=2", 0, LAUNCHED_ALONE, "another launcher started ddprun 2 times (OMPI_COMM_WORLD_SIZE)",
     true},
    {"PMI_SIZE=3", 0, LAUNCHED_ALONE, "another launcher started ddprun 3 times (PMI_SIZE)", true},
    {"MV2_COMM_WORLD_SIZE=3", 0, LAUNCHED_ALONE, "another launcher started ddprun 3 times (MV2_COMM_WORLD_SIZE)", true},

    /* numbers that mean nothing */
    {"WORLD_SIZE=two RANK=0 MASTER_ADDR=h1", 0, LAUNCHED_ALONE, "WORLD_SIZE=two is not a number of processes", true},
    {"WORLD_SIZE=0 RANK=0 MASTER_ADDR=h1", 0, LAUNCHED_ALONE, "WORLD_SIZE=0 is not a number of processes", true},
    {"PET_NNODES=1:4 PET_NODE_RANK=0 PET_MASTER_ADDR=h1", 0, LAUNCHED_ALONE, "PET_NNODES=1:4 is not a number", true},
    {"WORLD_SIZE=2 RANK=2 MASTER_ADDR=h1", 0, LAUNCHED_ALONE, "RANK=2 is not one of the processes of WORLD_SIZE=2",
     true},
    {"WORLD_SIZE=2 RANK=0 MASTER_ADDR=h1 MASTER_PORT=70000", 0, LAUNCHED_ALONE, "MASTER_PORT=70000 is not a port",
     true},
    {"WORLD_SIZE=2 RANK=0 MASTER_ADDR=h1 MASTER_PORT=http", 0, LAUNCHED_ALONE, "MASTER_PORT=http is not a port", true},
    {"WORLD_SIZE=2 RANK=-1 MASTER_ADDR=h1", 0, LAUNCHED_ALONE, "RANK=-1 is not one of the processes", true},

    /* a world of one, and leftovers */
    {"WORLD_SIZE=1 RANK=0 MASTER_ADDR=h1", 4, LAUNCHED_ALONE, "RANK, WORLD_SIZE and MASTER_ADDR", false},
    {"PET_NNODES=1 PET_NODE_RANK=0 PET_MASTER_ADDR=h1 " TORCH, 4, LAUNCHED_ALONE,
     "RANK, WORLD_SIZE, MASTER_ADDR and PET_NNODES", false},
    {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_STEP_NODELIST=h1", 0, LAUNCHED_ALONE, "", false},
    {"OMPI_COMM_WORLD_SIZE=1 PMI_SIZE=1", 0, LAUNCHED_ALONE, "", false},
    {"MASTER_ADDR=h1", 0, LAUNCHED_ALONE, "MASTER_ADDR", false},
    {"RANK=3 LOCAL_RANK=3", 0, LAUNCHED_ALONE, "RANK and LOCAL_RANK", false},
};

TABLE_TEST(the_first_complete_way_counts, rows)
{
    const struct launched_row *row = &rows[_i];
    struct launched launched = {.by = LAUNCHED_BY_MPI};
    struct error error = {0};
    clearenv();
    set_variables(row->variables);
    bool ok = launched_look(row->rank_count, &launched, &error);
    ck_assert_msg(ok != row->is_refused, "%s: %s", row->variables, ok ? "accepted" : error.text);
    if (!ok) {
        ck_assert_int_eq(error.exit_code, DDPRUN_EXIT_USAGE);
        ck_assert_msg(strstr(error.text, row->words) != NULL, "%s: %s", row->variables, error.text);
        ck_assert_ptr_null(strchr(error.text, '\n'));
        ck_assert_int_eq(launched.by, LAUNCHED_BY_MPI); /* untouched */
        return;
    }
    ck_assert_int_eq(launched.by, row->by);
    ck_assert_str_eq(launched.variables, row->words);
}

TEST(a_rank_of_another_ddprun_is_refused)
{
    struct launched launched;
    struct error error = {0};
    clearenv();
    set_variables(PMIX " " DDPRUN_ENV_JOB_DIR "=/job " DDPRUN_ENV_PROTOCOL "=1");
    ck_assert(!launched_look(0, &launched, &error));
    ck_assert_msg(strstr(error.text, "inside a rank of another ddprun") != NULL, "%s", error.text);
}

TEST(where_the_processes_meet)
{
    struct launched launched;
    struct error error = {0};
    clearenv();
    set_variables(RUN " TORCHELASTIC_RESTART_COUNT=3");
    ck_assert_msg(launched_look(0, &launched, &error), "%s", error.text);
    ck_assert_int_eq(launched.rank, 1);
    ck_assert_int_eq(launched.world_size, 2);
    ck_assert_int_eq(launched.local_rank, 1);
    ck_assert_str_eq(launched.address, "h1");
    ck_assert_uint_eq(launched.port, 29500);
    ck_assert_str_eq(launched.run, "none");
    ck_assert_uint_eq(launched.restart, 3);
    clearenv();
    set_variables("RANK=0 WORLD_SIZE=2 MASTER_ADDR=h1");
    ck_assert_msg(launched_look(0, &launched, &error), "%s", error.text);
    ck_assert_int_eq(launched.local_rank, -1);
    ck_assert_uint_eq(launched.port, 0);
    ck_assert_ptr_null(launched.run);
}
