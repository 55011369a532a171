/*
 * A plan that was changed anywhere in what ranks follow, or in what it says of its proof, is refused in one line that
 * says how it is made anew: every number, word and list of it. So are plans without a hash, and
 * of another version of the player; with --unproved those train all the same, and plans that are spaced otherwise
 * always do.
 */
#include "tests/lib/test.h"
#include "tools/plan/command/auto.h"
#include "tools/plan/format/play_json.h"

#include <json-c/json_object_iterator.h>

static char folder[sizeof("/tmp/test_plan_file.XXXXXX")];
static char path[64], to[64];
static struct json_object *plan;
static struct error error;

static struct play_tensor tensors[] = {
    {.role = PLAY_PARAMETER, .type = 1, .alloc = 3, .ordinal = 1, .bytes = 64, .hi = 64},
    {.role = PLAY_GRADIENT, .type = 1, .alloc = 4, .bytes = 64, .lo = 8, .hi = 64},
    {.role = PLAY_STAYS, .bytes = 16, .hi = 16}};
static struct play_operation operations[] = {
    {.part = PLAY_BY_TURN, .name = "copy", .host_bytes = 256, .site_count = 1, .sites = {{1, {{0, 11}}}}},
    {.part = PLAY_BY_TURN, .name = "backward", .site_count = 2, .sites = {{2, {{0, 47}, {1, 12}}}, {1, {{0, 49}}}}},
    {.part = PLAY_BY_LAST, .name = "update", .site_count = 1, .sites = {{1, {{0, 48}}}}}};
static struct play_written written[] = {{.writer = 1, .alloc = 4, .bytes = 64, .lo = 8, .hi = 64}};
static struct play_object objects[] = {{.path = "/train", .build_id = "00ff"}, {.path = "/lib.so"}};

static void
begin(void)
{
    const struct play play = {.plan = {.steps = 3,
                                       .tensor_count = 3,
                                       .operation_count = 3,
                                       .object_count = 2,
                                       .written_count = 1,
                                       .average_before = 2},
                              .tensors = tensors,
                              .operations = operations,
                              .objects = objects,
                              .written = written};
    ck_assert_ptr_nonnull(mkdtemp(strcpy(folder, "/tmp/test_plan_file.XXXXXX")));
    snprintf(path, sizeof(path), "%s/plan", folder);
    snprintf(to, sizeof(to), "%s/run", folder);
    plan = json_tokener_parse("{\"version\": 3, \"found\": true, \"proof\": {\"turns\": {\"end\": \"passed\"},"
                              " \"complete\": {\"end\": \"passed\"}},"
                              " \"forecast\": {\"ranks\": 2}}");
    json_object_object_add(plan, "turns", play_json_of(&play));
    play_json_seal(plan);
}

static void
end(void)
{
    json_object_put(plan);
    unlink(path), unlink(to), unlink(strcat(to, ".reads"));
    rmdir(folder);
}

static bool
is_taken(bool unproved)
{
    error = (struct error){0};
    ck_assert_int_eq(json_object_to_file_ext(path, plan, JSON_C_TO_STRING_PRETTY), 0);
    return plan_file_prepare(path, path, unproved, false, to, &error);
}

static void
require_refused(const char *what)
{
    ck_assert_msg(!is_taken(false), "%s is changed, and the plan is taken", what);
    ck_assert_int_eq(error.exit_code, 2);
    ck_assert_msg(strstr(error.text, "make it again") != NULL || strstr(error.text, "--unproved") != NULL, "%s",
                  error.text);
    ck_assert_ptr_null(strchr(error.text, '\n'));
}

/* Another number or word; of a list or an object, an empty one. */
static struct json_object *
other_than(struct json_object *value)
{
    char text[256];
    if (json_object_is_type(value, json_type_int))
        return json_object_new_uint64(json_object_get_uint64(value) ^ 1);
    if (json_object_is_type(value, json_type_array))
        return json_object_new_array();
    if (json_object_is_type(value, json_type_object))
        return json_object_new_object();
    snprintf(text, sizeof(text), "%s", json_object_get_string(value));
    text[0] = (char)(text[0] ^ 1);
    return json_object_new_string(strcmp(json_object_get_string(value), "turn") == 0 ? "last" : text);
}

static unsigned damage(struct json_object *of);

/* The member `key` of an object, or item `i` of a list, and all below it. */
static unsigned
damage_one(struct json_object *of, const char *key, size_t i)
{
    struct json_object *value = key != NULL ? json_object_object_get(of, key) : json_object_array_get_idx(of, i);
    struct json_object *values[] = {other_than(value), json_object_get(value)};
    unsigned count = 1 + damage(value);
    for (int k = 0; k < 2; ++k) {
        if (key != NULL)
            json_object_object_add(of, key, values[k]);
        else
            (void)json_object_array_put_idx(of, i, values[k]);
        if (k == 0)
            require_refused(key != NULL ? key : "an item");
    }
    return count;
}

/* Changes all that lies below it, one after the other, and puts it back. Returns how much that is. */
static unsigned
damage(struct json_object *of)
{
    unsigned count = 0;
    if (json_object_is_type(of, json_type_object)) {
        struct json_object_iterator at = json_object_iter_begin(of), last = json_object_iter_end(of);
        for (; !json_object_iter_equal(&at, &last); json_object_iter_next(&at))
            count += damage_one(of, json_object_iter_peek_name(&at), 0);
    }
    for (size_t i = 0; json_object_is_type(of, json_type_array) && i < json_object_array_length(of); ++i)
        count += damage_one(of, NULL, i);
    return count;
}

TEST_GROUP(plans, .setup = begin, .teardown = end);

TEST(a_plan_that_was_changed_is_refused)
{
    ck_assert(is_taken(false));
    ck_assert_uint_ge(damage(json_object_object_get(plan, "turns")), 84);
    ck_assert_uint_eq(damage(json_object_object_get(plan, "proof")), 4);
    ck_assert(is_taken(false));
}

TEST(a_plan_whose_proof_has_another_end_is_refused)
{
    struct json_object *own = json_object_new_object();
    json_object_object_add(json_object_object_get(plan, "proof"), "per_rank", own);
    json_object_object_add(own, "end", json_object_new_string("failed"));
    play_json_seal(plan);
    json_object_object_add(own, "end", json_object_new_string("passed"));
    require_refused("the end of the proof of what each rank has");
}

TEST(a_plan_without_its_hash_is_for_unproved)
{
    json_object_object_del(plan, "hash");
    require_refused("the hash");
    ck_assert(is_taken(true));
    json_object_object_add(plan, "hash", json_object_new_int(3));
    require_refused("the hash");
}

TEST(a_plan_of_another_version_is_for_unproved)
{
    json_object_object_add(json_object_object_get(plan, "turns"), "version", json_object_new_int(PLAY_VERSION - 1));
    play_json_seal(plan);
    require_refused("the version");
    ck_assert_ptr_nonnull(strstr(error.text, "another version of ddprun"));
    ck_assert(is_taken(true));
}

TEST(a_plan_of_another_ddprun_is_for_unproved)
{
    json_object_object_add(json_object_object_get(plan, "turns"), "ddprun", json_object_new_string("0.0.1"));
    play_json_seal(plan);
    require_refused("the version of ddprun");
    ck_assert_ptr_nonnull(strstr(error.text, "another version of ddprun"));
    ck_assert(is_taken(true));
}

TEST(what_may_change_later_has_no_part_in_the_hash)
{
    json_object_object_del(plan, "forecast");
    json_object_object_add(plan, "cache", json_object_new_object());
    ck_assert(is_taken(false));
}
