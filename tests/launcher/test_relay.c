/*
 * test_relay.c - what goes into a relay comes out of it: every byte, in order, each line with its rank in front.
 *
 * So does what ddprun itself says, and neither keeps it from its end.
 *
 * Random writers (lines of any length, any bytes, writes of any size) against a reader that undoes the prefixes.
 */
#include "launcher/output/relay.h"

#include "base/message.h"

#include "tests/lib/test.h"

enum { CASES = 60, SOURCES = 3, MOST_BYTES = 300000 };

struct writer {
    pthread_t thread;
    int fd;
    unsigned seed;
    size_t count;
    char *bytes;
};

static void
make_text(struct writer *writer)
{
    unsigned *seed = &writer->seed;
    int kind = rand_r(seed) % 4; /* mean length of a line: short, usual, long, endless */
    int newline_in = kind == 0 ? 3 : kind == 1 ? 80 : kind == 2 ? 20000 : 10000000;
    writer->count = (size_t)rand_r(seed) % MOST_BYTES;
    writer->bytes = malloc(writer->count + 1);
    for (size_t i = 0; i < writer->count; ++i)
        writer->bytes[i] = rand_r(seed) % newline_in == 0 ? '\n' : (char)rand_r(seed);
    if (rand_r(seed) % 2 == 0 && writer->count > 0)
        writer->bytes[writer->count - 1] = '\n';
}

static void *
write_text(void *data)
{
    struct writer *writer = data;
    for (size_t at = 0; at < writer->count;) {
        size_t want = 1 + (size_t)rand_r(&writer->seed) % 9000;
        ssize_t written = write(writer->fd, writer->bytes + at, want < writer->count - at ? want : writer->count - at);
        if (written <= 0)
            ck_abort_msg("cannot write");
        at += (size_t)written;
    }
    close(writer->fd);
    return NULL;
}

/* Takes the lines of `rank` out of what the relay wrote, joined again. A last newline may have been added. */
static void
check_output(const char *out, size_t count, int rank, const struct writer *writer)
{
    char *joined = malloc(count + 1);
    size_t used = 0;
    const char *end = out + count;
    bool open = false; /* the last line taken may continue */
    for (const char *line = out; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        /* Not ck_assert for each line: it writes to a file each time. */
        if (newline == NULL || line[0] != '[' || line[2] != ']' || (line[3] != ' ' && line[3] != '+'))
            ck_abort_msg("a line without a newline or a rank");
        if (line[1] == '0' + rank) {
            if (open && line[3] == ' ')
                joined[used++] = '\n';
            if (!open && line[3] == '+')
                ck_abort_msg("the rest of a line that did not begin");
            memcpy(joined + used, line + 4, (size_t)(newline - line - 4));
            used += (size_t)(newline - line - 4);
            open = true;
        }
        line = newline + 1;
    }
    if (writer->count > 0 && writer->bytes[writer->count - 1] == '\n')
        joined[used++] = '\n';
    ck_assert_uint_eq(used, writer->count);
    ck_assert_mem_eq(joined, writer->bytes, used);
    free(joined);
}

struct reading {
    int fd;
    const char *last;
    int lines;
};

/* Counts our lines until the last one has come. */
static void *
read_to_last(void *data)
{
    struct reading *reading = data;
    char text[1 << 16];
    size_t used = 0;
    for (bool found = false; !found;) {
        struct pollfd ready = {.fd = reading->fd, .events = POLLIN};
        char bytes[4096];
        if (poll(&ready, 1, 20000) != 1)
            return NULL;
        ssize_t got = read(reading->fd, bytes, sizeof(bytes));
        for (ssize_t i = 0; i < got && used + 1 < sizeof(text); ++i) {
            if (bytes[i] != '\0' && bytes[i] != 'x') /* what it was full of */
                text[used++] = bytes[i];
        }
        text[used] = '\0';
        found = strstr(text, reading->last) != NULL;
    }
    for (const char *line = text; (line = strstr(line, "ddprun: line ")) != NULL; ++line)
        ++reading->lines;
    return NULL;
}

