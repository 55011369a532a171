/*
 * main.c - `ddprun`: from the command line to a running job and back to an exit code.
 *
 * The order matters. Everything that can be refused is refused before anything is started; signals are blocked before
 * the first thread; the job folder is made last and removed on every way out.
 */
#include "base/message.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/devices.h"
#include "launcher/dry_run.h"
#include "launcher/environment.h"
#include "launcher/job_folder.h"
#include "launcher/memory.h"
#include "launcher/options.h"
#include "launcher/output.h"
#include "launcher/pmix_server.h"
#include "launcher/processes.h"
#include "launcher/program.h"
#include "launcher/rights.h"
#include "launcher/spawn.h"
#include "launcher/summary.h"
#include "launcher/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A job from its refusals to its end; filled in from top to bottom. */
struct job {
    struct options options;
    struct program program;
    struct device_plan devices;
    struct installation installation;
    char *nccl, *trace_dir; /* as the ranks are told; NULL: not given */
    struct signals signals;
    struct job_folder folder;
    void *status_page;
    struct pmix_server *server;
    struct terminal_input input;
    int started; /* ranks */
    pid_t *pids;
    struct relay_source *outputs, *errors; /* what the relays of stdout and stderr read */
    int output_count, error_count;
    struct relay *relays[2];
};

/* A descriptor below 3 that is closed would be taken by the next open, and ranks would write into it. */
static void
open_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO && fcntl(fd, F_SETFD, 0) == 0);
    if (fd > STDERR_FILENO)
        close(fd);
}

/* Each of several processes that another launcher started would begin a job of its own, and train alone. */
static bool
refuse_other_launchers(struct problem *problem)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        const char *size = getenv(sizes[i]);
        if (size != NULL && atoi(size) > 1)
            return problem_set(
                problem, DDPRUN_EXIT_USAGE,
                "another launcher started ddprun %s times (%s), and each would train alone; start ddprun once, on "
                "one machine, with -n",
                size, sizes[i]);
    }
    const char *outer = getenv(DDPRUN_ENV_JOB_DIR);
    if (outer != NULL && getenv(DDPRUN_ENV_PROTOCOL) != NULL)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "ddprun was started inside a rank of another ddprun (%s=%s); start it once, outside",
                           DDPRUN_ENV_JOB_DIR, outer);
    return true;
}

static bool
check_nccl(struct job *job, struct problem *problem)
{
    const char *nccl = job->options.nccl;
    if (nccl == NULL)
        return true;
    if (strchr(nccl, '/') == NULL) { /* a name for the dynamic loader to look up */
        job->nccl = memory_copy(nccl);
        return true;
    }
    struct stat file;
    job->nccl = realpath(nccl, NULL);
    if (job->nccl == NULL || stat(job->nccl, &file) != 0 || access(job->nccl, R_OK) != 0)
        return problem_set(problem, DDPRUN_EXIT_USAGE, "cannot read %s, in --nccl: %s; give the path of libnccl.so.2",
                           nccl, strerror(errno));
    return S_ISREG(file.st_mode) ||
           problem_set(problem, DDPRUN_EXIT_USAGE, "%s is not a file, in --nccl; give the path of libnccl.so.2", nccl);
}

static bool
make_trace_dir(struct job *job, struct problem *problem)
{
    const char *dir = job->options.trace_dir;
    if (dir == NULL)
        return true;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "cannot make the folder %s, in --trace: %s; name a place that exists", dir, strerror(errno));
    job->trace_dir = realpath(dir, NULL);
    struct stat folder;
    if (job->trace_dir == NULL || stat(job->trace_dir, &folder) != 0 || !S_ISDIR(folder.st_mode) ||
        access(job->trace_dir, W_OK | X_OK) != 0)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "%s, in --trace, is not a folder that can be written; name one that is", dir);
    return true;
}

