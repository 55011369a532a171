/*
 * test_data.c - what `ddprun check` says of what ranks copy from the host, of records that are made here: shares
 * that are the batch are accused of nothing, whatever differs; each way in which they are not is named with the place,
 * and what the reference never had proves nothing.
 *
 * Compiled with mutants (tests/mutant.h): a scene fails with each rule broken.
 */
#include "tools/check/command/pattern.h"

#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 24, RANKS_AT_MOST = 4, SHARES = 12, EACH = 64, LABEL = 4, STEPS = 12 };

enum { IMAGES = 7, LABELS = 8 };

static const char *const names[] = {[IMAGES] = "train.cu:70", [LABELS] = "train.cu:71"};

/* What a rank copies of the batch: items from, from + by, ... */
struct share {
    int rank, site, from, count;
    int step;    /* 0: 1 */
    int by;      /* 0: 1 */
    int of_step; /* the batch that they are of; 0: of this step; below: of none */
    int moved;   /* bytes by which it begins later than item `from` */
    bool unknown_items, steady, alike, again, data_set;
    bool once; /* not in the next step, too */
};

static const struct scene {
    const char *what;
    int ranks; /* 0: 2 */
    int last;  /* step whose gradients differ first; 0: 1 */
    struct share shares[SHARES];
    const char *says[3]; /* of the verdict and its advice; none: there is none */
} scenes[] = {
    {"right", .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 12, 12}}},
    {"right, on four ranks", 4,
     .shares = {{0, IMAGES, 0, 6}, {1, IMAGES, 6, 6}, {2, IMAGES, 12, 6}, {3, IMAGES, 18, 6}}},
    {"right, every second item", .shares = {{0, IMAGES, 0, 12, .by = 2}, {1, IMAGES, 1, 12, .by = 2}}},
    {"right, every second item of a half", 4,
     .shares = {{0, IMAGES, 0, 6}, {1, IMAGES, 6, 6}, {2, IMAGES, 12, 6, .by = 2}, {3, IMAGES, 13, 6, .by = 2}}},
    {"right, where DDP_SHARD is not used and pieces are cut",
     .shares = {{0, IMAGES, 0, 12, .unknown_items = true}, {1, IMAGES, 12, 12, .unknown_items = true}}},
    {"all of it on each rank, which may use a part", .shares = {{0, IMAGES, 0, 24}, {1, IMAGES, 0, 24}}},

    {"first is not added", .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 0, 12}},
     .says = {"in step 1 every rank copies items 0 to 11 of 24 at train.cu:70",
              "first` of DDP_SHARD (train.cu:60) is not", "of 64 bytes to its source"}},
    {"the same on four ranks", 4,
     .shares = {{0, IMAGES, 0, 6}, {1, IMAGES, 0, 6}, {2, IMAGES, 0, 6}, {3, IMAGES, 0, 6}},
     .says = {"every rank copies items 0 to 5 of 24"}},
    {"in floats", .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 0, 12, .moved = 48}},
     .says = {"rank 1 copies from byte 48 of the batch on at train.cu:70", "begins at byte 768",
              "multiply `first` by 16"}},
    {"in rows of four floats, which whole items make up", 4,
     .shares = {{0, IMAGES, 0, 6}, {1, IMAGES, 1, 6, .moved = 32}, {2, IMAGES, 3, 6}, {3, IMAGES, 4, 6, .moved = 32}},
     .says = {"in units of 16 bytes", "multiply `first` by 4"}},
    {"by an item", .shares = {{0, IMAGES, 1, 12}, {1, IMAGES, 13, 11}},
     .says = {"rank 0 copies items 1 to 12 of 24 at train.cu:70", "is items 0 to 11 of 24"}},
    {"by an item on rank 1", .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 11, 12}},
     .says = {"rank 1 copies items 11 to 22 of 24", "is items 12 to 23 of 24"}},
    {"images right, labels not",
     .shares = {{0, IMAGES, 0, 12},
                {1, IMAGES, 12, 12},
                {0, LABELS, 0, 12, .alike = true},
                {1, LABELS, 0, 12, .alike = true}},
     .says = {"items 0 to 11 of 24 at train.cu:71", "the copy at train.cu:70 is right"}},
    {"the same by all, and the program shares out by itself",
     .shares = {{0, IMAGES, 2, 10, .by = 2, .unknown_items = true}, {1, IMAGES, 2, 10, .by = 2, .unknown_items = true}},
     .says = {"all 2 ranks copy the same 640 bytes at train.cu:70, of 1536"}},
    {"overlapping", .shares = {{0, IMAGES, 0, 24, .unknown_items = true}, {1, IMAGES, 12, 12, .unknown_items = true}},
     .says = {"ranks 0 and 1 both copy bytes 768 to 1535 of 1536 at train.cu:70", "DDP_SHARD"}},
    {"a part is left out",
     .shares = {{0, IMAGES, 0, 8, .unknown_items = true}, {1, IMAGES, 12, 12, .unknown_items = true}},
     .says = {"no rank copies bytes 512 to 767 of 1536 at train.cu:70"}},
    {"another order", .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 3, 12, .by = 5, .of_step = 4}},
     .says = {"rank 1 copies other data than its share of one rank's batch at train.cu:70 (of 12 pieces one rank has 0",
              "12 in others, as in step 4", "the same seed"}},
    {"another order from step 5 on", .last = 5,
     .shares =
         {{0, IMAGES, 0, 12, 1}, {1, IMAGES, 12, 12, 1}, {0, IMAGES, 0, 12, 5}, {1, IMAGES, 3, 12, 5, .of_step = 6}},
     .says = {"in step 5 rank 1 copies other data"}},

    {"random numbers that go on: the second half of the first step's in the second",
     .shares = {{0, IMAGES, 0, 12, .once = true},
                {1, IMAGES, 0, 12, .once = true},
                {0, IMAGES, 12, 12, 2, .of_step = 1},
                {1, IMAGES, 12, 12, 2, .of_step = 1}}},
    {"random numbers of each step's own, beside a right batch", .shares = {{0, IMAGES, 0, 12},
                                                                           {1, IMAGES, 0, 12},
                                                                           {0, LABELS, 0, 12, .alike = true},
                                                                           {1, LABELS, 12, 12, .alike = true}}},
    {"the same from a data set on the host",
     .shares = {{0, IMAGES, 0, 12, .data_set = true},
                {1, IMAGES, 0, 12, .data_set = true},
                {0, LABELS, 0, 12, .alike = true},
                {1, LABELS, 12, 12, .alike = true}},
     .says = {"every rank copies items 0 to 11 of 24 at train.cu:70", "the copy at train.cu:71 is right"}},
    {"one step, of which nothing follows",
     .shares = {{0, IMAGES, 0, 12, .once = true}, {1, IMAGES, 0, 12, .once = true}}},
    {"right before", .last = 2,
     .shares = {{0, IMAGES, 0, 12, .once = true},
                {1, IMAGES, 12, 12, .once = true},
                {0, IMAGES, 0, 12, 2, .once = true},
                {1, IMAGES, 0, 12, 2, .once = true}},
     .says = {"in step 2 every rank copies items 0 to 11"}},
    {"a half of the data set for each rank, in its order", .shares = {{0, IMAGES, 0, 12, .once = true},
                                                                      {1, IMAGES, 0, 12, .of_step = 6, .once = true},
                                                                      {0, IMAGES, 12, 12, 2, .of_step = 1},
                                                                      {1, IMAGES, 12, 12, 2, .of_step = 6}}},
    {"a half of the data set for each rank, shuffled",
     .shares = {{0, IMAGES, 0, 12, .by = 5, .of_step = 3}, {1, IMAGES, 0, 12, .by = 5, .of_step = 6}}},
    {"what the reference never had", .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 12, 12, .of_step = -1}}},

    {"what the reference never had, and labels of another order in a later step",
     .shares = {{0, IMAGES, 0, 12, .of_step = -1},
                {1, IMAGES, 12, 12, .of_step = -2},
                {0, LABELS, 0, 12, 6},
                {1, LABELS, 1, 12, 6, .by = 7, .of_step = 3}},
     .says = {"in step 6 rank 1 copies other data"}},
    {"wrong in a step that nothing comes of", .last = 7, .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 0, 12}}},
    {"wrong after what differs", .last = 1,
     .shares = {{0, IMAGES, 0, 12, .once = true},
                {1, IMAGES, 12, 12, .once = true},
                {0, IMAGES, 0, 12, 2},
                {1, IMAGES, 0, 12, 2}}},
    {"wrong for the step that comes", .last = 2, .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 0, 12}},
     .says = {"in step 1 every rank"}},
    {"a program that copies something else in each run",
     .shares = {{0, IMAGES, 0, 12}, {1, IMAGES, 0, 12}, {0, IMAGES, 1, 12, .again = true}}},
    {"places in the share, the same in each step, beside a right batch", .shares = {{0, IMAGES, 0, 12, .steady = true},
                                                                                    {1, IMAGES, 0, 12, .steady = true},
                                                                                    {0, LABELS, 0, 12},
                                                                                    {1, LABELS, 12, 12}}},
    {"one batch for all steps", .shares = {{0, IMAGES, 0, 12, .steady = true}, {1, IMAGES, 0, 12, .steady = true}},
     .says = {"every rank copies items 0 to 11"}},
    {"unequal shares", .shares = {{0, IMAGES, 0, 8}, {1, IMAGES, 8, 16}},
     .says = {"rank 0 copies 8 items at train.cu:70, and rank 1 16", "DDP_WEIGHT"}},
    {"unequal in a later step", .last = 4, .shares = {{0, IMAGES, 0, 11, 4}, {1, IMAGES, 11, 13, 4}},
     .says = {"in step 4 rank 0 copies 11 items at train.cu:70, and rank 1 13"}},
    {"labels of another order in a later step, which are few numbers", .last = 5,
     .shares = {{0, LABELS, 0, 12, .alike = true},
                {1, LABELS, 12, 12, .alike = true},
                {0, LABELS, 0, 12, 5, .alike = true},
                {1, LABELS, 1, 12, 5, .by = 3, .of_step = 2, .alike = true}},
     .says = {"in step 5 rank 1 copies other data", "items are those of its share, and all were in an earlier step"}},
    {"numbers that occur in many items",
     .shares = {{0, LABELS, 0, 12, .alike = true}, {1, LABELS, 1, 12, .by = 3, .of_step = 2, .alike = true}}},
    {"nothing is copied on rank 1", .shares = {{0, IMAGES, 0, 12}}},
};

