/*
 * fuzz_status.c - target: the status page, into which a rank may write anything. What the launcher makes of it is a
 * verdict in bounded text, closing lines, and a summary that other programs can read.
 */
#include "tests/fuzz/fuzz.h"

#include "base/protocol.h"
#include "launcher/local_ranks.h"
#include "launcher/summary.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_AT_MOST = 3, SEEN_BYTES = 8, LINE_BYTES = 4096 };

static _Alignas(4096) unsigned char page[RANKS_AT_MOST * RANK_STATUS_STRIDE];

static void
say(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fuzz_require(length > 0 && length < LINE_BYTES, "a closing line is a line");
}

/* The file is JSON, in UTF-8, with the members that there are always. */
static void
require_summary(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "re");
    fuzz_require(file != NULL, "the summary is written");
    size_t length = fread(text, 1, sizeof(text), file);
    fclose(file);
    unlink(path);
    struct json_tokener *tokener = json_tokener_new();
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *object = json_tokener_parse_ex(tokener, text, (int)length), *member;
    fuzz_require(object != NULL && json_object_object_get_ex(object, "exit_code", &member) &&
                     json_object_object_get_ex(object, "reason", &member) &&
                     json_object_object_get_ex(object, "steps", &member),
                 "the summary is sound JSON");
    json_object_put(object);
    json_tokener_free(tokener);
}

/* One byte for the number of ranks, a few for what the system saw of each, then the pages. */
void
fuzz_status(const uint8_t *bytes, size_t count)
{
    static struct rank_view views[RANKS_AT_MOST];
    const pid_t pids[RANKS_AT_MOST] = {0};
    struct problem problem = {.text = ""};
    if (count < 1 + SEEN_BYTES)
        return;
    int ranks = 1 + bytes[0] % RANKS_AT_MOST;
    const uint8_t *seen = bytes + 1, *rest = bytes + 1 + SEEN_BYTES;
    size_t left = count - 1 - SEEN_BYTES, each = left / (size_t)ranks;
    memset(views, 0, sizeof(views));
    memset(page, 0, sizeof(page));
    for (int r = 0; r < ranks; ++r)
        memcpy(page + (size_t)r * RANK_STATUS_STRIDE, rest + (size_t)r * each,
               each < RANK_STATUS_STRIDE ? each : RANK_STATUS_STRIDE);
    struct local_ranks local = {.count = ranks, .pids = pids, .status_page = page, .views = views};
    local_ranks_look(&local);
    for (int r = 0; r < ranks; ++r) {
        views[r].ended = seen[r] & 1;
        views[r].order = views[r].ended ? 1 + (seen[r] >> 6) : 0;
        views[r].exit_code = views[r].ended && (seen[r] & 2) ? seen[3 + r] : 0;
        views[r].signal = views[r].ended && (seen[r] & 4) ? 1 + seen[3 + r] % 64 : 0;
        views[r].connected = seen[r] & 8;
        views[r].left_early = seen[r] & 16;
        fuzz_require(memchr(views[r].failure, '\0', sizeof(views[r].failure)) != NULL, "a failure's text has an end");
    }
    bool failed = seen[6] & 1 ? verdict_find_at_end(views, ranks, &problem) : verdict_find(views, ranks, &problem);
    if (failed)
        fuzz_require(strnlen(problem.text, sizeof(problem.text)) < sizeof(problem.text) && problem.text[0] != '\0' &&
                         problem.exit_code > 0 && problem.exit_code <= 255,
                     "a failure has a text and an exit code");
    else
        verdict_close(views, ranks, seen[6] & 2, say);
    (void)verdict_only_follows(views, ranks);
    if (seen[6] >> 2 != 0)
        return; /* files take time */
    char path[128];
    snprintf(path, sizeof(path), "%s/summary", fuzz_folder());
    struct summary summary = {.ranks = views,
                              .rank_count = ranks,
                              .exit_code = failed ? problem.exit_code : 0,
                              .reason = failed ? problem.text : NULL,
                              .seconds = 1.5};
    summary_write(path, &summary, say);
    require_summary(path);
}

/* What local_ranks.c asks besides the page: there is neither here. */
bool
pmix_server_is_connected(const struct pmix_server *server, int rank)
{
    (void)server, (void)rank;
    return false;
}

bool
pmix_server_next_abort(struct pmix_server *server, struct pmix_server_abort *abort)
{
    (void)server, (void)abort;
    return false;
}

void
engine_link_step(struct engine_link *link)
{
    (void)link;
}
