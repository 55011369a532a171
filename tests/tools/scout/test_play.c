/*
 * A run file (tools/plan/format/play.h) is loaded as it was saved, and called damaged if it is cut anywhere, has more
 * bytes than it says, or is of another version.
 */
#include "tests/lib/test.h"
#include "tools/plan/format/play.h"

static char path[sizeof("/tmp/test_play.XXXXXX")];
static struct play_tensor tensors[] = {{.role = PLAY_PARAMETER, .type = 1, .bytes = 64, .hi = 64},
                                       {.role = PLAY_GRADIENT, .type = 1, .bytes = 64, .lo = 8, .hi = 64}};
static struct play_operation operations[] = {{.part = PLAY_BY_TURN, .name = "backward", .site_count = 1},
                                             {.part = PLAY_BY_LAST, .name = "update"}};
static struct play_object object = {.path = "/train", .build_id = "00ff"};
static struct play play;

static bool
loads(void)
{
    struct play loaded;
    bool ok = play_load(path, &loaded);
    ck_assert(ok || errno == EINVAL);
    if (ok)
        play_free(&loaded);
    return ok;
}

static void
begin(void)
{
    int fd = mkstemp(strcpy(path, "/tmp/test_play.XXXXXX"));
    ck_assert_int_ge(fd, 0);
    close(fd);
    play = (struct play){.plan = {.version = PLAY_VERSION,
                                  .data = PLAY_TRAINING,
                                  .tensor_count = 2,
                                  .operation_count = 2,
                                  .object_count = 1,
                                  .average_before = 1},
                         .tensors = tensors,
                         .operations = operations,
                         .objects = &object};
    ck_assert(play_save(path, &play));
}

static void
end(void)
{
    unlink(path);
}

TEST_GROUP(files, .setup = begin, .teardown = end);

TEST(a_run_file_is_loaded_as_it_was_saved)
{
    struct play loaded;
    ck_assert(play_load(path, &loaded));
    ck_assert_uint_eq(loaded.plan.average_before, 1);
    for (int i = 0; i < 2; ++i) {
        ck_assert_uint_eq(loaded.tensors[i].role, tensors[i].role);
        ck_assert_uint_eq(loaded.tensors[i].lo, tensors[i].lo);
        ck_assert_uint_eq(loaded.operations[i].part, operations[i].part);
        ck_assert_str_eq(loaded.operations[i].name, operations[i].name);
    }
    ck_assert_str_eq(loaded.objects[0].path, object.path);
    play_free(&loaded);
}

TEST(a_run_file_with_other_bytes_than_it_says_is_damaged)
{
    const off_t whole = (off_t)(sizeof(play.plan) + sizeof(tensors) + sizeof(operations) + sizeof(object));
    const off_t lengths[] = {0, 8, sizeof(play.plan) - 1, sizeof(play.plan), whole - 1, whole + 1};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        ck_assert(play_save(path, &play) && loads());
        ck_assert_int_eq(truncate(path, lengths[i]), 0);
        ck_assert(!loads());
    }
    play.plan.version = PLAY_VERSION + 1;
    ck_assert(play_save(path, &play) && !loads());
}

/* A plan by state has no gradient; one by gradients has statistics of batches. */
TEST(plans_by_state_have_roles_of_their_own)
{
    static const struct play_tensor rows[] = {{.role = PLAY_CHANGES, .type = 1, .bytes = 16, .lo = 4, .hi = 16},
                                              {.role = PLAY_SUM, .type = 6, .bytes = 16, .lo = 8, .hi = 16},
                                              {.role = PLAY_STREAM, .bytes = 16, .lo = 0, .hi = 3},
                                              {.role = PLAY_LAST, .bytes = 16, .lo = 0, .hi = 3},
                                              {.role = PLAY_STAYS, .bytes = 16, .lo = 0, .hi = 3},
                                              {.role = PLAY_CHANGES, .type = 5, .bytes = 16, .lo = 0, .hi = 16},
                                              {.role = PLAY_CHANGES, .type = 2, .bytes = 16, .lo = 4, .hi = 16},
                                              {.role = PLAY_SUM, .type = 7, .bytes = 16, .lo = 8, .hi = 16},
                                              {.role = PLAY_GRADIENT, .type = 1, .bytes = 16, .lo = 8, .hi = 16},
                                              {.role = PLAY_LAST + 1, .bytes = 16, .lo = 0, .hi = 3}};
    enum { FITTING = 5 };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        struct play_plan by_state = {.by = PLAY_BY_STATE}, by_gradients = {.by = PLAY_BY_GRADIENTS};
        ck_assert_msg(play_tensor_fits(&by_state, &rows[i]) == (i < FITTING), "row %zu", i);
        ck_assert_msg(play_tensor_fits(&by_gradients, &rows[i]) == (rows[i].role <= PLAY_UNREAD || i == 0), "row %zu",
                      i);
    }
    struct play_tensor changes = rows[0];
    const struct play by_state = {.plan = {.by = PLAY_BY_STATE, .tensor_count = 1}, .tensors = &changes};
    ck_assert_uint_eq(play_state_bytes(&by_state), 24);
}

/* ---- apart ---- */

enum { ELEMENTS = 200000 };

static float before[ELEMENTS], other[ELEMENTS], now[ELEMENTS];

/* Weights of about 0.1, of which a step has changed each by about 1e-3. */
static struct near_apart
apart(void)
{
    return near_find_apart(ELEMENT_FLOAT32, sizeof(now), (char *)now, (char *)other, (char *)before);
}

static void
step(void)
{
    for (int k = 0; k < ELEMENTS; ++k) {
        before[k] = 0.1F + 0.001F * (float)(k % 7);
        now[k] = other[k] = before[k] + 0.001F + 0.0001F * (float)(k % 5);
    }
}

TEST_GROUP(distances, .setup = step);

TEST(units_in_the_last_place_of_few_elements_are_nothing)
{
    now[5] = nextafterf(now[5], 1);
    now[7] = nextafterf(now[7], 0);
    ck_assert(apart().sum == 0 && apart().element == 0);
}

TEST(all_elements_that_are_wrong_a_little_show_in_the_sum)
{
    for (int k = 0; k < ELEMENTS; ++k)
        now[k] = before[k] + 0.999F * (other[k] - before[k]);
    ck_assert_double_gt(apart().sum, 8e-4);
    ck_assert_double_lt(apart().sum, 1.1e-3);
}

TEST(one_element_that_is_wrong_shows_by_itself)
{
    now[ELEMENTS - 1] = before[ELEMENTS - 1];
    ck_assert_double_lt(apart().sum, 1e-5);
    ck_assert_double_gt(apart().element, 0.4);
}

TEST(what_is_no_number_is_apart)
{
    now[3] = NAN;
    ck_assert(isinf(apart().sum) && isinf(apart().element));
}

TEST(what_a_step_does_not_change_is_apart_by_any_change)
{
    memcpy(before, other, sizeof(before));
    ck_assert_double_eq(apart().sum, 0);
    for (int k = 0; k < ELEMENTS; ++k)
        now[k] += 1e-5F;
    ck_assert(isinf(apart().sum) && isinf(apart().element));
}
