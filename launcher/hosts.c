/* hosts.c - see hosts.h. */
#include "launcher/hosts.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/cluster/launched.h"
#include "launcher/common/xcalloc.h"
#include "launcher/report/summary.h"
#include "launcher/start/environment.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- words ---- */

static void
add_copies(struct word_list *words, const char *first, const char *second)
{
    word_list_add(words, xstrdup(first));
    word_list_add(words, xstrdup(second));
}

static void
add_all(struct word_list *words, char *const *more)
{
    for (; more != NULL && *more != NULL; ++more)
        word_list_add(words, xstrdup(*more));
}

/* ---- the command ---- */

/*
 * Whether a variable goes along: what finds libraries and programs, and what CUDA, NCCL, UCX, OpenMP, the stand-in and
 * ddprun read. Not the number of ranks, which is the launcher's now, nor what is given a value here.
 */
static bool
goes_along(const char *variable, size_t name_length)
{
    static const char *const names[] = {"PATH", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"};
    static const char *const prefixes[] = {"CUDA_", "NCCL_", "SOFTGPU_", "UCX_", "OMP_", "DDPRUN_", "_DDPRUN_"};
    for (size_t i = 0; i < name_length; ++i) {
        if (!isalnum((unsigned char)variable[i]) && variable[i] != '_')
            return false;
    }
    static const char *const left_out[] = {"DDPRUN_RANKS", DDPRUN_ENV_HOSTS_FOLDER};
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); ++i) {
        if (strlen(left_out[i]) == name_length && strncmp(variable, left_out[i], name_length) == 0)
            return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (strlen(names[i]) == name_length && strncmp(variable, names[i], name_length) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); ++i) {
        size_t length = strlen(prefixes[i]);
        if (length < name_length && strncmp(variable, prefixes[i], length) == 0)
            return true;
    }
    return false;
}

static void
add_variables(struct word_list *words, char *const *variables)
{
    for (; *variables != NULL; ++variables) {
        size_t length = strcspn(*variables, "=");
        if (!goes_along(*variables, length))
            continue;
        word_list_add(words, xstrdup("-x"));
        word_list_add(words, xasprintf("%.*s", (int)length, *variables));
    }
}

static char *
host_words(const struct host_list *list)
{
    char *all = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&all, &bytes);
    for (int i = 0; out != NULL && i < list->count; ++i)
        fprintf(out, "%s%s:%d", i > 0 ? "," : "", list->hosts[i].name, list->hosts[i].ranks);
    if (out == NULL || fclose(out) != 0)
        return xstrdup("");
    return all;
}

static int
rank_count(const struct options *options, const struct host_list *list)
{
    return options->rank_count > 0 ? options->rank_count : list->ranks;
}

/*
 * What is in a folder that every host looks into is called by its name: by its path, Open MPI would put that folder's
 * neighbour in front of LD_LIBRARY_PATH. Elsewhere the path is what lets the other hosts find it.
 */
static const char *
launcher_word(const struct hosts_order *order)
{
    static const char *const folders[] = {"/usr/bin/", "/bin/"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); ++i) {
        size_t length = strlen(folders[i]);
        if (strncmp(order->launcher->program, folders[i], length) == 0 &&
            strchr(order->launcher->program + length, '/') == NULL)
            return order->launcher->program + length;
    }
    return order->launcher->program;
}

static void
add_parameter(struct word_list *words, const char *option, const char *name, unsigned value)
{
    add_copies(words, option, name);
    word_list_add(words, xasprintf("%u", value));
}

/*
 * The launcher itself would wait for ever for a host that has lost its network. Its own connections are probed, so that
 * it notices a little before ddprun would end its ranks, says which host it is, and ends the job; unless it would call
 * that a success. Then it must not probe at all: ddprun is to be the first to notice, and its exit code stands.
 */
