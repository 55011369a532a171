/*
 * test_verdict.c - what `ddprun check` says of evidence that is made here: of each scene of scenes.h what it says
 * there; of two causes the stronger; and of any evidence: nothing that differs passes as equal.
 *
 * Compiled with mutants (tests/lib/mutant.h): with a floor that is taken as infinite, or with any rule broken, the
 * table is not what it says.
 */
#include "scenes.h"

#include "tools/check/evidence/items.h"
#include "tools/check/verdict/rows.h"

#include "tests/lib/test.h"

enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

static struct world world;
static struct check_verdict verdict;
static struct check_wishes wishes;
static struct check_facts facts;

static void
judge_world(void)
{
    check_facts_find(&world.evidence, &facts);
    verdict_judge(&facts, &verdict);
    verdict_wish(&facts, &verdict, &wishes);
}

/* The verdict on evidence of so many ranks, 0: two, with these changes; forget_world() forgets it. */
static void
judge(int ranks, const struct edit *edits)
{
    make_world(&world, ranks != 0 ? ranks : 2, STEPS);
    for (int i = 0; i < MOST_EDITS; ++i)
        apply(&world, &edits[i]);
    judge_world();
}

static void
forget_world(void)
{
    check_facts_free(&facts);
    free_world(&world);
}

/* A difference from one process begins with its place: which step, tensor, line, size and ranks. */
static bool
begins_as_it_should(const struct check_verdict *verdict)
{
    if (verdict->first == NULL || !verdict->first->differs || verdict->cause == CAUSE_STOPPED ||
        verdict->cause == CAUSE_RANKS) /* which differ from each other */
        return true;
    const char *text = verdict->text, *name = verdict->first->tensor.text, *differs = strstr(text, "differs on ");
    bool begins = strncmp(text, "in step ", 8) == 0 || strncmp(text, "in round ", 9) == 0 ||
                  strncmp(text, "after round ", 12) == 0 || strncmp(text, "after step ", 11) == 0 ||
                  strncmp(text, "before step 1 ", 14) == 0;
    const char *place = strstr(text, name);
    return begins && place != NULL && differs != NULL && place < differs &&
           (strstr(differs, "on all ranks from") != NULL || strstr(differs, "on rank ") != NULL ||
            strstr(differs, " ranks, rank ") != NULL);
}

/* What the verdict is that a scene should have, in a line; empty: as it should be. */
static void
judge_scene(const struct scene *scene, char why[2400])
{
    judge(scene->ranks, scene->edits);
    const char *cause = check_cause_name(verdict.cause),
               *first = verdict.first != NULL ? verdict.first->tensor.text : "none";
    char all[48];
    snprintf(all, sizeof(all), "%s%s%s%s%s", wishes.again ? "again " : "", wishes.plain ? "plain " : "",
             wishes.probe ? "probe " : "", wishes.factor > 0 ? "factor " : "", wishes.far ? "far " : "");
    all[strlen(all) - (all[0] != '\0')] = '\0';
    const char *wanted = scene->wishes != NULL ? scene->wishes : all;
    why[0] = '\0';
    if (verdict.result != scene->result || verdict.cause != scene->cause)
        snprintf(why, 2400, "result %d, cause %s: %s", verdict.result, cause != NULL ? cause : "none", verdict.text);
    else if (scene->first != NULL && strcmp(first, scene->first) != 0)
        snprintf(why, 2400, "it is about %s: %s", first, verdict.text);
    else if (scene->says != NULL && strstr(verdict.text, scene->says) == NULL &&
             strstr(verdict.advice, scene->says) == NULL)
        snprintf(why, 2400, "it says: %s; %s", verdict.text, verdict.advice);
    else if (strcmp(all, wanted) != 0)
        snprintf(why, 2400, "it wishes for: %s", all);
    else if (!begins_as_it_should(&verdict))
        snprintf(why, 2400, "it does not begin with its place: %s", verdict.text);
    forget_world();
}

TEST_GROUP(scenes, .timeout_s = 60);

TABLE_TEST(each_scene_has_its_verdict_and_place, scenes)
{
    char why[2400];
    judge_scene(&scenes[_i], why);
    ck_assert_msg(why[0] == '\0', "%s: %s", scenes[_i].what, why);
}

