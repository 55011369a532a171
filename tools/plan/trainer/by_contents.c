/*
 * by_contents.c - see player.h: what ranks by state are held against, in one process. It knows nothing of the plan's
 * operations, of their order, or of where the plan takes a step to begin: only which memory is averaged.
 *
 * A first run looks at that memory around each operation that may touch it. An operation that has changed it is a write
 * of state; its kind is its name, its place in the program, and the memory that it gets. The writes of a training
 * repeat: what repeats are those of one batch, and what comes before the first of them is none.
 *
 * A second run plays all turns: a batch is what lies between the last write of the batch before and its own last one.
 * by_state.c puts state back there, and makes the round.
 *
 * Called by follow.c, under its lock.
 */
#include "tools/common/direct.h"
#include "tools/plan/trainer/player.h"

#include <xxhash.h>

enum {
    KINDS_AT_MOST = 4096,
    WRITES_AT_MOST = 1 << 16,
    REPEATS = 3, /* of the writes of a batch, at least */
    LEAST = 10,  /* times as many operations as the plan has are looked at, */
    MOST = 64    /* and at most so many */
};

/* What the first run hands to the second. */
static struct writes {
    uint32_t before; /* writes in front of the first batch */
    uint32_t each;   /* of a batch */
    uint32_t kind_count;
    uint64_t kinds[KINDS_AT_MOST];
} writes;

static uint32_t *sequence; /* of the first run: the kind of each write */
static uint32_t seen;      /* writes */
static uint64_t met;       /* operations since the first write */
static uint64_t *hashes;   /* [tensor_count]: of what is averaged, after the last operation that may have touched it */
static bool *is_met;       /* [tensor_count]: the operation may touch it */

/* This thread's operation. */
static __thread uint64_t kind __attribute__((tls_model("initial-exec")));
static __thread bool may_write __attribute__((tls_model("initial-exec")));

bool
by_contents_is_played(void)
{
    return player.play.plan.data == PLAY_WRITES || player.play.plan.data == PLAY_REFERENCE;
}

static bool
is_averaged(uint32_t tensor)
{
    return player.play.tensors[tensor].role == PLAY_CHANGES;
}

static void
path_of_writes(char path[PATH_MAX + 16])
{
    snprintf(path, PATH_MAX + 16, "%s.writes", player.play.plan.begun_path);
}

/* ---- kinds ---- */

/* The operation gets this address: marks what is averaged there, and counts it in the kind. */
static bool
note_memory(uint64_t address, uint64_t bytes)
{
    bool any = false;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (!is_averaged(i) || !player_touches(&player.play.tensors[i], address, bytes))
            continue;
        kind = kind * 31 + i + 1;
        is_met[i] = any = true;
    }
    return any;
}

static uint64_t
hash_of_place(void)
{
    struct scout_frame frames[NAMES_FRAMES];
    uint32_t count = names_frames(frames);
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t words[] = {frames[i].object, frames[i].offset};
        hash = XXH3_64bits_withSeed(words, sizeof(words), hash);
    }
    return hash;
}

/* The kind of an operation, and what it may touch. Returns whether it may touch anything. */
static bool
find_kind(const struct operation *operation)
{
    memset(is_met, 0, player.play.plan.tensor_count * sizeof(*is_met));
    kind = 0;
    bool any = player_any(operation, true, note_memory);
    bool is_hidden = !any && pending_may_touch(operation);
    for (uint32_t i = 0; i < player.play.plan.tensor_count && is_hidden; ++i)
        is_met[i] = is_averaged(i);
    if (any || is_hidden)
        kind = XXH3_64bits_withSeed(&kind, sizeof(kind), player_hash_of(operation) ^ hash_of_place());
    return any || is_hidden;
}

static uint32_t
number_of_kind(void)
{
    const uint64_t *found = FIND(it, writes.kinds, writes.kind_count, *it == kind);
    return found != NULL ? (uint32_t)(found - writes.kinds) : writes.kind_count;
}