/* ---- rows ---- */

/* Of an item's content: item `item` of the batch of a step. */
static uint64_t
content(const struct share *share, int item, int step)
{
    int known = share->alike ? item % 5 : item + (share->steady ? 0 : BATCH * step);
    uint64_t hash = (uint64_t)(known + 1000 * share->site) + 1;
    for (int i = 0; i < 3; ++i)
        hash = (hash ^ hash >> 29) * 0x9e3779b97f4a7c15u;
    return hash;
}

/* Of each rank, and of the run of one rank once more. */
static struct check_row store[RANKS_AT_MOST + 1][2 * SHARES + 2];

static void
add(struct check_rows *rows, const struct check_row *row)
{
    rows->rows[rows->count++] = *row;
}

/* As an engine finds it that is given these items. */
static struct check_row
row_of(const struct share *share, int ranks)
{
    int step = share->step > 0 ? share->step : 1, by = share->by > 0 ? share->by : 1;
    int of_step = share->of_step != 0 ? share->of_step : step;
    uint64_t each = share->alike ? LABEL : EACH;
    struct check_row row = {.kind = CHECK_ROW_COPY, .step = (uint32_t)step};
    struct check_copy *it = &row.copy;
    *it = (struct check_copy){.site = (uint64_t)share->site,
                              .bytes = (uint64_t)share->count * each,
                              .whole = BATCH * each,
                              .begins = -1,
                              .total = (uint64_t)share->count,
                              .steady = share->steady,
                              .distinct = !share->alike,
                              .is_data_set = share->data_set,
                              .shard_line = 60,
                              .shard_file = "train.cu"};
    if (!share->unknown_items) {
        it->record = each;
        it->items = BATCH;
        it->count = (uint64_t)(BATCH / ranks);
        it->first = (uint64_t)share->rank * it->count;
    }
    for (int i = 0; i < BATCH; ++i)
        it->whole_sum += content(share, i, step);
    for (int i = 0; i < share->count; ++i) {
        int item = (share->from + i * by) % BATCH;
        uint64_t hash = content(share, item, of_step) + (uint64_t)share->moved;
        it->in_place += hash == content(share, (int)it->first + i, step);
        it->sum += hash;
        it->chain = (it->chain ^ hash) * 0x100000001b3u;
        it->here += of_step == step || share->alike;
        it->elsewhere += of_step != step && of_step > 0 && !share->alike;
        it->elsewhere_step = (uint32_t)of_step;
    }
    if (of_step == step) {
        it->begins = (int64_t)((uint64_t)share->from * each) + share->moved;
        it->run = by == 1 ? it->total : 1;
    }
    return row;
}

