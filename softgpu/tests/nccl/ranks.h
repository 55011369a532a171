/*
 * ranks.h - processes that play the ranks of a communicator, for tests. The parent only forks, waits and, past a
 * deadline, kills; it starts no threads, so that each rank is a process as a program would be.
 *
 * With TEST_HOSTS=0110 in the environment, ranks 1 and 2 are on one host and ranks 0 and 3 (and 4, and so on round) on
 * another one: every test of ranks is one of ranks spread over hosts, too. Hosts are made by NCCL_HOSTID, or, with
 * TEST_NETWORKS=/run/netns/PREFIX, are the network namespaces PREFIX0 and PREFIX1.
 */
#ifndef TESTS_SOFTGPU_NCCL_RANKS_H
#define TESTS_SOFTGPU_NCCL_RANKS_H

#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum { RANKS_MAX = 8, RANKS_DEADLINE_S = 60 };

/* What the ranks share while they run: zero at the start, gone at the end. */
struct ranks_shared {
    _Atomic int has_id;
    ncclUniqueId ids[4];
    _Atomic int flags[16]; /* for the test's own use */
    double results[RANKS_MAX][64];
    char text[RANKS_MAX][512];
};

/* One rank. Its return value is its exit code; EXPECT ends it with 1. */
typedef int (*rank_function)(int rank, int rank_count, struct ranks_shared *shared);

/*
 * Forks `rank_count` ranks and waits for all of them. True if all ended with 0, but for those in the set `may_die` (bit
 * r: rank r), which may end in any way. A rank that is not done at the deadline is killed, and counts as failed.
 */
bool ranks_run(int rank_count, rank_function function, unsigned may_die);

/* The same, and the ranks find in `shared` what the test wrote there, and leave there what it will read. */
bool ranks_run_shared(int rank_count, rank_function function, unsigned may_die, struct ranks_shared *shared);

/*
 * A test (tests/lib/test.h) whose body is what each of `ranks` ranks does: it knows its `rank`, their number `n` and
 * what is `shared`. `die`: who may die, as in ranks_run().
 */
#define RANKS_TEST(name, ranks, die)                   \
    RANKS_FUNCTION_(name)                              \
    TEST(name)                                         \
    {                                                  \
        ck_assert(ranks_run(ranks, name##_main, die)); \
    }                                                  \
    RANKS_BODY_(name)

/* The same for each number of ranks from `first` to, without, `last`, which is _i in `die`. */
#define RANKS_LOOP_TEST(name, first, last, die)     \
    RANKS_FUNCTION_(name)                           \
    LOOP_TEST(name, first, last)                    \
    {                                               \
        ck_assert(ranks_run(_i, name##_main, die)); \
    }                                               \
    RANKS_BODY_(name)

#define RANKS_BODY_(name)                                                                    \
    static void name##_rank(int rank __attribute__((unused)), int n __attribute__((unused)), \
                            struct ranks_shared *shared __attribute__((unused)))
#define RANKS_FUNCTION_(name)                                            \
    RANKS_BODY_(name);                                                   \
    static int name##_main(int rank, int n, struct ranks_shared *shared) \
    {                                                                    \
        name##_rank(rank, n, shared);                                    \
        return 0;                                                        \
    }

/* A shared block for ranks_run_shared(). */
struct ranks_shared *ranks_shared_new(void);
void ranks_shared_free(struct ranks_shared *shared);

/* Waits until the flag has at least this value: an end of the process at the deadline. */
void ranks_await(_Atomic int *flag, int value);

/* Waits until so many ranks have come. */
void ranks_meet(_Atomic int *flag, int rank_count);

/* In a rank: says what did not hold and ends the process. */
#define EXPECT(condition)                               \
    do {                                                \
        if (!(condition))                               \
            ranks_fail(__FILE__, __LINE__, #condition); \
    } while (0)

_Noreturn void ranks_fail(const char *file, int line, const char *condition);

#endif
