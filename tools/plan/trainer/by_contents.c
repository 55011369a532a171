/*
 * by_contents.c - see player.h: what ranks are held against, in one process. It knows nothing of the plan's
 * operations, of their order, or of where the plan takes a step to begin: only which memory is trained: by state, what
 * is averaged; by gradients, parameters and what their update keeps; and what each rank has for itself.
 *
 * A first run looks at that memory around each operation that may touch it. Operations from a place in the program that
 * change it are writes; their kind is their name, and the memory that they get. The writes of a training
 * repeat: what repeats are those of one batch, from whichever places they come, and what comes before the first of them
 * is none; so is an evaluation that calls the same kernels elsewhere. By gradients the run makes two batches more from
 * one state: what they change alike, whatever their data, counts batches, and is no part of an update.
 *
 * A second run plays all turns: a batch is what lies between the last write of the batch before and its own last one.
 * by_state.c puts state back there, and makes the round; by gradients contents_gradients.c does.
 *
 * Called by follow.c, under its lock.
 */
#include "tools/common/direct.h"
#include "tools/plan/trainer/player.h"

#include <xxhash.h>

enum {
    KINDS_AT_MOST = 4096,
    WRITES_AT_MOST = 1 << 18,
    REPEATS = 3, /* of the writes of a batch, at least */
    LEAST = 10,  /* times as many operations as the plan has are looked at, */
    MOST = 64    /* and at most so many */
};

/* What the first run hands to the second. */
static struct writes {
    uint32_t before; /* writes in front of the first batch */
    uint32_t each;   /* of a batch */
    uint32_t kind_count;
    struct kind {
        uint64_t word, place;
        uint32_t number; /* the same for all places */
        bool writes;     /* such an operation has changed what is trained */
        bool of_update;  /* it gets gradients, which are averaged: what it counts are updates */
    } kinds[KINDS_AT_MOST];
} writes;
static bool *counts; /* [tensor_count]: it counts batches, and goes on in each; of the second run, too */

static uint32_t *sequence; /* of the first run: the kind of each operation that may write */
static uint32_t met_count; /* these */
static uint32_t seen;      /* of the second run: writes since the start */
static bool is_begun;      /* by state: a batch has */
static uint64_t met;       /* operations since the first write */
static uint64_t *hashes;   /* [tensor_count]: of what is trained, after the last operation that may have touched it */
static bool is_opened;

/* This thread's operation. */
static __thread uint64_t kind __attribute__((tls_model("initial-exec")));
static __thread uint64_t place __attribute__((tls_model("initial-exec")));
static __thread bool may_write __attribute__((tls_model("initial-exec")));
static __thread bool sets_own __attribute__((tls_model("initial-exec")));
static __thread bool gets_gradient __attribute__((tls_model("initial-exec")));
static __thread bool *is_met __attribute__((tls_model("initial-exec"))); /* [tensor_count]: it may touch it */

bool
by_contents_is_played(void)
{
    return player.play.plan.data == PLAY_WRITES || player.play.plan.data == PLAY_REFERENCE;
}

static void
path_of(const char *what, char path[PATH_MAX + 16])
{
    snprintf(path, PATH_MAX + 16, "%s.%s", player.play.plan.begun_path, what);
}

/* Whether a batch leaves the tensor to the next one: what is trained, and what each rank has for itself. */
static bool
is_left(uint32_t tensor)
{
    return player_trains(tensor) || player.play.tensors[tensor].role == PLAY_PER_RANK;
}

/* ---- kinds ---- */

/* For an address that the operation gets: marks what is left to the next batch there, and counts it in the kind.
 * Whether there is any. */
static bool
note_memory(uint64_t address, uint64_t bytes)
{
    bool any = false;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        const struct play_tensor *tensor = &player.play.tensors[i];
        if (!player_touches(tensor, address, bytes))
            continue;
        gets_gradient = gets_gradient || tensor->role == PLAY_GRADIENT;
        if (!is_left(i))
            continue;
        kind = kind * 31 + i + 1;
        is_met[i] = any = true;
    }
    return any;
}

/* Whether both are parts of one object: no allocator makes a border there. */
static bool
continues(const struct play_tensor *tensor, const struct play_tensor *next)
{
    enum { BORDER_BYTES = 256 };
    return tensor->hi == next->lo && next->lo % BORDER_BYTES != 0 &&
           player_allocation(tensor) == player_allocation(next);
}