/* ---- the scenes ---- */

static void
judge_scene(const struct scene *scene, char why[2400])
{
    struct check_rows ranked[RANKS_AT_MOST] = {{store[0], 0}, {store[1], 0}, {store[2], 0}, {store[3], 0}};
    struct check_evidence evidence = {.ranks = scene->ranks > 0 ? scene->ranks : 2,
                                      .steps = STEPS,
                                      .ranked = ranked,
                                      .again = {store[RANKS_AT_MOST], 0}};
    for (uint64_t site = IMAGES; site <= LABELS; ++site) {
        struct check_row row = {.kind = CHECK_ROW_SITE, .value = site};
        snprintf(row.text, sizeof(row.text), "%s", names[site]);
        add(&ranked[0], &row);
    }
    for (int i = 0; i < SHARES && scene->shares[i].count > 0; ++i) {
        const struct share *share = &scene->shares[i];
        struct check_row row = row_of(share, evidence.ranks);
        add(share->again ? &evidence.again : &ranked[share->rank], &row);
        struct share next = *share;
        next.step = (share->step > 0 ? share->step : 1) + 1;
        row = row_of(&next, evidence.ranks);
        if (!share->once && !share->again)
            add(&ranked[share->rank], &row);
    }
    struct check_item first = {.tensor = {.role = CHECK_GRADIENT},
                               .first_step = scene->last > 0 ? (uint32_t)scene->last : 1};
    struct check_verdict verdict = {.result = CHECK_EQUAL};
    struct judgement judgement = {.evidence = &evidence, .verdict = &verdict, .pattern.first = &first};
    bool found = data_say(&judgement), expected = scene->says[0] != NULL;
    bool said = found == expected;
    for (int i = 0; i < 3 && scene->says[i] != NULL; ++i)
        said = said && (strstr(verdict.text, scene->says[i]) != NULL || strstr(verdict.advice, scene->says[i]) != NULL);
    bool decided = verdict.result == (found ? CHECK_DIFFERENT : CHECK_EQUAL) && (verdict.cause == CAUSE_DATA) == found;
    why[0] = '\0';
    if (!said || !decided)
        snprintf(why, 2400, "%s: \"%s\", \"%s\"", scene->what, verdict.text, verdict.advice);
}

