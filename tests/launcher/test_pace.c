/*
 * test_pace.c - what ranks waited at the same boundaries is split into the network's part and the waiting for a rank; a
 * rank is named only if it was the last nearly always and by much, whatever the order in which ranks measured.
 */
#include "launcher/watch/pace.h"

#include "tests/lib/test.h"

#define MS UINT64_C(1000000)

enum { RANKS = 4 };

static struct rank_view ranks[RANKS];

static void
set_up(void)
{
    memset(ranks, 0, sizeof(ranks));
    for (int i = 0; i < RANKS; ++i) {
        ranks[i].step = 101;
        ranks[i].training_us = 10000000; /* steps of 100 ms */
    }
}

static void
set_wait(int rank, uint64_t boundary, uint64_t ns)
{
    ranks[rank].exposed_steps[rank_exposed_place(boundary)] = rank_exposed_pack(boundary, ns);
}

/* At each of the first boundaries, rank i waits so long at boundary b. */
#define SET_WAITS(boundaries, ns)                  \
    for (uint64_t b = 1; b <= (boundaries); ++b) { \
        for (int i = 0; i < RANKS; ++i)            \
            set_wait(i, b, ns);                    \
    }

/* What rank i waits for the one that is the last at boundary b. */
#define LATE(last, lag) ((int)(last) == i ? 0 : (lag))
#define IN_TURNS        (b % RANKS)
#define MOSTLY_2        (b % 5 == 0 ? 0 : 2)
#define HALF_2          (b % 2 == 0 ? 2 : b / 2 % 2)

static void
ck_pace(uint64_t exposed_ns, uint64_t waiting_ns, int straggler)
{
    struct pace pace = pace_of(ranks, RANKS, NULL);
    ck_assert_uint_eq(pace.exposed_ns, exposed_ns);
    ck_assert_uint_eq(pace.waiting_ns, waiting_ns);
    ck_assert_int_eq(pace.waited.straggler, straggler);
}

TEST_GROUP(pace, .setup = set_up);

TEST(the_last_rank_is_named_with_what_it_costs)
{
    char text[WAITING_TEXT_BYTES];
    SET_WAITS(20, 2 * MS + LATE(2, 58 * MS))
    ck_pace(2 * MS, 58 * MS, 2);
    struct pace pace = pace_of(ranks, RANKS, NULL);
    ck_assert_uint_eq(pace.sums.count, 20);
    ck_assert_uint_eq(pace.sums.first, 1);
    ck_assert_uint_eq(pace.sums.last, 20);
    ck_assert_uint_eq(pace.waited.last_count, 20);
    ck_assert_str_eq(waiting_text(&pace.waited, 1e6, text),
                     "waiting for rank 2: 58 ms per step, last to arrive in 20 of 20 steps");
    SET_WAITS(20, 2 * MS + LATE(MOSTLY_2, 58 * MS))
    ck_pace(2 * MS, (16 + 20 + 20) * 58 * MS / 60, 2); /* of the other three, each in 20 steps */
    ck_assert_uint_eq(pace_of(ranks, RANKS, NULL).waited.last_count, 16);
}

/* What a rank is late is not the network's, whichever rank it is; but none is to blame. */
TEST(ranks_that_take_turns_are_not_named)
{
    char text[WAITING_TEXT_BYTES];
    SET_WAITS(40, 2 * MS + LATE(IN_TURNS, 40 * MS))
    ck_pace(2 * MS, 30 * MS, -1); /* each in three of four */
    struct pace pace = pace_of(ranks, RANKS, NULL);
    ck_assert_str_eq(waiting_text(&pace.waited, 1e6, text), "waiting for each other: 30 ms per step");
    SET_WAITS(40, 2 * MS + LATE(HALF_2, 40 * MS))
    ck_pace(2 * MS, 30 * MS, -1);
}

/* To be rid of either alone would gain nothing. */
TEST(two_late_ranks_are_not_one)
{
    SET_WAITS(20, i < 2 ? 42 * MS : i == 2 ? 2 * MS : 2 * MS + 1000)
    ck_pace(2 * MS, (80 * MS + 1000) / 4, -1);
}

