/*
 * launched.c - see launched.h.
 *
 * Sources: torchrun's "Environment Variables" (torch.distributed.elastic), Kubeflow's training operator (PET_*),
 * srun(1), mpirun(1) of Open MPI, PMI's of MPICH; Kubernetes' Job (JOB_COMPLETION_INDEX).
 */
#include "launcher/cluster/launched.h"

#include "base/printable.h"
#include "base/protocol.h"

enum { NEEDS_AT_MOST = 6 };

/* One way in which launchers say that a process is one of several. */
struct launch_way {
    enum launched_by by;
    const char *needs[NEEDS_AT_MOST]; /* its variables; the first is the launcher's own */
    const char *size, *rank;          /* which of them say how many processes there are, and which this is; or NULL */
    /* What they say of the others; NULL: ddprun cannot join them. */
    bool (*take)(const struct launch_request *request, struct launched *launched, struct error *error);
};

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

/* ---- numbers ---- */

static bool
is_number(const char *text)
{
    return text[0] != '\0' && strlen(text) <= 9 && text[strspn(text, "0123456789")] == '\0';
}

/* `name`: of a variable or option. */
static bool
take_port(const char *name, const char *text, unsigned *port_p, struct error *error)
{
    *port_p = text != NULL && is_number(text) ? (unsigned)atoi(text) : 0;
    return text == NULL || (*port_p >= 1 && *port_p <= UINT16_MAX) ||
           error_set(error, DDPRUN_EXIT_USAGE, "%s=%.40s is not a port, 1 to 65535", name, text);
}

/* A complete way whose numbers mean nothing would leave the process alone, too. */
static bool
check_numbers(const struct launch_way *way, struct error *error)
{
    const char *size = value_of(way->size), *rank = value_of(way->rank);
    if (size != NULL && (!is_number(size) || atoi(size) < 1))
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "%s=%.40s is not a number of processes, which is fixed in a job of ddprun; set it, or unset it", way->size,
            size);
    if (rank == NULL || size == NULL || (is_number(rank) && atoi(rank) < number_of(way->size)))
        return true;
    return error_set(error, DDPRUN_EXIT_USAGE, "%s=%.40s is not one of the processes of %s=%.40s, counted from 0",
                     way->rank, rank, way->size, size);
}

/* "HOST", "HOST:PORT", "[IPV6]:PORT" or an address of IPv6 alone. */
static bool
take_master(const char *master, struct launched *launched, struct error *error)
{
    const char *colon = strrchr(master, ':'), *begin = master;
    bool in_brackets = master[0] == '[';
    size_t length = strlen(master);
    if (in_brackets) {
        begin = master + 1;
        length = strcspn(begin, "]");
        colon = begin[length] == ']' && begin[length + 1] == ':' ? begin + length + 1 : NULL;
    } else if (colon != NULL && colon == strchr(master, ':')) {
        length = (size_t)(colon - master);
    } else {
        colon = NULL;
    }
    if (length == 0 || length >= sizeof(launched->address))
        return error_set(error, DDPRUN_EXIT_USAGE, "'%.80s' is not a host, nor HOST:PORT, in --master", master);
    snprintf(launched->address, sizeof(launched->address), "%.*s", (int)length, begin);
    return take_port("--master", colon != NULL ? colon + 1 : NULL, &launched->port, error);
}

/* ---- what each way says of the others ---- */

/* The number of ranks is the launcher's. */
bool
launched_is_one_per_host(int rank_count, struct error *error)
{
    int hosts = number_of("SLURM_STEP_NUM_NODES");
    if (rank_count < 2 || hosts < 1 || number_of("SLURM_STEP_NUM_TASKS") != hosts)
        return false;
    error_set(error, DDPRUN_EXIT_USAGE,
              "-n %d was given to ddprun, but srun starts the ranks, and was asked for one on each host: write srun "
              "--ntasks-per-node=%d, and leave ddprun's -n out",
              rank_count, rank_count);
    return true;
}

static bool
refuse_count(const struct launch_request *request, const struct launched *launched, const char *size,
             struct error *error)
{
    return request->rank_count == 0 ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "-n %d was given to ddprun, which was started %d times by another launcher (%s=%d); the number "
                     "of ranks is that launcher's: leave -n out, or unset %s",
                     request->rank_count, launched->world_size, size, launched->world_size, size);
}

