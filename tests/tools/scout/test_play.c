/*
 * A run file (tools/plan/format/play.h) is loaded as it was saved, and called damaged if it is cut anywhere, has more
 * bytes than it says, is of another version, or has a number or a text that is out of bounds.
 */
#include "tests/test.h"
#include "tools/plan/format/play.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
}

TEST(what_is_out_of_bounds_is_damaged)
{
    struct {
        void *at;
        uint32_t value;
    } const wrong[] = {{&play.plan.version, PLAY_VERSION + 1},
                       {&play.plan.data, PLAY_ONE_PROCESS + 1},
                       {&play.plan.average_before, 2},
                       {&play.plan.by, PLAY_BY_STATE + 1},
                       {&play.plan.tensor_count, UINT32_MAX},
                       {&tensors[1].role, PLAY_UNREAD + 1},
                       {&tensors[0].role, 0},
                       {&operations[0].part, PLAY_BY_LAST + 1},
                       {&operations[1].site_count, PLAY_SITES + 1},
                       {&operations[0].sites[0].frame_count, PLAY_FRAMES + 1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        uint32_t was;
        memcpy(&was, wrong[i].at, sizeof(was));
        memcpy(wrong[i].at, &wrong[i].value, sizeof(was));
        if (wrong[i].at != &play.plan.tensor_count) { /* lists of so many are not there to be saved */
            ck_assert(play_save(path, &play));
        } else {
            int fd = open(path, O_WRONLY | O_CLOEXEC);
            ck_assert_int_eq(pwrite(fd, &play.plan, sizeof(play.plan), 0), (ssize_t)sizeof(play.plan));
            close(fd);
        }
        ck_assert_msg(!loads(), "row %zu is loaded", i);
        memcpy(wrong[i].at, &was, sizeof(was));
        ck_assert(play_save(path, &play) && loads());
    }
    memset(operations[0].name, 'x', sizeof(operations[0].name));
    ck_assert(play_save(path, &play) && !loads());
    strcpy(operations[0].name, "backward");
}

/* A plan by state has no gradient and no update, and averages at the period's end. */
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
        ck_assert_msg(play_tensor_fits(&by_gradients, &rows[i]) == (rows[i].role <= PLAY_UNREAD), "row %zu", i);
    }
    tensors[0].role = tensors[1].role = PLAY_STAYS;
    play.plan.by = PLAY_BY_STATE;
    ck_assert(play_save(path, &play) && !loads()); /* an operation is an update */
    operations[1].part = PLAY_BY_TURN;
    ck_assert(play_save(path, &play) && !loads()); /* there is a place of averages in mid-step */
    play.plan.average_before = play.plan.operation_count;
    ck_assert(play_save(path, &play) && loads());
    tensors[0] = rows[0];
    ck_assert_uint_eq(play_state_bytes(&play), 24);
    operations[1].part = PLAY_BY_LAST;
    tensors[0] = (struct play_tensor){.role = PLAY_PARAMETER, .type = 1, .bytes = 64, .hi = 64};
    tensors[1].role = PLAY_GRADIENT;
}
