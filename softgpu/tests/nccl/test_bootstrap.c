/*
 * test_bootstrap.c - how ranks meet: strangers do not disturb, a rank that goes away is noticed, only who knows the
 * secret and holds together is let in; and the model of a link is read as it is documented.
 */
#include "exchange_ranks.h"
#include "nccl/bootstrap_wire.h"
#include "nccl/link.h"

#include "tests/lib/test.h"

#include <sys/syscall.h>

static ncclResult_t
finish_join(struct joiner *joiner)
{
    ncclResult_t result = joiner_end(joiner);
    exchange_release(&joiner->exchange);
    return result;
}

/* A connection to the id's socket that has said nothing yet. */
static int
connect_by_hand(const ncclUniqueId *id)
{
    struct id_content content;
    memcpy(&content, id, sizeof(content));
    struct sockaddr_un address;
    socklen_t length = bootstrap_address(&content, &address);
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(connection, 0);
    ck_assert_int_eq(connect(connection, (struct sockaddr *)&address, length), 0);
    return connection;
}

static void
say_hello(int connection, const ncclUniqueId *id, int rank, int rank_count)
{
    struct report hello = {.magic = REPORT_MAGIC, .kind = REPORT_HELLO, .rank = rank, .rank_count = rank_count};
    struct id_content content;
    memcpy(&content, id, sizeof(content));
    memcpy(hello.secret, content.secret, sizeof(hello.secret));
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    ck_assert(wire_send(connection, &hello, sizeof(hello), &pidfd, 1));
    close(pidfd);
}

TEST_GROUP(bootstrap, .timeout_s = 60);

TEST(strangers_do_not_disturb)
{
    ncclUniqueId id = joiner_id(), wrong = id;
    wrong.internal[30] ^= 1; /* within the secret */
    int silent = connect_by_hand(&id), wordy = connect_by_hand(&id), guessing = connect_by_hand(&id);
    ck_assert(wire_send(wordy, "hello?", 6, NULL, 0));
    say_hello(guessing, &wrong, 0, 2);
    int many[40];
    for (int i = 0; i < 40; ++i)
        many[i] = connect_by_hand(&id);

    struct joiner joiners[2];
    joiner_start(&joiners[0], &id, 0, 2);
    char byte;
    ck_assert_int_le(recv(guessing, &byte, 1, 0), 0); /* shown the door, not served */
    for (int i = 0; i < 40; ++i)
        close(many[i]);
    joiner_start(&joiners[1], &id, 1, 2);
    for (int r = 0; r < 2; ++r)
        ck_assert_int_eq(finish_join(&joiners[r]), ncclSuccess);
    close(silent);
    close(wordy);
    close(guessing);
}

static struct joiner joiner;

LOOP_TEST(a_rank_that_goes_away_ends_the_wait, 0, 20)
{
    ncclUniqueId id = joiner_id();
    int connection = connect_by_hand(&id);
    say_hello(connection, &id, 1, 3);
    joiner_start(&joiner, &id, 0, 3);
    close(connection);
    /* The error names the rank that went away if this one came in time, else says that the id is not served any more.
     * In no case does it wait. */
    ncclResult_t result = finish_join(&joiner);
    bool is_told = strstr(joiner.error.text, "rank 1 went away before all 3 ranks had come");
    bool is_late = strstr(joiner.error.text, "this unique id");
    ck_assert_msg(result == (is_told ? ncclRemoteError : ncclSystemError) && (is_told || is_late), "%d: %s",
                  (int)result, joiner.error.text);
}

TEST(impossible_ranks_are_refused)
{
    ncclUniqueId id = joiner_id();
    joiner_start(&joiner, &id, 7, 3);
    ck_assert_int_eq(finish_join(&joiner), ncclInvalidArgument);
    ck_assert(strstr(joiner.error.text, "rank 7 of 3"));
}

LOOP_TEST(waiting_can_be_cancelled, 0, 20)
{
    ncclUniqueId id = joiner_id();
    joiner_start(&joiner, &id, 0, 2);
    bootstrap_cancel(&joiner.wait); /* before, while or after it connects: it ends */
    ck_assert_int_ne(finish_join(&joiner), ncclSuccess);
}

TEST(ids_are_different_and_serve_once)
{
    ncclUniqueId first = joiner_id(), second = joiner_id();
    ck_assert_mem_ne(&first, &second, sizeof(first));
    joiner_start(&joiner, &first, 0, 1);
    ck_assert_int_eq(finish_join(&joiner), ncclSuccess);
    joiner_start(&joiner, &first, 0, 1);
    ncclResult_t again = finish_join(&joiner);
    ck_assert(again == ncclSystemError || again == ncclRemoteError); /* refused, or dropped as the server goes */
    joiner_start(&joiner, &second, 0, 1);
    ck_assert_int_eq(finish_join(&joiner), ncclSuccess);
}

TEST(link_model_is_read_as_documented)
{
    struct link_model model;
    ck_assert(link_model_parse(NULL, &model) && link_model_parse("", &model));
    ck_assert_int_eq(link_model_ns(&model, 1u << 30, true), 0);
    ck_assert(link_model_parse("latency_us=20,gbytes_per_s=10", &model));
    ck_assert_int_eq(link_model_ns(&model, 1000000, true), 20000 + 100000);
    ck_assert_int_eq(link_model_ns(&model, 1000000, false), 100000);
    ck_assert(link_model_parse("gbytes_per_s=0.5,latency_us=1.5", &model));
    ck_assert_int_eq(link_model_ns(&model, 1000, true), 1500 + 2000);
    ck_assert_double_eq(model.busy_factor, 1.0);
    ck_assert(link_model_parse("busy_factor=2.5,latency_us=7", &model));
    ck_assert_double_eq(model.busy_factor, 2.5);
    ck_assert(link_model_parse("latency_us=7", &model));
    ck_assert_int_eq(link_model_ns(&model, 1u << 30, true), 7000);

    static const char *const malformed[] = {"20",
                                            "latency_us",
                                            "latency_us=",
                                            "latency_us=x",
                                            "latency_us=1,",
                                            "latency_us=1;gbytes_per_s=2",
                                            "latency_us=-1",
                                            "gbytes_per_s=0",
                                            "latency_us=1,latency_us=2",
                                            "gbytes_per_s=nan",
                                            "latency_us=inf",
                                            "latency_us=1 gbytes_per_s=2",
                                            ",latency_us=1",
                                            "busy_factor=0.9",
                                            "busy_factor=1001",
                                            "busy_factor=2,busy_factor=2"};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); ++i) {
        model = (struct link_model){.latency_us = 42.0};
        ck_assert_msg(!link_model_parse(malformed[i], &model), "%s", malformed[i]);
        ck_assert_double_eq(model.latency_us, 42.0);
    }
}
