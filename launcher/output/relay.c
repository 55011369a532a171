/*
 * relay.c - see relay.h.
 */
#include "launcher/output/relay.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    UNFINISHED_MS = 100, /* after which an unfinished line of rank 0 is shown: a prompt, dots that show progress */
    LINE_BYTES = 64 * 1024,
    OUT_BYTES = PIPE_BUF, /* a pipe takes this much in one piece, so that lines do not mix with those of rank 0 */
    PREFIX_BYTES = 32,
    MOST_DRAINED_BYTES = 2 << 20, /* more than any pipe holds: later writers are not waited for */
};

struct source {
    int fd; /* -1: at its end */
    char prefix[PREFIX_BYTES];
    char more_prefix[PREFIX_BYTES]; /* for the rest of a long line */
    bool unchanged;                 /* no prefixes, nothing added */
    bool continues;                 /* what comes next belongs to a line that was begun */
    size_t used;
    char *bytes; /* [LINE_BYTES], of which `used` wait for their newline */
};

struct relay {
    int target;    /* -1: it has no reader any more */
    bool has_lost; /* some output, and has reported the loss */
    int finish;    /* eventfd: set by relay_finish() */
    int done;      /* eventfd: set by the thread at its end */
    pthread_t thread;
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
                message_line("cannot write what ranks print to %s: %s; it is lost until there is room again",
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
append(struct relay *relay, const char *bytes, size_t count)
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

/* Puts out bytes without their newline, as one line. */
static void
put_line(struct relay *relay, struct source *source, const char *bytes, size_t count)
{
    const char *prefix = source->continues ? source->more_prefix : source->prefix;
    size_t prefix_bytes = strlen(prefix);
    if (prefix_bytes + count + 1 > OUT_BYTES - relay->out_used)
        flush(relay);
    append(relay, prefix, prefix_bytes);
    append(relay, bytes, count);
    append(relay, "\n", 1);
}

/* The whole lines of an unchanged stream, or with `all` everything that is there. */
static void
put_unchanged(struct relay *relay, struct source *source, bool all)
{
    const char *newline = memrchr(source->bytes, '\n', source->used);
    size_t count = newline == NULL ? 0 : (size_t)(newline - source->bytes) + 1;
    if (all || (newline == NULL && source->used == LINE_BYTES))
        count = source->used;
    append(relay, source->bytes, count);
    source->used -= count;
    memmove(source->bytes, source->bytes + count, source->used);
}

static void
put_whole_lines(struct relay *relay, struct source *source)
{
    if (source->unchanged) {
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
    if (source->unchanged)
        put_unchanged(relay, source, true);
    else if (source->used > 0)
        put_line(relay, source, source->bytes, source->used);
    source->used = 0;
    close(source->fd);
    source->fd = -1;
}

/* Takes what one read gives. Returns the number of bytes; 0 at the end of the stream or when nothing is there. */
static size_t
take_from(struct relay *relay, struct source *source)
{
    ssize_t got = read(source->fd, source->bytes + source->used, LINE_BYTES - source->used);
    if (got > 0) {
        source->used += (size_t)got;
        put_whole_lines(relay, source);
        return (size_t)got;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
        end_source(relay, source);
    return 0;
}

static void
drain(struct relay *relay)
{
    for (int i = 0; i < relay->count; ++i) {
        struct source *source = &relay->sources[i];
        size_t taken = 0, got = 1;
        while (source->fd >= 0 && got > 0 && taken < MOST_DRAINED_BYTES)
            taken += got = take_from(relay, source);
        if (source->fd >= 0)
            end_source(relay, source);
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
        if (!source->unchanged || source->used == 0)
            continue;
        waiting = !show;
        if (show)
            put_unchanged(relay, source, true);
    }
    return waiting;
}

/* Returns whether any stream is open; without a reader, closes all, so that the ranks get SIGPIPE as they would by
 * themselves. */
static bool
prepare_poll(struct relay *relay)
{
    bool any = false;
    for (int i = 0; i < relay->count; ++i) {
        if (relay->target < 0 && relay->sources[i].fd >= 0)
            end_source(relay, &relay->sources[i]);
        relay->polled[i] = (struct pollfd){.fd = relay->sources[i].fd, .events = POLLIN};
        any = any || relay->sources[i].fd >= 0;
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
make_prefixes(struct source *source, int rank, bool colour)
{
    static const int colours[] = {36, 33, 35, 32, 34, 31}; /* cyan, yellow, magenta, green, blue, red */
    char begin[16] = "";
    if (colour)
        snprintf(begin, sizeof(begin), "\033[%dm", colours[rank % 6]);
    const char *end = colour ? "\033[0m" : "";
    snprintf(source->prefix, sizeof(source->prefix), "%s[%d]%s ", begin, rank, end);
    snprintf(source->more_prefix, sizeof(source->more_prefix), "%s[%d]%s+", begin, rank, end);
}

static void
release(struct relay *relay)
{
    for (int i = 0; i < relay->count; ++i) {
        if (relay->sources[i].fd >= 0)
            close(relay->sources[i].fd);
        free(relay->sources[i].bytes);
    }
    if (relay->finish >= 0)
        close(relay->finish);
    if (relay->done >= 0)
        close(relay->done);
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
    relay->sources = xcalloc((size_t)count, sizeof(*relay->sources));
    relay->polled = xcalloc((size_t)count + 1, sizeof(*relay->polled));
    for (int i = 0; i < count; ++i) {
        struct source *source = &relay->sources[i];
        source->fd = sources[i].fd;
        source->bytes = xcalloc(1, LINE_BYTES);
        source->unchanged = sources[i].unchanged;
        make_prefixes(source, sources[i].rank, colour);
        fcntl(source->fd, F_SETFL,
              fcntl(source->fd, F_GETFL) | O_NONBLOCK); /* our end only; the rank's stays as it is */
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
        message_line(
            "%s has not been read for %.0f s: ranks that print wait for its reader, and others for them, as long "
            "as --timeout allows; read it, or send it to a file",
            polled[0].revents == 0 ? "stdout" : "stderr", (double)(now_ns - stall->since_ns) * 1e-9);
    }
    return true;
}
