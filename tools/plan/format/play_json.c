/*
 * play_json.c - see play_json.h.
 */
#define XXH_INLINE_ALL

#include "tools/plan/format/play_json.h"

#include "launcher/common/xcalloc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* More than any program has; and room for a list of these is there. */
enum { MOST = 1 << 20, MOST_ROUNDS = 100 };

static const char *const roles[] = {
    [PLAY_PARAMETER] = "parameter", [PLAY_GRADIENT] = "gradient", [PLAY_STATE] = "state",
    [PLAY_COMPARED] = "compared",   [PLAY_PER_RANK] = "per rank", [PLAY_STAYS] = "stays",
    [PLAY_UNWRITTEN] = "unwritten", [PLAY_UNREAD] = "unread",     [PLAY_CHANGES] = "state by change",
    [PLAY_STREAM] = "stream",       [PLAY_SUM] = "sum",           [PLAY_LAST] = "last"};
static const char *const kinds[] = {[PLAY_BY_GRADIENTS] = "gradients", [PLAY_BY_STATE] = "state"};
static const char *const parts[] = {
    [PLAY_BY_ALL] = "all", [PLAY_BY_TURN] = "turn", [PLAY_BY_LAST] = "last", [PLAY_BY_CHOICE] = "turn or not at all"};
static const char *const reads[] = {[PLAY_READS_NOTHING] = "nothing",
                                    [PLAY_READS_ALIKE] = "alike",
                                    [PLAY_READS_STEP] = "step",
                                    [PLAY_READS_MIXED] = "steps"};
enum {
    READS = sizeof(reads) / sizeof(reads[0]),
    ROLES = sizeof(roles) / sizeof(roles[0]),
    PARTS = sizeof(parts) / sizeof(parts[0]),
    KINDS = 2,
    TYPES = 9
};

/* ---- members ---- */

const char *
play_text(struct json_object *from, const char *key)
{
    const char *text = json_object_get_string(json_object_object_get(from, key));
    return text != NULL ? text : "";
}

uint64_t
play_number(struct json_object *from, const char *key)
{
    return json_object_get_uint64(json_object_object_get(from, key));
}

void
play_put_text(struct json_object *to, const char *key, const char *text)
{
    json_object_object_add(to, key, text != NULL ? json_object_new_string(text) : NULL);
}

void
play_put_number(struct json_object *to, const char *key, uint64_t number)
{
    json_object_object_add(to, key, json_object_new_uint64(number));
}

struct json_object *
play_put_list(struct json_object *to, const char *key)
{
    struct json_object *list = json_object_new_array();
    json_object_object_add(to, key, list);
    return list;
}

struct json_object *
play_put_item(struct json_object *list)
{
    struct json_object *item = json_object_new_object();
    json_object_array_add(list, item);
    return item;
}

/* ---- writing ---- */

static void
put_site(struct json_object *to, const struct play_site *site)
{
    struct json_object *frames = play_put_list(to, "frames");
    for (uint32_t i = 0; i < site->frame_count; ++i) {
        struct json_object *frame = play_put_item(frames);
        play_put_number(frame, "object", site->frames[i].object);
        play_put_number(frame, "offset", site->frames[i].offset);
    }
}

static void
put_operation(struct json_object *to, const struct play_operation *operation)
{
    play_put_text(to, "name", operation->name);
    play_put_text(to, "made_by", parts[operation->part]);
    play_put_number(to, "host_bytes", operation->host_bytes);
    if (operation->reads != PLAY_READS_NOTHING) {
        play_put_text(to, "reads", reads[operation->reads]);
        play_put_number(to, "written_by", operation->writer);
        play_put_number(to, "periods_before", operation->back);
    }
    struct json_object *sites = play_put_list(to, "sites");
    for (uint32_t i = 0; i < operation->site_count; ++i)
        put_site(play_put_item(sites), &operation->sites[i]);
}

