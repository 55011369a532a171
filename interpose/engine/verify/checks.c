/*
 * checks.c - are parameters and optimizer state the same on all ranks?
 *
 * Their hashes are compared across all ranks at the first step, before any optimizer, after the first overlapped steps
 * and then every K, in the order of the communication stream. Where one differs, the next comparison looks at values
 * (values.c).
 */
#include "interpose/engine/core/hashing.h"
#include "interpose/engine/core/observer.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/verify/verify.h"

#include "base/clock.h"
#include "base/message.h"
#include "comm/hash.h"
#include "comm/kernels.h"

enum { FIRST_STEPS = 3 };

/* Of a parameter that is hashed: written by host functions in the communication stream's order. */
struct parameter_hash {
    uint64_t *word; /* where its hash goes */
    bool finite;    /* it has no element that is infinite or NaN */
};

static struct {
    struct hasher *hasher; /* of the communication stream */
    uint64_t
        compared_of_group[GROUPS_AT_MOST]; /* of a group of parameters: its boundaries when they were last compared */
    struct gathered parameters;            /* their hashes, on their way to the other ranks */
    struct parameter_hash *hashes;         /* [hash_count] */
    size_t hash_count;
    uint64_t after_step; /* boundaries passed when they were hashed */
    bool under_way;      /* between before_release and after_release */
    uint64_t left_out;   /* number of the boundary before which, since the last comparison, one seems left out; or 0 */
    uint64_t compared_step;  /* boundaries passed when parameters were last hashed: a graph passes several at once */
    uint64_t sent;           /* comparisons that were sent, */
    _Atomic uint64_t judged; /* and that host functions have judged */
    uint64_t sent_left_out;  /* `left_out` of the last one */

    uint64_t *final_words; /* hashes of the parameters when the first of them was freed, or at the end */
    size_t final_count;
    uint64_t final_step; /* boundaries passed then */
    bool final_known;
} checks = {.parameters = {.compares = true}};

/* ---- preparation ---- */

/* Nothing of a comparison may be on its way. */
static void
prepare_hashes(size_t count)
{
    free(checks.hashes);
    checks.hashes = engine_calloc(count + 1, sizeof(*checks.hashes));
    checks.hash_count = count;
}

static void
prepare_parameters(size_t count)
{
    gather_prepare(&checks.parameters, count);
    if (count != checks.hash_count)
        prepare_hashes(count);
}

void
checks_prepare(void)
{
    if (checks.hasher == NULL)
        checks.hasher = hasher_get();
    prepare_parameters(tensor_compared_count());
    nonfinite_prepare();
}

/* ---- parameters and optimizer state: the same on all ranks ---- */

static void
store_hash(void *arg, const struct hashed *hashed)
{
    struct parameter_hash *hash = arg;
    *hash->word = hashed->hash;
    hash->finite = hashed->finite;
}

/* Whether backward may have changed it since all ranks had the same: its group's step has not averaged it yet. */
static bool
is_in_between(const struct tensor *tensor, const struct group *group)
{
    bool waits = LOCKED(tensor_waits_for_group(tensor));
    return group != NULL && (waits || (tensor->averaged && tensor->group != group->id));
}

/* The issuer: hashes of all parameters go into words[checks.hash_count], HASH_OF_NOTHING for those without memory;
 * false if none has any. At a boundary of `group`, what other groups will average is left out. NULL: at the end, all;
 * the program may have given memory of the host back, without a call that is seen. */
static bool
add_parameters(uint64_t *words, const struct group *group) BY_ISSUER
{
    bool any = false;
    for (size_t i = 0; i < checks.hash_count; ++i) {
        struct tensor tensor = tensor_copy_compared(i);
        tensor.placed = tensor.placed && !is_in_between(&tensor, group);
        if (checks.hashes[i].word != &words[i]) /* else the last comparison may be reading it */
            checks.hashes[i].word = &words[i];
        any = any || tensor.placed;
        bool is_staged = group != NULL && tensor.averaged; /* the average comes to the host's memory after the step */
        bool on_host = tensor.placed && tensor.kind == MEMORY_HOST && !is_staged;
        if (on_host && hasher_add_host(checks.hasher, tensor.address, tensor.bytes, false, tensor.type, store_hash,
                                       &checks.hashes[i]))
            continue;
        if (on_host && group != NULL)
            tensor_refuse_missing(&tensor, "read");
        hasher_add(checks.hasher, is_staged ? tensor_on_device(&tensor) : tensor.address,
                   tensor.placed && !on_host ? tensor.bytes : 0, tensor.type, store_hash, &checks.hashes[i]);
    }
    return any;
}

