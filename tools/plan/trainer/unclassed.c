/*
 * unclassed.c - see player.h: of a proof by state, which memory may differ between ranks where a step begins, and the
 * plan has no class for it. The plan's tensors have a class. A loader's copy may be there when its step begins. And all
 * ranks have the same where the last write was a copy from the host that all of them make, as a plan has copies of
 * batches: ranks get the same batches (rank_agreement.c). Whether such a copy was the last write is seen by contents.
 *
 * What has no class must not persist, also where nothing that the plan names depends on it, such as a second model: in
 * the step after one in which it was exchanged, a word of it is either written anew, and as without the exchange, or
 * not written, and as it was put there. A word that is neither was computed from its old value.
 *
 * Nor must each step write what only one of its operations gets, in memory that the plan does not name at all: nothing
 * on the device needs it, and the host may read it later, as a history of losses.
 *
 * Called by exchange.c, under the lock of follow.c.
 */
#include "base/printable.h"
#include "tools/common/direct.h"
#include "tools/plan/trainer/player.h"

#include <xxhash.h>

/* What copies of steps, and of loaders, bring to the device: each range once. */
static struct filled {
    uint32_t number; /* of the allocation */
    uint64_t lo, hi;
    bool is_ahead; /* a loader's copy: it may be there when its step begins */
    bool is_alike; /* all ranks made the last copy, which brought bytes of this hash; and at the last border these were
                    * there */
    uint64_t hash;
} * filled;
static size_t filled_count;

/* What is known of the bytes that the copy fills, which is added; NULL: it fills no device memory. */
static struct filled *
filled_of(const struct operand *operand, bool is_ahead)
{
    const struct allocation *allocation = operand_is_target(operand) ? allocations_find(operand->address) : NULL;
    if (allocation == NULL)
        return NULL;
    struct filled it = {
        .number = allocation->number, .lo = operand->address - allocation->address, .is_ahead = is_ahead};
    it.hi = it.lo + operand->bytes;
    struct filled *found =
        FIND(other, filled, filled_count,
             other->number == it.number && other->lo == it.lo && other->hi == it.hi && other->is_ahead == is_ahead);
    if (found != NULL)
        return found;
    struct filled *added = SCOUT_GROWN(filled, filled_count);
    *added = it;
    return added;
}

void
unclassed_note(const struct operation *operation, bool is_ahead)
{
    FOR_EACH(operand, operation->operands, operation->operand_count)
        (void)filled_of(operand, is_ahead);
}

/* 0: it is not there. */
static uint64_t
hash_of(const struct filled *it)
{
    const struct allocation *allocation = allocations_numbered(it->number);
    if (allocation == NULL)
        return 0;
    char *bytes = player_room(it->hi - it->lo);
    memory_read(allocation, it->lo, bytes, it->hi - it->lo);
    uint64_t hash = XXH3_64bits(bytes, it->hi - it->lo);
    free(bytes);
    return hash;
}

void
unclassed_note_copy(const struct operation *operation)
{
    struct sent sent;
    if (!player_sends(operation, &sent))
        return;
    player_synchronize();
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        struct filled *it = operand_rows(operand) == 1 ? filled_of(operand, false) : NULL;
        if (it == NULL)
            continue;
        it->is_alike = true;
        it->hash = hash_of(it);
    }
}

static void note_named(uint32_t border);

void
unclassed_meet_border(uint32_t border)
{
    FOR_EACH_MUTABLE(it, filled, filled_count)
        it->is_alike = it->is_alike && hash_of(it) == it->hash;
    note_named(border);
}

/* For a search from byte `at`: *end becomes the end of known bytes [lo, hi) that hold it, *next the beginning of the
 * nearest ones after it. */
static void
widen(uint64_t lo, uint64_t hi, uint64_t at, uint64_t *end, uint64_t *next)
{
    if (lo <= at && hi > *end)
        *end = hi;
    if (lo > at && lo < *next)
        *next = lo;
}

uint64_t
unclassed_begins(const struct allocation *allocation, uint64_t at, bool is_outside, uint64_t *next)
{
    uint64_t end = at;
    FOR_EACH_UNTIL(written, player.play.written, player.play.plan.written_count, !is_outside) {
        if (written->bytes == allocation->bytes && written->ordinal == allocation->ordinal && !written->moves)
            widen(written->lo, written->hi, at, &end, next);
    }
    FOR_EACH(it, filled, filled_count) {
        if (it->number == allocation->number && (is_outside || it->is_ahead || it->is_alike))
            widen(it->lo, it->hi, at, &end, next);
    }
    FOR_EACH(tensor, player.play.tensors, player.play.plan.tensor_count) {
        if (tensor->bytes == allocation->bytes && tensor->ordinal == allocation->ordinal)
            widen(tensor->lo, tensor->hi, at, &end, next);
    }
    return end;
}

