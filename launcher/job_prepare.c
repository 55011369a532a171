/*
 * job_prepare.c - what a job needs, looked for before anything is started (job.h).
 */
#include "launcher/job.h"

#include "base/assertion.h"
#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/output.h"
#include "launcher/output/whole_file.h"
#include "launcher/report/report.h"
#include "launcher/start/file_limit.h"
#include "launcher/start/loader.h"
#include "launcher/start/nccl.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

static bool
check_nccl(struct job *job, struct error *error)
{
    const char *nccl = job->options.nccl;
    if (nccl == NULL)
        return true;
    char *path = job->options.job.nccl;
    if (strchr(nccl, '/') == NULL) { /* a name for the dynamic loader to look up */
        snprintf(path, JOB_PATH_BYTES, "%s", nccl);
        return true;
    }
    struct stat file;
    if (realpath(nccl, path) == NULL || stat(path, &file) != 0 || access(path, R_OK) != 0)
        return error_set(error, DDPRUN_EXIT_USAGE, "cannot read %s, in --nccl: %s; give the path of libnccl.so.2", nccl,
                         strerror(errno));
    return S_ISREG(file.st_mode) ||
           error_set(error, DDPRUN_EXIT_USAGE, "%s is not a file, in --nccl; give the path of libnccl.so.2", nccl);
}

/* The ranks' NCCL is asked where its version matters to what they are given (environment.c). */
static void
ask_nccl(struct job *job)
{
    if (job->place.world_size == 1)
        return;
    char *stand_in = xasprintf("%s/libnccl.so.2", job->installation.softgpu_lib);
    bool given = job->options.nccl != NULL || !job->devices.softgpu;
    job->devices.nccl_version = nccl_version(given ? job->options.job.nccl : stand_in);
    free(stand_in);
}

/* Without --trace, what the page is made of is a trace in the job's folder, which each host has for itself. */
static bool
check_page(const struct job *job, struct error *error)
{
    if (job->options.page != NULL && job->options.trace_dir == NULL && job->in_cluster)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--page under another launcher needs --trace DIR, too: a folder that all hosts share");
    return whole_file_check(job->options.page, "--page", error);
}

/* Two jobs would write into the same files. Of the ddprun of one job the first holds the lock; a file system without
 * locks of folders (NFS) has none. */
static bool
lock_trace_dir(struct job *job, struct error *error)
{
    if (job->options.dry_run || job->place.first_rank != 0)
        return true;
    job->trace_fd = open(job->options.job.trace_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return job->trace_fd < 0 || flock(job->trace_fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "a running job writes its trace into %s, in --trace; name another folder", job->options.trace_dir);
}

static bool
make_trace_dir(struct job *job, struct error *error)
{
    const char *dir = job->options.trace_dir;
    if (dir == NULL)
        return true;
    if (!output_prepare_folder(dir, "--trace", job->options.dry_run, error))
        return false;
    char *path = job->options.job.trace_dir, *here = getcwd(NULL, 0);
    bool is_relative = dir[0] != '/' && here != NULL;
    if (realpath(dir, path) == NULL) /* a dry run has not made it */
        snprintf(path, JOB_PATH_BYTES, "%s%s%s", is_relative ? here : "", is_relative ? "/" : "", dir);
    free(here);
    return lock_trace_dir(job, error);
}

/* ddprun ddprun ...: each rank would refuse it, with a line of its own. */
static bool
check_is_trainer(const struct job *job, struct error *error)
{
    struct stat own, program;
    if (stat("/proc/self/exe", &own) != 0 || stat(job->program.path, &program) != 0 || own.st_dev != program.st_dev ||
        own.st_ino != program.st_ino)
        return true;
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "the program to start is ddprun itself (%s); write ddprun once, with all its options before the "
                     "trainer",
                     job->program.path);
}

static struct device_inventory
inventory_of(const struct job *job)
{
    return (struct device_inventory){
        .softgpu = job->options.device == DEVICE_SOFTGPU || job->program.built_for_softgpu,
        .visible_devices = getenv("CUDA_VISIBLE_DEVICES"),
        .softgpu_devices = getenv("SOFTGPU_DEVICES"),
        .may_share = devices_may_share,
    };
}

static bool
choose_own_device(struct job *job, const struct device_inventory *inventory, struct error *error)
{
    const struct cluster *cluster = &job->cluster;
    bool is_open = !job->options.dry_run && device_plan_depends(&job->options, inventory, cluster->local_size);
    if (!device_plan_make_one(&job->options, inventory, is_open ? 0 : cluster->local_rank,
                              is_open ? 1 : cluster->local_size, &job->devices, error))
        return false;
    job->devices.is_open = is_open;
    return true;
}