TEST(each_cause_is_in_the_table)
{
    for (int cause = 0; cause < CAUSE_COUNT; ++cause) {
        /* A place proves these (sentence_put_place()), runs with other dates (check.c), and what batches leave
         * (turns.c).
         */
        bool found =
            cause == CAUSE_BATCH_DEPENDENT || cause == CAUSE_DATA || cause == CAUSE_SEEDED || cause == CAUSE_TURNS;
        for (size_t i = 0; i < SCENES; ++i)
            found = found || scenes[i].cause == (enum check_cause)cause;
        const char *name = check_cause_name((enum check_cause)cause);
        ck_assert_int_eq(name == NULL, cause == CAUSE_NONE);
        ck_assert_msg(found, "%s", name);
        for (int other = cause + 1; other < CAUSE_COUNT && name != NULL; ++other)
            ck_assert_str_ne(name, check_cause_name((enum check_cause)other));
    }
}

LOOP_TEST(what_was_not_compared_is_not_equal, 0, 3)
{
    make_world(&world, 3, STEPS);
    change_tensors(&world.ranked[_i], &(struct edit){MISSING, .role = ANY}); /* of one rank, then of more */
    change_tensors(&world.ranked[2], &(struct edit){MISSING, .role = ANY});
    if (_i == 0)
        change_tensors(&world.ranked[1], &(struct edit){MISSING, .role = ANY});
    judge_world();
    ck_assert_int_ne(verdict.result, CHECK_EQUAL);
    ck_assert(verdict.text[0] != '\0');
    forget_world();
}

TEST(scratch_of_many_tensors_is_no_difference)
{
    enum { RANGES = 150 };
    make_world(&world, 2, STEPS);
    for (uint32_t i = TENSORS; i < RANGES; ++i)
        add_tensor(&world.ranked[1], CHECK_MEMORY, i, STEPS, 0.5);
    bool equal = false;
    for (int round = 0; round < 4 && !equal; ++round) { /* as check.c makes runs for what is wished */
        judge_world();
        equal = verdict.result == CHECK_EQUAL;
        for (int i = 0; i < RANGES && wishes.probe; ++i)
            set_note(&world.evidence.probe, &(struct edit){RETAINED, .first = i, .value = 0.01}, CHECK_ROW_RETAINED);
        check_facts_free(&facts);
    }
    ck_assert_msg(equal, "%d ranges of scratch memory pass as a difference", RANGES);
    free_world(&world);
}

/* ---- two causes at once ---- */

/* In the order of strength: what differs earlier goes first, and then the order of the table in verdict.c. Whatever
 * weaker evidence there is besides, the stronger decides. */
static const struct strength {
    const char *says;
    struct edit edits[MOST_EDITS];
    const char *but[3]; /* beside these it is not the cause, or its evidence is not what it was */
} strengths[] = {
    {"in one process differ by", {{DIFFERENCE, AGAIN, 1.1e-3, ONE(GRADIENT, 1), .from = 3}}},
    {"does not with --no-overlap",
     {{OVERLAPPED, .value = 2},
      {DIFFERENCE, .value = 0.5, ONE(GRADIENT, 2)},
      {DIFFERENCE, PLAIN, 1e-6, ONE(GRADIENT, 0)}}},
    {"do not train by this plan", {{BY_PLAN}, {DIFFERENCE, .value = 0.5, ONE(GRADIENT, 2)}}},
    {"annotate all of it with DDP_PARAMETER",
     {{IN_PLACE, ONE(MEMORY, 1)}, {DIFFERENCE, .value = 0.2, ONE(MEMORY, 1)}},
     .but = {"infinite or NaN, and finite in one process", "every gradient is 1.3 times"}},
    {"does not have rank 0's values", {{DIFFERENCE, .value = 1, ONE(PARAMETER, 2), .rank = 2}}},
    {"infinite or NaN, and finite in one process", {{UNBOUNDED, .value = 3, ONE(GRADIENT, 2)}}},
    {"the 25 items do not", {{UNEVEN, RANKS, 25}, {DIFFERENCE, .value = 0.3, EVERY(GRADIENT)}}},
    {"every gradient is 1.3 times",
     {{FACTOR, .value = 1.3, EVERY(GRADIENT)}, {DIFFERENCE, .value = 0.1, EVERY(PARAMETER), .from = 2}}},

    {"is 2 times that of one process", {{TIMES, .value = 2, EVERY(PARAMETER), .from = 2}}},

    {"does not have the same bits on ranks 0 and 1", {{HASH, .value = 7, ONE(PARAMETER, 2), .from = 3, .rank = 2}}},
    {"rank 1 waited", {{STOPPED}}},
    {"what would have ended the job", {{ALARM, .rank = 2}}},
    {"all 2 ranks", {{SAME_DATA}}},
    {"no parameter has moved", {{UNMOVED, .role = ANY}}},
};

