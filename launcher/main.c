/*
 * main.c - `ddprun`: from the command line to a running job and back to an exit code.
 *
 * The order matters. Everything that can be refused is refused before anything is started; signals are blocked before
 * the first thread; the job folder is made last and removed on every way out.
 */
#include "base/message.h"
#include "base/protocol.h"
#include "launcher/check/check.h"
#include "launcher/common/close_stdout.h"
#include "launcher/common/xcalloc.h"
#include "launcher/doctor/doctor.h"
#include "launcher/hosts.h"
#include "launcher/job.h"
#include "launcher/page/page.h"
#include "launcher/predict/command.h"
#include "launcher/report/summary.h"
#include "launcher/scout/scout.h"
#include "launcher/start/dry_run.h"
#include "launcher/start/file_limit.h"
#include "launcher/start/setuid_check.h"
#include "launcher/trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

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

/* Says why nothing is started, also to the reader of --summary-json; returns the exit code. */
static int
refuse(const struct options *options, const struct error *error)
{
    message_line("%s", error->text);
    if (!options->dry_run)
        summary_write_refused(options->summary_json, error, message_line);
    return error->exit_code;
}

/* --dry-run prints what a rank would be started with, and needs no other process for it. */
static int
print_dry_run(struct job *job)
{
    struct rank_settings settings = job_settings(job, "JOB_FOLDER");
    return dry_run_print(stdout, &settings, &job->program, &job->placement);
}

static int
refuse_alone(const struct job *job, struct error *error)
{
    struct error named = *error;
    char host[HOST_NAME_MAX + 1] = "";
    if (job->in_cluster && gethostname(host, sizeof(host) - 1) == 0)
        error_set(&named, error->exit_code, "rank %d (host %s): %s", job->cluster.rank, host, error->text);
    return refuse(&job->options, &named);
}

static int
run_job(struct job *job, const struct error *bad_options)
{
    struct error error;
    bool ok = job_join(job, &error);
    if (!ok)
        return refuse(&job->options, &error);
    if (bad_options != NULL)
        error = *bad_options;
    ok = bad_options == NULL && job_prepare(job, &error);
    if (job->options.dry_run)
        return ok ? print_dry_run(job) : refuse_alone(job, &error);
    int exit_code;
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
    bool has_run = job->started > 0; /* else it would be refused again */
    if (exit_code == 0 || !has_run || made >= options->max_restarts)
        return;
    if (signals_end_was_asked(&job->signals)) {
        message_line("no restart: a signal asked for the end");
        return;
    }
    signals_give_back(&job->signals); /* one that has come meanwhile, or comes now, ends this process here */
    char number[16];
    char *own = xasprintf("%d:%u:%s", (int)getpid(), made + 1, job->attempts != NULL ? job->attempts : "");
    snprintf(number, sizeof(number), "%u", made + 1);
    message_line("restart %u of %u", made + 1, options->max_restarts);
    environment_set(&job->inherited, DDPRUN_ENV_RESTART, number);
    environment_set(&job->inherited, DDPRUN_ENV_RESTARTED, own);
    environment_unset(job->inherited, "PMIX_NAMESPACE"); /* the job of one process that this one was, and has left */
    file_limit_give_back();
    execve("/proc/self/exe", argv, job->inherited);
    message_line("cannot start again: %s", strerror(errno));
    free(own);
}

/* The process ends here: what exit() calls might wait for PMIx's threads, or take away what they use. */
static void
leave(int exit_code)
{
#ifdef __SANITIZE_ADDRESS__
    __lsan_do_leak_check(); /* exit() would */
#endif
    _exit(exit_code);
}

/* In one write: if it fails, the reason is known at the end. */
static void
print_at_once(FILE *out)
{
    static char whole[1 << 14];
    (void)setvbuf(out, whole, _IOFBF, sizeof(whole));
}

/* What is done instead of a job, up to the exit code. */
typedef int (*command_fn)(const struct options *options);

/* NULL: a job is started. A program with the name of a command is started as ./NAME. */
static command_fn
command_of(const struct options *options)
{
    static const struct {
        const char *name;
        command_fn command;
    } commands[] = {{"check", check_command},     {"trace", trace_command}, {"report", page_command},
                    {"predict", predict_command}, {"scout", scout_command}, {"doctor", doctor_command}};
    const char *name = options->check.asked ? "check" : options->program[0];
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); ++i) {
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].command;
    }
    return options->hosts != NULL ? hosts_run : NULL;
}

int
main(int argc, char **argv)
{
    open_standard_descriptors();
    struct error error;
    if (!setuid_check(&error)) {
        message_line("%s", error.text);
        return error.exit_code;
    }
    struct options options = {0};
    enum options_result result = hosts_enter_folder(&error) ? options_parse(argc, argv, &options, &error) : OPTIONS_BAD;
    switch (result) {
    case OPTIONS_HELP:
        options_print_help(stdout);
        return close_stdout(stdout);
    case OPTIONS_HELP_ALL:
        print_at_once(stdout);
        options_print_help_all(stdout);
        return close_stdout(stdout);
    case OPTIONS_HELP_CHECK:
        options_print_help_check(stdout);
        return close_stdout(stdout);
    case OPTIONS_VERSION:
        printf("ddprun %s (protocol %d)\n", DDPRUN_VERSION, DDPRUN_PROTOCOL_VERSION);
        return close_stdout(stdout);
    case OPTIONS_BAD:
    case OPTIONS_RUN:
        break;
    }
    command_fn command = result == OPTIONS_RUN ? command_of(&options) : NULL;
    if (command != NULL) {
        int code = command(&options);
        options_free(&options);
        return code;
    }
    struct job job = job_new();
    job.options = options;
    job.restarts = take_restarts(&job.attempts); /* before the job copies the environment */
    int exit_code = run_job(&job, result == OPTIONS_BAD ? &error : NULL);
    bool ended = job_end(&job);
    restart(&job, argv, exit_code);
    job_free(&job);
    if (!ended)
        leave(exit_code);
    return exit_code;
}