/* By a plan what stays is compared more often while training begins. */
static bool
is_early_by_plan(uint64_t steps)
{
    enum { EACH_STEP = 10, OFTEN = 5, OFTEN_STEPS = 100 };
    return engine_state.services->by_plan && steps <= OFTEN_STEPS && (steps <= EACH_STEP || steps % OFTEN == 0);
}

/* They are then as the boundaries before have left them; at the first, as all ranks begin. Those that the group itself
 * averages are as this boundary leaves them, and not compared at those of other groups. */
bool
checks_parameters_due(const struct group *group)
{
    uint64_t every = engine_state.options.check_every, steps = engine_state.boundary_count;
    if (tensor_compared_count() == 0)
        return false;
    bool overlap_begins = group->overlapping && group->overlapped_steps >= 1 && group->overlapped_steps <= FIRST_STEPS;
    bool graphs_begin = engine_state.graph_launches >= 1 && engine_state.graph_launches <= FIRST_STEPS;
    if (engine_state.options.verify || values_are_due() || overlap_begins || graphs_begin)
        return true;
    if (every == 0)
        return false;
    if (group->of_parameters && group->boundary_count / every > checks.compared_of_group[group->id] / every)
        return true;
    if (steps <= FIRST_STEPS && tensor_compares_host())
        return true; /* what differs there at the end may have been freed: it is looked at before */
    bool is_early = steps == 0 || steps == 2 || steps == 5 || is_early_by_plan(steps);
    return is_early || steps / every > checks.compared_step / every;
}

/* The work since the group's last boundary may be that of two steps. */
static void
note_left_out(const struct group *group)
{
    engine_lock();
    bool several = history_is_of_several(&group->history) || history_has_another_pass(&group->history);
    engine_unlock();
    if (!several)
        return;
    checks.left_out = engine_state.boundary_count + 1;
    if (atomic_load(&engine_state.status->left_out_step) == 0)
        atomic_store(&engine_state.status->left_out_step, checks.left_out);
}