static bool
choose_devices(struct job *job, struct problem *problem)
{
    const struct options *options = &job->options;
    if (options->device == DEVICE_GPU && job->program.built_for_softgpu)
        return problem_set(
            problem, DDPRUN_EXIT_USAGE,
            "%s was built by softgpu-cc and cannot use a GPU, as --device gpu wants; build it with nvcc, or leave "
            "--device out",
            job->program.path);
    struct device_inventory inventory = {
        .softgpu = options->device == DEVICE_SOFTGPU || job->program.built_for_softgpu,
        .visible_devices = getenv("CUDA_VISIBLE_DEVICES"),
        .softgpu_devices = getenv("SOFTGPU_DEVICES"),
    };
    return installation_find(inventory.softgpu, &job->installation, problem) &&
           (inventory.softgpu || devices_count_gpus(job->program.path, &inventory.gpu_count, problem)) &&
           device_plan_make(options, &inventory, &job->devices, problem);
}

static bool
check_compress(const struct job *job, struct problem *problem)
{
    return job->options.compression == DDPRUN_COMPRESS_NONE || job->installation.kernels != NULL ||
           problem_set(problem, DDPRUN_EXIT_USAGE,
                       "--compress needs ddprun's own kernels, which are not installed for this device; build ddprun "
                       "where nvcc of CUDA 13 is, or leave --compress out");
}

/* Ranks that start elsewhere still run the program that was found from here. */
static bool
check_cwd(struct job *job, struct problem *problem)
{
    const char *cwd = job->options.cwd;
    struct stat folder;
    if (cwd == NULL)
        return true;
    if (stat(cwd, &folder) != 0 || !S_ISDIR(folder.st_mode) || access(cwd, X_OK) != 0)
        return problem_set(problem, DDPRUN_EXIT_USAGE,
                           "%s, in --cwd, is not a folder that can be entered; name one that is", cwd);
    char *here = getcwd(NULL, 0);
    if (job->program.path[0] != '/' && here != NULL) {
        char *path = memory_format("%s/%s", here, job->program.path);
        free(job->program.path);
        job->program.path = path;
    }
    free(here);
    return true;
}

/* All that can be refused without having started anything. */
static bool
prepare(struct job *job, struct problem *problem)
{
    return refuse_other_launchers(problem) &&
           program_find(job->options.program[0], getenv("PATH"), &job->program, problem) &&
           choose_devices(job, problem) && check_compress(job, problem) && check_nccl(job, problem) &&
           check_cwd(job, problem) &&
           (job->options.dry_run || (make_trace_dir(job, problem) && output_prepare(&job->options, problem) &&
                                     summary_check(job->options.summary_json, problem)));
}

static bool
make_shared_things(struct job *job, struct problem *problem)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what ranks leave behind comes to us, to be ended */
    if (!signals_take_over(&job->signals, problem) || !job_folder_make(&job->folder, problem))
        return false;
    job->status_page = status_page_map(job->folder.path, job->devices.rank_count, true);
    if (job->status_page == NULL)
        return problem_set(problem, DDPRUN_EXIT_FAILURE,
                           "cannot make the status file in %s: %s; make room there, or set TMPDIR", job->folder.path,
                           strerror(errno));
    return terminal_input_open(&job->input, problem);
}

static void
note_started(struct job *job, int rank, const struct spawned *spawned)
{
    job->pids[rank] = spawned->pid;
    if (spawned->output >= 0)
        job->outputs[job->output_count++] = (struct relay_source){spawned->output, rank, rank == 0};
    if (spawned->error >= 0)
        job->errors[job->error_count++] = (struct relay_source){spawned->error, rank, rank == 0};
    job->started = rank + 1;
    if (job->options.verbose)
        message_line("rank %d is process %d, with CUDA_VISIBLE_DEVICES=%s%s", rank, (int)spawned->pid,
                     job->devices.visible[rank] != NULL ? job->devices.visible[rank] : "(unset)",
                     job->devices.softgpu ? " of the stand-in" : "");
}

