/*
 * main.c - `ddprun`: from the command line to a running job and back to an exit code.
 *
 * The order matters. Everything that can be refused is refused before anything is started; signals are blocked before
 * the first thread; the job folder is made last and removed on every way out.
 */
#include "base/assertion.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/job.h"
#include "launcher/options/option_table.h"
#include "launcher/report/summary.h"
#include "launcher/start/environment.h"
#include "launcher/start/file_limit.h"
#include "tools/check/command/check.h"
#include "tools/commands.h"
#include "tools/page/page.h"
#include "tools/plan/command/auto.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>

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

/*
 * Error (DDPRUN_EXIT_USAGE): the file of ddprun is setuid or setgid, or has capabilities: it starts any program, and
 * preloads libraries from where the environment says, so it would lend these rights to every user.
 */
static bool
check_setuid(struct error *error)
{
    /* The kernel's own word for "more rights than the caller", for all three ways (getauxval(3)). */
    return getauxval(AT_SECURE) == 0 ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "ddprun has other rights than its user (setuid, setgid or file capabilities), and every program "
                     "would inherit them; remove them from its file: chmod u-s,g-s, setcap -r");
}

/* Error (DDPRUN_EXIT_USAGE): options, paths and messages have no room on the stack of the main thread or of others. */
static bool
check_stack(struct error *error)
{
    enum { LEAST_KIB = 256 };
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >> 10 >= LEAST_KIB ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "the stack limit is %llu KiB, and ddprun needs %d KiB; raise the limit: ulimit -s 8192",
                     (unsigned long long)(limit.rlim_cur >> 10), LEAST_KIB);
}

/* Says why nothing is started, also to the reader of --summary-json; returns the exit code. */
static int
refuse(const struct options *options, const struct error *error)
{
    message_line("%s", error->text);
    if (!options->dry_run)
        summary_write_refused(options->summary_json, error);
    return error->exit_code;
}

/* --dry-run prints what a rank would be started with, and needs no other process for it. */
static int
print_dry_run(struct job *job)
{
    struct rank_settings settings = job_settings(job, "JOB_FOLDER");
    return dry_run_print(stdout, &settings, &job->program, &job->placement);
}

/* A word that is not a program, but nearly a command, in the reason why nothing is started. */
static void
suggest_command(const char *word, struct error *error)
{
    struct program program = {0};
    struct error why;
    const struct command *nearest = strchr(word, '/') == NULL ? command_nearest(commands, word) : NULL;
    bool is_gone = strcmp(word, "predict") == 0;
    if ((nearest != NULL || is_gone) && !program_find(word, getenv("PATH"), &program, &why))
        error_set(error, error->exit_code,
                  is_gone ? "ddprun %s is gone; run with --page FILE, and compare runs by ddprun report A B"
                          : "program %s not found, in the folders of $PATH; did you mean ddprun %s?",
                  word, is_gone ? "" : nearest->name);
    program_free(&program);
}

static int
refuse_alone(const struct job *job, struct error *error)
{
    struct error named = *error;
    if (job->in_cluster)
        error_set(&named, error->exit_code, "rank %d (host %s): %s", job->cluster.rank, host_name(), error->text);
    return refuse(&job->options, &named);
}

static struct auto_job
auto_job_of(const struct job *job)
{
    int here = job->place.local_size;
    return (struct auto_job){.program = job->program.path,
                             .ranks = job->place.world_size,
                             .proving = !job->in_cluster || here > 1 ? here : 2,
                             .per_rank = check_options.per_rank,
                             .softgpu = job->devices.softgpu,
                             .in_cluster = job->in_cluster,
                             .is_restart = job->restarts > 0};
}

/* In a cluster once all have met (job_cluster.c): its signals are read by what is started here. */
static bool
find_plan(struct job *job, struct error *error)
{
    const struct auto_job wanted = auto_job_of(job);
    if (!job->in_cluster)
        return plan_auto(&job->options, &wanted, error);
    signals_give_back(&job->signals);
    bool ok = plan_auto(&job->options, &wanted, error);
    close(job->signals.fd);
    return signals_take_over(&job->signals, ok ? error : &(struct error){0}) && ok; /* the first error stands */
}

static bool
prepare_plan(struct job *job, struct error *error)
{
    const struct auto_job wanted = auto_job_of(job);
    return plan_auto_may_begin(&job->options, &wanted, &job->is_plan_made, error) &&
           (!job->is_plan_made || job->in_cluster || find_plan(job, error));
}

static int
run_job(struct job *job, char **argv, const struct error *bad_options)
{
    struct error error;
    int exit_code;
    bool ok = job_join(job, &error);
    if (bad_options != NULL)
        error = *bad_options;
    if (!ok)
        return job_speaks_for_host(job) ? refuse(&job->options, &error) : error.exit_code;
    if (job->launched.is_host && !job->options.dry_run)
        return node_run(job, argv, &exit_code, &error) ? exit_code : refuse(&job->options, &error);
    ok = bad_options == NULL && job_prepare(job, &error);
    if (!ok && bad_options == NULL)
        suggest_command(job->options.program[0], &error);
    if (job->options.dry_run)
        return ok ? print_dry_run(job) : refuse_alone(job, &error);
    ok = ok && prepare_plan(job, &error);
    if (job->in_cluster && !job_meet(job, ok ? NULL : &error, &exit_code))
        return exit_code;
    if (ok) {
        ok = job_start(job, &error);
        return job_run(job, ok ? NULL : &error);
    }
    return refuse(&job->options, &error);
}

