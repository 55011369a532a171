/* relay.c - see relay.h. */
#include "launcher/output/relay.h"

#include "base/message.h"
#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>

enum {
    UNFINISHED_MS = 100, /* after which an unfinished line of rank 0 is shown: a prompt, dots that show progress */
    LINE_BYTES = 64 * 1024,
    OUT_BYTES = PIPE_BUF, /* a pipe takes this much in one piece, so that lines do not mix with those of rank 0 */
    PREFIX_BYTES = 128,
    STAMP_BYTES = 32,
    MOST_DRAINED_BYTES = 2 << 20, /* more than any pipe holds: later writers are not waited for */
    LAST_BYTES = 200,
    HELD_BYTES = 8 * 1024,
    LAST_WAITS = 20,  /* for the end of what a rank wrote, */
    LAST_WAIT_MS = 5, /* each so long */
};

struct source {
    struct relay_source of; /* fd: -1 at its end; changes under the relay's lock */
    char prefix[PREFIX_BYTES];
    char more_prefix[PREFIX_BYTES]; /* for the rest of a long line */
    bool continues;                 /* what comes next belongs to a line that was begun */
    size_t used;
    char *bytes; /* [LINE_BYTES], of which `used` wait for their newline */
    size_t held_used;
    char *held; /* [HELD_BYTES]: the last lines that were held back; or NULL */

    /* guarded by the relay's lock */
    bool shows_held;
    char last[LAST_BYTES + 1];
};

struct relay {
    int target;    /* -1: it has no reader any more */
    bool has_lost; /* some output, and has reported the loss */
    int finish;    /* eventfd: set by relay_finish() */
    int done;      /* eventfd: set by the thread at its end */
    pthread_t thread;
    pthread_mutex_t lock;
    int count;
    struct source *sources;
    struct pollfd *polled; /* [count + 1]; the last is `finish` */
    struct relay *next;    /* of those that were abandoned */
    size_t out_used;
    char out[OUT_BYTES];
};