/* The host waits until the last comparison is judged, on the device since one interval at least. */
static void
wait_until_judged(void)
{
    while (atomic_load(&checks.judged) < checks.sent) {
        stop_if_asked();
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    stop_if_asked();
}

/* The tensors that the last comparison has left to a look at their values, malloc'ed. */
static size_t *
take_suspects(const struct group *group, size_t *count_p) BY_ISSUER
{
    size_t count = checks.parameters.count, *suspects = engine_calloc(count + 1, sizeof(*suspects));
    *count_p = 0;
    if (checks.sent == 0 || engine_state.options.verify || tensor_compared_count() != count)
        return suspects;
    wait_until_judged();
    for (size_t i = 0; i < count; ++i) {
        struct tensor tensor = tensor_copy_compared(i);
        if (!gather_differs(checks.parameters.differs[i]) || is_in_between(&tensor, group))
            continue;
        values_note_suspect(i, checks.after_step);
        suspects[(*count_p)++] = i;
    }
    return suspects;
}

/* What all ranks' hashes say; `after_step` belongs to this comparison, the words to the whole run. */
struct comparison {
    uint64_t after_step;
    uint64_t left_out;  /* as in `checks` */
    bool is_running;    /* running_are_all() */
    bool is_looked_at;  /* a later comparison looks at the values of what may vary */
    const char *detail; /* by how much it differs; NULL: that is not known */
};

/* Whom a difference is between; where most ranks agree, the rank that differs from them comes first. */
enum { WHO_BYTES = 64 };
static const char *
describe_who(uint32_t differs, char who[WHO_BYTES])
{
    if ((differs & HASH_MAJORITY) != 0)
        snprintf(who, WHO_BYTES, "rank %u and most other ranks", differs & ~HASH_MAJORITY);
    else
        snprintf(who, WHO_BYTES, "ranks 0 and %u", differs);
    return who;
}

/* The cause, and how to correct it: a constant, or in `text`. */
static const char *
describe_cause(const struct tensor *tensor, uint32_t differs, const struct comparison *comparison, char text[512])
{
    bool were_alike = atomic_load(&engine_state.status->check_count) > 0;
    if (engine_state.services->by_plan)
        return "all ranks must see the same batches and make the same decisions; look for seeds that differ by "
               "rank, and for decisions that depend on losses or other results (a rank reads the results of its own "
               "batches)";
    if (comparison->after_step == 0 && checks.final_known)
        return "values that a rank computes from its own data must go through DDP_REDUCE before they change a "
               "parameter";
    if (comparison->after_step == 0 && comparison->is_running)
        return "it has no gradient, or a gradient of zeros. Running statistics, which forward writes, need DDP_BUFFER "
               "instead. Any other parameter: its annotation stands before its initialisation (move it after that)";
    if (comparison->after_step == 0)
        return "its annotation stands before its initialisation (move it after that), or the optimizer ran before "
               "DDP_STEP (call DDP_STEP between backward and the optimizer)";
    if (comparison->left_out > 0)
        snprintf(text, 512,
                 "DDP_STEP was left out: the work on gradients before DDP_STEP number %llu is that of two steps or "
                 "more; call it once in each step, between backward and the optimizer",
                 (unsigned long long)comparison->left_out);
    else if (atomic_load(&engine_state.status->averaged_parameter_count) > 0 && !tensor->averaged)
        snprintf(text, 512,
                 "neither it nor its gradient is averaged: no DDP_STEP_PARAMETERS averages group %d, and integer state "
                 "is never averaged",
                 tensor->group);
    else
        snprintf(text, 512,
                 "possible causes: a gradient without an annotation; DDP_STEP elsewhere than between backward and the "
                 "optimizer; a norm before DDP_STEP; optimizer state that one rank alone has read (DDP_STATE)%s%s. "
                 "`ddprun check` finds the cause",
                 atomic_load(&engine_state.turn_regions) > 0
                     ? "; an update by the host that does not stand under if (DDP_TURN_UPDATES())"
                     : "",
                 (differs & HASH_MAJORITY) != 0 && were_alike ? "; a fault of that rank's memory or GPU" : "");
    return text;
}

/* The last step before `after_step` after which parameters were compared and were right; 0: none. */
static uint64_t
right_step(uint64_t after_step)
{
    uint64_t equal = atomic_load(&engine_state.status->checked_step), noisy = values_right_step();
    uint64_t right = equal > noisy ? equal : noisy;
    if (after_step == 0)
        return 0;
    return right < after_step ? right : after_step - 1;
}

static void
stop_with_difference(size_t index, uint32_t differs, const struct comparison *comparison)
{
    char who[WHO_BYTES], when[80], cause[512];
    struct tensor tensor = tensor_copy_compared(index);
    const char *detail = comparison->detail != NULL ? comparison->detail : "";
    if (engine_state.services->by_plan || comparison->after_step > 0)
        snprintf(when, sizeof(when), "after %s %llu%s", engine_state.services->by_plan ? "update" : "step",
                 (unsigned long long)comparison->after_step, engine_state.services->by_plan ? " of --plan" : "");
    else
        snprintf(when, sizeof(when), "%s",
                 checks.final_known ? "at the end of a program without DDP_STEP" : "at the first DDP_STEP");
    stop_job_soon_by(RANK_SAYS_ALL, right_step(comparison->after_step) + 1, "%s differs between %s %s: %s%s%s%s",
                     tensor_text(&tensor), describe_who(differs, who), when,
                     describe_cause(&tensor, differs, comparison, cause), detail[0] != '\0' ? " (" : "", detail,
                     detail[0] != '\0' ? ")" : "");
}

/* Ends the job where values say that a difference is a mistake; else it is noise: all ranks have rank 0's values. */
static void
look_at_values(size_t *suspects, size_t count) BY_ISSUER
{
    struct values_mistake mistake;
    if (!values_look(suspects, count, &mistake))
        return;
    const struct comparison comparison = {
        .after_step = mistake.after_step, .left_out = checks.sent_left_out, .detail = mistake.text};
    stop_with_difference(mistake.index, checks.parameters.differs[mistake.index], &comparison);
    stop_if_asked();
}

/* Memory is hashed before the trainer may change it again; what was found is copied to the host afterwards. */
void
checks_before_release(const struct group *group)
{
    note_left_out(group);
    size_t suspect_count = 0, *suspects = NULL;
    bool is_due = checks_parameters_due(group);
    if (is_due) {
        suspects = take_suspects(group, &suspect_count);
        if (engine_state.boundary_count == 0)
            running_before_release(group, checks.hasher);
        prepare_parameters(tensor_compared_count());
        values_prepare(tensor_compared_count());
        checks.compared_step = engine_state.boundary_count;
        checks.after_step = engine_state.boundary_count + group->of_parameters;
        checks.compared_of_group[group->id] = group->boundary_count;
        (void)add_parameters(checks.parameters.mine, group);
        checks.under_way = true; /* whatever is freed here: all ranks take part */
    }
    hasher_launch(checks.hasher, first_stream());
    nonfinite_before_release();
    if (is_due)
        look_at_values(suspects, suspect_count);
    free(suspects);
}

/* Ends the job soon if a parameter differs between ranks that may not; the hash of all of them otherwise: `words` are
 * rank 0's. False also if there was nothing to compare, or if values are to be looked at. */
static bool
judge_differences(const uint32_t *differs, const uint64_t *words, size_t count, const struct comparison *comparison,
                  uint64_t *hash_p)
{
    bool compared = false, varies = false;
    size_t found = count; /* of the first rank that differs at all */
    for (size_t i = 0; i < count; ++i) {
        compared = compared || differs[i] != HASH_UNCOMPARED;
        bool is_different = gather_differs(differs[i]);
        if (is_different && comparison->is_looked_at && values_may_vary(i)) {
            varies = true;
            continue;
        }
        bool is_cause = engine_state.services->by_plan && found < count && differs[i] == differs[found];
        if (is_different && (found == count || differs[i] < differs[found] || is_cause))
            found = i;
    }
    if (found < count) {
        stop_with_difference(found, differs[found], comparison);
        return false;
    }
    *hash_p = hash_bytes(words, count * sizeof(words[0]));
    return compared && !varies;
}

static void
find_differences(const uint64_t *words, size_t count, uint32_t *differs)
{
    for (size_t i = 0; i < count; ++i)
        differs[i] = hash_difference(words, count, (uint32_t)engine_state.rendezvous.world_size, i);
}

/* Rank 0, once, where the hashes of a comparison are there. Nothing ends: one GPU would have the same result. */
static void
look_for_infinities(uint64_t after_step)
{
    static bool said, compared;
    static uint64_t finite_step;
    size_t i = 0;
    while (i < checks.hash_count && checks.hashes[i].finite)
        ++i;
    if (i < checks.hash_count && !said && engine_state.rendezvous.rank == 0) {
        struct tensor parameter = tensor_copy_compared(i);
        said = true;
        const char *text = tensor_text(&parameter);
        if (compared)
            notice_soon(
                "nonfinite_parameter",
                "%s holds infinite values or NaN after step %llu; all parameters were finite after step %llu: the "
                "training diverges%s",
                text, (unsigned long long)after_step, (unsigned long long)finite_step,
                engine_state.options.reduction == DDPRUN_REDUCE_SUM
                    ? " (--reduce sum multiplies accumulated gradients by the number of ranks)"
                    : "");
        else
            notice_soon("nonfinite_parameter",
                        "%s holds infinite values or NaN after step %llu, at the first comparison: is it initialised?",
                        text, (unsigned long long)after_step);
    }
    if (i == checks.hash_count) {
        compared = true;
        finite_step = after_step;
    }
}

static void
note_equal(uint64_t after_step, uint64_t hash)
{
    struct rank_status *status = engine_state.status;
    atomic_store(&status->parameter_hash, hash);
    atomic_store(&status->checked_step, after_step);
    atomic_fetch_add(&status->check_count, 1);
}

static void CUDA_CB
compare_parameters(void *data)
{
    struct comparison *comparison = data;
    const struct gathered *words = &checks.parameters;
    uint64_t hash;
    look_for_infinities(comparison->after_step);
    if (!words->on_device)
        find_differences(words->all, words->count, words->differs);
    comparison->is_running = comparison->after_step == 0 && running_are_all(words->differs, words->count);
    comparison->is_looked_at = comparison->after_step > 0;
    bool equal = judge_differences(words->differs, words->all, words->count, comparison, &hash);
    if (equal && comparison->after_step > 0) /* that all begin alike says nothing of a step */
        note_equal(comparison->after_step, hash);
    free(comparison);
    atomic_fetch_add(&checks.judged, 1);
    judgement_ends(JUDGED_IN_STEP);
}

void
checks_after_release(void)
{
    hasher_collect(checks.hasher, first_stream());
    nonfinite_after_release();
    if (!checks.under_way)
        return;
    checks.under_way = false;
    struct comparison *comparison = engine_calloc(1, sizeof(*comparison));
    *comparison = (struct comparison){.after_step = checks.after_step, .left_out = checks.left_out};
    checks.sent_left_out = checks.left_out;
    checks.left_out = 0;
    ++checks.sent;
    judgement_begins(JUDGED_IN_STEP);
    gather_send(&checks.parameters, "the comparison of parameters", checks.after_step, compare_parameters, comparison);
}

/* ---- the end ---- */

/* Whether parameters are what the program makes of DDP_REDUCE: it has no gradients, and makes no step. */
static bool
reduces_only(void)
{
    return atomic_load(&engine_state.status->reduce_count) > 0 &&
           atomic_load(&engine_state.status->gradient_count) == 0 && engine_state.options.check_every > 0;
}

void
checks_final_hash(void)
{
    size_t count = tensor_compared_count();
    if (!atomic_load(&engine_state.collectives_ready) || atomic_load(&engine_state.context_ended))
        return;
    if (count == 0 || (checks.hasher == NULL && !reduces_only()))
        return;
    if (checks.final_known && checks.final_step == engine_state.boundary_count)
        return;
    if (atomic_load(&engine_state.captures_open) > 0) { /* waiting for the whole device would break them */
        CUDA("waiting for the last comparison", cuStreamSynchronize, first_stream());
        return;
    }

    context_synchronize("at the end");
    uint64_t *words = engine_realloc(checks.final_words, count * sizeof(*words));
    checks.final_words = words;
    role_take();
    if (checks.hasher == NULL)
        checks_prepare();
    prepare_hashes(count);
    checks.final_known = add_parameters(words, NULL);
    hasher_collect(checks.hasher, first_stream());
    values_sample_end();
    CUDA("hashing parameters at the end", cuStreamSynchronize, first_stream());
    nonfinite_at_end();
    role_give();
    checks.final_count = count;
    checks.final_step = engine_state.boundary_count;
    look_for_infinities(checks.final_step);
}

void
checks_drop_final_hash(void)
{
    checks.final_known = false;
}

/* What a rank says at the end before the hashes: its steps, whether it has hashes, buckets of a step that will not
 * come, its calls of DDP_REDUCE. */
enum { REGIONS_AT = 3, REDUCES_AT, WORDS_BEFORE = REDUCES_AT + REDUCE_WORDS };

/* Buckets that are on their way without a boundary to come; ASKED: and this rank has asked others for all of them. */
#define ASKED (UINT64_C(1) << 63)

static uint64_t
count_early(void)
{
    uint64_t early = 0;
    engine_lock();
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        early += memory_state.groups[g].early_buckets;
    engine_unlock();
    bool asked = atomic_load(&engine_state.status->buckets_asked) == engine_state.boundary_count + 1;
    return early | (asked ? ASKED : 0);
}

/* A difference in memory of the host ends nothing there: what was freed holds anything. It is left out of differs[],
 * and rank 0 reports the first. Returns whether there was one. */
static bool
leave_out_host(uint32_t *differs, size_t count)
{
    char who[WHO_BYTES];
    bool found = false;
    for (size_t i = 0; i < count; ++i) {
        struct tensor tensor = tensor_copy_compared(i);
        bool may_be_freed = tensor.kind == MEMORY_HOST && !tensor.forgotten;
        if (!may_be_freed || !gather_differs(differs[i]))
            continue;
        if (!found && engine_state.rendezvous.rank == 0)
            message_warning("different_at_end",
                            "%s differs between %s at the end of the program: either it was freed (call DDP_FORGET "
                            "before that), or the last update was not the same on all ranks",
                            tensor_text(&tensor), describe_who(differs[i], who));
        found = true;
        differs[i] = HASH_UNCOMPARED;
    }
    return found;
}

/* What differs by noise is left out of differs[]. Whether there was any. */
static bool
judge_values_at_end(uint32_t *differs, size_t count, struct comparison *comparison, char detail[VALUES_TEXT_BYTES])
{
    bool noise = values_judge_end(differs, count, comparison->after_step, detail);
    bool is_last_known =
        checks.sent > 0 && atomic_load(&checks.judged) == checks.sent && checks.parameters.count == count;
    uint64_t first = comparison->after_step;
    for (size_t i = 0; i < count && !engine_state.options.verify; ++i) {
        if (!gather_differs(differs[i]))
            continue;
        if (is_last_known && gather_differs(checks.parameters.differs[i]))
            values_note_suspect(i, checks.after_step);
        uint64_t seen = values_first_seen(i, first);
        comparison->after_step = seen < comparison->after_step ? seen : comparison->after_step;
    }
    return noise;
}

static void
refuse_regions(uint64_t mine, int rank, uint64_t theirs)
{
    if (theirs != mine)
        stop_job(
            "rank %d ended after %llu regions of turns (DDP_TURN_BEGIN), rank %d after %llu: one of them has left a "
            "batch out, or ended the training, by what the device has computed of its own batch alone; let all "
            "ranks decide together (DDP_ANY, DDP_MEAN)",
            engine_state.rendezvous.rank, (unsigned long long)mine, rank, (unsigned long long)theirs);
}

bool
checks_at_end(void)
{
    bool known = checks.final_known && checks.final_step == engine_state.boundary_count;
    size_t count = known ? checks.final_count : 0;
    uint64_t *mine = engine_calloc(WORDS_BEFORE + count, sizeof(*mine));
    mine[0] = engine_state.boundary_count;
    mine[1] = known;
    mine[2] = count_early();
    mine[REGIONS_AT] = atomic_load(&engine_state.turn_regions);
    reduce_calls_say(mine + REDUCES_AT);
    if (count > 0)
        memcpy(mine + WORDS_BEFORE, checks.final_words, count * sizeof(*mine));

    struct control_messages all;
    if (!exchange_last(mine, (WORDS_BEFORE + count) * sizeof(*mine), &all)) {
        /* By _exit(), after as many steps as this rank, or the launcher names it: it knows all ranks' steps. */
        engine_state.alone_at_end = true;
        free(mine);
        stop_if_asked();
        return false;
    }

    uint64_t *words = engine_calloc((size_t)all.count * count + 1, sizeof(*words));
    uint32_t *differs = engine_calloc(count + 1, sizeof(*differs));
    bool are_whole = true, are_alike = true;
    for (int r = 0; r < all.count; ++r) {
        const uint64_t *theirs = all.messages[r];
        if (theirs[0] != mine[0])
            stop_job("rank %d ended after %llu steps, rank %d after %llu: all ranks must make the same number of steps",
                     engine_state.rendezvous.rank, (unsigned long long)mine[0], r, (unsigned long long)theirs[0]);
        bool is_whole = all.bytes[r] >= WORDS_BEFORE * sizeof(*mine); /* leave() sends the first word only */
        if (is_whole)
            refuse_regions(mine[REGIONS_AT], r, theirs[REGIONS_AT]);
        are_whole = are_whole && is_whole;
        are_alike = are_alike && (!is_whole || (theirs[2] == mine[2] && (theirs[2] & ASKED) == 0));
        known = known && all.bytes[r] == (WORDS_BEFORE + count) * sizeof(*mine) && theirs[1] == 1;
        if (known)
            memcpy(words + (size_t)r * count, theirs + WORDS_BEFORE, count * sizeof(*words));
    }
    if (are_whole)
        reduce_calls_compare(&all, REDUCES_AT * sizeof(*mine));

    uint64_t hash;
    char detail[VALUES_TEXT_BYTES] = "";
    struct comparison comparison = {.after_step = mine[0], .left_out = checks.left_out, .detail = detail};
    if (known)
        find_differences(words, count, differs);
    bool is_whole = known && !leave_out_host(differs, count);
    if (known && judge_values_at_end(differs, count, &comparison, detail))
        is_whole = false;
    if (known && judge_differences(differs, words, count, &comparison, &hash) && is_whole)
        note_equal(mine[0], hash);
    stop_if_asked();
    control_free_messages(&all);
    free(differs);
    free(words);
    free(mine);
    return !are_alike;
}