static void
add_probes(struct word_list *words, const struct hosts_order *order)
{
    const struct launcher_traits *traits = &order->launcher->traits;
    unsigned limit_s = order->options->heartbeat_timeout_s, probes = limit_s > 5 ? 3 : 1;
    if (traits->hides_lost_hosts) {
        add_parameter(words, traits->mca, "oob_tcp_keepalive_time", 0);
        return;
    }
    if (limit_s == 0)
        return;
    add_parameter(words, traits->mca, "oob_tcp_keepalive_time", limit_s > probes + 2 ? limit_s - probes - 2 : 1);
    add_parameter(words, traits->mca, "oob_tcp_keepalive_intvl", 1);
    add_parameter(words, traits->mca, "oob_tcp_keepalive_probes", probes);
}

char **
hosts_command(const struct hosts_order *order)
{
    struct word_list words = {0};
    word_list_add(&words, xstrdup(launcher_word(order)));
    if (order->root)
        word_list_add(&words, xstrdup("--allow-run-as-root"));
    word_list_add(&words, xstrdup("--host"));
    word_list_add(&words, host_words(order->list));
    word_list_add(&words, xstrdup("-n"));
    word_list_add(&words, xasprintf("%d", rank_count(order->options, order->list)));
    add_copies(&words, "--map-by", "slot");  /* one host after the other */
    add_copies(&words, "--bind-to", "none"); /* ddprun binds its rank near the GPU itself */
    add_copies(&words, "--wdir", "/");       /* which is there: see hosts_enter_folder() */
    word_list_add(&words, xstrdup("-x"));
    word_list_add(&words, xasprintf(DDPRUN_ENV_HOSTS_FOLDER "=%s", order->folder));
    add_probes(&words, order);
    add_variables(&words, order->variables);
    word_list_add(&words, xstrdup(order->ddprun));
    options_hand_on(order->options, &words);
    word_list_add(&words, xstrdup("--")); /* where ddprun's options end */
    add_all(&words, order->options->program);
    return words.list;
}

/* ---- what speaks against it ---- */

/* Slurm has chosen the hosts already: the line that starts the job on them. */
static bool
refuse_slurm(const struct options *options, const struct host_list *list, const char *ddprun, struct error *error)
{
    const char *job = getenv("SLURM_JOB_ID");
    if (job == NULL || job[0] == '\0')
        return true;
    struct word_list words = {0};
    add_copies(&words, "srun", "--mpi=pmix");
    word_list_add(&words, xstrdup("-n"));
    word_list_add(&words, xasprintf("%d", rank_count(options, list)));
    word_list_add(&words, xstrdup(ddprun));
    options_hand_on(options, &words);
    add_all(&words, options->program);
    char *line = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&line, &bytes);
    if (out != NULL) {
        dry_run_print_words(out, words.list);
        fclose(out);
    }
    error_set(error, DDPRUN_EXIT_USAGE, "Slurm's job %.20s has its own hosts; instead of --hosts write: %s", job,
              line != NULL ? line : "srun --mpi=pmix ddprun");
    free(line);
    words_free(words.list);
    return false;
}

static bool
refuse_inner(struct error *error)
{
    enum { COUNTS = 3 }; /* the first of them: numbers of processes */
    static const char *const marks[] = {"SLURM_STEP_NUM_TASKS", "WORLD_SIZE", "PET_NNODES",      "PMIX_NAMESPACE",
                                        "OMPI_COMM_WORLD_SIZE", "PMI_RANK",   DDPRUN_ENV_JOB_DIR};
    struct launched launched;
    if (getenv(DDPRUN_ENV_JOB_DIR) != NULL &&
        !launched_look(&(struct launch_request){.node_rank = -1}, &launched, error))
        return false;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); ++i) {
        const char *value = getenv(marks[i]);
        /* Slurm counts the batch script itself as a step of one task. */
        if (value == NULL || (i < COUNTS && atoi(value) <= 1))
            continue;
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "--hosts starts a job, but this process is already a rank of a job (%s=%.100s); leave --hosts "
                         "out, or start ddprun once, outside of that job",
                         marks[i], value);
    }
    return true;
}