static bool
choose_devices(struct job *job, struct error *error)
{
    const struct options *options = &job->options;
    if (!devices_check_program(options, &job->program, error))
        return false;
    struct device_inventory inventory = inventory_of(job);
    if (!installation_find(inventory.softgpu, &job->installation, error))
        return false;
    if (job->installation.kernels != NULL)
        snprintf(job->options.job.kernels, JOB_PATH_BYTES, "%s", job->installation.kernels);
    return (inventory.softgpu || devices_count_gpus(job->program.path, &inventory.gpu_count, error)) &&
           (job->in_cluster ? choose_own_device(job, &inventory, error)
                            : device_plan_make(options, &inventory, &job->devices, error));
}

/* What cannot be done without ddprun's own kernels. */
static bool
check_kernels(const struct job *job, struct error *error)
{
    return job->options.job.compression == DDPRUN_COMPRESS_NONE || job->installation.kernels != NULL ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "--compress needs ddprun's own kernels, which are not installed for this device; install a "
                     "package of ddprun, or build it where nvcc of CUDA 13 is, or leave --compress out");
}

/* What has another owner under a cluster's launcher. */
static bool
check_cluster(const struct job *job, struct error *error)
{
    bool is_member = getenv(DDPRUN_ENV_MEMBER) != NULL; /* of a host, whose ranks -n counts */
    if (!is_member && launched_is_one_per_host(job->options.rank_count, error))
        return false;
    if (job->options.rank_count != 0 && !is_member)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "-n %d was given to ddprun, but another launcher started ddprun %d times; set the number of "
                         "ranks there (srun -n, mpirun -n), and leave ddprun's -n out",
                         job->options.rank_count, job->cluster.world_size);
    if (job->options.max_restarts != 0 && !is_member)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--max-restarts cannot restart the ranks of another launcher; restart them there (sbatch "
                         "--requeue, a loop around mpirun), and leave --max-restarts out");
    return true;
}

static void
find_job_place(struct job *job)
{
    int count = job->devices.rank_count, hosts = job->launched.is_host ? job->launched.nodes : 1; /* for --dry-run */
    job->place = (struct job_place){.rank_count = count,
                                    .first_rank = job->launched.is_host ? job->launched.node_rank * count : 0,
                                    .world_size = hosts * count,
                                    .local_size = count};
    if (job->in_cluster)
        job->place = (struct job_place){.rank_count = 1,
                                        .first_rank = job->cluster.rank,
                                        .world_size = job->cluster.world_size,
                                        .first_local_rank = job->cluster.local_rank,
                                        .local_size = job->cluster.local_size};
}

/* Of several supervisors on a host the first speaks; hosts may differ, so each is named. */
static void
tell_placement(const struct job *job)
{
    bool is_first_here = job->place.first_local_rank == 0;
    if (!(job->options.verbose && is_first_here) && !(job->placement.is_refused && job->place.first_rank == 0))
        return;
    bool alone = job->place.local_size == job->place.world_size;
    char text[1024];
    snprintf(text, sizeof(text), "binding of ranks%s%s: %s (%s)", alone ? "" : " on ", alone ? "" : host_name(),
             job->placement.what, job->placement.why);
    if (job->placement.is_refused)
        message_warning("not_bound", "%s", text);
    else
        message_line("%s", text);
}

/* Said where it matters: torchrun sets 1, and mpirun nothing. */
static void
tell_threads(const struct job *job)
{
    int share = job->placement.ranks != NULL ? job->placement.ranks[0].share : 0;
    bool is_wanted = job->options.verbose || (job->program.uses_openmp && !job->options.quiet);
    if (share == 0 || !is_wanted || environment_get(job->inherited, "OMP_NUM_THREADS") != NULL)
        return;
    message_line("OMP_NUM_THREADS is not set: each rank gets %d, its share of the processors of %s", share,
                 host_name());
}

/* `ddprun ./train -n 2`: the program gets -n. */
static void
tell_late_ranks(const struct job *job)
{
    char *const *words = job->options.program;
    bool is_late = words[1] != NULL && (strcmp(words[1], "-n") == 0 || strcmp(words[1], "-np") == 0) &&
                   words[2] != NULL && words[2][strspn(words[2], "0123456789")] == '\0';
    if (is_late && job->options.rank_count == 0 && !job->in_cluster && !job->options.quiet)
        message_line("%s %s comes after the program, so the program gets it; for %s ranks write ddprun -n %s %s",
                     words[1], words[2], words[2], words[2], words[0]);
}

/* Work of the reduction then waits in one queue with backward's. */
static void
tell_connections(const struct job *job)
{
    struct rank_settings settings = job_settings(job, "/nonexistent");
    char **environment = environment_for_rank(job->inherited, &settings, 0);
    const char *value = environment_get(environment, "CUDA_DEVICE_MAX_CONNECTIONS");
    if (value != NULL && strcmp(value, "1") == 0 && !job->devices.softgpu && job->place.world_size > 1 &&
        job->options.job.overlap)
        message_warning("one_connection",
                        "CUDA_DEVICE_MAX_CONNECTIONS=1: all streams of a rank share one queue of its GPU, so averages "
                        "wait for unrelated kernels of backward and hardly overlap; unset it");
    words_free(environment);
}