/*
 * How often this process has begun anew, and how that ended (*attempts_p: malloc'ed, or NULL). Ranks know the number as
 * DDPRUN_RESTART, which may also come from a ddprun around this one, whose rank this is: then it is not of this job,
 * and its ranks do not see it.
 */
static unsigned
take_restarts(char **attempts_p)
{
    const char *own = getenv(DDPRUN_ENV_RESTARTED);
    int pid = 0, used = 0;
    unsigned made = 0;
    *attempts_p = NULL;
    if (own == NULL || sscanf(own, "%d:%u:%n", &pid, &made, &used) != 2 || pid != (int)getpid()) {
        unsetenv(DDPRUN_ENV_RESTART);
        made = 0;
    } else if (used > 0) {
        *attempts_p = xstrdup(own + used);
    }
    unsetenv(DDPRUN_ENV_RESTARTED);
    return made;
}

/* Why a job that has failed does not begin again; NULL: it may. */
static const char *
restart_refusal(const struct job *job)
{
    if (signals_end_was_asked(&job->signals) || job->interrupted)
        return "no restart: a signal ended the job";
    switch (job->final) {
    case JOB_MAY_BEGIN_AGAIN:
        return NULL;
    case JOB_HOST_WAS_KILLED:
        return "no restart: the first ddprun of a host was killed; start the job again on all hosts";
    case JOB_STEP_WAS_WRONG:
        return "no restart: a step of the program was wrong, and the program would repeat it, or continue from what it "
               "has saved since";
    }
    return NULL;
}

/* --restart-delay. False: a signal that asks for the end has come meanwhile. */
static bool
wait_for_restart(const struct job *job)
{
    enum { NS_OF_MS = 1000000, NS_OF_S = 1000000000 };
    int64_t end_ns = clock_now_ns() + (int64_t)job->options.restart_delay_s * NS_OF_S;
    for (int64_t left_ns = end_ns - clock_now_ns(); left_ns > 0; left_ns = end_ns - clock_now_ns()) {
        struct pollfd asked = {.fd = job->signals.fd, .events = POLLIN};
        (void)poll(&asked, 1, (int)(left_ns / NS_OF_MS) + 1);
        if (signals_end_was_asked(&job->signals))
            return false;
    }
    return true;
}

static void
tell_restart(const struct job *job)
{
    const struct options *options = &job->options;
    unsigned number = job->restarts + 1;
    char when[32] = "";
    if (options->restart_delay_s > 0)
        snprintf(when, sizeof(when), " in %u s", options->restart_delay_s);
    message_line(
        "restart %u of %u%s: DDPRUN_RESTART=%u tells %s to continue from its checkpoint; ddprun does not check that",
        number, options->max_restarts, when, number, options->program[0]);
}

/*
 * --max-restarts: begins anew as a new ddprun in this process, so that nothing of the job that failed is left in it.
 * Returns if there is no reason to, or no way. The exit code tells success from failure and no more: a rank may end
 * with any number that ddprun itself uses.
 */
static void
restart(struct job *job, char **argv, int exit_code)
{
    unsigned made = job->restarts;
    const struct options *options = &job->options;
    bool has_run = job->started > 0 || job->have_met; /* else it would be refused again */
    if (exit_code == 0 || !has_run || made >= options->max_restarts)
        return;
    bool is_first = job->place.first_rank == 0;
    const char *refusal = restart_refusal(job);
    if (refusal == NULL && is_first)
        tell_restart(job);
    if (refusal == NULL && !wait_for_restart(job))
        refusal = restart_refusal(job);
    if (refusal != NULL) {
        if (is_first)
            message_line("%s", refusal);
        return;
    }
    signals_give_back(&job->signals); /* one that has come meanwhile, or comes now, ends this process here */
    char number[16];
    char *own = xasprintf("%d:%u:%s", (int)getpid(), made + 1, job->attempts != NULL ? job->attempts : "");
    snprintf(number, sizeof(number), "%u", made + 1);
    environment_set(&job->inherited, DDPRUN_ENV_RESTART, number);
    environment_set(&job->inherited, DDPRUN_ENV_RESTARTED, own);
    environment_unset(job->inherited, "PMIX_NAMESPACE"); /* the job of one process that this one was, and has left */
    file_limit_give_back();
    execve("/proc/self/exe", argv, job->inherited);
    message_line("cannot start again: %s", strerror(errno));
    free(own);
}