/* An operation that gets a part of an object, such as a struct, may touch the other parts, too. */
static void
mark_whole_objects(void)
{
    const struct play_tensor *all = player.play.tensors;
    const uint32_t count = player.play.plan.tensor_count;
    bool has_grown = true;
    while (has_grown) {
        has_grown = false;
        for (uint32_t i = 0; i < count; ++i) {
            if (is_met[i] || !is_left(i))
                continue;
            is_met[i] =
                ANY_NUMBER(j, 0, count, is_met[j] && (continues(&all[j], &all[i]) || continues(&all[i], &all[j])));
            has_grown = has_grown || is_met[i];
        }
    }
}

/* [word_count]: of each object, a hash of its path: numbers are in the order in which a run meets objects. */
static uint64_t *words;
static uint32_t word_count;

void
by_contents_object(uint32_t number, const char *path)
{
    while (word_count <= number)
        *SCOUT_GROWN(words, word_count) = 0;
    words[number] = kernels_hash(path);
}

/* Hash of the call site of the operation that runs: the same in each run, for objects count by their paths. */
static uint64_t
hash_of_place(void)
{
    struct scout_frame frames[NAMES_FRAMES];
    uint32_t count = names_frames(frames);
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t object = frames[i].object < word_count ? words[frames[i].object] : 0;
        const uint64_t both[] = {object, frames[i].offset};
        hash = XXH3_64bits_withSeed(both, sizeof(both), hash);
    }
    return hash;
}

/* The kind of an operation, and what it may touch. Returns whether it may touch anything. */
static bool
find_kind(const struct operation *operation)
{
    if (is_met == NULL)
        is_met = scout_zeroed(player.play.plan.tensor_count + 1, sizeof(*is_met));
    memset(is_met, 0, player.play.plan.tensor_count * sizeof(*is_met));
    kind = 0;
    gets_gradient = false;
    bool any = player_any(operation, true, note_memory);
    mark_whole_objects();
    bool is_hidden = !any && pending_may_touch(operation);
    for (uint32_t i = 0; i < player.play.plan.tensor_count && is_hidden; ++i)
        is_met[i] = is_left(i);
    if (any || is_hidden) {
        kind = XXH3_64bits_withSeed(&kind, sizeof(kind), player_hash_of(operation));
        place = hash_of_place();
    }
    return any || is_hidden;
}

static bool
is_trained(uint32_t tensor)
{
    return is_met[tensor] && player_trains(tensor);
}

/* Whether the operation is a fill, or a copy from the host, of what each rank has for itself, as where the program
 * begins anew: all ranks make it, and it is no write of a batch. */
static bool
is_set_of_own(const struct operation *operation)
{
    return turns_may_share(operation) && !ANY_NUMBER(i, 0, player.play.plan.tensor_count, is_trained(i));
}

/* NULL: it is new. */
static struct kind *
known_kind(void)
{
    return FIND(it, writes.kinds, writes.kind_count, it->word == kind && it->place == place);
}

/* ---- the first run: the writes of a batch ---- */

/* The writes among the operations that were met, in a list that is filled in: malloc'ed. */
static uint32_t
list_writes(uint32_t **list)
{
    uint32_t count = 0;
    *list = scout_zeroed(met_count + 1, sizeof(**list));
    for (uint32_t i = 0; i < met_count; ++i)
        if (writes.kinds[sequence[i]].writes)
            (*list)[count++] = writes.kinds[sequence[i]].number;
    return count;
}

/* From which write on the list repeats after `each`. */
static uint32_t
repeats_from(const uint32_t *list, uint32_t count, uint32_t each)
{
    uint32_t first = count - each;
    while (first > 0 && list[first - 1] == list[first - 1 + each])
        --first;
    return first;
}

/* What repeats longest, and of that the shortest. Returns whether anything repeats often enough. */
static bool
find_batch(void)
{
    uint32_t *list, count = list_writes(&list);
    writes.before = count;
    writes.each = 0;
    for (uint32_t each = 1; each <= count / REPEATS; ++each) {
        uint32_t first = repeats_from(list, count, each);
        if (count - first < REPEATS * each || first >= writes.before)
            continue;
        writes.before = first;
        writes.each = each;
    }
    free(list);
    return writes.each > 0;
}

static void __attribute__((noreturn)) end_first(void)
{
    char path[PATH_MAX + 16], counters[PATH_MAX + 16];
    path_of("writes", path);
    path_of("counters", counters);
    if (!find_batch())
        player_refuse("the writes of what ranks train do not repeat: no batch is known by them");
    if (!direct_save(path, &writes, sizeof(writes)) ||
        !direct_save(counters, counts, player.play.plan.tensor_count * sizeof(*counts)))
        player_refuse("there is no room in %s for what proofs keep", path);
    player_set_steps(1);
    player_wait_for_end(PLAY_OVER);
}

