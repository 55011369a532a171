/* play_json.c - see play_json.h. */

#include "tools/plan/format/play_json.h"

#include "launcher/common/xcalloc.h"

#include <stdio.h>
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
                                    [PLAY_READS_MIXED] = "steps",
                                    [PLAY_READS_FIRST] = "first rank"};
enum { TYPES = 9 };

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

size_t
play_length(struct json_object *list)
{
    return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
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

/* ---- writing and reading: each function below does both ---- */

struct codec {
    bool writes;
    const char *wrong; /* of what is read: the first key that is missing, or has no possible value */
};

/* A member of what is read. */
static struct json_object *
take(struct codec *codec, struct json_object *from, const char *key, enum json_type type)
{
    struct json_object *member = NULL;
    if (codec->wrong == NULL && (!json_object_object_get_ex(from, key, &member) || !json_object_is_type(member, type)))
        codec->wrong = key;
    return codec->wrong == NULL ? member : NULL;
}

/* Writes a number under `key`, or reads it: each code_...() does both, by codec->writes. One above `most` is wrong. */
static void
code_number(struct codec *codec, struct json_object *object, const char *key, uint64_t most, uint64_t *number)
{
    if (codec->writes) {
        play_put_number(object, key, *number);
        return;
    }
    struct json_object *member = take(codec, object, key, json_type_int);
    *number = member != NULL ? json_object_get_uint64(member) : 0;
    if (member != NULL && (json_object_get_int64(member) < 0 || *number > most)) {
        codec->wrong = key;
        *number = 0;
    }
}

/* A number of 32 bits. */
static void
code_whole(struct codec *codec, struct json_object *object, const char *key, uint32_t most, uint32_t *number)
{
    uint64_t wide = *number;
    code_number(codec, object, key, most, &wide);
    *number = (uint32_t)wide;
}

/* A text of less than `room` bytes. */
static void
code_text(struct codec *codec, struct json_object *object, const char *key, char *text, size_t room)
{
    if (codec->writes) {
        play_put_text(object, key, text);
        return;
    }
    struct json_object *member = take(codec, object, key, json_type_string);
    if (member != NULL && (size_t)snprintf(text, room, "%s", json_object_get_string(member)) >= room)
        codec->wrong = key;
}

/* One of the words, as its index. */
static void
code_word(struct codec *codec, struct json_object *object, const char *key, const char *const *words, uint32_t count,
          uint32_t *word)
{
    if (codec->writes) {
        play_put_text(object, key, words[*word]);
        return;
    }
    struct json_object *member = take(codec, object, key, json_type_string);
    *word = 0;
    for (uint32_t i = 0; member != NULL && i < count; ++i) {
        if (words[i] != NULL && strcmp(words[i], json_object_get_string(member)) == 0) {
            *word = i;
            return;
        }
    }
    if (member != NULL)
        codec->wrong = key;
}

/* What codes one item of a list. */
typedef void code_fn(struct codec *codec, struct json_object *object, const struct play_plan *plan, void *item);

/* A list of objects. `items`: NULL if they are read, and have no place. Returns them. */
static void *
code_list(struct codec *codec, struct json_object *object, const char *key, uint32_t most, code_fn *code,
          const struct play_plan *plan, void *items, uint32_t *count, size_t size)
{
    struct json_object *list = codec->writes ? play_put_list(object, key) : take(codec, object, key, json_type_array);
    size_t length = codec->writes ? *count : play_length(list);
    if (length > most)
        codec->wrong = key;
    for (size_t i = 0; i < length && !codec->writes && codec->wrong == NULL; ++i) {
        if (!json_object_is_type(json_object_array_get_idx(list, i), json_type_object))
            codec->wrong = key;
    }
    *count = codec->wrong == NULL ? (uint32_t)length : 0;
    if (items == NULL && !codec->writes)
        items = xcalloc(*count + 1, size);
    for (uint32_t i = 0; i < *count; ++i)
        code(codec, codec->writes ? play_put_item(list) : json_object_array_get_idx(list, i), plan,
             (char *)items + i * size);
    return items;
}

/* The fields of play.h, of `it`. */
#define CODE_number(name, key, limit) code_number(codec, object, key, limit, &it->name);
#define CODE_whole(name, key, limit)  code_whole(codec, object, key, limit, &it->name);
#define CODE_text(name, key, limit)   code_text(codec, object, key, it->name, limit);
#define CODE_word(name, key, words)   code_word(codec, object, key, words, sizeof(words) / sizeof(words[0]), &it->name);
#define CODE(kind, name, key, limit)  CODE_##kind(name, key, limit)

/* A frame of a call site: an object of the plan, and the offset in it. */
static void
code_frame(struct codec *codec, struct json_object *object, const struct play_plan *plan, void *item)
{
    struct scout_frame *it = item;
    CODE_whole(object, "object", plan->object_count > 0 ? plan->object_count - 1 : 0);
    CODE_number(offset, "offset", INT64_MAX);
}

/* A call site. */
static void
code_site(struct codec *codec, struct json_object *object, const struct play_plan *plan, void *item)
{
    struct play_site *it = item;
    (void)code_list(codec, object, "frames", PLAY_FRAMES, code_frame, plan, it->frames, &it->frame_count,
                    sizeof(it->frames[0]));
}

/* A loaded object: its path and its build id. */
static void
code_object(struct codec *codec, struct json_object *object, const struct play_plan *plan, void *item)
{
    struct play_object *it = item;
    (void)plan;
    PLAY_OBJECT(CODE);
}

/* Whether the object has a field for noise: a tensor or a read without noise has none. */
static bool
has_noise(const struct codec *codec, struct json_object *object, uint32_t noise)
{
    return codec->writes ? noise != 0 : json_object_object_get_ex(object, "noise_of", NULL);
}

/* An operation of the period: who makes it, what it reads, its call sites. */
static void
code_operation(struct codec *codec, struct json_object *object, const struct play_plan *plan, void *item)
{
    struct play_operation *it = item;
    PLAY_OPERATION(CODE);
    if (it->part == (plan->by == PLAY_BY_STATE ? PLAY_BY_LAST : PLAY_BY_CHOICE))
        codec->wrong = "made_by";
    if (codec->writes ? it->reads != PLAY_READS_NOTHING : json_object_object_get_ex(object, "reads", NULL)) {
        PLAY_READ(CODE);
    }
    if (has_noise(codec, object, it->noise)) {
        PLAY_NOISE(CODE);
    }
    (void)code_list(codec, object, "sites", PLAY_SITES, code_site, plan, it->sites, &it->site_count,
                    sizeof(it->sites[0]));
}

/* A range of memory with its role and type. A role that the plan's kind does not have is wrong. */
static void
code_tensor(struct codec *codec, struct json_object *object, const struct play_plan *plan, void *item)
{
    struct play_tensor *it = item;
    PLAY_TENSOR(CODE);
    if (has_noise(codec, object, it->noise)) {
        PLAY_NOISE(CODE);
    }
    if (codec->wrong == NULL && it->lo >= it->hi)
        codec->wrong = "end";
    if (codec->wrong == NULL && it->role < PLAY_COMPARED && it->type == 0)
        codec->wrong = "type";
    if (codec->wrong == NULL && !play_tensor_fits(plan, it))
        codec->wrong = "role";
}

/* Bytes that an operation writes and the host may read. */
static void
code_written(struct codec *codec, struct json_object *object, const struct play_plan *plan, void *item)
{
    struct play_written *it = item;
    PLAY_WRITTEN(CODE);
    if (codec->wrong == NULL && it->lo >= it->hi)
        codec->wrong = "end";
}

/* All of a plan that players follow. The first wrong member is codec->wrong. */
static void
code_play(struct codec *codec, struct json_object *root, struct play *play)
{
    struct play_plan *plan = &play->plan;
    code_word(codec, root, "by", kinds, sizeof(kinds) / sizeof(kinds[0]), &plan->by);
    play->objects = code_list(codec, root, "objects", MOST, code_object, plan, play->objects, &plan->object_count,
                              sizeof(*play->objects));
    play->operations = code_list(codec, root, "operations", MOST, code_operation, plan, play->operations,
                                 &plan->operation_count, sizeof(*play->operations));
    play->tensors = code_list(codec, root, "memory", MOST, code_tensor, plan, play->tensors, &plan->tensor_count,
                              sizeof(*play->tensors));
    play->written = code_list(codec, root, "written", MOST, code_written, plan, play->written, &plan->written_count,
                              sizeof(*play->written));
    code_whole(codec, root, "proof_rounds", MOST_ROUNDS, &plan->steps);
    code_whole(codec, root, "reduce_before", plan->operation_count, &plan->average_before);
    /* A plan by state averages at the period's end; one by gradients in front of an operation. */
    uint32_t end = plan->operation_count + (plan->by == PLAY_BY_STATE);
    if (codec->wrong == NULL && (plan->average_before == 0 || plan->average_before >= end))
        codec->wrong = "reduce_before";
    if (plan->by == PLAY_BY_STATE)
        code_whole(codec, root, "state_before", plan->average_before, &plan->state_before);
    if (codec->wrong == NULL && plan->by == PLAY_BY_STATE && plan->state_before == 0)
        codec->wrong = "state_before";
}

struct json_object *
play_json_of(const struct play *play)
{
    struct codec codec = {.writes = true};
    struct json_object *root = json_object_new_object();
    struct play copy = *play;
    play_put_number(root, "version", PLAY_VERSION);
    play_put_text(root, "ddprun", DDPRUN_VERSION);
    code_play(&codec, root, &copy);
    return root;
}

bool
play_json_read(struct json_object *from, struct play *play, char *why)
{
    struct codec codec = {.writes = false};
    *play = (struct play){.plan.version = PLAY_VERSION};
    if (!json_object_is_type(from, json_type_object))
        codec.wrong = "turns";
    code_play(&codec, from, play);
    if (codec.wrong != NULL)
        snprintf(why, PLAY_WHY_BYTES, "turns.%s is missing or has no possible value", codec.wrong);
    return codec.wrong == NULL;
}

/* ---- times ---- */

static void
code_times(struct codec *codec, struct json_object *object, struct play_times *it)
{
    PLAY_TIMES(CODE);
}

void
play_json_put_times(struct json_object *plan, const struct play_times *times)
{
    struct codec codec = {.writes = true};
    struct play_times copy = *times;
    struct json_object *forecast = json_object_new_object();
    code_times(&codec, forecast, &copy);
    json_object_object_add(plan, "forecast", forecast);
}

struct play_times
play_json_times(struct json_object *plan)
{
    struct codec codec = {.writes = false};
    struct play_times times = {0};
    code_times(&codec, json_object_object_get(plan, "forecast"), &times);
    return codec.wrong == NULL ? times : (struct play_times){0};
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