/* A relay from one rank to `target`, with the rank's end of the pipe in *write_end. */
static struct relay *
relay_of_one(struct relay_source source, int target, bool colours, int *write_end)
{
    int ends[2];
    struct relay *relay;
    struct error error;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    source.fd = ends[0];
    ck_assert(relay_start(target, &source, 1, colours, &relay, &error));
    *write_end = ends[1];
    return relay;
}

/* Puts a full pipe in stderr's place, takes over signals and opens messages. Returns the end to read. */
static int
open_messages(struct messages *messages, struct signals *signals)
{
    int out[2];
    struct error error;
    ck_assert_int_eq(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    for (char page[4096] = "x"; write(out[1], page, sizeof(page)) > 0;) /* until it is full */
        ;
    fcntl(out[1], F_SETFL, 0);
    ck_assert_int_ge(dup2(out[1], STDERR_FILENO), 0);
    ck_assert(signals_take_over(signals, &error));
    ck_assert(messages_open(messages, &error));
    return out[0];
}

TEST_GROUP(lines, .timeout_s = 60);

LOOP_TEST(everything_comes_out, 0, CASES)
{
    struct writer writers[SOURCES];
    struct relay_source sources[SOURCES];
    int target = memfd_create("out", MFD_CLOEXEC);
    for (int i = 0; i < SOURCES; ++i) {
        int ends[2];
        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        writers[i] = (struct writer){.fd = ends[1], .seed = (unsigned)(_i * SOURCES + i)};
        sources[i] = (struct relay_source){.fd = ends[0], .rank = i + 1};
        make_text(&writers[i]);
    }
    struct relay *relay;
    struct error error;
    ck_assert(relay_start(target, sources, SOURCES, false, &relay, &error));
    for (int i = 0; i < SOURCES; ++i)
        ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_text, &writers[i]), 0);
    for (int i = 0; i < SOURCES; ++i)
        pthread_join(writers[i].thread, NULL);
    relay_finish(relay);
    relay_free(relay);

    size_t count = (size_t)lseek(target, 0, SEEK_END);
    char *out = malloc(count + 1);
    ck_assert_int_eq(pread(target, out, count, 0), count);
    for (int i = 0; i < SOURCES; ++i) {
        check_output(out, count, i + 1, &writers[i]);
        free(writers[i].bytes);
    }
    free(out);
    close(target);
}

LOOP_TEST(rank_0_comes_through_unchanged, 0, CASES)
{
    int target = memfd_create("out", MFD_CLOEXEC);
    struct writer writer = {.seed = (unsigned)_i};
    make_text(&writer);
    struct relay *relay = relay_of_one((struct relay_source){.unchanged = true}, target, true, &writer.fd);
    write_text(&writer);
    relay_finish(relay);
    relay_free(relay);

    char *out = malloc(MOST_BYTES);
    ck_assert_int_eq(pread(target, out, MOST_BYTES, 0), writer.count);
    ck_assert_mem_eq(out, writer.bytes, writer.count);
    free(out);
    free(writer.bytes);
    close(target);
}

/* What stands without a newline is a prompt: it is shown, though its writer is still there. */
TEST(a_prompt_is_shown)
{
    int end, out[2];
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    struct relay *relay = relay_of_one((struct relay_source){.unchanged = true}, out[1], false, &end);
    ck_assert_int_eq(write(end, "name? ", 6), 6);
    struct pollfd reader = {.fd = out[0], .events = POLLIN};
    ck_assert_int_eq(poll(&reader, 1, 20000), 1);
    close(end);
    relay_free(relay);
    close(out[0]);
    close(out[1]);
}

