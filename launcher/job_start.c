/*
 * job_start.c - from a prepared job to running ranks, and from their end to nothing left (job.h).
 */
#include "launcher/job.h"

#include "base/assertion.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/protocol.h"
#include "base/status_page.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/output/output.h"
#include "launcher/output/whole_file.h"
#include "launcher/start/spawn.h"
#include "launcher/watch/status_loss.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* In which a rank's program has been started: a file server may be slow. Less if the others are not to wait so long. */
enum { START_LIMIT_S = 60 };

/* For the page alone: it goes with the job's folder. */
static bool
make_own_trace_dir(struct job *job, struct error *error)
{
    char *path = job->options.job.trace_dir;
    snprintf(path, JOB_PATH_BYTES, "%s/trace", job->folder.path);
    return mkdir(path, 0700) == 0 || error_set(error, DDPRUN_EXIT_FAILURE, "cannot make a folder in %s: %s; %s",
                                               job->folder.path, strerror(errno), job_folder_remedy(errno));
}

/* What the ranks' players follow. */
static bool
make_plan(const struct job *job, struct error *error)
{
    const struct options *options = &job->options;
    char *to = xasprintf("%s/" DDPRUN_PLAN_NAME, job->folder.path),
         *given = xasprintf("%s/plan.json", job->folder.path);
    const char *from = job->plan != NULL ? given : options->plan;
    bool ok = (job->plan == NULL || whole_file_write(given, job->plan, job->plan_bytes) ||
               error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s: %s; make room there, or set TMPDIR", given,
                         file_why(errno))) &&
              job->make_plan(from, options->plan, options->unproved, options->reads == PLAN_READS_OWN, to, error);
    free(given);
    free(to);
    return ok;
}

static bool
make_shared_things(struct job *job, struct error *error)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what ranks leave behind becomes a child of ddprun, to be ended */
    if ((job->signals.fd < 0 && !signals_take_over(&job->signals, error)) || !messages_open(&job->messages, error) ||
        !job_folder_make(&job->folder, error))
        return false;
    guardian_start(job->folder.path, NULL);
    job->status_page = status_page_map(job->folder.path, job->place.rank_count, true);
    if (job->status_page == NULL)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make the status file in %s: %s; %s", job->folder.path,
                         strerror(errno), job_folder_remedy(errno));
    status_loss_watch(job->status_page, status_page_bytes(job->place.rank_count));
    if (!engine_link_open(&job->link, job->folder.fd, job->folder.path, job->place.first_rank, job->place.rank_count,
                          job->place.world_size, job->place.first_local_rank, error))
        return false;
    if (job->options.page != NULL && job->options.trace_dir == NULL && !make_own_trace_dir(job, error))
        return false;
    if (job->options.plan != NULL && !make_plan(job, error))
        return false;
    if (job->place.rank_count > 1)
        job->empty = empty_input_open();
    return job->place.first_rank != 0 || terminal_input_open(&job->input, error);
}

static void
note_started(struct job *job, int index, const struct spawned *spawned, struct spawn_order *order)
{
    int rank = job->place.first_rank + index;
    ASSERT(index == job->started && index < job->place.rank_count);
    job->pids[index] = spawned->pid;
    bool has_hosts = job->place.local_size < job->place.world_size;
    struct relay_source source = {.rank = rank,
                                  .unchanged = rank == 0 && !job->options.timestamps,
                                  .has_time = job->options.timestamps,
                                  .host = has_hosts ? host_name() : NULL};
    if (spawned->output >= 0) {
        source.fd = spawned->output;
        source.has_stderr = order->one_pipe;
        source.copy = order->output_copy;
        job->outputs[job->output_count++] = source;
    }
    if (spawned->error >= 0) {
        source.fd = spawned->error;
        source.has_stderr = true;
        source.held_back = rank > 0 && job->options.output == OUTPUT_RANK0;
        source.copy = order->error_copy;
        job->errors[job->error_count++] = source;
    }
    order->output_copy = order->error_copy = -1; /* the relays' */
    job->started = index + 1;
    if (!job->options.verbose)
        return;
    char *place = placement_describe(&job->placement.ranks[index]);
    message_line("rank %d is process %d, CUDA_VISIBLE_DEVICES: %s, %s", rank, (int)spawned->pid,
                 job->devices.visible[index] != NULL ? job->devices.visible[index] : "not set", place);
    free(place);
}