/* ---- the first run ---- */

/* From which write on the sequence repeats after `each`. */
static uint32_t
repeats_from(uint32_t each)
{
    uint32_t first = seen - each;
    while (first > 0 && sequence[first - 1] == sequence[first - 1 + each])
        --first;
    return first;
}

/* What repeats longest, and of that the shortest. Returns whether anything repeats often enough. */
static bool
find_batch(void)
{
    writes.before = seen;
    writes.each = 0;
    for (uint32_t each = 1; each <= seen / REPEATS; ++each) {
        uint32_t first = repeats_from(each);
        if (seen - first < REPEATS * each || first >= writes.before)
            continue;
        writes.before = first;
        writes.each = each;
    }
    return writes.each > 0;
}

static void __attribute__((noreturn)) end_first(void)
{
    char path[PATH_MAX + 16];
    path_of_writes(path);
    if (!find_batch())
        player_refuse("the writes of what ranks average do not repeat: no batch is known by them");
    if (!direct_save(path, &writes, sizeof(writes)))
        player_refuse("there is no room in %s for what proofs keep", path);
    player_set_steps(1);
    player_wait_for_end(PLAY_OVER);
}

/* Of what the operation may touch: returns whether any has another hash than before. `is_first`: only of what has none
 * so far. */
static bool
hash_met(bool is_first)
{
    bool any = false;
    player_synchronize();
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        if (!is_met[i] || (is_first && hashes[i] != 0))
            continue;
        uint64_t now = player_hash(&player.play.tensors[i]);
        any = any || now != hashes[i];
        hashes[i] = now;
    }
    return any;
}

static void
note_write(void)
{
    uint32_t number = number_of_kind();
    if (number == KINDS_AT_MOST || seen == WRITES_AT_MOST)
        player_refuse("more than %d writes of what ranks average were seen, and none repeats", (int)seen);
    if (number == writes.kind_count)
        writes.kinds[writes.kind_count++] = kind;
    sequence[seen++] = number;
}

static void
look_behind(void)
{
    uint64_t each = player.play.plan.operation_count;
    met += seen > 0;
    if (may_write && hash_met(false))
        note_write();
    if (met >= MOST * each || (met >= LEAST * each && met % each == 0 && find_batch()))
        end_first();
}

/* ---- both ---- */

static void
open_both(void)
{
    const uint32_t count = player.play.plan.tensor_count;
    char path[PATH_MAX + 16];
    path_of_writes(path);
    is_met = scout_zeroed(count + 1, sizeof(*is_met));
    hashes = scout_zeroed(count + 1, sizeof(*hashes));
    sequence = scout_zeroed(WRITES_AT_MOST, sizeof(*sequence));
    if (player.play.plan.data == PLAY_REFERENCE && !direct_load(path, &writes, sizeof(writes)))
        player_refuse("what another run has kept in %s cannot be read", path);
    player_set_stage(PLAY_RUNNING);
}

/* The writes in front of the first round. */
static uint32_t
writes_before(void)
{
    return writes.before + player.play.plan.outside * writes.each;
}

bool
by_contents_meet(const struct operation *operation)
{
    if (is_met == NULL)
        open_both();
    may_write = find_kind(operation);
    if (player.play.plan.data == PLAY_WRITES) {
        if (may_write)
            (void)hash_met(true);
        return false;
    }
    may_write = may_write && number_of_kind() < writes.kind_count;
    seen += may_write;
    return may_write && seen > writes_before() && (seen - writes_before() - 1) % writes.each == 0;
}

bool
by_contents_leave(void)
{
    if (player.play.plan.data == PLAY_WRITES) {
        look_behind();
        return false;
    }
    return may_write && seen > writes_before() && (seen - writes_before()) % writes.each == 0;
}

void
by_contents_end(void)
{
    if (player.play.plan.data == PLAY_WRITES && is_met != NULL)
        end_first();
    player_wait_for_end(PLAY_OVER);
}
