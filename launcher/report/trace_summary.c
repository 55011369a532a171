/*
 * trace_summary.c - see trace_summary.h.
 */
#include "launcher/report/trace_summary.h"

#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
set(struct json_object *settings, const char *name, const char *value)
{
    json_object_object_add(settings, name, json_object_new_string(value));
}

static void
set_number(struct json_object *settings, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.6g", value);
    set(settings, name, text);
}

/* As they were in force, wherever they came from; by the names of the options. */
static struct json_object *
describe_settings(const struct options *options)
{
    struct json_object *settings = json_object_new_object();
    if (options->bucket_bytes > 0)
        set_number(settings, "bucket-mb", (double)options->bucket_bytes / (1 << 20));
    else
        set(settings, "bucket-mb", "as measured");
    set(settings, "overlap", options->overlap ? "on" : "off");
    set(settings, "reduce", reduction_names[options->reduction]);
    set(settings, "compress", compression_names[options->compression]);
    set_number(settings, "communicators", options->communicator_count);
    set_number(settings, "check-every", options->check_every);
    set(settings, "verify", options->verify ? "on" : "off");
    if (options->sync_every > 0)
        set_number(settings, "sync-every", options->sync_every);
    if (options->has_outer) {
        set_number(settings, "outer-lr", options->outer_rate);
        set_number(settings, "outer-momentum", options->outer_momentum);
    }
    set(settings, "nccl", options->nccl != NULL ? options->nccl : "libnccl.so.2");
    return settings;
}

static struct json_object *
describe_arguments(char *const *words)
{
    struct json_object *arguments = json_object_new_array();
    for (; *words != NULL; ++words)
        json_object_array_add(arguments, json_object_new_string(*words));
    return arguments;
}

/* A trace that was begun since: of an attempt after a restart, the file begins with those before. */
static bool
is_of_this_job(int fd, int64_t begun_unix_ns, const struct summary *summary)
{
    enum { HEAD_BYTES = 1024 };
    char head[HEAD_BYTES] = "";
    long long unix_ns;
    ssize_t bytes = pread(fd, head, sizeof(head) - 1, 0);
    const char *time = bytes > 0 && strncmp(head, "{\"ddprun_trace\":", 16) == 0 ? strstr(head, "\"unix_ns\":") : NULL;
    if (time == NULL || sscanf(time, "\"unix_ns\":%lld", &unix_ns) != 1)
        return false;
    return summary->restarts > 0 || unix_ns >= begun_unix_ns;
}

static bool
add_line(int fd, const struct summary *summary, const struct options *options)
{
    const char *program = options->program[0], *slash = strrchr(program, '/');
    struct json_object *line = json_object_new_object();
    json_object_object_add(line, "summary", summary_describe(summary));
    json_object_object_add(line, "settings", describe_settings(options));
    set(line, "program", slash != NULL ? slash + 1 : program);
    if (options->trace_args)
        json_object_object_add(line, "arguments", describe_arguments(options->program + 1));
    char *text = xasprintf("%s\n", json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN));
    size_t bytes = strlen(text);
    bool written = write(fd, text, bytes) == (ssize_t)bytes;
    free(text);
    json_object_put(line);
    return written;
}

void
trace_summary_add(const char *folder, int64_t begun_unix_ns, const struct summary *summary,
                  const struct options *options, void (*say)(const char *format, ...))
{
    struct stat file;
    char *path = xasprintf("%s/rank-0.jsonl", folder);
    int fd = open(path, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && is_of_this_job(fd, begun_unix_ns, summary) &&
        !add_line(fd, summary, options))
        say("cannot write %s, in --trace: %s; the trace lacks its summary", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(path);
}