/* Too few cores: one rank is often the last, but by any time. */
TEST(a_rank_that_is_often_last_by_little_is_not_named)
{
    SET_WAITS(40, 2 * MS + (b % 8 == 0 ? (uint64_t)i : i == 2 ? 0 : b % 8 * 8 * MS - 7 * MS))
    ck_assert_int_eq(pace_of(ranks, RANKS, NULL).waited.straggler, -1);
    SET_WAITS(40, 2 * MS + LATE(MOSTLY_2, 11 * MS))
    ck_pace(2 * MS, (32 + 40 + 40) * 11 * MS / 120 + 1, 2); /* rounded up */
}

/* One rank that is early has others that are alike. */
TEST(an_early_rank_accuses_no_rank)
{
    SET_WAITS(20, i == 3 ? 20 * MS : 2 * MS + (uint64_t)i)
    ck_pace(2 * MS, 18 * MS / 4 + 1, -1);
    ck_assert(!pace_of(ranks, RANKS, NULL).waited.matters); /* less than a tenth of a step */
}

TEST(little_is_not_said)
{
    char text[WAITING_TEXT_BYTES];
    SET_WAITS(20, 2 * MS + LATE(2, 9 * MS))
    ck_pace(2 * MS, 27 * MS / 4, -1); /* of 100 ms, of all four */
    struct pace pace = pace_of(ranks, RANKS, NULL);
    ck_assert(!pace.waited.matters);
    ck_assert_str_eq(waiting_text(&pace.waited, 1e6, text), "waiting for each other: 6.75 ms per step");
    SET_WAITS(20, 2 * MS + LATE(2, 11 * MS))
    ck_pace(2 * MS, 11 * MS, 2);
    for (int i = 0; i < RANKS; ++i)
        ranks[i].training_us = 100000; /* steps of 1 ms */
    SET_WAITS(20, 2 * MS + LATE(2, MS - 1))
    ck_pace(2 * MS, 3 * (MS - 1) / 4, -1);
    ck_assert(!pace_of(ranks, RANKS, NULL).waited.matters);
    SET_WAITS(20, 2 * MS + LATE(2, MS))
    ck_pace(2 * MS, MS, 2);
}

static uint64_t random_state;

static uint64_t
random_below(uint64_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % limit;
}

/* A boundary that ranks reach up to `noise` apart, `late` after them by `lag`; now and then one is very late. */
static void
pass(uint64_t boundary, uint64_t noise, int late, uint64_t lag)
{
    uint64_t came[RANKS], last = 0;
    for (int i = 0; i < RANKS; ++i) {
        came[i] = random_below(noise) + (i == late ? lag : 0) + (random_below(100) == 0 ? 200 * MS : 0);
        last = came[i] > last ? came[i] : last;
    }
    for (int i = 0; i < RANKS; ++i) {
        set_wait(i, boundary, 2 * MS + last - came[i]);
        ranks[i].step = boundary;
        ranks[i].training_us = (boundary - 1) * 100000;
    }
}

/* Steps of 100 ms, of which ranks differ by up to 30. */
TEST(no_rank_is_named_in_ten_thousand_clean_steps)
{
    random_state = 1;
    for (uint64_t boundary = 2; boundary <= 10001; ++boundary) {
        pass(boundary, 30 * MS, -1, 0);
        pace_note(ranks, RANKS);
        ck_assert_int_eq(pace_of(ranks, RANKS, NULL).waited.straggler, -1);
    }
}

/* Any rank, at any time, late by a fifth of a step or more. */
LOOP_TEST(a_straggler_is_named_within_twenty_steps, 0, 20)
{
    random_state = (uint64_t)_i;
    uint64_t from = 10 + (uint64_t)_i * 29;
    int late = _i % RANKS;
    for (uint64_t boundary = 2; boundary < from + 20; ++boundary) {
        bool is_late = boundary >= from;
        pass(boundary, 8 * MS, is_late ? late : -1, (uint64_t)(20 + _i) * MS);
        pace_note(ranks, RANKS);
        int named = pace_of(ranks, RANKS, NULL).waited.straggler;
        ck_assert(named == -1 || (is_late && named == late));
    }
    ck_assert_int_eq(pace_of(ranks, RANKS, NULL).waited.straggler, late);
}

