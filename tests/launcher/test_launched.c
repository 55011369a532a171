/*
 * test_launched.c - which launcher started this process, by its variables: the first way that is complete, and of
 * several, counts; where none is, a number of processes above 1 or a rank above 0 is refused with what is missing, so
 * that no process trains alone in silence; what says nothing of others is left alone.
 */
#include "base/protocol.h"
#include "launcher/cluster/launched.h"

#include "tests/lib/test.h"

#define TORCH "RANK=1 WORLD_SIZE=2 MASTER_ADDR=h1 MASTER_PORT=29500"
#define RUN   TORCH " LOCAL_RANK=1 TORCHELASTIC_RUN_ID=none"
#define PMIX  "PMIX_NAMESPACE=job PMIX_RANK=1"
#define PODS  "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=h1"
#define PETS  "PET_NNODES, PET_NODE_RANK and PET_MASTER_ADDR"
#define TASKS "SLURM_STEP_NUM_TASKS, SLURM_PROCID, SLURM_LOCALID and SLURM_STEP_NODELIST"
#define SLURM "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_STEP_NODELIST=h1"

/* None but those of `variables`. */
static void
set_variables(const char *variables)
{
    char *words = strdup(variables), *rest = words;
    clearenv();
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(word, '=');
        if (value == NULL)
            continue;
        *value = '\0';
        setenv(word, value + 1, 1);
    }
    free(words);
}

enum { REFUSED = 77 };