static bool
start_rank(struct job *job, const struct rank_settings *settings, int index, struct error *error)
{
    char **environment = environment_for_rank(job->inherited, settings, index);
    char **arguments = environment_arguments(settings, index);
    struct spawn_order order = {
        .rank = job->place.first_rank + index,
        .path = job->program.path,
        .arguments = arguments,
        .signals = &job->signals,
        .input = job->place.first_rank + index == 0 ? job->input.read_end : job->empty.fd,
        .limit_s = job->options.timeout_s < START_LIMIT_S ? job->options.timeout_s : START_LIMIT_S,
        .place = &job->placement.ranks[index],
    };
    struct spawned spawned;
    bool ok = settings->equipment == NULL || settings->equipment->prepare(settings, index, &environment, error);
    order.environment = &environment;
    ok = ok && output_choose(&job->options, job->place.rank_count, &order, error);
    if (ok) {
        ok = spawn_rank(&order, &spawned, error);
        if (ok)
            note_started(job, index, &spawned, &order);
        output_close(&order);
    }
    words_free(environment);
    words_free(arguments);
    return ok;
}

/* Colour is for people at a terminal who have not said no (no-color.org). Open MPI's terminal is a pretended one: what
 * it passes on may end in a file. */
static bool
wants_colour(const struct job *job, int fd)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return !job->has_launcher && isatty(fd) && (no_color == NULL || no_color[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

static bool
start_relays(struct job *job, struct error *error)
{
    if (job->output_count + job->error_count == 0)
        return true;
    return relay_start(STDOUT_FILENO, job->outputs, job->output_count, wants_colour(job, STDOUT_FILENO),
                       &job->relays[0], error) &&
           relay_start(STDERR_FILENO, job->errors, job->error_count, wants_colour(job, STDERR_FILENO), &job->relays[1],
                       error);
}

/* -v: what is started, and where. */
static void
tell_start(const struct job *job)
{
    char ranks[48];
    if (job->in_cluster)
        snprintf(ranks, sizeof(ranks), "rank %d of %d", job->place.first_rank, job->place.world_size);
    else
        snprintf(ranks, sizeof(ranks), "%d rank%s", job->place.rank_count, job->place.rank_count == 1 ? "" : "s");
    message_line("starting %s on %s, %s%s; NCCL: %s; job folder: %s", job->program.path, host_name(), ranks,
                 job->devices.softgpu ? " on the stand-in" : "", job->options.job.nccl, job->folder.path);
}

bool
job_start(struct job *job, struct error *error)
{
    int count = job->place.rank_count;
    job->begun_unix_ns = clock_unix_ns();
    job->pids = xcalloc((size_t)count, sizeof(*job->pids));
    job->outputs = xcalloc((size_t)count, sizeof(*job->outputs));
    job->errors = xcalloc((size_t)count, sizeof(*job->errors));
    if (!make_shared_things(job, error))
        return false;

    if (job->options.verbose)
        tell_start(job);
    struct rank_settings settings = job_settings(job, job->folder.path);
    settings.free_port = job->place.local_size == job->place.world_size ? network_free_port() : 0;
    options_settle_job(&job->options, status_page_options(job->status_page, count));
    const struct output_ranks ranks = {
        .first = job->place.first_rank, .count = count, .world_size = job->place.world_size};
    bool ok = output_set_aside(&job->options, &ranks, error);
    for (int i = 0; ok && i < count; ++i)
        ok = start_rank(job, &settings, i, error);
    return ok && start_relays(job, error);
}

int
job_run(struct job *job, const struct error *error)
{
    if (job->input.read_end >= 0) { /* rank 0 has it now */
        close(job->input.read_end);
        job->input.read_end = -1;
    }
    return supervisor_run(job, error);
}

/* ---- the end ---- */

/* Of the membership in a cluster's job, in a thread of its own: PMIx may hang in it. */
static void *
end_membership(void *cluster)
{
    cluster_leave(cluster);
    return NULL;
}

/* False: it hangs, and keeps what it works with; or there is no thread to be had, and to begin would risk that. */
static bool
leave_cluster(struct cluster *cluster)
{
    enum { LIMIT_S = 10 };
    pthread_t thread;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LIMIT_S;
    return pthread_create(&thread, NULL, end_membership, cluster) == 0 &&
           pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

static void
close_net(struct job *job)
{
    if (job->server != NULL)
        supervisor_server_close(job->server);
    if (job->is_client)
        peer_link_close(&job->client.link);
    engine_link_close(&job->link);
    listener_close(&job->listener);
    free(job->handshakes);
}

bool
job_end(struct job *job)
{
    status_loss_watch(NULL, 0);
    if (job->status_page != NULL)
        status_page_unmap(job->status_page, job->place.rank_count);
    terminal_input_close(&job->input);
    empty_input_close(&job->empty);
    close_net(job);
    if (job->trace_fd >= 0)
        close(job->trace_fd);
    job_folder_remove(&job->folder); /* now: a cluster's launcher may kill a process that has left its job */
    guardian_dismiss();
    return job->cluster.world_size == 0 || leave_cluster(&job->cluster);
}

void
job_free(struct job *job)
{
    free(job->plan);
    free(job->pids);
    free(job->outputs);
    free(job->errors);
    free(job->attempts);
    words_free(job->inherited);
    installation_free(&job->installation);
    placement_free(&job->placement);
    device_plan_free(&job->devices);
    program_free(&job->program);
    options_free(&job->options);
}