/* In a second of quick steps any rank may be the last; one that always is, is named at once. */
TEST(a_rank_that_is_the_last_now_and_then_is_not_named)
{
    for (int i = 0; i < RANKS; ++i)
        ranks[i].training_us = 1000000; /* steps of 10 ms */
    SET_WAITS(40, 2 * MS + LATE(2, 58 * MS))
    for (int look = 0; look < 40; ++look) {
        ck_pace(2 * MS, 58 * MS, 2);
        ++ranks[0].step;
        pace_note(ranks, RANKS);
        pace_note(ranks, RANKS); /* no step since */
    }
    ck_assert_uint_le(ranks[0].pace_looks, 32);
    SET_WAITS(40, 2 * MS + LATE(IN_TURNS, 58 * MS))
    for (int look = 0; look < 16; ++look, ++ranks[0].step)
        pace_note(ranks, RANKS);
    SET_WAITS(40, 2 * MS + LATE(2, 58 * MS))
    ck_pace(2 * MS, 3 * 58 * MS / 4, -1);
}

/* By the latest 20 it is named, and the sentence is of all steps that its figures are of. */
TEST(a_rank_that_has_become_late_is_said_with_both_counts)
{
    char text[WAITING_TEXT_BYTES];
    SET_WAITS(60, 2 * MS + LATE(b > 40 ? 1 : IN_TURNS, 30 * MS))
    struct pace pace = pace_of(ranks, RANKS, NULL);
    ck_assert_str_eq(
        waiting_text(&pace.waited, 1e6, text),
        "waiting for rank 1: 25 ms per step, last to arrive in 30 of 60 steps, and in 20 of the latest 20");
}

static void
set_control_steps(int last)
{
    for (uint64_t b = 22; b <= 36; b += 2) {
        for (int i = 0; i < RANKS; ++i)
            ranks[i].exposed_steps[rank_exposed_place(b)] =
                rank_exposed_pack(b, 30 * MS + LATE(last, 11 * MS)) | RANK_EXPOSED_CONTROL;
    }
}

/* Control steps of a trial, every other one: they say who comes last, and not what a step exposes. */
TEST(control_steps_expose_nothing_and_have_a_straggler)
{
    SET_WAITS(40, 2 * MS + LATE(2, 58 * MS))
    set_control_steps(2);
    ck_pace(2 * MS, 58 * MS, 2);
    struct pace pace = pace_of(ranks, RANKS, NULL);
    ck_assert_uint_eq(pace.sums.count, 32);
    ck_assert_uint_eq(pace.waited.last_count, 32);
    set_control_steps(1);
    ck_pace(2 * MS, 3 * 58 * MS / 4, -1);
}

/* A delay early in a long run is in its figures, though the records have long been overwritten; and each boundary once,
 * however often they are looked at. */
TEST(all_steps_are_added_up)
{
    struct rank_waits waits[RANKS];
    for (uint64_t b = 1; b <= 600; ++b) {
        for (int i = 0; i < RANKS; ++i)
            set_wait(i, b, 2 * MS + (b <= 30 && i != 1 ? 50 * MS : 0));
        if (b % 7 == 0)
            pace_note(ranks, RANKS);
    }
    struct pace pace = pace_of(ranks, RANKS, waits);
    ck_assert_uint_eq(pace.sums.count, 600);
    ck_assert_uint_eq(pace.sums.first, 1);
    ck_assert_uint_eq(pace.sums.last, 600);
    ck_assert_uint_eq(pace.exposed_ns, 2 * MS);
    ck_assert_uint_eq(pace.waiting_ns, 3 * 30 * 50 * MS / 600 / 4);
    ck_assert_double_eq_tol(waits[0].sum, 30.0 * 50 * MS, 1);
    ck_assert_double_eq_tol(waits[1].sum, 0, 1);
    for (int i = 0; i < RANKS; ++i)
        ranks[i].training_step = 580; /* start-up has ended only now */
    ck_assert_uint_eq(pace_of(ranks, RANKS, NULL).sums.count, 20);
    pace_note(ranks, RANKS);
    for (int i = 0; i < RANKS; ++i)
        ranks[i].generation = 1; /* the next training of a script; what the records have is taken for its own */
    ck_assert_uint_eq(pace_of(ranks, RANKS, NULL).sums.count, 20);
}

