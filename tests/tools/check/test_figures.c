/*
 * test_figures.c - which figures that a program prints are other ones on N ranks, and under which rules a difference is
 * no evidence (tools/check/evidence/figures.h).
 */
#include "tools/check/evidence/figures.h"

#include "tests/lib/test.h"

#include <string.h>

enum { RANKS = 2 };

/* What runs have printed; `rank_1` NULL: as rank 0. */
struct row {
    const char *why;
    const char *one, *again, *perturbed; /* NULL: as `one` */
    const char *rank_0, *rank_1;
    const char *name, *printed; /* that differs, and what rank 0 prints of it; NULL: nothing does */
    bool is_alone;
};

static const struct row rows[] = {
    {"nothing is printed", .one = "", .rank_0 = ""},
    {"the same figures", .one = "accuracy 0.87\n", .rank_0 = "accuracy 0.87\n"},
    {"a single figure", .one = "accuracy 0.87\n", .rank_0 = "accuracy 0.93\n", .name = "accuracy", .printed = "0.93"},
    {"a single figure, whose difference is small", .one = "accuracy 0.870\n", .rank_0 = "accuracy 0.880\n"},
    {"several figures, whose differences are small", .one = "step 1 loss 0.500\nstep 2 loss 0.400\n",
     .rank_0 = "step 1 loss 0.505\nstep 2 loss 0.405\n", .name = "loss", .printed = "0.505"},
    {"one of three figures", .one = "step 1 loss 0.5\nstep 2 loss 0.4\nstep 3 loss 0.3\n",
     .rank_0 = "step 1 loss 0.5\nstep 2 loss 0.9\nstep 3 loss 0.3\n"},
    {"a rank's own share", .one = "loss 0.50\n", .rank_0 = "loss 0.40\n", .rank_1 = "loss 0.60\n"},
    {"of rank 0 alone", .one = "loss 0.50\n", .rank_0 = "loss 0.40\n", .rank_1 = "", .name = "loss", .printed = "0.40",
     .is_alone = true},
    {"the Nth part", .one = "loss 0.50\n", .rank_0 = "loss 0.25\n"},
    {"N times", .one = "loss 0.50\n", .rank_0 = "loss 1.00\n"},
    {"one process does not repeat it", .one = "loss 0.50\n", .again = "loss 0.51\n", .rank_0 = "loss 0.90\n"},
    {"one process does not repeat it elsewhere", .one = "loss 0.50\nloss 0.40\n", .again = "loss 0.50\nloss 0.41\n",
     .rank_0 = "loss 0.90\nloss 0.90\n"},
    {"rounding makes as much", .one = "loss 0.50\n", .perturbed = "loss 0.52\n", .rank_0 = "loss 0.80\n"},
    {"rounding makes less", .one = "loss 0.50\n", .perturbed = "loss 0.51\n", .rank_0 = "loss 0.80\n", .name = "loss",
     .printed = "0.80"},
    {"the last digits", .one = "loss 0.001\n", .rank_0 = "loss 0.003\n"},
    {"a time", .one = "took 0.5 steps\n", .rank_0 = "took 0.9 steps\n"},
    {"a unit of time", .one = "epoch 0.5s, step 3.0 ms\n", .rank_0 = "epoch 0.9s, step 7.0 ms\n"},
    {"a unit in brackets", .one = "epoch 0.5 (s)\n", .rank_0 = "epoch 0.9 (s)\n"},
    {"items of something", .one = "training 0.5 items/epoch\n", .rank_0 = "training 0.9 items/epoch\n"},
    {"memory", .one = "used 0.5 GiB\n", .rank_0 = "used 0.9 GiB\n"},
    {"no name", .one = "[0.5] start\n", .rank_0 = "[0.9] start\n"},
    {"an hour", .one = "at 12:30:01.5 begun\n", .rank_0 = "at 12:30:02.9 begun\n"},
    {"an address and a version", .one = "host 10.0.0.1 has v1.2.3\n", .rank_0 = "host 10.0.0.7 has v1.9.3\n"},
    {"a whole number", .one = "hits 10\n", .rank_0 = "hits 7\n"},
    {"another step", .one = "step 10 loss 0.5\n", .rank_0 = "step 5 loss 0.9\n"},
    {"another line", .one = "loss 0.5 of all\n", .rank_0 = "loss 0.9 of mine\n"},
    {"the number of ranks in the line", .one = "rank 0 of 1: w1 6.12 w2 2.99\n",
     .rank_0 = "rank 0 of 2: w1 6.12 w2 3.99\n", .name = "w2", .printed = "3.99"},
    {"a line that is written over", .one = "loss 0.50\rloss 0.40\r", .rank_0 = "loss 0.90\rloss 0.80\r", .name = "loss",
     .printed = "0.90"},
    {"an exponent and a sign", .one = "drift: -1.5e-03\n", .rank_0 = "drift: -9.5e-03\n", .name = "drift",
     .printed = "-9.5e-03"},
    {"JSON", .one = "{\"epoch\": 1, \"accuracy\": 0.87}\n", .rank_0 = "{\"epoch\": 1, \"accuracy\": 0.93}\n",
     .name = "accuracy", .printed = "0.93"},
    {"blanks in other numbers", .one = "step  9 loss  9.50\n", .rank_0 = "step  9 loss 10.50\n", .name = "loss",
     .printed = "10.50"},
    {"the first of several", .one = "loss 0.50 accuracy 0.80\n", .rank_0 = "loss 0.50 accuracy 0.20\n",
     .name = "accuracy", .printed = "0.20"},
    {"fewer lines", .one = "loss 0.5\nloss 0.4\n", .rank_0 = "loss 0.5\n"},
};

TEST(figures_differ_where_nothing_explains_it)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        const struct row *row = &rows[i];
        const char *ranks[RANKS] = {row->rank_0, row->rank_1 != NULL ? row->rank_1 : row->rank_0};
        const struct figures_runs runs = {.one = row->one,
                                          .again = row->again != NULL ? row->again : row->one,
                                          .perturbed = row->perturbed != NULL ? row->perturbed : row->one,
                                          .ranks = ranks,
                                          .count = RANKS};
        struct figure_difference found;
        const bool differs = figures_compare(&runs, &found);
        ck_assert_msg(differs == (row->name != NULL), "%s: %s", row->why, differs ? found.name : "nothing differs");
        if (!differs)
            continue;
        ck_assert_msg(strcmp(found.name, row->name) == 0, "%s: %s", row->why, found.name);
        ck_assert_msg(strcmp(found.ranked, row->printed) == 0, "%s: %s", row->why, found.ranked);
        ck_assert_msg(found.is_alone == row->is_alone, "%s: printed by rank 0 alone: %d", row->why, found.is_alone);
    }
}

/* Long outputs are read as far as there is room for figures. */
TEST(a_long_output_is_read)
{
    enum { LINES = 6000, EACH = 32 };
    static char one[LINES * EACH], ranked[LINES * EACH];
    for (int i = 0, at = 0; i < LINES; ++i) {
        snprintf(one + at, EACH, "step %d loss 0.50\n", i);
        at += snprintf(ranked + at, EACH, "step %d loss 0.70\n", i);
    }
    const char *ranks[RANKS] = {ranked, ranked};
    const struct figures_runs runs = {one, one, one, ranks, RANKS};
    struct figure_difference found;
    ck_assert(figures_compare(&runs, &found));
    ck_assert_uint_eq(found.differing, found.count);
    ck_assert_str_eq(found.line, "step 0 loss 0.50");
}
