/*
 * fuzz_status.c - target: the status page and the flight recorder, into which a rank may write anything. What the
 * launcher makes of it is a verdict in bounded text, words about a hang, closing lines, and a summary that other
 * programs can read.
 */
#include "launcher/watch/verdict.h"
#include "tests/fuzz/fuzz.h"

#include "base/flight.h"
#include "base/protocol.h"
#include "launcher/report/closing.h"
#include "launcher/report/summary.h"
#include "launcher/watch/hang.h"
#include "launcher/watch/local_ranks.h"
#include "launcher/watch/processes.h"

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
    struct json_object *object = fuzz_json(text, length), *member;
    fuzz_require(json_object_object_get_ex(object, "exit_code", &member) &&
                     json_object_object_get_ex(object, "reason", &member) &&
                     json_object_object_get_ex(object, "steps", &member),
                 "the summary has its members");
    json_object_put(object);
}

static bool
is_printable(const char *text, size_t bytes)
{
    size_t length = strnlen(text, bytes);
    for (size_t i = 0; i < length; ++i) {
        if (text[i] < ' ' || text[i] > '~')
            return false;
    }
    return length < bytes;
}

/* The newest events come in order, as text. */
static void
read_flight(int ranks)
{
    struct flight_entry entries[FLIGHT_EVENTS];
    char text[256];
    for (int r = 0; r < ranks; ++r) {
        struct rank_status *status = (struct rank_status *)(page + (size_t)r * RANK_STATUS_STRIDE);
        size_t count = flight_read(flight_of(status), entries, FLIGHT_EVENTS);
        fuzz_require(count <= FLIGHT_EVENTS, "there is room for all events");
        for (size_t i = 0; i < count; ++i) {
            fuzz_require(i == 0 || entries[i].order > entries[i - 1].order, "events come in their order");
            fuzz_require(entries[i].kind >= FLIGHT_START && entries[i].kind < FLIGHT_KINDS,
                         "their kind is a known one");
            fuzz_require(is_printable(entries[i].text, sizeof(entries[i].text)), "their text can be printed");
            flight_describe(&entries[i], text, sizeof(text));
            fuzz_require(text[0] != '\0' && is_printable(text, sizeof(text)), "they have words");
        }
    }
}

/* Whatever ranks say of their waiting: a culprit is one of them, and the words have an end. */
static void
look_for_hangs(const struct rank_view *views, int ranks)
{
    const struct hang_limits limits = {2000000000, 5000000000};
    struct hang *hang = hang_new(ranks, &limits, 0);
    for (uint64_t now_ns = 0; now_ns <= 8000000000; now_ns += 1000000000) {
        struct error error = {.text = ""};
        if (hang_look(hang, views, now_ns, &error) != HANG_NONE)
            fuzz_require(error.text[0] != '\0' && memchr(error.text, '\0', sizeof(error.text)) != NULL &&
                             error.rank >= -1 && error.rank < ranks,
                         "a hang is reported, with its rank");
    }
    hang_free(hang);
    for (int r = 0; r < ranks; ++r) {
        char text[512];
        rank_describe_wait(&views[r], text);
        rank_describe_activity(&views[r], text);
        fuzz_require(is_printable(text, sizeof(text)), "what a rank does can be printed");
        rank_describe_place(&views[r], text);
    }
}

/* The first half of what a rank gets is its record, the second its flight recorder. */
static void
fill_page(int ranks, const uint8_t *bytes, size_t count)
{
    size_t half = count / (size_t)ranks / 2, room = RANK_STATUS_STRIDE - RANK_STATUS_BYTES;
    memset(page, 0, sizeof(page));
    for (int r = 0; r < ranks; ++r) {
        unsigned char *own = page + (size_t)r * RANK_STATUS_STRIDE;
        const uint8_t *from = bytes + 2 * (size_t)r * half;
        memcpy(own, from, half < RANK_STATUS_BYTES ? half : RANK_STATUS_BYTES);
        memcpy(own + RANK_STATUS_BYTES, from + half, half < room ? half : room);
    }
}

/* The engines say nothing: there is the page alone. */
static void
hear_nothing(void *data, struct rank_view *views, int count)
{
    (void)data, (void)views, (void)count;
}