static bool
start_rank(struct job *job, char *const *inherited, const struct rank_settings *settings, int rank,
           struct problem *problem)
{
    char **environment = environment_for_rank(inherited, settings, rank);
    char **arguments = environment_arguments(settings, rank);
    struct spawn_order order = {
        .rank = rank,
        .path = job->program.path,
        .arguments = arguments,
        .signals = &job->signals,
        .input = job->input.read_end,
        .cwd = job->options.cwd,
    };
    struct spawned spawned;
    bool ok = pmix_server_add_environment(job->server, rank, &environment, problem);
    order.environment = environment;
    ok = ok && output_choose(&job->options, job->devices.rank_count, &order, problem);
    if (ok) {
        ok = spawn_rank(&order, &spawned, problem);
        output_close(&order);
    }
    environment_free(environment);
    environment_free(arguments);
    if (ok)
        note_started(job, rank, &spawned);
    return ok;
}

/* Colour is for people at a terminal who have not said no (no-color.org). */
static bool
wants_colour(int fd)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && (no_color == NULL || no_color[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
}

static struct rank_settings
settings_of(const struct job *job, const char *job_dir)
{
    return (struct rank_settings){
        .options = &job->options,
        .devices = &job->devices,
        .installation = &job->installation,
        .job_dir = job_dir,
        .trace_dir = job->trace_dir,
        .nccl = job->nccl,
    };
}

/* -v: what is started, and where. */
static void
tell_start(const struct job *job)
{
    char host[HOST_NAME_MAX + 1] = "";
    (void)gethostname(host, sizeof(host) - 1);
    message_line("starting %s on %s, %d rank%s%s; NCCL: %s; job folder: %s", job->program.path, host,
                 job->devices.rank_count, job->devices.rank_count == 1 ? "" : "s",
                 job->devices.softgpu ? " on the stand-in" : "", job->nccl != NULL ? job->nccl : "libnccl.so.2",
                 job->folder.path);
}

static bool
start_ranks(struct job *job, struct problem *problem)
{
    int count = job->devices.rank_count;
    if (job->options.verbose)
        tell_start(job);
    char **inherited = environment_copy(environ); /* before PMIx adds to it */
    struct rank_settings settings = settings_of(job, job->folder.path);
    job->pids = memory_get((size_t)count, sizeof(*job->pids));
    job->outputs = memory_get((size_t)count, sizeof(*job->outputs));
    job->errors = memory_get((size_t)count, sizeof(*job->errors));

    bool ok = pmix_server_start(job->folder.path, count, &job->server, problem);
    for (int rank = 0; ok && rank < count; ++rank)
        ok = start_rank(job, inherited, &settings, rank, problem);
    environment_free(inherited);
    if (!ok || count == 1)
        return ok;
    return relay_start(STDOUT_FILENO, job->outputs, job->output_count, wants_colour(STDOUT_FILENO), &job->relays[0],
                       problem) &&
           relay_start(STDERR_FILENO, job->errors, job->error_count, wants_colour(STDERR_FILENO), &job->relays[1],
                       problem);
}

static int
run_ranks(struct job *job)
{
    struct news news = {0};
    struct running_job running = {
        .rank_count = job->started,
        .pids = job->pids,
        .status_page = job->status_page,
        .server = job->server,
        .signals = &job->signals,
        .input = &job->input,
        .relays = {job->relays[0], job->relays[1]},
        .gpus = (const char *const *)job->devices.visible,
        .softgpu = job->devices.softgpu,
        .news = job->options.verbose ? &news : NULL,
        .progress = progress_new(job->options.quiet ? PROGRESS_OFF : job->options.progress),
        .summary = !job->options.quiet,
        .summary_json = job->options.summary_json,
    };
    if (job->input.read_end >= 0) { /* rank 0 has it now */
        close(job->input.read_end);
        job->input.read_end = -1;
    }
    int exit_code = supervisor_run(&running);
    progress_free(running.progress);
    output_warn_full(&job->options, job->trace_dir);
    return exit_code;
}

/* PMIx has a thread of its own; should it not end, we still do, with the right exit code. */
static volatile sig_atomic_t final_exit_code;

static void
leave_now(int number)
{
    (void)number;
    _exit(final_exit_code);
}

static void
clean_up(struct job *job, int exit_code)
{
    enum { LIMIT_S = 10 };
    struct sigaction leave = {.sa_handler = leave_now};
    final_exit_code = exit_code;
    sigaction(SIGALRM, &leave, NULL);

    if (job->status_page != NULL)
        status_page_unmap(job->status_page, job->devices.rank_count);
    terminal_input_close(&job->input);
    alarm(LIMIT_S);
    if (job->server != NULL)
        pmix_server_stop(job->server);
    alarm(0);
    job_folder_remove(&job->folder);
    free(job->pids);
    free(job->outputs);
    free(job->errors);
    free(job->nccl);
    free(job->trace_dir);
    installation_free(&job->installation);
    device_plan_free(&job->devices);
    program_free(&job->program);
}

static int
run_job(struct job *job)
{
    struct problem problem;
    int exit_code;
    bool ok = prepare(job, &problem);
    if (ok && job->options.dry_run) {
        struct rank_settings settings = settings_of(job, "JOB_FOLDER");
        exit_code = dry_run_print(stdout, &settings, &job->program);
    } else if (ok && make_shared_things(job, &problem) && start_ranks(job, &problem)) {
        exit_code = run_ranks(job);
    } else {
        processes_end_all(job->pids, job->started);
        message_line("%s", problem.text);
        exit_code = problem.exit_code;
    }
    clean_up(job, exit_code);
    return exit_code;
}

/*
 * --max-restarts: begins anew as a new ddprun in this process, so that nothing of the job that failed is left in it.
 * Returns if there is no reason to, or no way.
 */
static void
restart(const struct job *job, char **argv, int exit_code)
{
    const struct options *options = &job->options;
    const char *before = getenv(DDPRUN_ENV_RESTART);
    unsigned made = before != NULL ? (unsigned)strtoul(before, NULL, 10) : 0;
    bool asked_to_end = exit_code == 128 + SIGINT || exit_code == 128 + SIGTERM || exit_code == 128 + SIGHUP;
    if (exit_code == 0 || exit_code == DDPRUN_EXIT_USAGE || exit_code == DDPRUN_EXIT_NOT_RUN || asked_to_end ||
        made >= options->max_restarts)
        return;
    char number[16];
    snprintf(number, sizeof(number), "%u", made + 1);
    message_line("restart %u of %u", made + 1, options->max_restarts);
    if (job->signals.fd >= 0)
        signals_give_back(&job->signals);
    if (setenv(DDPRUN_ENV_RESTART, number, 1) == 0)
        execv("/proc/self/exe", argv);
    message_line("cannot start again: %s", strerror(errno));
}

int
main(int argc, char **argv)
{
    open_standard_descriptors();
    struct job job = {.input = {.read_end = -1, .write_end = -1}, .folder = {.fd = -1}, .signals = {.fd = -1}};
    struct problem problem;
    if (!rights_check(&problem)) {
        message_line("%s", problem.text);
        return problem.exit_code;
    }
    switch (options_parse(argc, argv, &job.options, &problem)) {
    case OPTIONS_HELP:
        options_print_help(stdout);
        return fflush(stdout) == 0 ? 0 : DDPRUN_EXIT_FAILURE;
    case OPTIONS_HELP_ALL:
        options_print_help_all(stdout);
        return fflush(stdout) == 0 ? 0 : DDPRUN_EXIT_FAILURE;
    case OPTIONS_VERSION:
        printf("ddprun %s (protocol %d)\n", DDPRUN_VERSION, DDPRUN_PROTOCOL_VERSION);
        return fflush(stdout) == 0 ? 0 : DDPRUN_EXIT_FAILURE;
    case OPTIONS_BAD:
        message_line("%s", problem.text);
        return problem.exit_code;
    case OPTIONS_RUN:
        break;
    }
    int exit_code = run_job(&job);
    restart(&job, argv, exit_code);
    options_free(&job.options);
    return exit_code;
}
