/*
 * test_place.c - what `ddprun check` says of the first operation that differs, by facts that are made here: each row of
 * tools/check/place/ once; and of any facts: at most one row of a stage applies.
 */
#include "tools/check/place/rows.h"

#include "tests/lib/test.h"

#include <stdlib.h>

static const struct scene {
    const char *row; /* its name */
    struct operation operation;
    enum place_kind kind;
    const char *says; /* a part of the text, or of the advice */
} scenes[] = {
    /* ---- calls ---- */
    {"a DDP_REDUCE", {.is_reduce = true, .reduced = "sum"}, PLACE_SCALAR, "parts of one process's `sum` to it"},
    {"a sum over the share, before DDP_STEP",
     {.is_early = true, .is_tensor = true, .sum = {.is_there = true, .writer = "`mean` (a.cu:3)"}},
     PLACE_SHARE,
     "a value that `mean` (a.cu:3) computes from the rank's share alone"},
    {"a number of the operation that has computed a sum, before DDP_STEP",
     {.is_early = true,
      .is_tensor = true,
      .sum = {.is_there = true, .scalar = {.level = SCALAR_UNEXPLAINED, .operation = "`mean` (a.cu:3)"}}},
     PLACE_SCALAR,
     "`mean` (a.cu:3) is the first operation"},
    {"memory that is written before DDP_STEP",
     {.is_early = true, .is_tensor = true},
     PLACE_CHANGED,
     "must be equal on all ranks"},
    {"a parameter that backward writes, as a gradient",
     {.is_early = true, .is_tensor = true, .is_backward = true, .sum = {.is_there = true}},
     PLACE_CHANGED,
     "are probably swapped"},
    {"parameters that are not averaged yet",
     {.is_early = true, .is_averaged = true, .gets_averageless = true, .is_tensor = true},
     PLACE_CHANGED,
     "DDP_STEP_PARAMETERS has not averaged yet"},
    {"an update by the part of a gradient",
     {.is_early = true, .is_averaged = true, .is_tensor = true, .is_part = true},
     PLACE_SCALAR,
     "divided by the whole batch"},
    {"an update that is not linear in the gradient",
     {.is_early = true, .is_averaged = true, .is_tensor = true},
     PLACE_CHANGED,
     "not proportional to the gradient"},
    {"a copy of items that are not the share's",
     {.is_copy = true, .items = {.kind = PLACE_DATA, .text = "items", .advice = "shuffle"}, .host_reads = ", read"},
     PLACE_DATA,
     "items, read"},
    {"a copy of as much as one process copies",
     {.is_copy = true, .copies_whole = true, .changed = "argument 1"},
     PLACE_HOST,
     "to the memory of argument 1, which is not annotated"},
    {"a copy of as much as one process copies",
     {.is_copy = true, .copies_whole = true, .comes_again = true},
     PLACE_HOST,
     "such as class weights"},
    {"a copy of values that are not the share's", {.is_copy = true}, PLACE_SHARE, "are not its share of those"},
    {"a copy of values that are not the share's",
     {.is_copy = true, .has_rank_0_its_share = true},
     PLACE_SHARE,
     "read its checkpoint on every rank"},

    /* ---- numbers ---- */
    {"any number, where memory is the same or shares are unequal",
     {.gets_same = true, .scalar = {.level = SCALAR_SIZE, .argument = "argument 2", .values = "12 on all ranks"}},
     PLACE_SCALAR,
     "argument 2 is 12 on all ranks"},
    {"any number, where memory is the same or shares are unequal",
     {.is_update = true, .gets_same = true, .scalar = {.level = SCALAR_SIZE, .argument = "argument 7"}},
     PLACE_SCALAR,
     "argument 7 is "},
    {"a number that is the share's part",
     {.is_update = true, .scalar = {.level = SCALAR_PART, .scales_average = true}},
     PLACE_SCALAR,
     "DDP_STEP has already averaged this gradient"},
    {"any number, where memory is the same or shares are unequal",
     {.is_update = true, .is_uneven = true, .scalar = {.level = SCALAR_SIZE, .is_computed_of_share = true}},
     PLACE_SCALAR,
     "compute it from the step"},
    {"a number that no equal share explains", {.scalar = {.level = SCALAR_COUNT}}, PLACE_SCALAR, "DDP_WEIGHT(items"},
    {"a number that no equal share explains",
     {.scalar = {.level = SCALAR_UNEXPLAINED, .variable = "lr", .line = "a.cu:7", .host_reads = ", after"}},
     PLACE_SCALAR,
     "`lr` (a.cu:7) is , and is passed to  as : the first operation that differs, after"},
    {"a number that no equal share explains", {.scalar = {.level = SCALAR_SEED}}, PLACE_SCALAR, "it holds the rank"},
    {"a number that no equal share explains",
     {.makes_rows = true, .scalar = {.level = SCALAR_SEED}},
     PLACE_SHARE,
     "it holds the rank"},
    {"a number that no equal share explains",
     {.is_of_gradient = true, .scalar = {.level = SCALAR_SEED}},
     PLACE_SHARE,
     "it holds the rank"},
    {"a number of the operation that has computed a sum, which rows get",
     {.makes_rows = true, .sum = {.is_there = true, .scalar = {.level = SCALAR_WEIGHS}}},
     PLACE_SCALAR,
     "with this number as weight"},
    {"a number that is the share's part", {.scalar = {.level = SCALAR_PART}}, PLACE_SCALAR, "another factor"},
    {"a number of the operation that has computed a sum",
     {.sum = {.is_there = true, .scalar = {.level = SCALAR_UNEXPLAINED, .advances_by_share = true}}},
     PLACE_SCALAR,
     "it has advanced by the share"},
    {"a number that rises with the rank", {.scalar = {.level = SCALAR_RISES}}, PLACE_SHARE, "a seed"},
    {"rows of a share",
     {.makes_rows = true, .scalar = {.level = SCALAR_RISES, .is_first_item = true}, .unmoved = "; argument 2"},
     PLACE_SHARE,
     "add `first`"},
    {"rows that are right on the first rank alone",
     {.makes_rows = true,
      .first_rows = "argument 3",
      .scalar = {.level = SCALAR_RISES, .is_first_item = true},
      .unmoved = "; argument 2 points to the same values on all ranks"},
     PLACE_SCALAR,
     "argument 2 points to the same values"},
    {"a number that rises with the rank", {.is_update = true, .scalar = {.level = SCALAR_RISES}}, PLACE_SCALAR, "norm"},

    /* ---- memory ---- */
    {"data that are not moved to the share",
     {.gets_same = true, .are_alike = true, .unmoved = "; argument 2"},
     PLACE_SCALAR,
     "all ranks compute the first items"},
    {"the first rows on all ranks",
     {.gets_same = true, .are_alike = true, .makes_rows = true, .share_size = ", and n"},
     PLACE_SHARE,
     "points to, and n"},
    {"integers that differ",
     {.integers = "argument 3", .integers_writer = "`top` (a.cu:4)"},
     PLACE_SHARE,
     "argument 3 points to integers that `top` (a.cu:4) computes"},
    {"a sum over the share, from which rows are computed",
     {.makes_rows = true, .sum = {.is_there = true}},
     PLACE_SHARE,
     "if this value is a count"},
    {"memory without relation to one process's",
     {.input = {.kind = PLACE_BEFORE, .text = "moment"}},
     PLACE_BEFORE,
     "moment"},
    {"a sum over the share", {.sum = {.is_there = true, .weighs = true}}, PLACE_SCALAR, "weigh the shares"},
    {"a sum over the share", {.is_late = true, .sum = {.is_there = true}}, PLACE_CHANGED, "clips gradients"},
    {"rows that are not of the batch", {.input_of_rows = {.kind = PLACE_INPUT, .text = "rows"}}, PLACE_INPUT, "rows"},
    {"memory that it changes besides", {.input_besides = {.kind = PLACE_INPUT, .text = "old"}}, PLACE_INPUT, "old"},

    /* ---- the operation itself ---- */
    {"a gradient that is cleared in part",
     {.clears_part = true, .is_of_gradient = true, .makes_rows = true, .changed = "argument 1"},
     PLACE_CHANGED,
     "clears less of the gradient that argument 1 points to"},
    {"an update with another grid",
     {.is_update = true, .is_target = true, .blocks = 8, .blocks_rank = 1, .rank_blocks = 4},
     PLACE_SCALAR,
     "its grid has 4 blocks on rank 1 and 8 in one process"},
    {"an update that gets the same memory",
     {.is_update = true, .is_target = true, .gets_same = true, .blocks_rank = -1},
     PLACE_SCALAR,
     "it reads the same memory"},
    {"an operation between DDP_STEP and the update",
     {.is_update = true, .is_of_gradient = true},
     PLACE_CHANGED,
     "it changes averaged gradients in another way"},
    {"a term that each rank adds",
     {.is_late = true, .adds_same_term = true, .equal_number = ", and alpha is 0.1"},
     PLACE_CHANGED,
     "the term counts several times, and alpha is 0.1"},
    {"rows that are computed from a gradient",
     {.is_late = true, .makes_rows = true, .gradient = "argument 1", .gradient_element = " (element 2)"},
     PLACE_CHANGED,
     "argument 1 points to a gradient of the rank's share alone, from which it computes rows (element 2)"},
    {"an operation after backward",
     {.is_late = true, .gradient = "argument 1"},
     PLACE_CHANGED,
     "gradients that are not averaged yet (argument 1), and"},
    {"rows of a share",
     {.makes_rows = true, .is_probable = true},
     PLACE_SHARE,
     "is probably the first operation that differs: the ranks' rows"},
    {"rows that are right on the first rank alone",
     {.makes_rows = true, .first_rows = "argument 3", .unmoved = "; argument 1"},
     PLACE_SCALAR,
     "points to rank 0's rows are one process's, but other ranks' rows are not: it counts rows, or reads data, from "
     "the "
     "beginning of the share and not of the batch; argument 1"},
    {"rows that are right on the first rank alone",
     {.is_of_gradient = true, .first_rows = "argument 4", .changed = "argument 3"},
     PLACE_SCALAR,
     "in the memory that argument 4 points to rank 0's rows"},
    {"a sum over the share",
     {.is_of_gradient = true, .sum = {.is_there = true}},
     PLACE_CHANGED,
     "limit the gradient after DDP_STEP"},
    {"a sum over the share",
     {.is_of_gradient = true, .gets_rows = true, .sum = {.is_there = true}},
     PLACE_SHARE,
     "DDP_WEIGHT(count of the share"},
    {"a result of a share",
     {.scalar = {.level = SCALAR_PART, .is_of_mean = true}, .unmoved = "; argument 2"},
     PLACE_SHARE,
     "has; argument 2"},
    {"a result of a share", {.is_of_reduce = true}, PLACE_SHARE, "if these are initial values"},
};

enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

TEST_GROUP(scenes, .timeout_s = 60);

TABLE_TEST(each_scene_has_its_row_and_sentence, scenes)
{
    const struct scene *scene = &scenes[_i];
    const struct place_row *row = place_find_row(&scene->operation);
    ck_assert_ptr_nonnull(row);
    ck_assert_str_eq(row->name, scene->row);
    struct place place = {.text = ""};
    ck_assert(place_choose(&scene->operation, &place));
    ck_assert_int_eq(place.kind, scene->kind);
    bool says =
        strstr(place.text, scene->says) != NULL || (place.advice != NULL && strstr(place.advice, scene->says) != NULL);
    ck_assert_msg(says, "%s: %s; %s", scene->row, place.text, place.advice != NULL ? place.advice : "no advice");
}

TEST(each_row_has_a_scene)
{
    for (size_t family = 0; place_families[family] != NULL; ++family) {
        for (const struct place_row *row = place_families[family]; row->name != NULL; ++row) {
            bool has = false;
            for (size_t i = 0; i < SCENES && !has; ++i)
                has = strcmp(scenes[i].row, row->name) == 0;
            ck_assert_msg(has, "no scene has the row of %s", row->name);
        }
    }
}

TEST(an_update_that_nothing_explains_is_no_place)
{
    const struct operation operation = {.is_update = true, .is_target = true, .blocks_rank = -1};
    struct place place = {.text = "as before"};
    ck_assert(!place_choose(&operation, &place));
    ck_assert_str_eq(place.text, "as before");
}

