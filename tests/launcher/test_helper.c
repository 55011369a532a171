/*
 * test_helper.c - work that hangs costs ddprun two seconds, work that runs is awaited, and no descriptor of ddprun's
 * own lives on in who does it.
 */
#include "launcher/common/helper.h"

#include "base/clock.h"
#include "tests/lib/test.h"

static int ends[2];

static int
hang(const void *data)
{
    while (data == NULL)
        pause();
    return 0;
}

static int
hang_for_long(const void *data)
{
    helper_takes_time();
    return hang(data);
}

/* Another process stops what may take its time. */
static int
stop_for_long(const void *data)
{
    helper_takes_time();
    raise(SIGSTOP);
    return hang(data);
}

/* Longer than the limit in all, but never without progress. */
static int
go_on(const void *data)
{
    for (int i = 0; i < 10; ++i) {
        poll(NULL, 0, HELPER_LIMIT_S * 1000 / 8);
        helper_goes_on();
    }
    return *(const int *)data;
}

/* Longer than the limit, and without a word: it runs, as far as a busy host lets it. */
static int
run_on(const void *data)
{
    uint64_t end_ns = clock_ns() + (HELPER_LIMIT_S * 1000 + 500) * UINT64_C(1000000);
    while (clock_ns() < end_ns) {
    }
    return *(const int *)data;
}

static int
die(const void *data)
{
    (void)data;
    raise(SIGKILL);
    return 0;
}

/* ends[0] is inherited by what ddprun starts, ends[1] is its own. */
static int
look_at_descriptors(const void *data)
{
    (void)data;
    return fcntl(ends[0], F_GETFD) < 0 ? EBADF : fcntl(ends[1], F_GETFD) < 0 ? 0 : EEXIST;
}

TEST_GROUP(limits, .timeout_s = 60);

TEST(says_how_the_work_ended)
{
    int cause = ENOSPC;
    ck_assert_int_eq(helper_do(go_on, &cause), ENOSPC);
    ck_assert_int_eq(helper_do(run_on, &cause), access("/proc/self/schedstat", R_OK) == 0 ? ENOSPC : ETIMEDOUT);
    ck_assert_int_eq(helper_do(die, NULL), EIO);
    ck_assert_int_eq(helper_do(stop_for_long, NULL), ETIMEDOUT);
}

TEST(what_hangs_is_ended)
{
    struct helper helper;
    int cause;
    helper_begin(&helper, hang, NULL);
    pid_t pid = helper.pid;
    ck_assert(!helper_is_over(&helper, false, &cause));
    ck_assert(helper_is_over(&helper, true, &cause));
    ck_assert_int_eq(cause, ETIMEDOUT);
    ck_assert_int_eq(helper.pid, 0);
    ck_assert(!helper_is_over(&helper, true, &cause));
    ck_assert_int_eq(kill(pid, 0), -1); /* nothing is left of it */
}

TEST(what_takes_time_ends_by_a_signal_or_in_haste)
{
    sigset_t end;
    struct helper helper;
    int cause, taken;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, NULL);
    raise(SIGTERM);
    ck_assert_int_eq(helper_do(hang_for_long, NULL), EINTR);
    ck_assert_int_eq(sigwait(&end, &taken), 0); /* tests may share a process */
    sigprocmask(SIG_UNBLOCK, &end, NULL);
    helper_begin(&helper, hang_for_long, NULL);
    while (helper.until_ns != 0) { /* until it has said so */
        ck_assert(!helper_is_over(&helper, false, &cause));
        poll(NULL, 0, 10);
    }
    helper_hurry();
    while (!helper_is_over(&helper, false, &cause))
        poll(NULL, 0, 10);
    ck_assert_int_eq(cause, ETIMEDOUT);
}

TEST(no_descriptor_of_its_own_is_left_in_it)
{
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0);
    ck_assert_int_eq(helper_do(look_at_descriptors, NULL), 0);
}