static const struct launched_row {
    const char *variables;
    int rank_count;
    const char *words; /* the variables that say so; of a refusal, a part of its line */
    int by;            /* enum launched_by, or REFUSED */
} rows[] = {
    {"", 0, "", LAUNCHED_ALONE},
    {PMIX, 0, "PMIX_NAMESPACE and PMIX_RANK", LAUNCHED_BY_PMIX},
    {PMIX " " TORCH, 0, "PMIX_NAMESPACE and PMIX_RANK", LAUNCHED_BY_PMIX},
    {PMIX " " PODS " " SLURM, 0, "PMIX_NAMESPACE and PMIX_RANK", LAUNCHED_BY_PMIX},

    {TORCH, 0, "WORLD_SIZE, RANK and MASTER_ADDR", LAUNCHED_BY_VARIABLES},
    {TORCH " " SLURM " OMPI_COMM_WORLD_SIZE=2", 0, "WORLD_SIZE, RANK and MASTER_ADDR", LAUNCHED_BY_VARIABLES},
    {PMIX " " RUN " " PODS, 0, "TORCHELASTIC_RUN_ID, RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR",
     LAUNCHED_BY_TORCHRUN},
    {PODS " " TORCH, 4, PETS, LAUNCHED_BY_PYTORCHJOB},
    {SLURM, 0, TASKS, LAUNCHED_BY_SLURM},
    {SLURM " PMI_RANK=1 PMI_SIZE=2", 0, TASKS, LAUNCHED_BY_SLURM},

    /* complete, and something speaks against it */
    {TORCH, 4, "-n 4 was given to ddprun, which was started 2 times by another launcher (WORLD_SIZE=2)", REFUSED},
    {SLURM, 4, "-n 4 was given to ddprun, which was started 2 times by another launcher (SLURM", REFUSED},
    {SLURM " SLURM_DISTRIBUTION=arbitrary", 0, "give --master HOST", REFUSED},
    {PODS " PET_MASTER_PORT=0", 0, "PET_MASTER_PORT=0 is not a port", REFUSED},

    /* not complete */
    {"WORLD_SIZE=2", 0,
     "WORLD_SIZE=2 says that ddprun is one of several processes, but RANK and MASTER_ADDR are not set: each would "
     "train alone",
     REFUSED},
    {"WORLD_SIZE=2 RANK=0", 8,
     "but MASTER_ADDR is not set: each would train alone; set what is missing, or unset WORLD_SIZE; -n 8 does not "
     "count beside WORLD_SIZE",
     REFUSED},
    {"WORLD_SIZE=2 RANK= MASTER_ADDR=h1", 0, "but RANK is not set", REFUSED},
    {"WORLD_SIZE=2 TORCHELASTIC_RUN_ID=7 RANK=1", 0, "but LOCAL_RANK and MASTER_ADDR are not set", REFUSED},
    {"PET_NNODES=2:4", 0, "PET_NNODES=2:4 says that ddprun is one of", REFUSED},
    {"SLURM_STEP_NUM_TASKS=4", 0, "but SLURM_PROCID, SLURM_LOCALID and SLURM_STEP_NODELIST are not set", REFUSED},
    {"OMPI_COMM_WORLD_SIZE=2", 0, "another launcher started ddprun 2 times (OMPI_COMM_WORLD_SIZE=2)", REFUSED},
    {"PMI_SIZE=3", 0, "another launcher started ddprun 3 times (PMI_SIZE=3)", REFUSED},
    {"MV2_COMM_WORLD_SIZE=3", 0, "another launcher started ddprun 3 times (MV2_COMM_WORLD_SIZE=3)", REFUSED},
    {"HOROVOD_SIZE=4 HOROVOD_RANK=0", 0, "another launcher started ddprun 4 times (HOROVOD_SIZE=4)", REFUSED},
    {"JSM_NAMESPACE_SIZE=6", 0, "another launcher started ddprun 6 times (JSM_NAMESPACE_SIZE=6)", REFUSED},
    {"JSM_NAMESPACE_RANK=2", 0, "started ddprun several times (JSM_NAMESPACE_RANK=2)", REFUSED},
    {"FLUX_JOB_SIZE=3", 0, "another launcher started ddprun 3 times (FLUX_JOB_SIZE=3)", REFUSED},

    /* a rank above 0 says that there are others, whatever is missing */
    {"RANK=1 MASTER_ADDR=h1", 0,
     "RANK=1 says that ddprun is one of several processes, but WORLD_SIZE is not set: each would train alone; set what "
     "is missing, or unset RANK",
     REFUSED},
    {"RANK=3 LOCAL_RANK=3", 0, "but WORLD_SIZE and MASTER_ADDR are not set", REFUSED},
    {"PET_NODE_RANK=1 PET_MASTER_ADDR=h1", 0, "PET_NODE_RANK=1 says", REFUSED},
    {"SLURM_PROCID=1", 0, "SLURM_PROCID=1 says", REFUSED},
    {"OMPI_COMM_WORLD_RANK=1", 0, "started ddprun several times (OMPI_COMM_WORLD_RANK=1)", REFUSED},
    {"PMI_RANK=1", 0, "started ddprun several times (PMI_RANK=1)", REFUSED},
    {"PALS_RANKID=1", 0, "started ddprun several times (PALS_RANKID=1)", REFUSED},
    {"FLUX_TASK_RANK=1", 0, "started ddprun several times (FLUX_TASK_RANK=1)", REFUSED},
    {"RANK=1 WORLD_SIZE=1 MASTER_ADDR=h1", 0, "RANK=1 is not one of the processes of WORLD_SIZE=1", REFUSED},

    {SLURM " SLURM_STEP_NUM_NODES=2", 4,
     "srun starts the ranks, and was asked for one on each host: write srun --ntasks-per-node=4, and leave ddprun's -n "
     "out",
     REFUSED},
    {SLURM " SLURM_STEP_NUM_NODES=1", 4, "-n 4 was given to ddprun, which was started 2 times by", REFUSED},

    /* a world of one of another launcher is left over */
    {SLURM " RANK=0 WORLD_SIZE=1 MASTER_ADDR=h1", 0, TASKS, LAUNCHED_BY_SLURM},
    {PMIX " RANK=0 WORLD_SIZE=1 MASTER_ADDR=h1 LOCAL_RANK=0 TORCHELASTIC_RUN_ID=none", 0,
     "PMIX_NAMESPACE and PMIX_RANK", LAUNCHED_BY_PMIX},
    {"SLURM_STEP_NUM_TASKS=4 RANK=0 WORLD_SIZE=1 MASTER_ADDR=h1", 0,
     "; WORLD_SIZE=1, of another launcher, says that it is alone", REFUSED},
    {"PMI_RANK=1 RANK=0 WORLD_SIZE=1 MASTER_ADDR=h1", 0, "WORLD_SIZE=1, of another launcher", REFUSED},
    {"PET_NNODES=1 PET_NODE_RANK=0 PET_MASTER_ADDR=h1 " TORCH, 0, "WORLD_SIZE, RANK and MASTER_ADDR",
     LAUNCHED_BY_VARIABLES},

    /* numbers that mean nothing */
    {"WORLD_SIZE=two RANK=0 MASTER_ADDR=h1", 0, "WORLD_SIZE=two is not a number of processes", REFUSED},
    {"WORLD_SIZE=0 RANK=0 MASTER_ADDR=h1", 0, "WORLD_SIZE=0 is not a number of processes", REFUSED},
    {"PET_NNODES=1:4 PET_NODE_RANK=0 PET_MASTER_ADDR=h1", 0, "PET_NNODES=1:4 is not a number", REFUSED},
    {"WORLD_SIZE=2 RANK=2 MASTER_ADDR=h1", 0, "RANK=2 is not one of the processes of WORLD_SIZE=2", REFUSED},
    {"WORLD_SIZE=2 RANK=0 MASTER_ADDR=h1 MASTER_PORT=70000", 0, "MASTER_PORT=70000 is not a port", REFUSED},
    {"WORLD_SIZE=2 RANK=0 MASTER_ADDR=h1 MASTER_PORT=http", 0, "MASTER_PORT=http is not a port", REFUSED},
    {"WORLD_SIZE=2 RANK=-1 MASTER_ADDR=h1", 0, "RANK=-1 is not one of the processes", REFUSED},

    /* a world of one, and leftovers */
    {"WORLD_SIZE=1 RANK=0 MASTER_ADDR=h1", 4, "", LAUNCHED_ALONE},
    {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_STEP_NODELIST=h1", 0, "", LAUNCHED_ALONE},
    {"OMPI_COMM_WORLD_SIZE=1 PMI_SIZE=1", 0, "", LAUNCHED_ALONE},
    {"MASTER_ADDR=h1", 0, "", LAUNCHED_ALONE},
    {"RANK=0 LOCAL_RANK=3", 0, "", LAUNCHED_ALONE},
};

TABLE_TEST(the_first_complete_way_counts, rows)
{
    const struct launched_row *row = &rows[_i];
    struct launched launched = {.by = LAUNCHED_BY_MPI};
    struct error error = {0};
    set_variables(row->variables);
    bool ok =
        launched_look(&(struct launch_request){.rank_count = row->rank_count, .node_rank = -1}, &launched, &error);
    ck_assert_msg(ok == (row->by != REFUSED), "%s: %s", row->variables, ok ? "accepted" : error.text);
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

static const struct launch_request nothing = {.node_rank = -1};

static struct launched launched;

TEST(a_rank_of_another_ddprun_is_refused)
{
    struct error error = {0};
    set_variables(PMIX " " DDPRUN_ENV_JOB_DIR "=/job " DDPRUN_ENV_PROTOCOL "=1");
    ck_assert(!launched_look(&nothing, &launched, &error));
    ck_assert_says(error.text, "inside a rank of another ddprun");
}

/* Where the processes meet, and which of them this is. `variables` and what is asked for; of a host, what it is. */
static const struct place_row {
    const char *variables;
    struct launch_request request;
    struct launched wanted;
} places[] = {
    {RUN " TORCHELASTIC_RESTART_COUNT=3",
     {.node_rank = -1},
     {.rank = 1, .world_size = 2, .local_rank = 1, .address = "h1", .port = 29500, .run = "29500 none", .restart = 3}},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h1", {.node_rank = -1}, {.world_size = 2, .local_rank = -1, .address = "h1"}},
    {SLURM " SLURM_JOB_ID=3000 SLURM_STEP_ID=4",
     {.node_rank = -1},
     {.rank = 1, .world_size = 2, .local_rank = 1, .address = "h1", .port = 11004, .run = "slurm 3000.4"}},
    {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=0 SLURM_STEP_NODELIST=r[2-3]n[01-04,7]x,h[1-2] "
     "SLURM_JOB_ID=40000 SLURM_STEP_ID=0",
     {.node_rank = -1},
     {.world_size = 8, .address = "r2n01x", .port = 10000, .run = "slurm 40000.0"}},
    {SLURM " SLURM_DISTRIBUTION=arbitrary",
     {.node_rank = -1, .master = "h7:123"},
     {.rank = 1, .world_size = 2, .local_rank = 1, .address = "h7", .port = 123, .run = "slurm 0.0"}},
    {PODS " PET_NPROC_PER_NODE=4 PET_MASTER_PORT=77",
     {.node_rank = -1},
     {.is_host = true, .rank_count = 4, .node_rank = 1, .nodes = 2, .address = "h1", .port = 77}},
    {PODS " PET_NPROC_PER_NODE=auto",
     {.node_rank = -1},
     {.is_host = true, .node_rank = 1, .nodes = 2, .address = "h1"}},
    {PODS " " DDPRUN_ENV_MEMBER "=2:4",
     {.node_rank = -1},
     {.node_rank = 1, .nodes = 2, .rank = 6, .world_size = 8, .local_rank = 2, .address = "h1"}},
    {TORCH,
     {.rank_count = 2, .node_count = 3, .node_rank = 2, .master = "[fd00::1]:99"},
     {.is_host = true, .rank_count = 2, .node_rank = 2, .nodes = 3, .address = "fd00::1", .port = 99}},
    {"JOB_COMPLETION_INDEX=1 " DDPRUN_ENV_MEMBER "=0:1",
     {.node_count = 2, .node_rank = -1, .master = "fd00::1"},
     {.node_rank = 1, .nodes = 2, .rank = 1, .world_size = 2, .address = "fd00::1"}},
};

TABLE_TEST(where_the_processes_meet, places)
{
    const struct place_row *row = &places[_i];
    const struct launched *wanted = &row->wanted;
    struct error error = {0};
    set_variables(row->variables);
    ck_assert_msg(launched_look(&row->request, &launched, &error), "%s", error.text);
    ck_assert_int_eq(launched.is_host, wanted->is_host);
    ck_assert_int_eq(launched.rank_count, wanted->rank_count);
    ck_assert_int_eq(launched.node_rank, wanted->node_rank);
    ck_assert_int_eq(launched.nodes, wanted->nodes);
    ck_assert_int_eq(launched.rank, wanted->rank);
    ck_assert_int_eq(launched.world_size, wanted->world_size);
    ck_assert_int_eq(launched.local_rank, wanted->local_rank);
    ck_assert_str_eq(launched.address, wanted->address);
    ck_assert_uint_eq(launched.port, wanted->port);
    ck_assert_str_eq(launched.run, wanted->run);
    ck_assert_uint_eq(launched.restart, wanted->restart);
}

/* What is said of a process that trains alone; "": nothing. */
static const struct alone_row {
    const char *variables;
    struct launch_request request;
    const char *words;
} alone[] = {
    {"", {.node_rank = -1}, ""},
    {"JOB_COMPLETION_INDEX=1", {.node_rank = -1}, "JOB_COMPLETION_INDEX=1, but --nnodes is not given: this pod trains"},
    {"JOB_COMPLETION_INDEX=1", {.node_count = 1, .node_rank = -1}, ""},
    {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=4",
     {.node_rank = -1},
     "SLURM_JOB_NUM_NODES=2, but srun has not"},
    {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2", {.rank_count = 8, .node_rank = -1}, "this host trains alone; write `srun"},
    {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_STEP_ID=4294967290", {.node_rank = -1}, "SLURM_JOB_NUM_NODES=2, but"},
    {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2", {.node_count = 1, .node_rank = -1}, ""},
    {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_STEP_ID=3", {.node_rank = -1}, ""},
    {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=4", {.node_rank = -1}, "SLURM_NTASKS=4, but srun has not"},
    {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=4", {.rank_count = 4, .node_rank = -1}, ""},
    {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=1", {.node_rank = -1}, ""},
    {"SLURM_JOB_NUM_NODES=2", {.node_rank = -1}, ""},
};

TABLE_TEST(who_trains_alone_among_others_is_named, alone)
{
    const struct alone_row *row = &alone[_i];
    char text[320];
    set_variables(row->variables);
    launched_describe_alone(&row->request, text, sizeof(text));
    ck_assert_int_eq(text[0] == '\0', row->words[0] == '\0');
    ck_assert_says(text, row->words);
}

static const struct refused_row {
    const char *variables;
    struct launch_request request;
    const char *words;
} refused[] = {
    {"", {.node_count = 2, .node_rank = -1}, "one of 2 hosts, and --node-rank and --master are not given"},
    {"", {.node_count = 2, .node_rank = 0}, "and --master is not given"},
    {"", {.node_count = 2, .node_rank = -1, .master = "h1"}, "and --node-rank is not given"},
    {"", {.node_count = 2, .node_rank = 2, .master = "h1"}, "--node-rank 2 is not one of the hosts of --nnodes 2"},
    {"JOB_COMPLETION_INDEX=5", {.node_count = 2, .node_rank = -1, .master = "h1"}, "JOB_COMPLETION_INDEX 5 is not one"},
    {"", {.node_count = 2, .node_rank = 0, .master = ":29500"}, "':29500' is not a host, nor HOST:PORT, in --master"},
    {"", {.node_count = 2, .node_rank = 0, .master = "h1:"}, "--master= is not a port"},
    {"", {.node_rank = 0}, "--node-rank says where one of several hosts is; give --nnodes N, too"},
    {TORCH, {.node_rank = -1, .master = "h1"}, "--master says where one of several hosts is"},
};

TABLE_TEST(what_is_not_complete_is_refused, refused)
{
    struct error error = {0};
    set_variables(refused[_i].variables);
    ck_assert(!launched_look(&refused[_i].request, &launched, &error));
    ck_assert_msg(strstr(error.text, refused[_i].words) != NULL, "%s", error.text);
}

TEST(one_host_is_alone)
{
    struct error error = {0};
    set_variables(TORCH);
    ck_assert_msg(
        launched_look(&(struct launch_request){.node_count = 1, .node_rank = 0, .master = "h1"}, &launched, &error),
        "%s", error.text);
    ck_assert_int_eq(launched.by, LAUNCHED_ALONE);
}