/* torchrun's variables, and those of any launcher that sets the same. */
static bool
take_torch(const struct launch_request *request, struct launched *launched, struct error *error)
{
    launched->rank = number_of("RANK");
    launched->world_size = number_of("WORLD_SIZE");
    launched->local_rank = value_of("LOCAL_RANK") != NULL ? number_of("LOCAL_RANK") : -1;
    snprintf(launched->address, sizeof(launched->address), "%s", value_of("MASTER_ADDR"));
    launched->restart = (unsigned)number_of("TORCHELASTIC_RESTART_COUNT");
    if (!take_port("MASTER_PORT", value_of("MASTER_PORT"), &launched->port, error))
        return false;
    const char *run = value_of("TORCHELASTIC_RUN_ID");
    if (run != NULL) /* "none" in all jobs without --rdzv-id: their ports differ */
        snprintf(launched->run, sizeof(launched->run), "%d %.56s", (int)launched->port, run);
    return refuse_count(request, launched, "WORLD_SIZE", error);
}

static bool
take_pmix(const struct launch_request *request, struct launched *launched, struct error *error)
{
    (void)request, (void)launched, (void)error; /* its server says it */
    return true;
}

/* This process stands for a host, or is one of the ranks on it that such a process has started. */
static bool
take_host(int node_rank, int nodes, struct launched *launched)
{
    const char *member = value_of(DDPRUN_ENV_MEMBER);
    int local_rank, count;
    launched->node_rank = node_rank;
    launched->nodes = nodes;
    launched->is_host = member == NULL || sscanf(member, LAUNCHED_MEMBER_FORMAT, &local_rank, &count) != 2;
    if (launched->is_host)
        return true;
    launched->rank = node_rank * count + local_rank;
    launched->world_size = nodes * count;
    launched->local_rank = local_rank;
    launched->local_size = count;
    return true;
}

/* Of PET_NPROC_PER_NODE the words auto, gpu and cpu ask for ddprun's own count. */
static bool
take_pods(const struct launch_request *request, struct launched *launched, struct error *error)
{
    const char *count = value_of("PET_NPROC_PER_NODE");
    launched->rank_count = request->rank_count > 0             ? request->rank_count
                           : count != NULL && is_number(count) ? atoi(count)
                                                               : 0;
    snprintf(launched->address, sizeof(launched->address), "%s", value_of("PET_MASTER_ADDR"));
    return take_port("PET_MASTER_PORT", value_of("PET_MASTER_PORT"), &launched->port, error) &&
           take_host(number_of("PET_NODE_RANK"), number_of("PET_NNODES"), launched);
}

/* The first of "n[01-04,7],m[1-2]x" is "n01". */
static void
take_first_host(const char *list, struct launched *launched)
{
    char *to = launched->address, *end = to + sizeof(launched->address) - 1;
    bool in_brackets = false, is_first = true;
    for (; *list != '\0' && (in_brackets || *list != ',') && to < end; ++list) {
        if (*list == '[' || *list == ']') {
            in_brackets = is_first = *list == '[';
            is_first = true;
        } else if (in_brackets && (*list == '-' || *list == ',')) {
            is_first = false;
        } else if (is_first) {
            *to++ = *list;
        }
    }
    *to = '\0';
}

/* Slurm names no port: one from 10000 to 29999, by job and step, which are also the name of the run. */
static bool
take_slurm(const struct launch_request *request, struct launched *launched, struct error *error)
{
    enum { FIRST_PORT = 10000, PORTS = 20000, STEPS = 7 };
    const char *kind = value_of("SLURM_DISTRIBUTION");
    unsigned job = (unsigned)number_of("SLURM_JOB_ID"), step = (unsigned)number_of("SLURM_STEP_ID");
    launched->rank = number_of("SLURM_PROCID");
    launched->world_size = number_of("SLURM_STEP_NUM_TASKS");
    launched->local_rank = number_of("SLURM_LOCALID");
    snprintf(launched->run, sizeof(launched->run), "slurm %u.%u", job, step);
    take_first_host(value_of("SLURM_STEP_NODELIST"), launched);
    if (request->master == NULL && kind != NULL && strncmp(kind, "arbitrary", strlen("arbitrary")) == 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "srun -m arbitrary: SLURM_STEP_NODELIST does not say on which host task 0 is; give --master "
                         "HOST, with its name");
    if (request->master != NULL && !take_master(request->master, launched, error))
        return false;
    if (launched->port == 0)
        launched->port = FIRST_PORT + (job * STEPS + step) % PORTS;
    return !launched_is_one_per_host(request->rank_count, error) &&
           refuse_count(request, launched, "SLURM_STEP_NUM_TASKS", error);
}