static void
put_place(struct json_object *to, uint32_t alloc, uint32_t ordinal, uint64_t bytes, uint64_t lo, uint64_t hi)
{
    play_put_number(to, "allocation", alloc);
    play_put_number(to, "ordinal", ordinal);
    play_put_number(to, "bytes", bytes);
    play_put_number(to, "begin", lo);
    play_put_number(to, "end", hi);
}

struct json_object *
play_json_of(const struct play *play)
{
    struct json_object *root = json_object_new_object();
    play_put_number(root, "version", PLAY_VERSION);
    play_put_text(root, "ddprun", DDPRUN_VERSION);
    play_put_text(root, "by", kinds[play->plan.by]);
    play_put_number(root, "proof_rounds", play->plan.steps);
    play_put_number(root, "reduce_before", play->plan.average_before);
    struct json_object *list = play_put_list(root, "operations");
    for (uint32_t i = 0; i < play->plan.operation_count; ++i)
        put_operation(play_put_item(list), &play->operations[i]);
    list = play_put_list(root, "memory");
    for (uint32_t i = 0; i < play->plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &play->tensors[i];
        struct json_object *item = play_put_item(list);
        play_put_text(item, "role", roles[tensor->role]);
        play_put_number(item, "type", tensor->type);
        put_place(item, tensor->alloc, tensor->ordinal, tensor->bytes, tensor->lo, tensor->hi);
    }
    list = play_put_list(root, "written");
    for (uint32_t i = 0; i < play->plan.written_count; ++i) {
        const struct play_written *written = &play->written[i];
        struct json_object *item = play_put_item(list);
        play_put_number(item, "by", written->writer);
        play_put_number(item, "moves", written->moves);
        play_put_number(item, "unread", written->unread);
        put_place(item, written->alloc, written->ordinal, written->bytes, written->lo, written->hi);
    }
    list = play_put_list(root, "objects");
    for (uint32_t i = 0; i < play->plan.object_count; ++i) {
        struct json_object *item = play_put_item(list);
        play_put_text(item, "path", play->objects[i].path);
        play_put_text(item, "build_id", play->objects[i].build_id);
    }
    return root;
}

/* ---- reading ---- */

/* What was wrong first: the key. */
struct reader {
    const char *wrong;
};

static struct json_object *
take(struct reader *reader, struct json_object *from, const char *key, enum json_type type)
{
    struct json_object *member = NULL;
    if (reader->wrong == NULL && (!json_object_object_get_ex(from, key, &member) || !json_object_is_type(member, type)))
        reader->wrong = key;
    return reader->wrong == NULL ? member : NULL;
}

static uint64_t
take_number(struct reader *reader, struct json_object *from, const char *key, uint64_t most)
{
    struct json_object *member = take(reader, from, key, json_type_int);
    int64_t is_signed = member != NULL ? json_object_get_int64(member) : 0;
    uint64_t number = member != NULL ? json_object_get_uint64(member) : 0;
    if (member != NULL && (is_signed < 0 || number > most))
        reader->wrong = key;
    return reader->wrong == NULL ? number : 0;
}

static void
take_text(struct reader *reader, struct json_object *from, const char *key, char *text, size_t room)
{
    struct json_object *member = take(reader, from, key, json_type_string);
    if (member != NULL && (size_t)snprintf(text, room, "%s", json_object_get_string(member)) >= room)
        reader->wrong = key;
}

static uint32_t
take_word(struct reader *reader, struct json_object *from, const char *key, const char *const *words, uint32_t count)
{
    struct json_object *member = take(reader, from, key, json_type_string);
    for (uint32_t i = 0; member != NULL && i < count; ++i) {
        if (words[i] != NULL && strcmp(words[i], json_object_get_string(member)) == 0)
            return i;
    }
    if (member != NULL)
        reader->wrong = key;
    return 0;
}

/* A list of objects; its length in *count. NULL: it is wrong. */
static struct json_object *
take_list(struct reader *reader, struct json_object *from, const char *key, uint32_t most, uint32_t *count)
{
    struct json_object *list = take(reader, from, key, json_type_array);
    size_t length = list != NULL ? json_object_array_length(list) : 0;
    if (length > most)
        reader->wrong = key;
    for (size_t i = 0; i < length && reader->wrong == NULL; ++i) {
        if (!json_object_is_type(json_object_array_get_idx(list, i), json_type_object))
            reader->wrong = key;
    }
    *count = reader->wrong == NULL ? (uint32_t)length : 0;
    return list;
}

