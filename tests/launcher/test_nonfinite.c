/*
 * test_nonfinite.c - the rank of the least step is named, once, when all have had the time to tell theirs; what the
 * program leaves out of the update is not, unless the job has failed. Where a rank ends the job for it, its reason says
 * it.
 */
#include "launcher/watch/verdict.h"

#include "tests/lib/test.h"

enum { RANKS = 4 };
#define S UINT64_C(1000000000)

static struct rank_view ranks[RANKS];
static char text[NONFINITE_TEXT_BYTES];

static void
begin(void)
{
    memset(ranks, 0, sizeof(ranks));
    for (int i = 0; i < RANKS; ++i)
        ranks[i].watch_ns = 1;
}

static void
finds(int rank, unsigned state, uint64_t step)
{
    ranks[rank].nonfinite = state;
    ranks[rank].nonfinite_step = step;
    snprintf(ranks[rank].nonfinite_what, sizeof(ranks[rank].nonfinite_what), "gradient %d of 9 has NaN", rank);
}

/* All ranks but one. */
static void
watch(int but)
{
    for (int i = 0; i < RANKS; ++i)
        ranks[i].watch_ns += i != but;
}

TEST(the_least_step_is_named_once)
{
    begin();
    ck_assert(!nonfinite_judge(ranks, RANKS, S, text));
    finds(0, RANK_NONFINITE_STAYS, 42);
    finds(1, RANK_NONFINITE_FOUND, 42);
    ck_assert(!nonfinite_judge(ranks, RANKS, S, text));
    watch(3);
    ck_assert(!nonfinite_judge(ranks, RANKS, S, text));
    watch(3);
    ck_assert(!nonfinite_judge(ranks, RANKS, S, text)); /* rank 3 has not looked */
    finds(3, RANK_NONFINITE_FOUND, 41);
    watch(-1);
    ck_assert(!nonfinite_judge(ranks, RANKS, S, text));
    watch(-1);
    ck_assert(nonfinite_judge(ranks, RANKS, S, text));
    ck_assert_str_eq(text, "rank 3: gradient 3 of 9 has NaN in step 41, before averaging; the other ranks have "
                           "none up to then: check the data of this rank in that step, then its computation");
    ck_assert(!nonfinite_judge(ranks, RANKS, 99 * S, text));
    ck_assert(!nonfinite_last(ranks, RANKS, true, text));
}

TEST(a_rank_that_has_ended_or_does_not_answer_is_not_waited_for)
{
    begin();
    finds(2, RANK_NONFINITE_STAYS, 7);
    ranks[3].ended = true;
    ck_assert(!nonfinite_judge(ranks, RANKS, S, text));
    watch(3);
    ck_assert(!nonfinite_judge(ranks, RANKS, S, text));
    watch(3);
    ck_assert(nonfinite_judge(ranks, RANKS, S, text));

    begin();
    finds(2, RANK_NONFINITE_STAYS, 7);
    ck_assert(!nonfinite_judge(ranks, RANKS, S, text));
    ck_assert(!nonfinite_judge(ranks, RANKS, 10 * S, text));
    ck_assert(nonfinite_judge(ranks, RANKS, 12 * S, text));
}

TEST(what_does_not_stay_is_said_only_of_a_job_that_fails)
{
    begin();
    finds(2, RANK_NONFINITE_FOUND, 7);
    for (int i = 0; i < 20; ++i) {
        watch(-1);
        ck_assert(!nonfinite_judge(ranks, RANKS, (uint64_t)i * S, text));
    }
    ck_assert(!nonfinite_last(ranks, RANKS, false, text));
    ck_assert(nonfinite_last(ranks, RANKS, true, text));
    ck_assert_says(text, "rank 2: gradient 2 of 9 has NaN in step 7");
    begin();
    ck_assert(!nonfinite_last(ranks, RANKS, true, text));
}

TEST(a_job_that_a_rank_ends_for_it_says_it_once)
{
    begin();
    finds(2, RANK_NONFINITE_ENDS, 7);
    finds(1, RANK_NONFINITE_FOUND, 8);
    for (int i = 0; i < 20; ++i) {
        watch(-1);
        ck_assert(!nonfinite_judge(ranks, RANKS, (uint64_t)i * S, text));
    }
    ck_assert(!nonfinite_last(ranks, RANKS, true, text));
    ck_assert(nonfinite_text(ranks, RANKS, true, text)); /* for the summary */
    ck_assert_says(text, "rank 2: gradient 2 of 9 has NaN in step 7");
    ck_assert_int_eq(nonfinite_rank(ranks, RANKS, true), 2);
}

TEST(ranks_that_find_it_in_one_step_accuse_none)
{
    begin();
    for (int i = 1; i < RANKS; ++i)
        finds(i, RANK_NONFINITE_STAYS, 7);
    ck_assert_int_eq(nonfinite_first(ranks, RANKS).ranks, 3);
    ck_assert(nonfinite_last(ranks, RANKS, false, text));
    ck_assert_str_eq(text, "rank 1: gradient 1 of 9 has NaN in step 7, before averaging; 3 of 4 ranks have infinite "
                           "values or NaN in that step: the training diverges");
    ranks[0].nonfinite_said = false;
    ranks[1].nonfinite_in_part = true;
    ck_assert(nonfinite_last(ranks, RANKS, false, text));
    ck_assert_says(text, "up to 15 steps before");
}
