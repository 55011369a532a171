/*
 * test_transfer.c - messages over sockets: all bytes come in order however the two ends take turns, a deadline is kept
 * where nothing moves and does not matter where it does, and a closed end is distinguished from a late one. A sealed
 * frame is believed in its turn, and unchanged.
 */
#include "comm/rendezvous.h"

#include "base/clock.h"

#include "tests/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT_MS = 60000, MESSAGES = 100, LARGEST = 30000 };

static void
open_pair(int fds[2])
{
    int bytes = 4096; /* messages are larger, so that both ends wait */
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

static size_t
size_of(int message)
{
    return message % 3 == 0 ? (size_t)(message % 40) : (size_t)message * 7919 % LARGEST;
}

static unsigned char
byte_of(int message, size_t i)
{
    return (unsigned char)(i * 31 + (size_t)message * 7 + i / 251);
}

static void *
send_all(void *data)
{
    const int *fd = data;
    unsigned char *bytes = malloc(LARGEST);
    for (int m = 0; bytes != NULL && m < MESSAGES; ++m) {
        for (size_t i = 0; i < size_of(m); ++i)
            bytes[i] = byte_of(m, i);
        if (transfer_send(*fd, bytes, size_of(m), clock_now_ms() + LIMIT_MS) != TRANSFER_DONE)
            break;
    }
    free(bytes);
    close(*fd);
    return NULL;
}

TEST_GROUP(transfer, .timeout_s = 2 * LIMIT_MS / 1000);

TEST(all_bytes_come_in_order)
{
    int fds[2];
    pthread_t thread;
    unsigned char *bytes = malloc(LARGEST);
    ck_assert_ptr_nonnull(bytes);
    open_pair(fds);
    ck_assert_int_eq(pthread_create(&thread, NULL, send_all, &fds[0]), 0);
    for (int m = 0; m < MESSAGES; ++m) {
        ck_assert_int_eq(transfer_receive(fds[1], bytes, size_of(m), clock_now_ms() + LIMIT_MS), TRANSFER_DONE);
        for (size_t i = 0; i < size_of(m); ++i)
            ck_assert_msg(bytes[i] == byte_of(m, i), "byte %zu of message %d", i, m);
    }
    ck_assert_int_eq(transfer_receive(fds[1], bytes, 1, clock_now_ms() + LIMIT_MS), TRANSFER_GONE);
    pthread_join(thread, NULL);
    close(fds[1]);
    free(bytes);
}

TEST(a_deadline_is_kept_where_nothing_moves)
{
    int fds[2];
    static char bytes[LARGEST];
    open_pair(fds);
    int64_t begin_ms = clock_now_ms();
    ck_assert_int_eq(transfer_receive(fds[1], bytes, 8, begin_ms + 50), TRANSFER_LATE);
    ck_assert_int_ge(clock_now_ms() - begin_ms, 50);
    begin_ms = clock_now_ms();
    ck_assert_int_eq(transfer_send(fds[0], bytes, sizeof(bytes), begin_ms + 50), TRANSFER_LATE);
    ck_assert_int_ge(clock_now_ms() - begin_ms, 50);
    close(fds[0]);
    close(fds[1]);
}

/* As after a pause of the whole process: what has come by then counts. */
TEST(what_is_there_counts_after_the_deadline)
{
    int fds[2];
    char bytes[3] = "";
    open_pair(fds);
    ck_assert_int_eq(transfer_send(fds[0], "ab", 2, clock_now_ms() - 1000), TRANSFER_DONE);
    ck_assert_int_eq(transfer_receive(fds[1], bytes, 2, clock_now_ms() - 1000), TRANSFER_DONE);
    ck_assert_str_eq(bytes, "ab");
    ck_assert_int_eq(transfer_receive(fds[1], bytes, 1, clock_now_ms() - 1000), TRANSFER_LATE);
    close(fds[0]);
    close(fds[1]);
}

TEST(the_own_end_is_closed)
{
    int fds[2], other = open("/dev/null", O_RDWR | O_CLOEXEC);
    char byte = 0;
    open_pair(fds);
    close(fds[0]);
    ck_assert_int_eq(transfer_send(fds[0], &byte, 1, clock_now_ms() + LIMIT_MS), TRANSFER_CLOSED);
    ck_assert_int_eq(transfer_receive(fds[0], &byte, 1, clock_now_ms() + LIMIT_MS), TRANSFER_CLOSED);
    ck_assert_int_eq(transfer_send(other, &byte, 1, clock_now_ms() + LIMIT_MS), TRANSFER_CLOSED);
    close(fds[1]);
    close(other);
}

TEST(a_closed_end_is_gone)
{
    int fds[2];
    char bytes[8] = "";
    open_pair(fds);
    ck_assert_int_eq(transfer_send(fds[0], bytes, 3, clock_now_ms() + LIMIT_MS), TRANSFER_DONE);
    close(fds[0]);
    ck_assert_int_eq(transfer_receive(fds[1], bytes, 8, clock_now_ms() + LIMIT_MS), TRANSFER_GONE);
    ck_assert_int_eq(transfer_send(fds[1], bytes, 8, clock_now_ms() + LIMIT_MS), TRANSFER_GONE);
    close(fds[1]);
}

/* ---- frames ---- */

/* A frame that rank 0 sends comes to rank 1 as raw[count], of which one bit is changed (-1: none). */
static enum transfer
pass_on(unsigned char *raw, size_t count, long bit, uint64_t before, struct rank_frame_header *header_p, void **data_p)
{
    static const unsigned char key[SEAL_HASH_BYTES] = {9};
    int fds[2];
    struct rank_link to = {.fd = -1};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    if (bit >= 0)
        raw[bit / 8] ^= (unsigned char)(1 << bit % 8);
    ck_assert_int_eq(send(fds[0], raw, count, 0), (ssize_t)count);
    shutdown(fds[0], SHUT_WR);
    if (bit >= 0)
        raw[bit / 8] ^= (unsigned char)(1 << bit % 8);
    to.fd = fds[1];
    seal_open(&to.seal, key, false);
    to.seal.received = before;
    enum transfer got = frame_receive(&to, 100, header_p, data_p, clock_now_ms() + LIMIT_MS);
    close(fds[0]);
    close(fds[1]);
    return got;
}

TEST(a_sealed_frame_comes_in_its_turn_and_unchanged)
{
    static const unsigned char key[SEAL_HASH_BYTES] = {9};
    int fds[2];
    unsigned char raw[512];
    struct rank_link from = {.fd = -1};
    struct rank_frame_header header;
    struct rank_frame frame = frame_make(FRAME_ALL, 0, "a place", "the bytes", 9);
    void *data;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    from.fd = fds[0];
    seal_open(&from.seal, key, true);
    ck_assert_int_eq(frame_send(&from, &frame, clock_now_ms() + LIMIT_MS), TRANSFER_DONE);
    size_t count = sizeof(header) + 9;
    ck_assert_int_eq(recv(fds[1], raw, count, MSG_WAITALL), (ssize_t)count);
    ck_assert_int_eq(pass_on(raw, count, -1, 0, &header, &data), TRANSFER_DONE);
    ck_assert_str_eq(data, "the bytes");
    ck_assert_str_eq(header.about, "a place");
    free(data);
    ck_assert_int_eq(pass_on(raw, count, -1, 1, &header, &data), TRANSFER_ALTERED); /* a second time */
    for (long bit = 0; bit < (long)count * 8; ++bit) {
        enum transfer got = pass_on(raw, count, bit, 0, &header, &data);
        ck_assert_msg(got == TRANSFER_ALTERED || got == TRANSFER_GONE, "bit %ld", bit); /* GONE: of the size */
    }
    close(fds[0]);
    close(fds[1]);
}