/* In the order in which they count; the MPIs' wherever they start a process. */
static const struct launch_way ways[] = {
    {LAUNCHED_BY_TORCHRUN,
     {"TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"},
     "WORLD_SIZE",
     "RANK",
     take_torch},
    {LAUNCHED_BY_PMIX, {"PMIX_NAMESPACE", "PMIX_RANK"}, NULL, NULL, take_pmix},
    {LAUNCHED_BY_PYTORCHJOB,
     {"PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR"},
     "PET_NNODES",
     "PET_NODE_RANK",
     take_pods},
    {LAUNCHED_BY_VARIABLES, {"WORLD_SIZE", "RANK", "MASTER_ADDR"}, "WORLD_SIZE", "RANK", take_torch},
    {LAUNCHED_BY_SLURM,
     {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NODELIST"},
     "SLURM_STEP_NUM_TASKS",
     "SLURM_PROCID",
     take_slurm},
    {LAUNCHED_BY_MPI, {"OMPI_COMM_WORLD_SIZE"}, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", NULL},
    {LAUNCHED_BY_MPI, {"PMI_SIZE"}, "PMI_SIZE", "PMI_RANK", NULL},
    {LAUNCHED_BY_MPI, {"MV2_COMM_WORLD_SIZE"}, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", NULL},
    {LAUNCHED_BY_MPI, {"FLUX_JOB_SIZE"}, "FLUX_JOB_SIZE", "FLUX_TASK_RANK", NULL},
    {LAUNCHED_BY_MPI, {"HOROVOD_SIZE"}, "HOROVOD_SIZE", "HOROVOD_RANK", NULL},
    {LAUNCHED_BY_MPI, {"JSM_NAMESPACE_SIZE"}, "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", NULL},
    {LAUNCHED_BY_MPI, {"PALS_SIZE"}, "PALS_SIZE", "PALS_RANKID", NULL}, /* which PALS does not set */
};
enum { WAY_COUNT = sizeof(ways) / sizeof(ways[0]) };

static bool
is_of_one(const struct launch_way *way)
{
    return is_complete(way) && way->size != NULL && strcmp(value_of(way->size), "1") == 0;
}

/* The variables say that there are others, and ddprun cannot join them. */
static bool
refuse_way(const struct launch_way *way, int rank_count, struct error *error)
{
    char missing[LAUNCHED_NAMES_BYTES], more[128] = "";
    const char *says = number_of(way->size) > 1 ? way->size : way->rank;
    for (int i = 0; i < WAY_COUNT && more[0] == '\0'; ++i) {
        if (is_of_one(&ways[i]))
            snprintf(more, sizeof(more), "; %s=1, of another launcher, says that it is alone", ways[i].size);
    }
    if (rank_count > 0)
        printable_append(more, sizeof(more), "; -n %d does not count beside %s", rank_count, says);
    if (way->take == NULL)
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "another launcher started ddprun %s times (%s=%.40s) without PMIx, and each would train alone; use mpirun "
            "of Open MPI 4 or later, prterun or srun --mpi=pmix, or start ddprun once, with -n%s",
            says == way->size ? value_of(says) : "several", says, value_of(says), more);
    name_variables(way, false, missing);
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "%s=%.40s says that ddprun is one of several processes, but %s %s not set: each would train "
                     "alone; set what is missing, or unset %s%s",
                     says, value_of(says), missing, strstr(missing, " and ") != NULL ? "are" : "is", says, more);
}

/* ---- the way that counts ---- */

/* --nnodes: this process is a host, or a rank on it. JOB_COMPLETION_INDEX is that of Kubernetes' Indexed Job. */
static bool
take_options(const struct launch_request *request, struct launched *launched, struct error *error)
{
    const char *index = value_of("JOB_COMPLETION_INDEX");
    bool by_index = request->node_rank < 0 && index != NULL && is_number(index);
    int node_rank = by_index ? atoi(index) : request->node_rank;
    *launched = (struct launched){.by = LAUNCHED_BY_OPTIONS, .rank_count = request->rank_count};
    snprintf(launched->variables, sizeof(launched->variables), "--nnodes, %s and --master",
             by_index ? "JOB_COMPLETION_INDEX" : "--node-rank");
    if (node_rank < 0 || request->master == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--nnodes %u makes this one of %u hosts, and %s not given; give --node-rank R, from 0, and "
                         "--master HOST, the host with --node-rank 0",
                         request->node_count, request->node_count,
                         node_rank < 0 ? request->master == NULL ? "--node-rank and --master are" : "--node-rank is"
                                       : "--master is");
    if (node_rank >= (int)request->node_count)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s %d is not one of the hosts of --nnodes %u, counted from 0",
                         by_index ? "JOB_COMPLETION_INDEX" : "--node-rank", node_rank, request->node_count);
    return take_master(request->master, launched, error) && take_host(node_rank, (int)request->node_count, launched);
}

/* Whether it says that there are others: a number of them, or a rank above 0. The first variable is the launcher's own,
 * or counts. */
