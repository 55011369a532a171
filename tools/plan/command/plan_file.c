/* plan_file.c - see auto.h. */
#include "tools/plan/command/auto.h"

#include "base/printable.h"
#include "base/protocol.h"
#include "launcher/common/file_read.h"
#include "tools/common/owned.h"
#include "tools/plan/format/play_json.h"
#include "tools/scout/command/report/proofs.h"

bool
plan_file_is_by_state(struct json_object *plan)
{
    return strcmp(play_text(json_object_object_get(plan, "turns"), "by"), "state") == 0;
}

/* The error for a plan that cannot be followed; `or_unproved`: it can be with --unproved. Returns false. */
static bool
refuse(const char *path, const char *what, bool or_unproved, struct error *error)
{
    return error_set(error, DDPRUN_EXIT_USAGE,
                     "the plan %s %s; make it again: ddprun scout --prove --json %s -- PROGRAM%s", path, what, path,
                     or_unproved ? ", or add --unproved" : "");
}

/* Whether the plan is proved, unless it need not be: by proof (d), by state by (complete), too, and by the one that
 * --per-rank needs. False, with the error. */
static bool
is_proved(struct json_object *root, const char *path, bool unproved, struct error *error)
{
    static const char *const proofs[][2] = {{"complete", "complete"}, {"turns", "d"}};
    struct json_object *all = json_object_object_get(root, "proof"), *own = json_object_object_get(all, "per_rank");
    if (own != NULL && strcmp(play_text(own, "end"), "passed") != 0)
        return error_set(error, DDPRUN_EXIT_USAGE, "the plan %s is not proved: %s", path, play_text(own, "text"));
    for (size_t i = plan_file_is_by_state(root) ? 0 : 1; i < sizeof(proofs) / sizeof(proofs[0]) && !unproved; ++i) {
        struct json_object *proof = json_object_object_get(all, proofs[i][0]);
        const char *end = play_text(proof, "end");
        if (end[0] == '\0')
            return refuse(path, "is not proved", true, error);
        if (strcmp(end, "passed") != 0)
            return error_set(error, DDPRUN_EXIT_USAGE,
                             "proof (%s) of the plan %s: %s: %s; --unproved runs it all the same", proofs[i][1], path,
                             end, play_text(proof, "text"));
    }
    return true;
}

/* Why ranks cannot take turns; "": they can. */
static const char *
refusal_of(struct json_object *root)
{
    const char *reason = play_text(root, "reason");
    if (!json_object_get_boolean(json_object_object_get(root, "found")))
        return reason[0] != '\0' ? reason : "no gradients were found";
    return play_text(json_object_object_get(root, "turns"), "reason");
}

const char *
plan_file_place(struct json_object *root, uint64_t alloc)
{
    struct json_object *list = json_object_object_get(root, "allocations");
    return alloc < play_length(list) ? play_text(json_object_array_get_idx(list, alloc), "allocated_at") : "";
}

/* Whether the plan is one that this ddprun can follow: of its version, with turns, and proved or `unproved`. *turns_p:
 * what ranks play. False, with the error that names what to do. */
static bool
judge_plan(struct json_object *root, const char *path, bool unproved, struct json_object **turns_p, struct error *error)
{
    struct json_object *version;
    if (!json_object_object_get_ex(root, "version", &version) || !json_object_object_get_ex(root, "found", NULL))
        return error_set(error, DDPRUN_EXIT_USAGE, "%s, in --plan, is no plan of ddprun scout", path);
    if (json_object_get_int64(version) != SCOUT_PLAN_VERSION)
        return error_set(
            error, DDPRUN_EXIT_USAGE,
            "the plan %s has version %lld, and this ddprun reads version %d; make it again by ddprun scout", path,
            (long long)json_object_get_int64(version), SCOUT_PLAN_VERSION);
    const char *reason = refusal_of(root);
    if (reason[0] != '\0')
        return error_set(error, DDPRUN_EXIT_USAGE, "ranks cannot take turns by the plan %s: %s", path, reason);
    if (!json_object_object_get_ex(root, "turns", turns_p))
        return refuse(path, "does not say how ranks take turns", false, error);
    if (!is_proved(root, path, unproved, error))
        return false;
    const char *damage = unproved ? NULL : play_json_damage(root);
    return damage == NULL || refuse(path, damage, true, error);
}

/* Writes what players follow to the file `to`. False, with the error: it cannot be written. */
static bool
save_play(const struct play *play, const char *to, struct error *error)
{
    struct play_exchange *exchange = play_save(to, play) ? play_exchange_map(to, true) : NULL;
    bool ok = exchange != NULL || error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s: %s", to, strerror(errno));
    play_exchange_unmap(exchange);
    return ok;
}

/* Checks a plan that was read, and writes the file `to` that players follow. False, with the error that names what to
 * do: it cannot be followed. */
static bool
prepare_plan(struct json_object *root, const char *path, bool unproved, bool reads_own, const char *to,
             struct error *error)
{
    struct json_object *played;
    struct play play = {0};
    char why[PLAY_WHY_BYTES] = "";
    if (!judge_plan(root, path, unproved, &played, error))
        return false;
    bool ok =
        play_json_read(played, &play, why) ||
        error_set(error, DDPRUN_EXIT_USAGE, "the plan %s is damaged: %s; make it again by ddprun scout", path, why);
    const char *turns = getenv(DDPRUN_ENV_PLAN_TURNS);
    FOR_EACH_MUTABLE(tensor, play.tensors, play.plan.tensor_count)
        snprintf(tensor->allocated_at, sizeof(tensor->allocated_at), "%s", plan_file_place(root, tensor->alloc));
    play.plan.data = PLAY_TRAINING;
    play.plan.reads_own = reads_own;
    play.plan.turns = turns != NULL ? (uint32_t)strtoul(turns, NULL, 10) : 0;
    play.plan.forecast = play_json_times(root);
    ok = ok && save_play(&play, to, error);
    play_free(&play);
    return ok;
}

bool
plan_file_prepare(const char *path, const char *name, bool unproved, bool reads_own, const char *to,
                  struct error *error)
{
    OWNED char *text = file_read(path, PLAN_MOST_BYTES, NULL, NULL);
    if (text == NULL)
        return file_read_refused("the plan ", name, ", in --plan", error);
    struct json_object *root = json_tokener_parse(text);
    if (root == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s, in --plan, is no plan of ddprun scout: it is not JSON, or cut",
                         name);
    bool ok = prepare_plan(root, name, unproved, reads_own, to, error);
    json_object_put(root);
    if (!ok)
        printable_make(error->text, ""); /* one line, whatever the plan says */
    return ok;
}