enum { STRENGTHS = sizeof(strengths) / sizeof(strengths[0]) };

TABLE_TEST(of_two_causes_the_stronger_is_named, strengths)
{
    const struct strength *stronger = &strengths[_i];
    for (int other = _i; other < STRENGTHS; ++other) {
        make_world(&world, 2, STEPS);
        for (int i = 0; i < MOST_EDITS && other > _i; ++i)
            apply(&world, &strengths[other].edits[i]);
        for (int i = 0; i < MOST_EDITS; ++i)
            apply(&world, &stronger->edits[i]);
        judge_world();
        bool excepted = false;
        for (int i = 0; i < 3 && stronger->but[i] != NULL; ++i)
            excepted = excepted || strcmp(stronger->but[i], strengths[other].says) == 0;
        bool says = strstr(verdict.text, stronger->says) != NULL || strstr(verdict.advice, stronger->says) != NULL;
        ck_assert_msg(says != excepted, "\"%s\" beside \"%s\": %s; %s", stronger->says, strengths[other].says,
                      verdict.text, verdict.advice);
        forget_world();
    }
}

/* ---- any evidence ---- */

static struct edit
random_edit(unsigned *seed)
{
    static const enum what all[] = {DIFFERENCE, BLOCK,   FACTOR,    NORM,      UNBOUNDED, IN_PLACE, MISSING,    ADDED,
                                    SHARD,      UNEVEN,  COPIED,    OWN,       ALARM,     RETAINED, OVERLAPPED, STOPPED,
                                    COMPRESSED, SUMS,    UNMOVED,   TOO_SMALL, HASH,      FORCED,   CHANGED,    TYPES,
                                    TIMES,      ENDLESS, UNSTEPPED, NAN_ALONE, COUNT};
    static const double values[] = {0, 1e-7, 0.9e-4, 1.1e-4, 1e-3, 0.05, 0.5, 1, 2, 1e3, 1e-300, 1e300, NAN, -1};
    struct edit edit = {.what = all[(size_t)rand_r(seed) % (sizeof(all) / sizeof(all[0]))],
                        .run = (enum run)(rand_r(seed) % 8),
                        .role = rand_r(seed) % CHECK_ROLES,
                        .first = rand_r(seed) % TENSORS,
                        .from = (uint32_t)rand_r(seed) % (STEPS + 2),
                        .rank = rand_r(seed) % 3};
    bool tensors = edit.what < SHARD;
    do
        edit.value = values[(size_t)rand_r(seed) % (sizeof(values) / sizeof(values[0]))];
    while (tensors && !(edit.value >= 0 && (edit.what != UNBOUNDED || edit.value < 1e10)));
    if (!tensors && edit.what != RETAINED && !(edit.value < 1e10))
        edit.value = 24;
    edit.last = rand_r(seed) % 2 == 0 ? edit.first : TENSORS - 1;
    edit.run = rand_r(seed) % 2 == 0 ? RANKS : edit.run;
    edit.from = edit.what == ADDED && edit.from == 0 ? 1 : edit.from;
    return edit;
}

static void
make_random_world(unsigned seed)
{
    make_world(&world, 1 + rand_r(&seed) % MOST_RANKS, STEPS);
    for (int i = rand_r(&seed) % 6; i >= 0; --i) {
        struct edit edit = random_edit(&seed);
        apply(&world, &edit);
    }
}

LOOP_TEST(what_differs_is_never_equal, 0, 500)
{
    make_random_world((unsigned)_i);
    judge_world();
    size_t differing = 0;
    for (size_t i = 0; i < facts.item_count; ++i) {
        const struct check_item *item = &facts.items[i];
        differing += item->differs && item->tensor.role != CHECK_MEAN;
        if (i > 0)
            ck_assert(!item->differs || facts.items[i - 1].differs);
        if (item->differs)
            ck_assert(item->first_step > 0 && item->rank_count > 0 && !item->is_scratch && !item->ignored);
    }
    ck_assert_int_eq(verdict.result == CHECK_EQUAL, verdict.cause == CAUSE_NONE);
    ck_assert(verdict.result != CHECK_EQUAL || differing == 0);
    ck_assert(verdict.result == CHECK_EQUAL || (verdict.text[0] != '\0' && strchr(verdict.text, '\n') == NULL));
    ck_assert(strchr(verdict.advice, '\n') == NULL);
    bool inside = verdict.first == NULL;
    for (size_t i = 0; i < facts.item_count; ++i)
        inside = inside || verdict.first == &facts.items[i];
    ck_assert(inside);
    forget_world();
}