/* Of what the operation may touch: returns whether any has another hash than before; `changed`, if not NULL: which.
 * `is_first`: only of what has none so far. */
static bool
hash_met(bool is_first, bool *changed)
{
    bool any = false;
    player_synchronize();
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (!is_met[i] || (is_first && hashes[i] != 0))
            continue;
        uint64_t now = player_hash(&player.play.tensors[i]);
        if (changed != NULL)
            changed[i] = changed[i] || now != hashes[i];
        any = any || now != hashes[i];
        hashes[i] = now;
    }
    return any;
}

/* ---- the first run: what counts batches ---- */

/* By what the batches from one state on have changed. */
enum { TRIALS = 2 };
static struct trial {
    bool begins, is_over;
    uint32_t batches; /* complete */
    uint32_t written; /* by the batch under way */
    char **from;      /* [tensor_count]: as each begins */
    uint64_t *was;    /* hashes of these, */
    uint64_t *made;   /* and of what the first batch has made of them */
    bool *changed;    /* [kind_count][tensor_count] */
} trial;

/* What an update writes beside what is trained, or from gradients, is a part of the update: it is put back with it. */
static void
settle_counters(void)
{
    const uint32_t tensors = player.play.plan.tensor_count;
    bool is_settled = false;
    while (!is_settled) {
        is_settled = true;
        for (uint32_t k = 0; k < writes.kind_count; ++k) {
            bool *changed = &trial.changed[k * tensors];
            bool is_of_update = writes.kinds[k].of_update || ANY_NUMBER(i, 0, tensors, changed[i] && !counts[i]);
            if (!is_of_update)
                continue;
            for (uint32_t i = 0; i < tensors; ++i) {
                is_settled = is_settled && !(changed[i] && counts[i]);
                counts[i] = counts[i] && !changed[i];
            }
        }
    }
}

/* Ends a trial batch: what it changed is put back, and after TRIALS of them what changes alike is known as a
 * counter. */
static void
end_trial(void)
{
    const uint32_t tensors = player.play.plan.tensor_count;
    ++trial.batches;
    trial.written = 0;
    for (uint32_t i = 0; i < tensors; ++i) {
        if (trial.batches == 1)
            trial.made[i] = hashes[i];
        else
            counts[i] = player_trains(i) && hashes[i] == trial.made[i] && hashes[i] != trial.was[i];
    }
    player_put_back(trial.from);
    memcpy(hashes, trial.was, tensors * sizeof(*hashes));
    if (trial.batches < TRIALS)
        return;
    settle_counters();
    trial.is_over = true;
}

/* Begins trial batches: all that the plan trains is held, to be put back after each. */
static void
begin_trial(void)
{
    const uint32_t tensors = player.play.plan.tensor_count;
    trial.begins = true;
    trial.from = player_hold(is_left);
    trial.was = scout_zeroed(tensors + 1, sizeof(*trial.was));
    trial.made = scout_zeroed(tensors + 1, sizeof(*trial.made));
    trial.changed = scout_zeroed((size_t)KINDS_AT_MOST * tensors + 1, sizeof(*trial.changed));
    memcpy(trial.was, hashes, tensors * sizeof(*hashes));
}

/* After an operation of the first run, once the writes of a batch are known. */
static void
look_for_counters(const struct kind *of, bool is_write)
{
    uint32_t *list = NULL;
    if (!trial.begins) {
        uint32_t count = list_writes(&list);
        free(list);
        if (is_write && (count - writes.before) % writes.each == 0)
            begin_trial();
        return;
    }
    trial.written += is_write && of->writes;
    if (trial.written == writes.each)
        end_trial();
}

/* ---- the first run ---- */

/* The kind of the operation that ran, by what it does and where it is called from, added to this batch's sequence.
 * Refuses the plan if there are too many. */
static struct kind *
note_met(void)
{
    struct kind *of = known_kind();
    if ((of == NULL && writes.kind_count == KINDS_AT_MOST) || met_count == WRITES_AT_MOST)
        player_refuse("more than %u operations may write what ranks train, and no batch repeats", met_count);
    if (of == NULL) {
        const struct kind *same = FIND(it, writes.kinds, writes.kind_count, it->word == kind);
        of = &writes.kinds[writes.kind_count++];
        *of = (struct kind){
            .word = kind, .place = place, .number = (uint32_t)((same != NULL ? same : of) - writes.kinds)};
    }
    of->of_update = of->of_update || gets_gradient;
    sequence[met_count++] = (uint32_t)(of - writes.kinds);
    return of;
}