static void
write_all(struct relay *relay, const char *bytes, size_t count)
{
    while (count > 0 && relay->target >= 0) {
        ssize_t written = write(relay->target, bytes, count);
        if (written >= 0) {
            bytes += written;
            count -= (size_t)written;
        } else if (errno == EAGAIN) { /* another process made the shared descriptor non-blocking */
            struct pollfd ready = {.fd = relay->target, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno == EPIPE) {
            relay->target = -1;
        } else if (errno !=
                   EINTR) { /* a full disk, perhaps for a while: the ranks continue, as they would by themselves */
            if (!relay->has_lost)
                message_warning("output_lost",
                                "cannot write the ranks' output to %s: %s; output is lost until there is room again",
                                relay->target == STDOUT_FILENO ? "stdout" : "stderr", strerror(errno));
            relay->has_lost = true;
            return;
        }
    }
}

static void
flush(struct relay *relay)
{
    write_all(relay, relay->out, relay->out_used);
    relay->out_used = 0;
}

static void
relay_append(struct relay *relay, const char *bytes, size_t count)
{
    if (count > OUT_BYTES - relay->out_used)
        flush(relay);
    if (count > OUT_BYTES) {
        write_all(relay, bytes, count);
        return;
    }
    memcpy(relay->out + relay->out_used, bytes, count);
    relay->out_used += count;
}

/* The oldest lines make room. */
static void
hold_line(struct source *source, const char *bytes, size_t count)
{
    count = count < HELD_BYTES ? count : HELD_BYTES - 1;
    while (source->held_used + count + 1 > HELD_BYTES) {
        const char *newline = memchr(source->held, '\n', source->held_used);
        size_t oldest = (size_t)(newline - source->held) + 1;
        source->held_used -= oldest;
        memmove(source->held, source->held + oldest, source->held_used);
    }
    memcpy(source->held + source->held_used, bytes, count);
    source->held_used += count;
    source->held[source->held_used++] = '\n';
}

/* "2026-03-01T14:02:59.125Z ": the time of day, or nothing. Returns its length. */
static size_t
make_stamp(const struct source *source, char stamp[STAMP_BYTES])
{
    struct timespec now;
    struct tm parts;
    stamp[0] = '\0';
    if (!source->of.has_time || clock_gettime(CLOCK_REALTIME, &now) != 0 || gmtime_r(&now.tv_sec, &parts) == NULL)
        return 0;
    size_t used = strftime(stamp, STAMP_BYTES, "%Y-%m-%dT%H:%M:%S", &parts);
    return used + (size_t)snprintf(stamp + used, STAMP_BYTES - used, ".%03ldZ ", now.tv_nsec / 1000000);
}

/* Puts out bytes without their newline, as one line. */
static void
put_line(struct relay *relay, struct source *source, const char *bytes, size_t count)
{
    static const char ours[] = "ddprun: ";
    if (source->of.held_back && (count < sizeof(ours) - 1 || memcmp(bytes, ours, sizeof(ours) - 1) != 0)) {
        hold_line(source, bytes, count);
        return;
    }
    const char *prefix = source->continues ? source->more_prefix : source->prefix;
    size_t prefix_bytes = strlen(prefix);
    char stamp[STAMP_BYTES];
    size_t stamp_bytes = make_stamp(source, stamp);
    if (stamp_bytes + prefix_bytes + count + 1 > OUT_BYTES - relay->out_used)
        flush(relay);
    relay_append(relay, stamp, stamp_bytes);
    relay_append(relay, prefix, prefix_bytes);
    relay_append(relay, bytes, count);
    relay_append(relay, "\n", 1);
}

/* The whole lines of an unchanged stream, or with `all` everything that is there. */
static void
put_unchanged(struct relay *relay, struct source *source, bool all)
{
    const char *newline = memrchr(source->bytes, '\n', source->used);
    size_t count = newline == NULL ? 0 : (size_t)(newline - source->bytes) + 1;
    if (all || (newline == NULL && source->used == LINE_BYTES))
        count = source->used;
    relay_append(relay, source->bytes, count);
    source->used -= count;
    memmove(source->bytes, source->bytes + count, source->used);
}

static void
put_whole_lines(struct relay *relay, struct source *source)
{
    if (source->of.unchanged) {
        put_unchanged(relay, source, false);
        return;
    }
    size_t begin = 0;
    const char *newline;
    while ((newline = memchr(source->bytes + begin, '\n', source->used - begin)) != NULL) {
        size_t end = (size_t)(newline - source->bytes);
        put_line(relay, source, source->bytes + begin, end - begin);
        source->continues = false;
        begin = end + 1;
    }
    source->used -= begin;
    if (begin > 0)
        memmove(source->bytes, source->bytes + begin, source->used);
    if (source->used == LINE_BYTES) {
        put_line(relay, source, source->bytes, source->used);
        source->used = 0;
        source->continues = true;
    }
}

static void
end_source(struct relay *relay, struct source *source)
{
    if (source->of.unchanged)
        put_unchanged(relay, source, true);
    else if (source->used > 0)
        put_line(relay, source, source->bytes, source->used);
    source->used = 0;
    pthread_mutex_lock(&relay->lock);
    close(source->of.fd);
    if (source->of.copy > 0)
        close(source->of.copy);
    source->of.fd = source->of.copy = -1;
    pthread_mutex_unlock(&relay->lock);
}

/* A full disk is warned of at the end (output_warn_full()). */
static void
put_copy(const struct source *source, const char *bytes, size_t count)
{
    for (ssize_t put; count > 0; bytes += put, count -= (size_t)put) {
        put = write(source->of.copy, bytes, count);
        if (put <= 0)
            return;
    }
}

static bool
is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* The last line of bytes[0..end) without blanks at its ends: where it begins; *end_p: where it ends. */
static size_t
find_line(const char *bytes, size_t *end_p)
{
    size_t end = *end_p;
    while (end > 0 && is_blank(bytes[end - 1]))
        --end;
    size_t begin = end;
    while (begin > 0 && bytes[begin - 1] != '\n' && bytes[begin - 1] != '\r')
        --begin;
    while (begin < end && is_blank(bytes[begin]))
        ++begin;
    *end_p = end;
    return begin;
}

/* What Rust prints after each panic; the line before it is the program's. */
static bool
is_hint(const char *line, size_t bytes)
{
    static const char hint[] = "note: run with `RUST_BACKTRACE=";
    return bytes >= sizeof(hint) - 1 && memcmp(line, hint, sizeof(hint) - 1) == 0;
}

/* The last line that says anything, of what waits for its newline or has just come with it. */
static void
note_last(struct source *source)
{
    size_t end = source->used;
    size_t begin = find_line(source->bytes, &end);
    if (is_hint(source->bytes + begin, end - begin)) {
        end = begin;
        begin = find_line(source->bytes, &end);
    }
    if (begin < end)
        snprintf(source->last, sizeof(source->last), "%.*s", (int)(end - begin), source->bytes + begin);
}

/* Takes what one read gives. Returns the number of bytes; 0 at the end of the stream or when nothing is there. */
static size_t
take_from(struct relay *relay, struct source *source)
{
    pthread_mutex_lock(&relay->lock);
    ssize_t got = read(source->of.fd, source->bytes + source->used, LINE_BYTES - source->used);
    int cause = errno;
    source->used += got > 0 ? (size_t)got : 0;
    if (got > 0 && source->of.has_stderr)
        note_last(source);
    pthread_mutex_unlock(&relay->lock);
    if (got > 0) {
        if (source->of.copy > 0)
            put_copy(source, source->bytes + source->used - (size_t)got, (size_t)got);
        put_whole_lines(relay, source);
        return (size_t)got;
    }
    if (got == 0 || (cause != EAGAIN && cause != EINTR))
        end_source(relay, source);
    return 0;
}

static void
show_held(struct relay *relay, struct source *source)
{
    pthread_mutex_lock(&relay->lock);
    bool shows = source->of.held_back && source->shows_held;
    pthread_mutex_unlock(&relay->lock);
    source->of.held_back = source->of.held_back && !shows;
    for (const char *at = source->held; shows && at < source->held + source->held_used;) {
        const char *newline = memchr(at, '\n', source->held_used - (size_t)(at - source->held));
        put_line(relay, source, at, (size_t)(newline - at));
        at = newline + 1;
    }
}

static void
drain(struct relay *relay)
{
    for (int i = 0; i < relay->count; ++i) {
        struct source *source = &relay->sources[i];
        size_t taken = 0, got = 1;
        while (source->of.fd >= 0 && got > 0 && taken < MOST_DRAINED_BYTES)
            taken += got = take_from(relay, source);
        if (source->of.fd >= 0)
            end_source(relay, source);
        source->continues = false;
        show_held(relay, source);
    }
    flush(relay);
}

/* Returns whether an unfinished line of rank 0 waits; with `show`, none does any more. */
static bool
is_line_waiting(struct relay *relay, bool show)
{
    bool waiting = false;
    for (int i = 0; i < relay->count; ++i) {
        struct source *source = &relay->sources[i];
        if (!source->of.unchanged || source->used == 0)
            continue;
        waiting = !show;
        if (show)
            put_unchanged(relay, source, true);
    }
    return waiting;
}

/* Returns whether any stream is open, or one is held back until the end; without a reader, closes all, so that the
 * ranks get SIGPIPE as they would by themselves. */
static bool
prepare_poll(struct relay *relay)
{
    bool any = false;
    for (int i = 0; i < relay->count; ++i) {
        if (relay->target < 0 && relay->sources[i].of.fd >= 0)
            end_source(relay, &relay->sources[i]);
        relay->polled[i] = (struct pollfd){.fd = relay->sources[i].of.fd, .events = POLLIN};
        any = any || relay->sources[i].of.fd >= 0 || (relay->sources[i].of.held_back && relay->target >= 0);
    }
    relay->polled[relay->count] = (struct pollfd){.fd = relay->finish, .events = POLLIN};
    return any;
}

static void *
run(void *data)
{
    struct relay *relay = data;
    while (prepare_poll(relay)) {
        int ready = poll(relay->polled, (nfds_t)relay->count + 1, is_line_waiting(relay, false) ? UNFINISHED_MS : -1);
        if (ready == 0)
            is_line_waiting(relay, true);
        if (relay->polled[relay->count].revents != 0)
            break;
        for (int i = 0; i < relay->count; ++i) {
            if (relay->polled[i].revents != 0)
                take_from(relay, &relay->sources[i]);
        }
        flush(relay);
    }
    drain(relay);
    eventfd_write(relay->done, 1);
    return NULL;
}

static void
make_prefixes(struct source *source, bool colour)
{
    static const int colours[] = {36, 33, 35, 32, 34, 31}; /* cyan, yellow, magenta, green, blue, red */
    const char *host = source->of.host != NULL ? source->of.host : "", *colon = host[0] != '\0' ? ":" : "";
    int rank = source->of.rank;
    char begin[16] = "";
    if (colour)
        snprintf(begin, sizeof(begin), "\033[%dm", colours[rank % 6]);
    const char *end = colour ? "\033[0m" : "";
    snprintf(source->prefix, sizeof(source->prefix), "%s[%.64s%s%d]%s ", begin, host, colon, rank, end);
    snprintf(source->more_prefix, sizeof(source->more_prefix), "%s[%.64s%s%d]%s+", begin, host, colon, rank, end);
}

static void
release(struct relay *relay)
{
    for (int i = 0; i < relay->count; ++i) {
        if (relay->sources[i].of.fd >= 0)
            close(relay->sources[i].of.fd);
        free(relay->sources[i].bytes);
        free(relay->sources[i].held);
    }
    if (relay->finish >= 0)
        close(relay->finish);
    if (relay->done >= 0)
        close(relay->done);
    pthread_mutex_destroy(&relay->lock);
    free(relay->sources);
    free(relay->polled);
    free(relay);
}

bool
relay_start(int target, const struct relay_source *sources, int count, bool colour, struct relay **relay_p,
            struct error *error)
{
    struct relay *relay = xcalloc(1, sizeof(*relay));
    relay->target = target;
    relay->count = count;
    pthread_mutex_init(&relay->lock, NULL);
    relay->sources = xcalloc((size_t)count, sizeof(*relay->sources));
    relay->polled = xcalloc((size_t)count + 1, sizeof(*relay->polled));
    for (int i = 0; i < count; ++i) {
        struct source *source = &relay->sources[i];
        source->of = sources[i];
        source->bytes = xcalloc(1, LINE_BYTES);
        source->held = source->of.held_back ? xcalloc(1, HELD_BYTES) : NULL;
        make_prefixes(source, colour);
        fcntl(source->of.fd, F_SETFL,
              fcntl(source->of.fd, F_GETFL) | O_NONBLOCK); /* our end only; the rank's stays as it is */
    }
    relay->finish = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    relay->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int cause = relay->finish < 0 || relay->done < 0 ? errno : pthread_create(&relay->thread, NULL, run, relay);
    if (cause != 0) {
        release(relay);
        return error_set(error, DDPRUN_EXIT_FAILURE,
                         "cannot carry the ranks' output: %s; raise the limits of open files and threads",
                         strerror(cause));
    }
    *relay_p = relay;
    return true;
}

/* Whether all that has come so far has been read. */
static bool
look_at_last(struct relay *relay, struct source *source, char *text, size_t bytes)
{
    pthread_mutex_lock(&relay->lock);
    struct pollfd polled = {.fd = source->of.fd, .events = POLLIN};
    bool complete = poll(&polled, 1, 0) <= 0 || (polled.revents & POLLIN) == 0;
    source->shows_held = true;
    if (text != NULL)
        snprintf(text, bytes, "%s", source->last);
    pthread_mutex_unlock(&relay->lock);
    return complete || text == NULL;
}

void
relays_ask_last(struct relay *const relays[2], int rank, char *text, size_t bytes)
{
    for (int r = 0; r < 2; ++r) {
        for (int i = 0; relays[r] != NULL && i < relays[r]->count; ++i) {
            struct source *source = &relays[r]->sources[i];
            if (source->of.rank != rank || !source->of.has_stderr)
                continue;
            for (int waits = 0; !look_at_last(relays[r], source, text, bytes) && waits < LAST_WAITS; ++waits)
                poll(NULL, 0, LAST_WAIT_MS);
            if (text != NULL)
                printable_make(text, "");
        }
    }
}

void
relay_finish(struct relay *relay)
{
    eventfd_write(relay->finish, 1);
}

int
relay_fd(const struct relay *relay)
{
    return relay->done;
}

void
relay_free(struct relay *relay)
{
    if (relay == NULL)
        return;
    pthread_join(relay->thread, NULL);
    release(relay);
}

void
relay_abandon(struct relay *relay)
{
    static struct relay *abandoned; /* what their threads work with is not lost */
    if (relay == NULL)
        return;
    relay->next = abandoned;
    abandoned = relay;
}

/* ---- the reader ---- */

bool
output_stall_look(struct output_stall *stall, uint64_t now_ns, uint64_t warning_ns)
{
    struct pollfd polled[2] = {{.fd = STDOUT_FILENO, .events = POLLOUT}, {.fd = STDERR_FILENO, .events = POLLOUT}};
    poll(polled, 2, 0);
    if (polled[0].revents != 0 && polled[1].revents != 0) { /* one that has no reader any more takes everything */
        *stall = (struct output_stall){0};
        return false;
    }
    if (stall->since_ns == 0)
        stall->since_ns = now_ns;
    if (warning_ns > 0 && now_ns - stall->since_ns >= warning_ns && !stall->told) {
        stall->told = true;
        message_warning("output_not_read",
                        "%s has not been read for %.0f s: ranks that print wait for its reader, and other ranks wait "
                        "for them, up to --timeout; read it, or send it to a file",
                        polled[0].revents == 0 ? "stdout" : "stderr", (double)(now_ns - stall->since_ns) * 1e-9);
    }
    return true;
}