static bool
place_ranks(struct job *job, struct error *error)
{
    const struct placement_subject subject = {
        .rank_count = job->place.rank_count,
        .first_local_rank = job->place.first_local_rank,
        .local_size = job->place.local_size,
        .in_cluster = job->in_cluster,
    };
    if (!placement_make(&job->options, &job->devices, &subject, &job->placement, error))
        return false;
    tell_placement(job);
    return true;
}

/* In a cluster the ranks' connections are supervisor 0's (job_cluster.c). */
static bool
may_open_files(const struct job *job, struct error *error)
{
    enum { FILES_OF_A_RANK = 3, OWN_FILES = 40, MORE_FILES = 64 }; /* file_limit.h; signals, relays, strangers */
    unsigned of_ranks = (unsigned)job->place.rank_count * FILES_OF_A_RANK;
    return job->in_cluster || file_limit_raise(of_ranks + OWN_FILES + MORE_FILES, of_ranks + OWN_FILES, error);
}

/* Below that no kernel of the stand-in finds room for its threads' stacks; each program needs more besides. */
static bool
check_address_space(const struct job *job, struct error *error)
{
    enum { LEAST_MIB = 384 };
    struct rlimit limit;
    return !job->devices.softgpu || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >> 20 >= LEAST_MIB ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "the limit of address space is %llu MiB, and a rank on the stand-in needs at least %d MiB; raise "
                     "the limit: ulimit -v unlimited",
                     (unsigned long long)(limit.rlim_cur >> 20), LEAST_MIB);
}

/* A program with kernels that nothing annotates would train on each rank for itself. */
static bool
check_annotations(const struct job *job, struct error *error)
{
    const char *path = job->program.path;
    int copies = job->place.world_size;
    if (copies < 2 || job->options.job.unannotated || job->options.plan != NULL || job->program.is_script)
        return true;
    struct rank_settings settings = job_settings(job, "/nonexistent");
    char **environment = environment_for_rank(job->inherited, &settings, 0);
    enum annotated answer = annotated_ask(path, environment, job->installation.shim);
    words_free(environment);
    return answer != ANNOTATED_NO ||
           error_set(
               error, DDPRUN_EXIT_USAGE,
               "%s holds CUDA kernels and no annotation of ddprun.h: %d copies would train side by side, and nothing "
               "would be averaged. Annotate it (`ddprun scout --patch FILE %s` writes the lines), train it unchanged "
               "(--plan auto), or start separate copies (--unannotated)",
               path, copies, path);
}

bool
job_choose(struct job *job, struct error *error)
{
    ASSERT(job->options.program != NULL && job->options.program[0] != NULL);
    return program_find(job->options.program[0], getenv("PATH"), &job->program, error) &&
           check_is_trainer(job, error) && choose_devices(job, error);
}

/* What follows from the GPUs that are chosen. */
static bool
take_devices(struct job *job, struct error *error)
{
    /* Devices of the stand-in have the same identifiers on each host. */
    bool tells_apart = !job->devices.softgpu || job->place.local_size == job->place.world_size;
    job->options.job.own_device = tells_apart && !job->devices.share_gpu && !job->devices.one_device_each;
    return job->devices.is_open || place_ranks(job, error);
}

bool
job_settle_devices(struct job *job, int place, int among, struct error *error)
{
    struct device_inventory inventory = inventory_of(job);
    struct device_plan settled;
    if (!inventory.softgpu && !devices_count_gpus(job->program.path, &inventory.gpu_count, error))
        return false;
    if (!device_plan_make_one(&job->options, &inventory, place, among, &settled, error))
        return false;
    settled.nccl_version = job->devices.nccl_version;
    device_plan_free(&job->devices);
    job->devices = settled;
    return take_devices(job, error);
}

bool
job_prepare(struct job *job, struct error *error)
{
    bool reports = !job->in_cluster || job->cluster.rank == 0;
    if ((job->in_cluster && !check_cluster(job, error)) || !job_choose(job, error) || !check_kernels(job, error) ||
        !check_nccl(job, error))
        return false;
    find_job_place(job);
    ask_nccl(job);
    if (!check_address_space(job, error) || !check_annotations(job, error) || !take_devices(job, error))
        return false;
    if (job->place.first_rank == 0) {
        tell_late_ranks(job);
        tell_threads(job);
    }
    tell_connections(job);
    return may_open_files(job, error) && check_page(job, error) && make_trace_dir(job, error) &&
           output_prepare(&job->options, error) &&
           (!reports || (whole_file_check(job->options.summary_json, "--summary-json", error) &&
                         whole_file_check(job->options.metrics, "--metrics", error) &&
                         report_file_check(job->options.report, error)));
}

struct rank_settings
job_settings(const struct job *job, const char *job_dir)
{
    return (struct rank_settings){
        .place = job->place,
        .options = &job->options,
        .devices = &job->devices,
        .installation = &job->installation,
        .equipment = job->equipment,
        .program = &job->program,
        .placement = &job->placement,
        .job_dir = job_dir,
    };
}