/* A writer that never ends (a daemon that kept the pipe) does not keep the relay. */
TEST(finish_waits_for_no_writer)
{
    int end, out[2];
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    struct relay *relay = relay_of_one((struct relay_source){.rank = 1}, out[1], true, &end);
    ck_assert_int_eq(write(end, "last words", 10), 10);
    relay_finish(relay);
    struct pollfd left = {.fd = relay_fd(relay), .events = POLLIN};
    ck_assert_int_eq(poll(&left, 1, 20000), 1);
    relay_free(relay);
    char text[64] = "";
    ck_assert_int_gt(read(out[0], text, sizeof(text) - 1), 0);
    ck_assert_str_eq(text, "\033[33m[1]\033[0m last words\n");
    close(end);
    close(out[0]);
    close(out[1]);
}

/* Of several hosts each line has its rank's, also the pieces of a long line. */
TEST(lines_name_their_host)
{
    int end, target = memfd_create("out", MFD_CLOEXEC);
    struct relay *relay = relay_of_one((struct relay_source){.rank = 12, .host = "h2"}, target, false, &end);
    char line[70000], text[sizeof(line) + 64] = "";
    memset(line, 'x', sizeof(line));
    for (size_t used = 0; used < sizeof(line);)
        used += (size_t)write(end, line + used, sizeof(line) - used);
    close(end);
    struct pollfd left = {.fd = relay_fd(relay), .events = POLLIN};
    ck_assert_int_eq(poll(&left, 1, 20000), 1);
    relay_free(relay);
    ck_assert_int_gt(pread(target, text, sizeof(text) - 1, 0), 0);
    ck_assert_ptr_eq(strstr(text, "[h2:12] xxx"), text);
    ck_assert_ptr_nonnull(strstr(text, "\n[h2:12]+xxx"));
    close(target);
}

/* Of what is held back lines of ddprun come through, and the latest others once the rank was asked about: some KiB. */
LOOP_TEST(what_is_held_back, 0, 2)
{
    int end, target = memfd_create("out", MFD_CLOEXEC);
    struct relay_source source = {.rank = 3, .has_stderr = true, .held_back = true};
    struct relay *relays[2] = {NULL, relay_of_one(source, target, false, &end)};
    for (int i = 0; i < 1000; ++i)
        ck_assert_int_gt(dprintf(end, "line %d of a log\n", i), 0);
    dprintf(end, "ddprun: a warning\n50 %%\r \033[31mlast\a words\r\n\n ");
    close(end);
    char last[64] = "", other[64] = "none";
    relays_ask_last(relays, 2, other, sizeof(other));
    ck_assert_str_eq(other, "none");
    if (_i == 1)
        relays_ask_last(relays, 3, last, sizeof(last));
    relay_finish(relays[1]);
    relay_free(relays[1]);
    char text[16384] = "";
    ck_assert_int_gt(pread(target, text, sizeof(text) - 1, 0), 0);
    ck_assert_str_eq(last, _i == 1 ? "?[31mlast? words" : "");
    ck_assert_ptr_eq(strstr(text, "[3] ddprun: a warning\n"), text);
    ck_assert_int_eq(strstr(text, "\n[3] line 999 of a log\n[3] 50 %") != NULL, _i == 1);
    ck_assert_ptr_null(strstr(text, "line 499 of"));
    close(target);
}

/* A process that holds the pipe and writes nothing does not keep the question for the last line, a long one is cut. */
TEST(a_last_line_is_cut)
{
    int end, target = memfd_create("out", MFD_CLOEXEC);
    struct relay *relays[2] = {relay_of_one((struct relay_source){.has_stderr = true}, target, false, &end), NULL};
    ck_assert_int_gt(dprintf(end, "%0300d", 7), 0);
    char last[256] = "";
    relays_ask_last(relays, 0, last, sizeof(last));
    ck_assert_uint_eq(strspn(last, "0"), 200);
    ck_assert_uint_eq(strlen(last), 200);
    relay_finish(relays[0]);
    relay_free(relays[0]);
    close(end);
    close(target);
}