/* Where most steps were timed on the device, by its clock: the host may be far ahead. */
TEST(a_step_takes_what_the_device_takes)
{
    ranks[0].timed_steps = 40;
    ranks[0].timed_ns = 40 * 300 * MS;
    SET_WAITS(20, 2 * MS + LATE(2, 58 * MS))
    struct pace pace = pace_of(ranks, RANKS, NULL);
    ck_assert_double_eq_tol(pace.step_ns, 100.0 * MS, 1); /* of 100 too few */
    ck_assert_uint_eq(pace.first, 2);                     /* the host's, of all steps */
    ck_assert_uint_eq(pace.last, 101);
    ranks[0].timed_steps = 50;
    ranks[0].timed_ns = 50 * 300 * MS;
    pace = pace_of(ranks, RANKS, NULL);
    ck_assert_double_eq_tol(pace.step_ns, 300.0 * MS, 1);
    ck_assert_double_eq_tol(pace.steps_per_s, 1 / 0.3, 1e-9);
    ck_assert_uint_eq(pace.first, pace.sums.first);
    ck_assert_uint_eq(pace.last, pace.sums.last);
}

/* Views are of different moments, and ranks look at different boundaries: only the same ones are compared. */
TEST(other_boundaries_are_not_compared)
{
    SET_WAITS(20, 2 * MS + LATE(2, 58 * MS))
    for (uint64_t b = 1; b <= 13; ++b)
        set_wait(1, b + RANK_EXPOSED_STEPS * RANK_EXPOSED_SPARSE, 0);
    ck_pace(2 * MS, UINT64_MAX, -1); /* seven are left: too few to say anything of ranks */
    set_wait(1, 13, 60 * MS);
    ck_pace(2 * MS, 58 * MS, 2);
    ranks[3].generation = 1; /* the next training of a script */
    ck_assert_uint_eq(pace_of(ranks, RANKS, NULL).sums.count, 0);
}

/* A rank whose host is far ahead looks at every sixteenth boundary, others at all. */
TEST(sparse_boundaries_keep_their_places)
{
    bool taken[RANK_EXPOSED_STEPS] = {false};
    for (uint64_t b = RANK_EXPOSED_SPARSE; b <= RANK_EXPOSED_STEPS * RANK_EXPOSED_SPARSE; b += RANK_EXPOSED_SPARSE) {
        ck_assert(!taken[rank_exposed_place(b)]);
        taken[rank_exposed_place(b)] = true;
    }
    ck_assert_uint_eq(rank_exposed_pack(1, UINT64_MAX) >> RANK_EXPOSED_NS_BITS, 1);
}

TEST(items_are_counted_where_each_step_shares_them_out)
{
    ck_assert_double_eq_tol(pace_of(ranks, RANKS, NULL).steps_per_s, 10.0, 1e-9);
    ck_assert_double_eq(pace_of(ranks, RANKS, NULL).items_per_s, 0.0);
    ranks[0].shard_total = 96;
    ranks[0].shard_calls = 101 + 20; /* some for evaluation */
    ck_assert_double_eq_tol(pace_of(ranks, RANKS, NULL).items_per_s, 960.0, 1e-9);
    ranks[0].shard_calls = 4 * 101; /* accumulation */
    ck_assert_double_eq_tol(pace_of(ranks, RANKS, NULL).items_per_s, 3840.0, 1e-9);
    ranks[0].shard_calls = 1; /* before the loop, for all steps */
    ck_assert_double_eq_tol(pace_of(ranks, RANKS, NULL).items_per_s, 960.0, 1e-9);
    ranks[0].shard_calls = 2; /* now and then: that is no batch */
    ck_assert_double_eq(pace_of(ranks, RANKS, NULL).items_per_s, 0.0);
    ranks[0].shard_calls = 101;
    ranks[0].shard_total = UINT64_MAX;
    ck_assert_double_eq(pace_of(ranks, RANKS, NULL).items_per_s, 0.0);
    ranks[0].step = 1;
    ck_assert_double_eq(pace_of(ranks, 1, NULL).steps_per_s, 0.0);
}

TEST(milliseconds_have_three_digits)
{
    char text[32];
    ck_assert_str_eq(waiting_ms_text(12134567 * 1e-6, text), "12.1");
    ck_assert_str_eq(waiting_ms_text(77123 * 1e-6, text), "0.0771");
    ck_assert_str_eq(waiting_ms_text(1234567890 * 1e-6, text), "1235");
    ck_assert_str_eq(waiting_ms_text(0 * 1e-6, text), "0");
}