static void
take_site(struct reader *reader, struct json_object *from, struct play_site *to, uint32_t objects)
{
    struct json_object *frames = take_list(reader, from, "frames", PLAY_FRAMES, &to->frame_count);
    for (uint32_t i = 0; i < to->frame_count; ++i) {
        struct json_object *frame = json_object_array_get_idx(frames, i);
        to->frames[i].object = (uint32_t)take_number(reader, frame, "object", objects > 0 ? objects - 1 : 0);
        to->frames[i].offset = take_number(reader, frame, "offset", INT64_MAX);
    }
}

static void
take_operation(struct reader *reader, struct json_object *from, const struct play_plan *plan, struct play_operation *to)
{
    uint32_t objects = plan->object_count;
    take_text(reader, from, "name", to->name, sizeof(to->name));
    to->part = take_word(reader, from, "made_by", parts, PARTS);
    if (to->part == (plan->by == PLAY_BY_STATE ? PLAY_BY_LAST : PLAY_BY_CHOICE))
        reader->wrong = "made_by";
    to->host_bytes = take_number(reader, from, "host_bytes", INT64_MAX);
    if (json_object_object_get_ex(from, "reads", NULL)) {
        to->reads = take_word(reader, from, "reads", reads, READS);
        to->writer = (uint32_t)take_number(reader, from, "written_by", plan->operation_count - 1);
        to->back = (uint32_t)take_number(reader, from, "periods_before", MOST);
    }
    struct json_object *sites = take_list(reader, from, "sites", PLAY_SITES, &to->site_count);
    for (uint32_t i = 0; i < to->site_count; ++i)
        take_site(reader, json_object_array_get_idx(sites, i), &to->sites[i], objects);
}

static void
take_place(struct reader *reader, struct json_object *from, uint32_t *alloc, uint32_t *ordinal, uint64_t *bytes,
           uint64_t *lo, uint64_t *hi)
{
    *alloc = (uint32_t)take_number(reader, from, "allocation", UINT32_MAX);
    *ordinal = (uint32_t)take_number(reader, from, "ordinal", UINT32_MAX);
    *bytes = take_number(reader, from, "bytes", INT64_MAX);
    *lo = take_number(reader, from, "begin", *bytes);
    *hi = take_number(reader, from, "end", *bytes);
    if (reader->wrong == NULL && *lo >= *hi)
        reader->wrong = "end";
}

static void
take_tensor(struct reader *reader, struct json_object *from, const struct play_plan *plan, struct play_tensor *to)
{
    to->role = take_word(reader, from, "role", roles, ROLES);
    to->type = (uint32_t)take_number(reader, from, "type", TYPES - 1);
    take_place(reader, from, &to->alloc, &to->ordinal, &to->bytes, &to->lo, &to->hi);
    if (reader->wrong == NULL && to->role < PLAY_COMPARED && to->type == 0)
        reader->wrong = "type";
    if (reader->wrong == NULL && !play_tensor_fits(plan, to))
        reader->wrong = "role";
}

/* A plan by state averages at the period's end; one by gradients in front of an operation. */
static bool
is_place_of_average(const struct play_plan *plan)
{
    if (plan->by == PLAY_BY_STATE)
        return plan->average_before == plan->operation_count;
    return plan->average_before > 0 && plan->average_before < plan->operation_count;
}

static void
take_written(struct reader *reader, struct json_object *from, const struct play_plan *plan, struct play_written *to)
{
    to->writer = (uint32_t)take_number(reader, from, "by", plan->operation_count > 0 ? plan->operation_count - 1 : 0);
    to->moves = (uint32_t)take_number(reader, from, "moves", 1);
    to->unread = (uint32_t)take_number(reader, from, "unread", 1);
    take_place(reader, from, &to->alloc, &to->ordinal, &to->bytes, &to->lo, &to->hi);
}