/* ---- what only the host can need ---- */

/* An allocation that operations have got since the last border. */
static struct touched {
    uint32_t number;
    uint32_t count; /* of these operations */
    uint32_t at;    /* the last one; UINT32_MAX: not one that only the rank whose turn it is makes */
    uint64_t last;  /* its number in this run */
} * touched;
static size_t touched_count;
static uint64_t operations_met;
static uint32_t met_at;

/* Ranges at the last border. A number that only the first steps change, as the first loss, has no class. */
enum { CHANGES_IN_A_ROW = 3 };
static struct was {
    uint32_t number;
    uint32_t changes; /* in how many steps, without one that has changed nothing there */
    uint64_t lo, hash;
} * was;
static size_t was_count;

/* Notes that the operation gets the allocation at this address; player_any() asks it of all addresses of an
 * operation. False: it is of none. */
static bool
note_address(uint64_t address, uint64_t bytes)
{
    const struct allocation *allocation = allocations_find(address);
    (void)bytes;
    if (allocation == NULL)
        return false;
    struct touched *it = FIND(known, touched, touched_count, known->number == allocation->number);
    if (it == NULL) {
        it = SCOUT_GROWN(touched, touched_count);
        *it = (struct touched){.number = allocation->number};
    }
    it->count += it->last != operations_met;
    it->at = met_at;
    it->last = operations_met;
    return true;
}

void
unclassed_note_touch(const struct operation *operation, uint32_t at)
{
    ++operations_met;
    met_at = at;
    (void)player_any(operation, true, note_address);
}

/* Whether the plan has memory of this size and ordinal, and so gives it a class. */
static bool
is_named_by_plan(const struct allocation *allocation)
{
    const struct play *play = &player.play;
    return ANY(it, play->written, play->plan.written_count,
               it->bytes == allocation->bytes && it->ordinal == allocation->ordinal) ||
           ANY(it, play->tensors, play->plan.tensor_count,
               it->bytes == allocation->bytes && it->ordinal == allocation->ordinal);
}

/* Whether each of the last steps has left other bytes there. */
static bool
each_step_changes(const struct allocation *allocation, uint64_t lo, uint64_t hash)
{
    struct was *it = FIND(known, was, was_count, known->number == allocation->number && known->lo == lo);
    if (it == NULL) {
        it = SCOUT_GROWN(was, was_count);
        *it = (struct was){.number = allocation->number, .lo = lo, .hash = hash};
    }
    it->changes = it->hash != hash ? it->changes + 1 : 0;
    it->hash = hash;
    return it->changes >= CHANGES_IN_A_ROW;
}

/* Refuses the plan if each step changes these bytes, by one operation, and the host alone can read them later. */
static void
judge_written(const struct allocation *allocation, uint64_t lo, uint64_t hi, const char *bytes)
{
    char name[PLAY_NAME_BYTES];
    const struct touched *by = FIND(it, touched, touched_count, it->number == allocation->number);
    if (!each_step_changes(allocation, lo, XXH3_64bits(bytes, hi - lo)) || by == NULL || is_named_by_plan(allocation))
        return;
    if (allocation->memory != SCOUT_DEVICE || by->count != 1 || by->at == UINT32_MAX)
        return;
    player_refuse(
        "each step changes memory of %llu bytes, which has no class, by %s, and gives it to no other operation: the "
        "host may read it later",
        (unsigned long long)allocation->bytes, plain_name(player.play.operations[by->at].name, name, sizeof(name)));
}

/* ---- what feeds itself ---- */

/* Words at equal distances of a range of unclassed memory, at a border. */
enum { WORDS = 256, RANGES_AT_MOST = 1 << 13, BORDERS_AT_MOST = 16 };

struct words {
    uint32_t number; /* of the allocation */
    uint32_t border;
    uint64_t lo, hi;
    uint32_t word[WORDS];
};

static struct words *plain; /* of the run in which nothing is exchanged */
static struct head {
    uint64_t count;                  /* of `plain` */
    uint64_t named[BORDERS_AT_MOST]; /* hash of all that the plan names, at each border */
} head;
static uint64_t named_now;
static struct words *given; /* what ranges got at the last border, if all was as in the other run until then */
static uint64_t given_count;