/* ---- the order of rows ---- */

/* Of the rows that apply to the world, two of the same stage; NULL: there are none. */
static const char *
find_rivals(void)
{
    static char rivals[200];
    const struct verdict_row *of_stage[STAGE_LAST + 1] = {NULL};
    for (size_t family = 0; verdict_families[family] != NULL; ++family) {
        for (const struct verdict_row *row = verdict_families[family]; row->name != NULL; ++row) {
            const struct verdict_row **other = &of_stage[row->stage];
            if (!row->applies(&facts))
                continue;
            if (*other != NULL) {
                snprintf(rivals, sizeof(rivals), "%s, and %s", (*other)->name, row->name);
                return rivals;
            }
            *other = row;
        }
    }
    return NULL;
}

TABLE_TEST(rows_of_one_stage_exclude_each_other, scenes)
{
    judge(scenes[_i].ranks, scenes[_i].edits);
    const char *rivals = find_rivals();
    ck_assert_msg(rivals == NULL, "%s: %s", scenes[_i].what, rivals);
    forget_world();
}

LOOP_TEST(rows_of_one_stage_exclude_each_other_in_any_world, 0, 500)
{
    make_random_world((unsigned)_i);
    judge_world();
    const char *rivals = find_rivals();
    ck_assert_msg(rivals == NULL, "%s", rivals);
    forget_world();
}

TEST(each_row_decides_in_a_scene)
{
    for (size_t family = 0; verdict_families[family] != NULL; ++family) {
        for (const struct verdict_row *row = verdict_families[family]; row->name != NULL; ++row) {
            bool decides = false;
            for (size_t i = 0; i < SCENES && !decides; ++i) {
                judge(scenes[i].ranks, scenes[i].edits);
                decides = verdict_find_row(&facts) == row;
                forget_world();
            }
            ck_assert_msg(decides, "no scene has the row of %s", row->name);
        }
    }
}

TEST(many_steps_are_judged_at_once)
{
    enum { MANY = 2000 };
    make_world(&world, 2, MANY);
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    judge_world();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    ck_assert_int_eq(verdict.result, CHECK_EQUAL);
    ck_assert_msg(seconds < 5, "%g s for %d steps", seconds, MANY);
    forget_world();
}

/* ---- the table would notice ---- */

TEST(each_broken_rule_is_noticed)
{
    char why[2400];
    for (const struct scene *scene = scenes; scene < scenes + SCENES; ++scene) {
        if (scene->mutant == NULL)
            continue;
        setenv("DDPRUN_MUTANT", scene->mutant, 1);
        judge_scene(scene, why);
        unsetenv("DDPRUN_MUTANT");
        ck_assert_msg(why[0] != '\0', "%s: \"%s\" has its verdict all the same", scene->mutant, scene->what);
    }
}

TEST(an_infinite_floor_is_noticed)
{
    char why[2400];
    int expected = 0, missed = 0;
    setenv("DDPRUN_MUTANT", "CHECK_FLOOR_INFINITE", 1);
    for (size_t i = 0; i < SCENES; ++i) {
        const struct scene *scene = &scenes[i];
        bool has_hash = false; /* which no floor covers, nor what is not compared, nor what a proof refuses */
        for (size_t k = 0; k < MOST_EDITS; ++k) {
            const enum what what = scene->edits[k].what;
            has_hash = has_hash || what == HASH || what == UPDATED_AFTER || what == REFUTED;
        }
        if (scene->result != CHECK_DIFFERENT || scene->cause == CAUSE_STOPPED || scene->cause == CAUSE_SAME_BATCH ||
            has_hash)
            continue;
        ++expected;
        judge_scene(scene, why);
        missed += why[0] != '\0';
    }
    unsetenv("DDPRUN_MUTANT");
    ck_assert_int_gt(expected, 30);
    ck_assert_int_eq(missed, expected);
}