/* One byte for the number of ranks, a few for what the system saw of each, then the pages. */
void
fuzz_status(const uint8_t *bytes, size_t count)
{
    static struct rank_view views[RANKS_AT_MOST];
    const pid_t pids[RANKS_AT_MOST] = {0};
    struct seen_rank remembered[RANKS_AT_MOST] = {0};
    struct error error = {.text = ""};
    if (count < 1 + SEEN_BYTES)
        return;
    int ranks = 1 + bytes[0] % RANKS_AT_MOST;
    const uint8_t *seen = bytes + 1, *rest = bytes + 1 + SEEN_BYTES;
    memset(views, 0, sizeof(views));
    fill_page(ranks, rest, count - 1 - SEEN_BYTES);
    struct local_ranks local = {.count = ranks,
                                .pids = pids,
                                .seen = remembered,
                                .status_page = page,
                                .views = views,
                                .hear_engines = hear_nothing};
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
    read_flight(ranks);
    look_for_hangs(views, ranks);
    char nonfinite[NONFINITE_TEXT_BYTES];
    if (nonfinite_last(views, ranks, seen[6] & 1, nonfinite))
        fuzz_require(nonfinite[0] != '\0' && is_printable(nonfinite, sizeof(nonfinite)), "NaN is reported in a line");
    bool failed = seen[6] & 1 ? verdict_find_at_end(views, ranks, &error) : verdict_find(views, ranks, &error);
    if (failed)
        fuzz_require(strnlen(error.text, sizeof(error.text)) < sizeof(error.text) && error.text[0] != '\0' &&
                         error.exit_code > 0 && error.exit_code <= 255,
                     "a failure has a text and an exit code");
    else
        closing_lines(views, ranks, seen[6] & 2, say);
    (void)verdict_only_follows(views, ranks);
    if (seen[6] >> 2 != 0)
        return; /* files take time */
    char path[128];
    snprintf(path, sizeof(path), "%s/summary", fuzz_folder());
    struct summary summary = {.ranks = views,
                              .rank_count = ranks,
                              .exit_code = failed ? error.exit_code : 0,
                              .reason = failed ? error.text : NULL,
                              .seconds = 1.5};
    struct side_file file = summary_file(path);
    summary_write(&file, &summary);
    side_file_look(&file, true);
    require_summary(path);
}

/* What local_ranks.c asks of the system. */
uint64_t
out_of_memory_kills(const char *root)
{
    (void)root;
    return 0;
}

void
preload_watch_look(struct preload_watch *watch, struct process_list *processes, const pid_t *pids,
                   struct rank_view *views, uint64_t now)
{
    (void)watch, (void)processes, (void)pids, (void)views, (void)now;
}

bool
process_has_variable(pid_t pid, const char *variable)
{
    return pid % 8 == 0 && variable[0] != '\0';
}

bool
process_descends(pid_t pid, pid_t ancestor)
{
    return pid % 2 == 0 && (ancestor == 0 || pid % 4 == 0);
}

bool
process_read(pid_t pid, pid_t thread, struct process *process)
{
    (void)thread;
    *process = (struct process){.name = "trainer", .is_zombie = pid % 4 > 1, .is_stopped = pid % 3 == 0};
    return pid % 5 != 0;
}

void
process_list_read(struct process_list *list)
{
    static struct process helper = {.pid = 7};
    *list = (struct process_list){.items = &helper, .count = 1};
}

void
process_list_free(struct process_list *list)
{
    *list = (struct process_list){0};
}

bool
process_list_is_in_tree(const struct process_list *list, pid_t pid, pid_t ancestor)
{
    return list->count > 0 && pid >= ancestor;
}

bool
process_signals_read(pid_t pid, struct process_signals *signals)
{
    *signals = (struct process_signals){0};
    return pid % 7 != 0;
}

bool
process_survives(pid_t pid, int number)
{
    return (pid + number) % 2 == 0;
}

void
processes_kill_tree(struct process_list *processes, pid_t ancestor)
{
    (void)processes, (void)ancestor;
}

bool
process_thread_waits(pid_t pid, pid_t thread)
{
    return (pid ^ thread) % 3 == 0;
}
