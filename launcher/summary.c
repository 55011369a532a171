/*
 * summary.c - see summary.h.
 */
#include "launcher/summary.h"

#include "base/protocol.h"
#include "launcher/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool
summary_check(const char *path, struct problem *problem)
{
    if (path == NULL)
        return true;
    struct stat file;
    if (stat(path, &file) == 0 && S_ISDIR(file.st_mode))
        return problem_set(problem, DDPRUN_EXIT_USAGE, "%s, in --summary-json, is a folder; name a file", path);
    char *copy = memory_copy(path);
    const char *folder = dirname(copy);
    bool ok = access(folder, W_OK | X_OK) == 0 ||
              problem_set(problem, DDPRUN_EXIT_USAGE, "cannot write to %s, in --summary-json: %s; name another file",
                          folder, strerror(errno));
    free(copy);
    return ok;
}

static void
add_number(struct json_object *object, const char *name, uint64_t value)
{
    json_object_object_add(object, name, json_object_new_uint64(value));
}

/* How many bytes the sequence of UTF-8 at `text` has; 0: it is none (RFC 3629, section 4). */
static size_t
sequence_at(const unsigned char *text)
{
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    size_t more = first < 0x80 ? 0 : first >= 0xc2 && first <= 0xdf ? 1 : (first & 0xf0) == 0xe0 ? 2 : 3;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4)
        return 0;
    low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : low;
    high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
    for (size_t i = 1; i <= more; ++i, low = 0x80, high = 0xbf) {
        if (text[i] < low || text[i] > high) /* the end of the text too */
            return 0;
    }
    return 1 + more;
}

/* JSON is UTF-8; a rank's words may be anything, and cut anywhere. */
static struct json_object *
new_string(const char *text)
{
    char *copy = memory_copy(text);
    for (char *at = copy; *at != '\0';) {
        size_t bytes = sequence_at((const unsigned char *)at);
        if (bytes == 0)
            *at = '?';
        at += bytes > 0 ? bytes : 1;
    }
    struct json_object *string = json_object_new_string(copy);
    free(copy);
    return string;
}

static struct json_object *
describe(const struct summary *summary)
{
    const struct rank_view *first = &summary->ranks[0];
    uint64_t steps = first->step, overlapped = first->overlapped_step;
    for (int i = 1; i < summary->rank_count; ++i) {
        steps = summary->ranks[i].step < steps ? summary->ranks[i].step : steps;
        overlapped = summary->ranks[i].overlapped_step < overlapped ? summary->ranks[i].overlapped_step : overlapped;
    }
    char hash[24];
    snprintf(hash, sizeof(hash), "%016" PRIx64, first->parameter_hash);
    bool failed = summary->reason != NULL && summary->reason[0] != '\0';

    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "exit_code", json_object_new_int(summary->exit_code));
    json_object_object_add(object, "reason", failed ? new_string(summary->reason) : NULL);
    json_object_object_add(object, "ranks", json_object_new_int(summary->rank_count));
    json_object_object_add(object, "seconds", json_object_new_double(summary->seconds));
    add_number(object, "steps", steps);
    add_number(object, "overlapped_steps", overlapped);
    add_number(object, "gradients", first->gradient_count);
    add_number(object, "gradient_bytes", first->gradient_bytes);
    add_number(object, "buckets", first->bucket_count);
    add_number(object, "comparisons", first->check_count);
    json_object_object_add(object, "parameter_hash", first->check_count > 0 ? json_object_new_string(hash) : NULL);
    return object;
}

void
summary_write(const char *path, const struct summary *summary, void (*say)(const char *format, ...))
{
    char *unfinished = memory_format("%s.%d.new", path, (int)getpid());
    struct json_object *object = describe(summary);
    bool written =
        json_object_to_file_ext(unfinished, object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED) == 0 &&
        rename(unfinished, path) == 0;
    if (!written) {
        say("cannot write %s, in --summary-json: %s", path, strerror(errno));
        unlink(unfinished);
    }
    json_object_put(object);
    free(unfinished);
}