/* Whether what comes of other values can be told here: not where runs differ in last bits and keep what steps begin
 * from, nor without room. */
static bool
can_be_told(void)
{
    return player.play.plan.begun == PLAY_BEGINS_ITSELF && head.count < RANGES_AT_MOST;
}

static bool
is_named(uint32_t tensor)
{
    (void)tensor;
    return true;
}

/* Keeps the hash of all memory that the plan names, at this border of periods. */
static void
note_named(uint32_t border)
{
    named_now = player_hash_all(is_named);
    if (player.play.plan.data == PLAY_BORDERS && border < BORDERS_AT_MOST)
        head.named[border] = named_now;
}

/* A sample of WORDS words, evenly spread over bytes [lo, hi) of an allocation, at this border of rounds. */
static struct words
words_of(uint32_t number, uint64_t lo, uint64_t hi, uint32_t border, const char *bytes)
{
    struct words words = {.number = number, .border = border, .lo = lo, .hi = hi};
    const uint64_t count = (hi - lo) / sizeof(uint32_t);
    for (uint64_t k = 0; k < WORDS && count > 0; ++k)
        memcpy(&words.word[k], bytes + k * count / WORDS * sizeof(uint32_t), sizeof(uint32_t));
    return words;
}

static void
path_of(char path[PATH_MAX + 16])
{
    snprintf(path, PATH_MAX + 16, "%s.rest", player.play.plan.begun_path);
}

void
unclassed_keep(const struct allocation *allocation, uint64_t lo, uint64_t hi, uint32_t border)
{
    if (!can_be_told())
        return;
    char *bytes = player_room(hi - lo);
    memory_read(allocation, lo, bytes, hi - lo);
    judge_written(allocation, lo, hi, bytes);
    struct words *added = SCOUT_GROWN(plain, head.count);
    *added = words_of(allocation->number, lo, hi, border, bytes);
    free(bytes);
}

void
unclassed_save(void)
{
    touched_count = 0; /* a step begins */
    char path[PATH_MAX + 16];
    path_of(path);
    OWNED_FD int fd = open_direct(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !direct_write(fd, &head, sizeof(head), -1) ||
        !direct_write(fd, plain, head.count * sizeof(*plain), -1))
        player_refuse("there is no room in %s for what proofs keep", path);
}

/* Reads the samples that the run without a plan has kept. Refuses the plan without them. */
static void
load_plain(void)
{
    char path[PATH_MAX + 16];
    path_of(path);
    OWNED_FD int fd = open_direct(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || !direct_read(fd, &head, sizeof(head), -1))
        player_refuse("what another run has kept in %s cannot be read", path);
    plain = scout_zeroed(head.count + 1, sizeof(*plain));
    if (!direct_read(fd, plain, head.count * sizeof(*plain), -1))
        player_refuse("what another run has kept in %s cannot be read", path);
}

static const struct words *
find_words(const struct words *list, uint64_t count, const struct words *like)
{
    return FIND(it, list, count,
                it->number == like->number && it->border == like->border && it->lo == like->lo && it->hi == like->hi);
}

/* The range had `put` when the step began. */
static bool
feeds_itself(const struct words *now, const struct words *without, const struct words *put)
{
    return ANY_NUMBER(k, 0, WORDS, now->word[k] != without->word[k] && now->word[k] != put->word[k]);
}

void
unclassed_compare(const struct allocation *allocation, uint64_t lo, uint64_t hi, uint32_t border, const char *now,
                  const char *put)
{
    if (!can_be_told())
        return;
    if (plain == NULL)
        load_plain();
    if (border >= BORDERS_AT_MOST || named_now != head.named[border])
        return; /* what the plan names depends on it: the proof sees that */
    const struct words of = words_of(allocation->number, lo, hi, border, now);
    const struct words *without = find_words(plain, head.count, &of), *before = find_words(given, given_count, &of);
    if (without != NULL && before != NULL && feeds_itself(&of, without, before))
        player_refuse(
            "bytes %llu to %llu of memory of %llu bytes have no class, and a step computes them from what they "
            "were: the plan misses memory that persists from step to step",
            (unsigned long long)lo, (unsigned long long)hi, (unsigned long long)allocation->bytes);
    if (put == NULL || without == NULL || memcmp(of.word, without->word, sizeof(of.word)) != 0)
        return; /* two runs may differ there without an exchange, as times do */
    struct words *added = SCOUT_GROWN(given, given_count);
    *added = words_of(allocation->number, lo, hi, border + 1, put);
}