/* When the reader of the output is gone, writers get the error that they would get without a relay. */
TEST(a_gone_reader_is_passed_on)
{
    int end, out[2];
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    close(out[0]);
    struct relay *relay = relay_of_one((struct relay_source){.rank = 1}, out[1], false, &end);
    ck_assert_int_eq(write(end, "line\n", 5), 5);
    struct pollfd writer = {.fd = end, .events = 0};
    ck_assert_int_eq(poll(&writer, 1, 20000), 1);
    ck_assert_int_ne(writer.revents & POLLERR, 0);
    relay_free(relay);
    close(end);
    close(out[1]);
}

/* A full disk ends no rank: it loses what is printed, and is named once. */
TEST(a_full_target_stops_no_writer)
{
    enum { WRITES = 40, BYTES = 10000 };
    int end, full = open("/dev/full", O_WRONLY | O_CLOEXEC), said = memfd_create("stderr", MFD_CLOEXEC);
    ck_assert_int_ge(full, 0);
    ck_assert_int_ge(dup2(said, STDERR_FILENO), 0);
    struct relay *relay = relay_of_one((struct relay_source){.rank = 1}, full, false, &end);
    char line[BYTES];
    memset(line, 'x', sizeof(line));
    line[BYTES - 1] = '\n';
    for (int i = 0; i < WRITES; ++i) /* more than a pipe holds, so the relay takes it */
        ck_assert_int_eq(write(end, line, BYTES), BYTES);
    close(end);
    relay_finish(relay);
    relay_free(relay);
    close(full);
    char text[512] = "";
    ck_assert_int_gt(pread(said, text, sizeof(text) - 1, 0), 0);
    ck_assert_ptr_nonnull(strstr(text, "No space left on device"));
    ck_assert_ptr_eq(strchr(text, '\n') + 1, text + strlen(text)); /* one line */
}

/* ddprun's own messages: no thread that writes one waits for the reader of stderr, and the reader finds all of them. */
TEST(messages_wait_for_no_reader)
{
    enum { LINES = 1000 };
    struct messages messages;
    struct signals signals;
    struct reading reading = {.fd = open_messages(&messages, &signals), .last = "ddprun: line 999\n"};
    for (int i = 0; i < LINES; ++i)
        message_line("line %d", i);
    pthread_t reader;
    ck_assert_int_eq(pthread_create(&reader, NULL, read_to_last, &reading), 0);
    messages_close(&messages, &signals, false, 0);
    pthread_join(reader, NULL);
    ck_assert_int_eq(reading.lines, LINES);
}

/* A reader that stops is named once, after the limit, with the time since it stopped. */
TEST(a_reader_that_stops_is_named_once)
{
    int out[2], said = memfd_create("stderr", MFD_CLOEXEC);
    struct output_stall stall = {0};
    char text[512] = "";
    ck_assert_int_eq(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    for (char page[4096] = "x"; write(out[1], page, sizeof(page)) > 0;)
        ;
    ck_assert(dup2(said, STDERR_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0);
    for (uint64_t second = 10; second < 16; ++second) {
        ck_assert(output_stall_look(&stall, second * 1000000000, 3000000000));
        ck_assert_int_eq(pread(said, text, sizeof(text) - 1, 0) > 0, second >= 13);
    }
    ck_assert_ptr_nonnull(strstr(text, "stdout has not been read for 3 s"));
    ck_assert_ptr_eq(strchr(text, '\n') + 1, text + strlen(text)); /* one line */
}

/* But who wants the end, and has asked for it, does not get it from a reader either. */
LOOP_TEST(a_hurried_end_gives_messages_up, 0, 2)
{
    struct messages messages;
    struct signals signals;
    (void)open_messages(&messages, &signals);
    message_line("this is not read");
    if (_i == 0) {
        messages_close(&messages, &signals, true, 1);
    } else {
        raise(SIGTERM); /* waits to be read from the descriptor */
        messages_close(&messages, &signals, false, 0);
    }
}

int
main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return tests_run();
}
