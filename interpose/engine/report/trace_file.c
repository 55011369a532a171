/*
 * trace_file.c - see trace_file.h.
 */
#include "interpose/engine/report/trace_file.h"

#include "interpose/engine/core/observer.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/report/trace_host.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *file;
static uint64_t steps_of_means[RANK_MEANS_AT_MOST]; /* the step of the value that was written last; + 1; 0: none */

/* ---- the file ---- */

/* Only a file that a trace has made is written over: a regular one that begins as all of them do, or an empty one. */
static void
require_trace(int fd, const char *path)
{
    static const char beginning[] = "{\"ddprun_trace\":";
    char found[sizeof(beginning)] = "";
    struct stat status;
    bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    ssize_t bytes = regular ? pread(fd, found, sizeof(beginning) - 1, 0) : -1;
    if (!regular || (bytes != 0 && strncmp(found, beginning, sizeof(beginning) - 1) != 0))
        stop_job("%s exists, but is not a trace: give --trace another folder", path);
}

static void
open_file(const char *path, bool again)
{
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        stop_job("cannot write the trace %s: %s", path, errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    require_trace(fd, path);
    if ((!again && ftruncate(fd, 0) != 0) || fchmod(fd, 0600) != 0 || (file = fdopen(fd, "ae")) == NULL)
        stop_job("cannot write the trace %s: %s", path, strerror(errno));
    (void)setvbuf(file, NULL, _IOLBF, BUFSIZ); /* whole lines, as they end: a rank that is killed has written them */
}

/* The same number on all ranks, and another one in each job. */
static int64_t
agree_on_job(int64_t mine)
{
    struct control_messages all;
    exchange("the start of the trace", &mine, sizeof(mine), &all);
    memcpy(&mine, all.messages[0], sizeof(mine));
    control_free_messages(&all);
    return mine;
}

static void
write_head(void)
{
    char host[HOST_NAME_MAX + 1] = "";
    (void)gethostname(host, sizeof(host) - 1);
    int64_t at_ns = clock_now_ns(), unix_ns = clock_unix_ns();
    struct json *line = trace_file_begin();
    json_add_i64(line, "ddprun_trace", TRACE_VERSION);
    json_add_i64(line, "job", agree_on_job(unix_ns));
    json_add_i64(line, "rank", engine_state.rendezvous.rank);
    json_add_i64(line, "world", engine_state.rendezvous.world_size);
    json_add_text(line, "host", host);
    json_add_i64(line, "at_ns", at_ns);
    json_add_i64(line, "unix_ns", unix_ns);
    json_add_u64(line, "bucket_bytes", engine_state.options.bucket_bytes);
    json_add_u64(line, "check_every", engine_state.options.check_every);
    json_add_bool(line, "overlap", engine_state.options.overlap);
    json_add_bool(line, "verify", engine_state.options.verify);
    trace_file_write(line);
}

void
trace_file_open(void)
{
    if (engine_state.options.trace_dir[0] == '\0')
        return;
    char path[JOB_PATH_BYTES + 32];
    snprintf(path, sizeof(path), "%s/rank-%d.jsonl", engine_state.options.trace_dir, engine_state.rendezvous.rank);
    open_file(path, engine_state.rendezvous.generation > 0 || getenv(DDPRUN_ENV_RESTART) != NULL);
    exchange_times_keep();
    write_head();
    watch(WATCH_TRACE, true);
}

bool
trace_file_is_open(void)
{
    return file != NULL;
}

struct json *
trace_file_begin(void)
{
    static struct json line;
    json_begin(&line);
    return &line;
}

void
trace_file_write(struct json *line)
{
    json_end(line);
    fwrite(line->text, 1, line->bytes, file);
    free(line->text);
}

/* ---- what came in between ---- */

static void
write_means(void)
{
    struct rank_told *told = &engine_state.status->told;
    uint32_t count = atomic_load(&told->mean_count);
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t step = atomic_load(&told->means[i].step), bits = atomic_load(&told->means[i].value);
        double value;
        memcpy(&value, &bits, sizeof(value));
        if (steps_of_means[i] == step + 1)
            continue;
        steps_of_means[i] = step + 1;
        struct json *line = trace_file_begin();
        json_add_text(line, "mean", told->means[i].name);
        json_add_text(line, "place", told->means[i].place);
        json_add_u64(line, "after_step", step);
        json_add_i64(line, "at_ns", clock_now_ns());
        json_add_double(line, "value", value);
        trace_file_write(line);
    }
}

static void
write_warnings(void)
{
    static bool written[WARNINGS_AT_MOST];
    const struct warnings *warnings = &engine_state.status->warnings;
    for (int i = 0; i < WARNINGS_AT_MOST; ++i) {
        const struct warning *warning = &warnings->all[i];
        if (written[i] || atomic_load(&warning->count) == 0)
            continue;
        written[i] = true;
        struct json *line = trace_file_begin();
        json_add_text(line, "warning", warning->key);
        json_add_u64(line, "after_step", warning->step);
        json_add_i64(line, "at_ns", (int64_t)warning->at_ns);
        json_add_text(line, "text", warning->text);
        trace_file_write(line);
    }
}

void
trace_file_write_exchanges(void)
{
    struct exchange_time *times;
    size_t count = exchange_times_take(&times);
    for (size_t i = 0; i < count; ++i) {
        struct json *line = trace_file_begin();
        json_add_u64(line, "exchange", times[i].number);
        json_add_text(line, "about", times[i].about);
        json_add_i64(line, "begin_ns", times[i].begin_ns);
        json_add_i64(line, "end_ns", times[i].end_ns);
        trace_file_write(line);
    }
    free(times);
    write_warnings();
    if (engine_state.rendezvous.rank == 0)
        write_means();
}

void
trace_file_close(void)
{
    struct host_totals totals;
    watch(WATCH_TRACE, false);
    host_totals_take(&totals);
    trace_file_write_exchanges();
    struct json *line = trace_file_begin();
    json_add_bool(line, "end", true);
    json_add_i64(line, "at_ns", clock_now_ns());
    json_add_u64(line, "launches_total", totals.launches);
    json_add_i64(line, "saved_ns", totals.saved_ns);
    json_add_i64(line, "worked_ns", totals.worked_ns);
    trace_file_write(line);
    fclose(file);
    file = NULL;
}