bool
play_json_read(struct json_object *from, struct play *play, char *why)
{
    struct reader reader = {0};
    struct json_object *list;
    struct play_plan *plan = &play->plan;
    *play = (struct play){.plan.version = PLAY_VERSION};
    if (!json_object_is_type(from, json_type_object))
        reader.wrong = "turns";
    list = take_list(&reader, from, "objects", MOST, &plan->object_count);
    play->objects = xcalloc(plan->object_count + 1, sizeof(*play->objects));
    for (uint32_t i = 0; i < plan->object_count; ++i) {
        struct json_object *item = json_object_array_get_idx(list, i);
        take_text(&reader, item, "path", play->objects[i].path, sizeof(play->objects[i].path));
        take_text(&reader, item, "build_id", play->objects[i].build_id, sizeof(play->objects[i].build_id));
    }
    plan->by = take_word(&reader, from, "by", kinds, KINDS);
    list = take_list(&reader, from, "operations", MOST, &plan->operation_count);
    play->operations = xcalloc(plan->operation_count + 1, sizeof(*play->operations));
    for (uint32_t i = 0; i < plan->operation_count; ++i)
        take_operation(&reader, json_object_array_get_idx(list, i), plan, &play->operations[i]);
    list = take_list(&reader, from, "memory", MOST, &plan->tensor_count);
    play->tensors = xcalloc(plan->tensor_count + 1, sizeof(*play->tensors));
    for (uint32_t i = 0; i < plan->tensor_count; ++i)
        take_tensor(&reader, json_object_array_get_idx(list, i), plan, &play->tensors[i]);
    list = take_list(&reader, from, "written", MOST, &plan->written_count);
    play->written = xcalloc(plan->written_count + 1, sizeof(*play->written));
    for (uint32_t i = 0; i < plan->written_count; ++i)
        take_written(&reader, json_object_array_get_idx(list, i), plan, &play->written[i]);
    plan->steps = (uint32_t)take_number(&reader, from, "proof_rounds", MOST_ROUNDS);
    plan->average_before = (uint32_t)take_number(&reader, from, "reduce_before", plan->operation_count);
    if (reader.wrong == NULL && !is_place_of_average(plan))
        reader.wrong = "reduce_before";
    if (reader.wrong != NULL)
        snprintf(why, PLAY_WHY_BYTES, "turns.%s is missing or has no possible value", reader.wrong);
    return reader.wrong == NULL;
}

/* ---- the hash ---- */

static uint64_t
hash_text(struct json_object *of, uint64_t seed)
{
    const char *text = json_object_to_json_string_ext(of, JSON_C_TO_STRING_PLAIN);
    return XXH3_64bits_withSeed(text, strlen(text), seed);
}

/* Of what ranks follow, and of how its proofs ended: numbers and words as they are, whatever stands between them. 53
 * bits, as all readers of JSON have them. */
static int64_t
hash_plan(struct json_object *plan)
{
    static const char *const ends[] = {"turns", "complete", "per_rank"};
    struct json_object *proof = json_object_object_get(plan, "proof");
    uint64_t hash = hash_text(json_object_object_get(plan, "turns"), PLAY_VERSION);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); ++i)
        hash = hash_text(json_object_object_get(json_object_object_get(proof, ends[i]), "end"), hash);
    return (int64_t)(hash >> 11);
}

void
play_json_seal(struct json_object *plan)
{
    json_object_object_add(plan, "hash", json_object_new_int64(hash_plan(plan)));
}

const char *
play_json_damage(struct json_object *plan)
{
    struct json_object *turns = json_object_object_get(plan, "turns");
    if (play_number(turns, "version") != PLAY_VERSION || strcmp(play_text(turns, "ddprun"), DDPRUN_VERSION) != 0)
        return "was made by another version of ddprun";
    return json_object_get_int64(json_object_object_get(plan, "hash")) == hash_plan(plan)
               ? NULL
               : "was changed since it was made: its hash is wrong";
}