static bool
has_seen_enough(void)
{
    const uint64_t each = player.play.plan.operation_count;
    return met >= MOST * each || (met >= LEAST * each && met % each == 0 && find_batch());
}

/* After an operation of the first batches: whether it wrote what ranks train; ends the first phase when enough is
 * known. */
static void
look_behind(void)
{
    static bool is_known;
    if (sets_own)
        (void)hash_met(false, NULL);
    struct kind *of = may_write && !sets_own ? note_met() : NULL;
    bool *changed =
        of != NULL && trial.begins ? &trial.changed[(of - writes.kinds) * player.play.plan.tensor_count] : NULL;
    if (of != NULL && hash_met(false, changed))
        of->writes = true;
    met += ANY(it, writes.kinds, writes.kind_count, it->writes);
    if (is_known)
        look_for_counters(of, of != NULL && of->writes);
    is_known = is_known || has_seen_enough();
    if (is_known && (player_is_by_state() || trial.is_over || writes.each == 0))
        end_first();
}

/* ---- both ---- */

/* Opens the lists of writes and counters; a reference run reads what another run has kept. */
static void
open_both(void)
{
    const uint32_t count = player.play.plan.tensor_count;
    char path[PATH_MAX + 16], counters[PATH_MAX + 16];
    path_of("writes", path);
    path_of("counters", counters);
    is_opened = true;
    hashes = scout_zeroed(count + 1, sizeof(*hashes));
    counts = scout_zeroed(count + 1, sizeof(*counts));
    sequence = scout_zeroed(WRITES_AT_MOST, sizeof(*sequence));
    if (player.play.plan.data == PLAY_REFERENCE &&
        (!direct_load(path, &writes, sizeof(writes)) || !direct_load(counters, counts, count * sizeof(*counts))))
        player_refuse("what another run has kept in %s cannot be read", path);
    player_set_stage(PLAY_RUNNING);
}

/* The writes from the start to the first round. */
static uint32_t
writes_before(void)
{
    return writes.before + player.play.plan.outside * writes.each;
}

bool
by_contents_is_amid(void)
{
    return is_opened && player.play.plan.data == PLAY_REFERENCE && seen >= writes_before();
}

/* Whether what the operation brings to the host is of the batch that has ended: then it begins none. */
bool
by_contents_shows(const struct operation *operation)
{
    return operation->function == NULL && ANY(it, operation->operands, operation->operand_count,
                                              operand_is_target(it) && allocations_is_host(it->address));
}

/* Whether a batch begins with the operation: with its first write. What each rank has for itself is another rank's
 * from the first operation on that is no copy to the host, once all of it is there. */
bool
by_contents_begins(bool writes_first, bool is_amid)
{
    const struct play_tensor *all = player.play.tensors;
    const uint32_t count = player.play.plan.tensor_count;
    if (is_begun || !(writes_first || is_amid))
        return false;
    is_begun = writes_first || (ANY_NUMBER(i, 0, count, all[i].role == PLAY_PER_RANK) &&
                                ALL_NUMBERS(i, 0, count, !is_left(i) || player_allocation(&all[i]) != NULL));
    return is_begun;
}

bool
by_contents_counts(uint32_t tensor)
{
    return counts[tensor];
}

bool
by_contents_meet(const struct operation *operation)
{
    if (!is_opened)
        open_both();
    may_write = find_kind(operation);
    sets_own = may_write && is_set_of_own(operation);
    if (player.play.plan.data == PLAY_WRITES) {
        if (may_write)
            (void)hash_met(true, NULL);
        return false;
    }
    const struct kind *of = may_write && !sets_own ? known_kind() : NULL;
    may_write = of != NULL && of->writes; /* from here on: it does write, as in the first run */
    seen += may_write;
    return may_write && seen > writes_before() && (seen - writes_before() - 1) % writes.each == 0;
}

bool
by_contents_leave(const struct operation *operation)
{
    if (player.play.plan.data == PLAY_WRITES) {
        look_behind();
        return false;
    }
    if (sets_own)
        turns_share(operation);
    const bool is_last = may_write && seen > writes_before() && (seen - writes_before()) % writes.each == 0;
    is_begun = is_begun && !is_last;
    return is_last;
}

void
by_contents_end(void)
{
    if (player.play.plan.data == PLAY_WRITES && is_opened)
        end_first();
    player_wait_for_end(PLAY_OVER);
}