static bool
check_count(const struct options *options, const struct host_list *list, struct error *error)
{
    return options->rank_count <= list->ranks ||
           error_set(error, DDPRUN_EXIT_USAGE, "-n %d is more than the %d ranks of --hosts; name more, or leave -n out",
                     options->rank_count, list->ranks);
}

/* ---- running it ---- */

/* As the user sees it, with the links that lead there: on the other hosts they may lead elsewhere. malloc'ed. */
static char *
current_folder(void)
{
    const char *shown = getenv("PWD");
    struct stat here, there;
    if (shown != NULL && shown[0] == '/' && stat(shown, &there) == 0 && stat(".", &here) == 0 &&
        here.st_dev == there.st_dev && here.st_ino == there.st_ino)
        return xstrdup(shown);
    return getcwd(NULL, 0);
}

bool
hosts_enter_folder(struct error *error)
{
    const char *given = getenv(DDPRUN_ENV_HOSTS_FOLDER);
    if (given == NULL || getenv("PMIX_NAMESPACE") == NULL)
        return true;
    char *folder = xstrdup(given);
    unsetenv(DDPRUN_ENV_HOSTS_FOLDER); /* the trainer is no ddprun */
    bool entered = chdir(folder) == 0;
    if (entered)
        setenv("PWD", folder, 1);
    else
        error_set(error, DDPRUN_EXIT_USAGE,
                  "cannot enter the folder %.500s, in which ddprun --hosts was started: %s; make it on all hosts, or "
                  "start ddprun in a folder that all hosts have",
                  folder, strerror(errno));
    free(folder);
    return entered;
}

static bool
prepare_hosts(struct hosts_order *order, struct host_list *list, char **ddprun, struct error *error)
{
    *ddprun = realpath("/proc/self/exe", NULL);
    if (*ddprun == NULL)
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "cannot tell where ddprun is installed: /proc/self/exe: %s; mount /proc", strerror(errno));
    return refuse_inner(error) && host_list_take(order->options->hosts, list, error) &&
           check_count(order->options, list, error) && refuse_slurm(order->options, list, *ddprun, error);
}

static int
become(const struct hosts_order *order, char **command)
{
    if (order->root)
        message_line("started as root, so %s gets --allow-run-as-root", order->launcher->program);
    unsetenv("DDPRUN_RANKS"); /* the ranks on this host inherit what we have */
    execv(order->launcher->program, command);
    struct error error;
    error_set(&error, DDPRUN_EXIT_NOT_RUN, "cannot start %s: %s", order->launcher->program, strerror(errno));
    message_line("%s", error.text);
    summary_write_refused(order->options->summary_json, &error);
    return error.exit_code;
}

int
hosts_run(const struct options *options)
{
    struct hosts_order order = {.options = options, .variables = environ, .root = geteuid() == 0};
    struct host_list list = {0};
    struct error error;
    struct host_launcher launcher = {0};
    char *ddprun = NULL, *folder = current_folder();
    int exit_code;
    if (prepare_hosts(&order, &list, &ddprun, &error) && host_launcher_find(getenv("PATH"), &launcher, &error)) {
        order.list = &list;
        order.launcher = &launcher;
        order.ddprun = ddprun;
        order.folder = folder != NULL ? folder : "/";
        char **command = hosts_command(&order);
        if (options->dry_run) {
            dry_run_print_words(stdout, command);
            exit_code = putchar('\n') != EOF && fflush(stdout) == 0 ? 0 : DDPRUN_EXIT_FAILURE;
        } else {
            exit_code = become(&order, command);
        }
        words_free(command);
    } else {
        message_line("%s", error.text);
        if (!options->dry_run)
            summary_write_refused(options->summary_json, &error);
        exit_code = error.exit_code;
    }
    host_list_free(&list);
    free(ddprun);
    free(launcher.program);
    free(folder);
    return exit_code;
}
