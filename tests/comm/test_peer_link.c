/*
 * test_peer_link.c - frames over sockets: all come in order however the two ends take turns, a deadline is kept where
 * nothing moves and does not matter where it does, and a closed end is distinguished from a late one. A sealed frame is
 * believed in its turn, and unchanged.
 */
#include "base/peer_link.h"

#include "base/clock.h"

#include "tests/lib/test.h"

enum { LIMIT_MS = 60000, MESSAGES = 100, LARGEST = 30000, OPENED_AT_MOST = 100000 };

static const unsigned char key[SEAL_HASH_BYTES] = {9};

static void
open_pair(struct peer_link links[2], const unsigned char *sealed_by)
{
    int fds[2], bytes = 4096; /* messages are larger, so that both ends wait */
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
    for (int i = 0; i < 2; ++i)
        peer_link_open(&links[i], fds[i], sealed_by, i == 0, OPENED_AT_MOST);
}

static size_t
size_of(int message)
{
    return message % 3 == 0 ? (size_t)(message % 40) : (size_t)message * 7919 % LARGEST;
}

static void
compose(int message, unsigned char bytes[LARGEST])
{
    for (size_t i = 0; i < size_of(message); ++i)
        bytes[i] = (unsigned char)(i * 31 + (size_t)message * 7 + i / 251);
}

static void *
send_all(void *data)
{
    struct peer_link *link = data;
    unsigned char *bytes = malloc(LARGEST);
    for (int m = 0; bytes != NULL && m < MESSAGES; ++m) {
        compose(m, bytes);
        peer_link_send(link, FRAME_MESSAGE, bytes, size_of(m));
        if (peer_link_finish(link, clock_now_ms() + LIMIT_MS) != LINK_OPEN)
            break;
    }
    free(bytes);
    peer_link_close(link);
    return NULL;
}

TEST_GROUP(peer_link, .timeout_s = 2 * LIMIT_MS / 1000);

static struct peer_link links[2];
static struct peer_frame frame;

LOOP_TEST(all_bytes_come_in_order, 0, 2)
{
    static unsigned char bytes[LARGEST];
    pthread_t thread;
    open_pair(links, _i == 0 ? NULL : key);
    ck_assert_int_eq(pthread_create(&thread, NULL, send_all, &links[0]), 0);
    for (int m = 0; m < MESSAGES; ++m) {
        ck_assert_int_eq(peer_link_await(&links[1], &frame, clock_now_ms() + LIMIT_MS), LINK_OPEN);
        ck_assert_int_eq(frame.kind, FRAME_MESSAGE);
        ck_assert_uint_eq(frame.count, size_of(m));
        compose(m, bytes);
        ck_assert_msg(memcmp(frame.bytes, bytes, size_of(m)) == 0, "message %d", m);
    }
    ck_assert_int_eq(peer_link_await(&links[1], &frame, clock_now_ms() + LIMIT_MS), LINK_GONE);
    pthread_join(thread, NULL);
    peer_link_close(&links[1]);
}

TEST(a_deadline_is_kept_where_nothing_moves)
{
    static char bytes[LARGEST];
    open_pair(links, NULL);
    int64_t begin_ms = clock_now_ms();
    ck_assert_int_eq(peer_link_await(&links[1], &frame, begin_ms + 50), LINK_LATE);
    ck_assert_int_ge(clock_now_ms() - begin_ms, 50);
    begin_ms = clock_now_ms();
    peer_link_send(&links[0], FRAME_MESSAGE, bytes, sizeof(bytes));
    ck_assert_int_eq(peer_link_finish(&links[0], begin_ms + 50), LINK_LATE);
    ck_assert_int_ge(clock_now_ms() - begin_ms, 50);
    peer_link_close(&links[0]);
    peer_link_close(&links[1]);
}

/* As after a pause of the whole process: what has come by then counts. */
TEST(what_is_there_counts_after_the_deadline)
{
    open_pair(links, NULL);
    peer_link_send(&links[0], FRAME_MESSAGE, "ab", 2);
    ck_assert_int_eq(peer_link_finish(&links[0], clock_now_ms() - 1000), LINK_OPEN);
    ck_assert_int_eq(peer_link_await(&links[1], &frame, clock_now_ms() - 1000), LINK_OPEN);
    ck_assert(frame.count == 2 && memcmp(frame.bytes, "ab", 2) == 0);
    ck_assert_int_eq(peer_link_await(&links[1], &frame, clock_now_ms() - 1000), LINK_LATE);
    peer_link_close(&links[0]);
    peer_link_close(&links[1]);
}