/* In one write: if it fails, the reason is known at the end. */
static void
print_at_once(FILE *out)
{
    static char whole[1 << 14];
    (void)setvbuf(out, whole, _IOFBF, sizeof(whole));
}

/* ---- commands ---- */

/* `ddprun help`, `ddprun help check`. */
static int
print_help(char *const *words)
{
    const char *name = words[1];
    const struct command *command = name != NULL ? command_named(commands, name) : NULL;
    print_at_once(stdout);
    if (name == NULL) {
        commands_print(stdout, commands);
    } else if (command != NULL) {
        command_print_help(stdout, command);
    } else {
        const struct command *nearest = command_nearest(commands, name);
        message_line("unknown command %s, after help; %s%s%s", name,
                     nearest != NULL ? "did you mean " : "see ddprun help", nearest != NULL ? nearest->name : "",
                     nearest != NULL ? "?" : "");
        return DDPRUN_EXIT_USAGE;
    }
    return close_stdout(stdout);
}

/* What starts ranks of its own is not started several times. Under PMIx each command has its own answer. */
static bool
may_run(const struct command *command, const struct options *options, struct error *error)
{
    struct launched launched;
    struct error why = {.exit_code = DDPRUN_EXIT_USAGE};
    bool inside = getenv(DDPRUN_ENV_JOB_DIR) != NULL; /* a rank: the job that it starts is refused */
    if (!command->starts_ranks || inside)
        return true;
    const struct launch_request request = job_launch_request(options);
    if (launched_look(&request, &launched, &why)) {
        if (launched.address[0] == '\0')
            return true;
        error_set(&why, DDPRUN_EXIT_USAGE, "%s mark it as one of several processes; leave them out",
                  launched.variables);
    }
    return error_set(error, why.exit_code, "ddprun %s starts its own ranks: start it once; %.1500s", command->name,
                     why.text);
}

/* A program with the name of a command is started as ./NAME. False: a job is started. */
static bool
run_command(const struct options *options, int *exit_code)
{
    const char *name = options->mixed ? check_command.name : options->program[0];
    const struct command *command = command_named(commands, name);
    struct error error;
    if (command != NULL)
        *exit_code = may_run(command, options, &error) ? command->run(command, options) : refuse(options, &error);
    else if (strcmp(name, "help") == 0)
        *exit_code = print_help(options->program);
    else
        return false;
    return true;
}

static void
print_answer(enum options_result result)
{
    if (result == OPTIONS_HELP) {
        options_print_help(stdout);
    } else if (result == OPTIONS_HELP_ALL) {
        print_at_once(stdout);
        options_print_help_all(stdout, commands);
    } else if (result == OPTIONS_HELP_MIXED) {
        command_print_help(stdout, &check_command);
    } else {
        printf("ddprun %s (protocol %d)\n", DDPRUN_VERSION, DDPRUN_PROTOCOL_VERSION);
    }
}

/* Of a function by itself: check_stack() comes first, and this has a frame that the least stack does not hold. */
static int __attribute__((noinline)) work(int argc, char **argv)
{
    struct error error;
    if (argc == 2 && strcmp(argv[1], "--complete") == 0) { /* for ddprun.bash */
        commands_print_completion(stdout, commands);
        return close_stdout(stdout);
    }
    struct options options = {0};
    enum options_result result = options_parse(argc, argv, &options, &error);
    if (result != OPTIONS_BAD && result != OPTIONS_RUN) {
        print_answer(result);
        options_free(&options);
        return close_stdout(stdout);
    }
    int exit_code;
    if (result == OPTIONS_RUN && run_command(&options, &exit_code)) {
        options_free(&options);
        return exit_code;
    }
    struct job job = job_new();
    job.options = options;
    job.find_plan = find_plan;
    job.make_plan = plan_file_prepare;
    job.make_page = page_make;
    job.equipment = &tools_equipment;
    job.restarts = take_restarts(&job.attempts); /* before the job copies the environment */
    exit_code = run_job(&job, argv, result == OPTIONS_BAD ? &error : NULL);
    bool ended = job_end(&job);
    restart(&job, argv, exit_code);
    job_free(&job);
    if (!ended) /* a cluster's job: what exit() calls might wait for PMIx's threads, or take away what they use */
        _exit(exit_code);
    return exit_code;
}

/* An ASSERT of ddprun itself has failed: nothing that it knows of the job can be relied on, so it does not begin the
 * job anew either. */
static void
end_ranks(const char *line)
{
    (void)line;
    guardian_end_ranks();
    message_to(STDERR_FILENO); /* no thread may live that would carry the line there */
}

int
main(int argc, char **argv)
{
    open_standard_descriptors();
    assertion_handle(end_ranks);
    prctl(PR_SET_NAME, "ddprun"); /* which /proc/self/exe would not say */
    options_mix(&check_command, check_rows);
    static struct error error; /* not on a stack that may be small; nor is a line for message_line() */
    if (check_setuid(&error) && check_stack(&error))
        return work(argc, argv);
    message_text("ddprun: ");
    message_text(error.text);
    message_text("\n");
    return error.exit_code;
}