TABLE_TEST(scenes_are_judged, scenes)
{
    char why[2400];
    judge_scene(&scenes[_i], why);
    ck_assert_msg(why[0] == '\0', "%s", why);
}

/* A difference that no gradient shows is not the data's. */
TEST(other_differences_have_other_causes)
{
    struct check_rows ranked[2] = {{store[0], 0}, {store[1], 0}};
    struct check_evidence evidence = {.ranks = 2, .steps = STEPS, .ranked = ranked};
    for (int i = 0; i < 4; ++i) {
        struct check_row row = row_of(&(struct share){i % 2, IMAGES, 0, 12, 1 + i / 2}, 2);
        add(&ranked[i % 2], &row);
    }
    struct check_item first = {.tensor = {.role = CHECK_PARAMETER}, .first_step = 2};
    struct check_verdict verdict = {.result = CHECK_EQUAL};
    struct judgement judgement = {.evidence = &evidence, .verdict = &verdict, .pattern.first = &first};
    ck_assert(!data_say(&judgement));
    add(&ranked[0],
        &(struct check_row){.kind = CHECK_ROW_AVERAGED}); /* DDP_STEP_PARAMETERS: they stand for gradients */
    ck_assert(data_say(&judgement));
}

TEST(each_broken_rule_is_noticed)
{
    static const struct {
        const char *mutant, *scene;
    } broken[] = {
        {"CHECK_DATA_ORDER", "right, every second item of a half"},
        {"CHECK_DATA_ANY_STEP", "wrong after what differs"},
        {"CHECK_DATA_ANY_STEP", "wrong in a step that nothing comes of"},
        {"CHECK_DATA_NO_CHANCE", "random numbers that go on: the second half of the first step's in the second"},
        {"CHECK_DATA_NOISE", "what the reference never had"}};
    for (size_t k = 0; k < sizeof(broken) / sizeof(broken[0]); ++k) {
        char why[2400] = "";
        for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); ++i) {
            setenv("DDPRUN_MUTANT", broken[k].mutant, 1);
            if (strcmp(scenes[i].what, broken[k].scene) == 0)
                judge_scene(&scenes[i], why);
            unsetenv("DDPRUN_MUTANT");
        }
        ck_assert_msg(why[0] != '\0', "%s: \"%s\" has its verdict all the same", broken[k].mutant, broken[k].scene);
    }
}