TEST(the_own_end_is_closed)
{
    for (int is_file = 0; is_file < 2; ++is_file) {
        struct peer_link links[2], receiver;
        open_pair(links, NULL);
        close(links[0].fd);
        if (is_file)
            ck_assert_int_eq(open("/dev/null", O_RDWR | O_CLOEXEC), links[0].fd);
        receiver = links[0];
        peer_link_send(&links[0], FRAME_MESSAGE, "", 1);
        ck_assert_int_eq(peer_link_finish(&links[0], clock_now_ms() + LIMIT_MS), LINK_CLOSED);
        ck_assert_int_eq(peer_link_await(&receiver, &frame, clock_now_ms() + LIMIT_MS), LINK_CLOSED);
        free(receiver.in.bytes);
        if (is_file)
            close(links[0].fd);
        links[0].fd = -1;
        peer_link_close(&links[0]);
        peer_link_close(&links[1]);
    }
}

TEST(a_closed_end_is_gone)
{
    open_pair(links, NULL);
    ck_assert_int_eq(send(links[0].fd, "abc", 3, 0), 3); /* not all of a header */
    peer_link_close(&links[0]);
    ck_assert_int_eq(peer_link_await(&links[1], &frame, clock_now_ms() + LIMIT_MS), LINK_GONE);
    peer_link_close(&links[1]);

    open_pair(links, NULL);
    peer_link_close(&links[0]);
    peer_link_send(&links[1], FRAME_MESSAGE, "abc", 3);
    ck_assert_int_eq(peer_link_finish(&links[1], clock_now_ms() + LIMIT_MS), LINK_GONE);
    peer_link_close(&links[1]);
}

/* A frame that says that it is longer than it may be is none, before its bytes come. */
TEST(a_frame_has_bounded_bytes)
{
    open_pair(links, NULL);
    links[1].most = 9;
    peer_link_send(&links[0], FRAME_MESSAGE, "123456789", 9);
    ck_assert_int_eq(peer_link_await(&links[1], &frame, clock_now_ms() + LIMIT_MS), LINK_OPEN);
    peer_link_send(&links[0], FRAME_MESSAGE, "1234567890", 10);
    ck_assert_int_eq(peer_link_await(&links[1], &frame, clock_now_ms() + LIMIT_MS), LINK_ALTERED);
    ck_assert_int_eq(peer_link_await(&links[1], &frame, clock_now_ms() + LIMIT_MS), LINK_ALTERED);
    peer_link_close(&links[0]);
    peer_link_close(&links[1]);
}

/* raw[count] of rank 0 comes to rank 1, which has had `before` frames; one bit of it is changed (-1: none). */
static enum link_state
pass_on(unsigned char *raw, size_t count, long bit, uint64_t before, char text[16])
{
    struct peer_link others[2];
    open_pair(others, key);
    if (bit >= 0)
        raw[bit / 8] ^= (unsigned char)(1 << bit % 8);
    ck_assert_int_eq(send(others[0].fd, raw, count, 0), (ssize_t)count);
    if (bit >= 0)
        raw[bit / 8] ^= (unsigned char)(1 << bit % 8);
    peer_link_close(&others[0]);
    others[1].seal.received = before;
    enum link_state got = peer_link_await(&others[1], &frame, clock_now_ms() + LIMIT_MS);
    if (got == LINK_OPEN)
        snprintf(text, 16, "%.*s", (int)frame.count, (const char *)frame.bytes);
    peer_link_close(&others[1]);
    return got;
}

TEST(a_sealed_frame_comes_in_its_turn_and_unchanged)
{
    unsigned char raw[512];
    char text[16];
    open_pair(links, key);
    peer_link_send(&links[0], FRAME_ALL, "the bytes", 9);
    size_t count = FRAME_HEADER_BYTES + 9;
    ck_assert_int_eq(recv(links[1].fd, raw, count, MSG_WAITALL), (ssize_t)count);
    ck_assert_int_eq(pass_on(raw, count, -1, 0, text), LINK_OPEN);
    ck_assert_str_eq(text, "the bytes");
    ck_assert_int_eq(pass_on(raw, count, -1, 1, text), LINK_ALTERED); /* a second time */
    for (long bit = 0; bit < (long)count * 8; ++bit) {
        enum link_state got = pass_on(raw, count, bit, 0, text);
        ck_assert_msg(got == LINK_ALTERED || got == LINK_GONE, "bit %ld", bit); /* GONE: of the size */
    }
    peer_link_close(&links[0]);
    peer_link_close(&links[1]);
}