/* ---- any facts ---- */

static bool
is_tossed(unsigned *seed)
{
    return rand_r(seed) % 2 == 0;
}

static void
toss_text(unsigned *seed, char *text)
{
    if (is_tossed(seed))
        strcpy(text, "text");
}

/* As operation_find() makes them: what it does not look for is not there. */
static struct operation
make_random_operation(unsigned seed)
{
    struct operation operation = {.blocks_rank = rand_r(&seed) % 3 - 1,
                                  .is_uneven = is_tossed(&seed),
                                  .is_target = is_tossed(&seed),
                                  .is_tensor = is_tossed(&seed),
                                  .is_of_gradient = is_tossed(&seed)};
    operation.is_update = is_tossed(&seed);
    operation.is_early = !operation.is_update && is_tossed(&seed);
    operation.is_averaged = operation.is_early && is_tossed(&seed);
    operation.gets_averageless = operation.is_averaged && is_tossed(&seed);
    operation.is_part = operation.is_averaged && is_tossed(&seed);
    switch (rand_r(&seed) % 6) {
    case 0:
        operation.is_reduce = true;
        return operation;
    case 1:
        operation.is_copy = true;
        operation.copies_whole = is_tossed(&seed);
        operation.has_rank_0_its_share = is_tossed(&seed);
        if (!operation.is_update)
            toss_text(&seed, operation.items.text);
        return operation;
    default:
        break;
    }
    operation.gets_same = is_tossed(&seed);
    operation.are_alike = is_tossed(&seed);
    operation.scalar.level = (enum scalar_level)(rand_r(&seed) % (SCALAR_WEIGHS + 1));
    operation.scalar.is_of_mean = operation.scalar.level == SCALAR_PART && is_tossed(&seed);
    toss_text(&seed, operation.input.text);
    toss_text(&seed, operation.input_of_rows.text);
    if (operation.is_update)
        return operation;
    toss_text(&seed, operation.input_besides.text);
    toss_text(&seed, operation.unmoved);
    toss_text(&seed, operation.integers);
    toss_text(&seed, operation.gradient);
    operation.is_late = is_tossed(&seed);
    operation.is_backward = operation.is_early && is_tossed(&seed);
    operation.makes_rows = is_tossed(&seed);
    operation.gets_rows = is_tossed(&seed);
    operation.is_of_gradient = is_tossed(&seed);
    toss_text(&seed, operation.first_rows);
    operation.adds_same_term = operation.is_late && is_tossed(&seed);
    operation.sum.is_there = is_tossed(&seed);
    if (operation.sum.is_there)
        operation.sum.scalar.level = (enum scalar_level)(rand_r(&seed) % (SCALAR_WEIGHS + 1));
    return operation;
}

TEST(rows_of_one_stage_exclude_each_other)
{
    for (unsigned seed = 0; seed < 20000; ++seed) {
        const struct operation operation = make_random_operation(seed);
        const struct place_row *of_stage[STAGE_LAST + 1] = {NULL};
        for (size_t family = 0; place_families[family] != NULL; ++family) {
            for (const struct place_row *row = place_families[family]; row->name != NULL; ++row) {
                if (!row->applies(&operation))
                    continue;
                const struct place_row *other = of_stage[row->stage];
                ck_assert_msg(other == NULL, "%u: %s, and %s", seed, row->name, other != NULL ? other->name : "");
                of_stage[row->stage] = row;
            }
        }
    }
}

TEST(only_an_update_may_have_no_row)
{
    for (unsigned seed = 0; seed < 20000; ++seed) {
        const struct operation operation = make_random_operation(seed);
        bool has_row = place_find_row(&operation) != NULL;
        ck_assert_msg(has_row || (operation.is_update && operation.is_target), "%u", seed);
    }
}