static bool
says_others(const struct launch_way *way)
{
    const char *rank = value_of(way->rank);
    bool is_own = value_of(way->needs[0]) != NULL;
    return (is_own && number_of(way->size) > 1) ||
           ((is_own || way->needs[0] == way->size) && rank != NULL && is_number(rank) && atoi(rank) > 0);
}

/* The first that is complete and of several, else the first that says that there are others: a world of one in the
 * environment may be left over from another launcher. NULL: this process is alone. */
static const struct launch_way *
find_way(void)
{
    for (int i = 0; i < WAY_COUNT; ++i) {
        if (is_complete(&ways[i]) && !is_of_one(&ways[i]))
            return &ways[i];
    }
    for (int i = 0; i < WAY_COUNT; ++i) {
        if (says_others(&ways[i]))
            return &ways[i];
    }
    return NULL;
}

static bool
take_variables(const struct launch_request *request, struct launched *launched, struct error *error)
{
    const struct launch_way *way = find_way();
    if (way == NULL)
        return true;
    bool complete = is_complete(way);
    if (complete && !check_numbers(way, error))
        return false;
    if (way->take == NULL || !complete)
        return refuse_way(way, request->rank_count, error);
    launched->by = way->by;
    name_variables(way, true, launched->variables);
    return way->take(request, launched, error);
}

bool
launched_look(const struct launch_request *request, struct launched *launched_p, struct error *error)
{
    struct launched launched = {.by = LAUNCHED_ALONE};
    const char *outer = getenv(DDPRUN_ENV_JOB_DIR);
    if (outer != NULL && getenv(DDPRUN_ENV_PROTOCOL) != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "ddprun was started inside a rank of another ddprun (%s=%s); start it once, outside",
                         DDPRUN_ENV_JOB_DIR, outer);
    if (request->node_count > 1) {
        if (!take_options(request, &launched, error))
            return false;
    } else if (request->node_count == 0) { /* one host is said to be alone */
        if (!take_variables(request, &launched, error))
            return false;
        if (request->node_rank >= 0 || (request->master != NULL && launched.by != LAUNCHED_BY_SLURM))
            return error_set(error, DDPRUN_EXIT_USAGE, "%s says where one of several hosts is; give --nnodes N, too",
                             request->node_rank >= 0 ? "--node-rank" : "--master");
    }
    *launched_p = launched;
    return true;
}

/* ---- alone, among others ---- */

/* A shell of Slurm's on a host of the allocation (salloc with use_interactive_step): slurm.h, SLURM_INTERACTIVE_STEP.
 */
#define SLURM_INTERACTIVE_STEP "4294967290"

/* A batch script, or a shell in an allocation: srun has not started this process as a task. */
static bool
is_outside_of_srun(void)
{
    const char *step = value_of("SLURM_STEP_ID");
    return value_of("SLURM_JOB_ID") != NULL && (step == NULL || strcmp(step, SLURM_INTERACTIVE_STEP) == 0);
}

static bool
is_pod_of_index(const struct launch_request *request)
{
    (void)request;
    return value_of("JOB_COMPLETION_INDEX") != NULL;
}

static bool
is_host_of_allocation(const struct launch_request *request)
{
    (void)request;
    return is_outside_of_srun() && number_of("SLURM_JOB_NUM_NODES") > 1;
}

static bool
is_task_of_allocation(const struct launch_request *request)
{
    return is_outside_of_srun() && request->rank_count == 0 && number_of("SLURM_JOB_NUM_NODES") <= 1 &&
           number_of("SLURM_NTASKS") > 1;
}

static const struct {
    bool (*applies)(const struct launch_request *request);
    const char *variable, *text;
} alone[] = {
    {is_pod_of_index, "JOB_COMPLETION_INDEX",
     "--nnodes is not given: this pod trains alone; give --nnodes N and --master HOST for one job of all pods, or "
     "--nnodes 1 for one job in each pod"},
    {is_host_of_allocation, "SLURM_JOB_NUM_NODES",
     "srun has not started ddprun: this host trains alone; write `srun ddprun ...` for one job of all hosts, or give "
     "--nnodes 1 for this one"},
    {is_task_of_allocation, "SLURM_NTASKS",
     "srun has not started ddprun, and -n is not given: one rank trains alone; write `srun ddprun ...`, or give -n N"},
};

void
launched_describe_alone(const struct launch_request *request, char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0; request->node_count == 0 && i < sizeof(alone) / sizeof(alone[0]); ++i) {
        if (!alone[i].applies(request))
            continue;
        snprintf(text, bytes, "%s=%.20s, but %s", alone[i].variable, value_of(alone[i].variable), alone[i].text);
        return;
    }
}
