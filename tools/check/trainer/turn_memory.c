/*
 * turn_memory.c - unannotated memory that the work of a batch is given, in a program with turns: does a rank's own
 * batch leave there what one process leaves? (check.h)
 *
 * A hidden state, running statistics, a random state, a counter or a batch that was brought ahead is carried from batch
 * to batch; other ranks' batches are missing in it. The run that writes the reference keeps what such memory holds as a
 * batch of the second and third round begins, and at its DDP_STEP. Other runs compare, each rank at its own turn: words
 * that the batch has changed there, else those that it has left as they were. A range is known by the call that is
 * given it: its function, how often that was called in the batch before, and the argument. Of each range the beginning
 * is looked at.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"

enum {
    COPIES_AT_MOST = 64,
    RANGES_AT_MOST = 256,
    CALLS_AT_MOST = 512,
    KEPT_BYTES = 32 << 10,
    FIRST_ROUND = 1,
    LAST_ROUND = 2
};

static const double same = 1e-3; /* relative */

/* In the reference. */
struct left_memory {
    uint64_t call; /* identity of the function's name */
    uint32_t ordinal, argument;
    uint64_t bytes;
    char name[96], frames[384];
};

struct left_range {
    struct left_memory known;
    CUdeviceptr address, last; /* in this batch, and in the rank's batch before; 0: nowhere */
    char *before;              /* [known.bytes]: as the batch began */
    bool has_before;
};

/* Guarded by memory_lock. */
static struct {
    struct left_range ranges[RANGES_AT_MOST];
    size_t count;
    struct {
        uint64_t call;
        uint32_t times;
    } calls[CALLS_AT_MOST]; /* [call_count]: of this batch */
    size_t call_count;
    struct {
        CUdeviceptr begin, end;
    } copies[COPIES_AT_MOST]; /* [copy_count]: where the host has copied to since the last DDP_STEP */
    size_t copy_count;
    bool is_open; /* a batch of this process's is before its DDP_STEP */
} left;

/* An operation under way. */
struct given {
    uint64_t call;
    uint32_t ordinal;
    const char *name;
};

static bool
compares(void)
{
    return values_reader() != NULL && !check_run.perturbed && !check_run.probes && check_run.factor == 0 &&
           check_run.look == 0 && !check_run.as_rank_0;
}

static bool
is_followed(const struct observed_turn *turn)
{
    return turn->is_mine && check_turns.rounds <= LAST_ROUND && (values_writer() != NULL || compares());
}

static bool
is_kept(const struct observed_turn *turn)
{
    return is_followed(turn) && !turn->is_everyones && check_turns.rounds >= FIRST_ROUND;
}

/* ---- where the ranges are ---- */

/* How often the call came before in this batch, from 0; the next time it is one more. */
static uint32_t
count_call(uint64_t call)
{
    for (size_t i = 0; i < left.call_count; ++i) {
        if (left.calls[i].call == call)
            return ++left.calls[i].times;
    }
    if (left.call_count < CALLS_AT_MOST) {
        left.calls[left.call_count].call = call;
        left.calls[left.call_count++].times = 0;
    }
    return 0;
}

/* Whether the address is memory of the device that no annotation covers. */
static bool
is_unannotated(CUdeviceptr address)
{
    struct tensor tensor;
    CUdeviceptr next;
    const struct memory_facts facts = device_ask_about(address);
    return facts.begin != 0 && facts.type == CU_MEMORYTYPE_DEVICE && !pointers_annotated(address, &tensor, &next);
}

/* Begins to follow the memory that a call is given by a pointer, from its beginning at that address, where it is not
 * followed yet and there is room. */
static void
add_range(const struct given *given, const struct pointed *pointed)
{
    const bool is_known =
        ANY(it, left.ranges, left.count, it->address == pointed->address || it->last == pointed->address);
    if (is_known || left.count == RANGES_AT_MOST)
        return;
    struct left_range *range = &left.ranges[left.count++];
    *range =
        (struct left_range){.known = {.call = given->call, .ordinal = given->ordinal, .argument = pointed->argument},
                            .address = pointed->address};
    snprintf(range->known.name, sizeof(range->known.name), "%s", given->name);
    (void)call_site_find(range->known.frames, sizeof(range->known.frames));
}

/* For each pointer of a call: where unannotated memory that is followed lies in this batch; in the first run, which
 * writes the reference, memory that is not followed yet is added. */
static void
note_pointed(void *arg, const struct pointed *pointed)
{
    const struct given *given = arg;
    if (!is_unannotated(pointed->address))
        return;
    FOR_EACH_MUTABLE(range, left.ranges, left.count) {
        const struct left_memory *known = &range->known;
        if (known->call == given->call && known->ordinal == given->ordinal && known->argument == pointed->argument) {
            range->address = pointed->address;
            return;
        }
    }
    if (values_writer() != NULL)
        add_range(given, pointed);
}

/* Notes the bytes that a copy of this batch writes on the device. */
static void
note_copy(const struct operation *operation)
{
    HOLD(&memory_lock);
    if (operation->operand_count == 0 || left.copy_count == COPIES_AT_MOST)
        return;
    const CUdeviceptr begin = operation->operands[0].address;
    left.copies[left.copy_count].begin = begin;
    left.copies[left.copy_count++].end = begin + operation->operands[0].bytes;
}

static bool
is_copied(CUdeviceptr address)
{
    return ANY(it, left.copies, left.copy_count, address >= it->begin && address < it->end);
}

void
turn_memory_operation(const struct operation *operation)
{
    if (operation->host_source != NULL)
        note_copy(operation);
    if (!left.is_open || operation->graph != NULL || atomic_load(&engine_state.captures_open) > 0)
        return;
    const struct function_layout *layout = operation->function != NULL ? function_layout(operation->function) : NULL;
    if (operation->function != NULL && !layout->known)
        return;
    HOLD(&memory_lock);
    ENTER_CONTEXT();
    struct given given = {.call = layout != NULL ? layout->call : call_identity(operation->name),
                          .name = layout != NULL ? layout->name : operation->name};
    given.ordinal = count_call(given.call);
    pointers_visit(operation, layout, true, note_pointed, &given);
}

/* To the end of the allocation, to what is annotated, or to the next range. */
static uint64_t
bytes_of(const struct left_range *range)
{
    struct tensor tensor;
    CUdeviceptr end;
    const struct memory_facts facts = device_ask_about(range->address);
    if (facts.begin == 0 || pointers_annotated(range->address, &tensor, &end))
        return 0;
    end = end < facts.begin + facts.bytes ? end : facts.begin + facts.bytes;
    FOR_EACH(other, left.ranges, left.count) {
        if (other->address > range->address && other->address < end)
            end = other->address;
    }
    const uint64_t bytes = end - range->address < KEPT_BYTES ? end - range->address : KEPT_BYTES;
    return bytes - bytes % sizeof(uint32_t);
}

/* ---- what they hold ---- */

/* The record of the reference that has a range as the turn's batch of this round left it. */
static struct reference_key
key_of(const struct left_range *range, const struct observed_turn *turn)
{
    return (struct reference_key){.kind = REFERENCE_LEFT_VALUES,
                                  .role = turn->turn,
                                  .step = check_turns.rounds,
                                  .number = (uint32_t)(range - left.ranges)};
}

/* Reads device memory. False: it is not allocated any longer, and *to is untouched. */
static bool
read_range(CUdeviceptr address, uint64_t bytes, char *to)
{
    const struct memory_facts facts = address != 0 ? device_ask_about(address) : (struct memory_facts){0};
    const bool is_there = facts.begin != 0 && bytes > 0 && address + bytes <= facts.begin + facts.bytes;
    if (is_there)
        values_memory(address, bytes, to, NULL);
    return is_there;
}

void
turn_memory_begins(const struct observed_turn *turn)
{
    HOLD(&memory_lock);
    left.is_open = is_followed(turn);
    left.call_count = 0;
    if (!is_kept(turn))
        return;
    ENTER_CONTEXT();
    context_synchronize("as a turn begins");
    FOR_EACH_MUTABLE(range, left.ranges, left.count) {
        range->before = values_room(range->before, range->known.bytes);
        range->has_before = read_range(range->last, range->known.bytes, range->before);
    }
}

/* A word of four moments: before and after the batch, here and in the reference. */
struct word {
    uint32_t before, after, their_before, their_after;
};

static double
number_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

/* Whether the batch has added the same to the word here and in the reference. */
static bool
is_added(const struct word *word)
{
    if (word->after - word->before == word->their_after - word->their_before)
        return true;
    const double mine = number_of(word->after) - number_of(word->before);
    const double theirs = number_of(word->their_after) - number_of(word->their_before);
    const double rounding = 1e-6 * (fabs(number_of(word->after)) + fabs(number_of(word->their_after)));
    return fabs(mine - theirs) <= same * (fabs(mine) + fabs(theirs)) + rounding;
}

/* How words differ, as numbers. */
struct difference {
    double difference, reference; /* sums of squares */
    uint64_t unbounded;
};

/* How a range differs: words that the batch has changed, and others. */
struct comparison {
    struct difference changed, others;
    bool is_found_so, is_added; /* what was changed differed before, too; all of it was added to alike */
};

/* Adds the squares of a word's difference and of its reference; where one is infinite or NaN, counts it if its bits
 * differ. */
static void
add_word(struct difference *found, const struct word *word)
{
    const double mine = number_of(word->after), theirs = number_of(word->their_after);
    if (isfinite(mine) && isfinite(theirs)) {
        found->difference += (mine - theirs) * (mine - theirs);
        found->reference += theirs * theirs;
    } else {
        found->unbounded += word->after != word->their_after;
    }
}

/* Adds a word to those that the batch has changed, here or in the reference, or to the others. */
static void
compare_word(struct comparison *found, const struct word *word)
{
    if (word->after == word->before && word->their_after == word->their_before) {
        add_word(&found->others, word);
        return;
    }
    add_word(&found->changed, word);
    found->is_found_so = found->is_found_so || word->before != word->their_before;
    found->is_added = found->is_added && is_added(word);
}

/* Whether words differ by more than rounding; in one process by anything, for it notes all that it does not repeat. */
static bool
differs(const struct difference *found)
{
    const bool is_alone = engine_state.rendezvous.world_size == 1;
    const double limit = is_alone ? 0 : same * sqrt(found->reference);
    return found->unbounded > 0 || sqrt(found->difference) > limit;
}

/* `has_before`: what the memory held before the batch is known; else mine[] has twice what it holds after it, and words
 * that the reference's batch has changed tell nothing. */
static void
compare_range(const struct left_range *range, bool has_before, const char *mine, const char *theirs,
              const struct observed_turn *turn)
{
    struct comparison found = {.is_added = true};
    const uint64_t bytes = range->known.bytes;
    for (uint64_t at = 0; at < bytes; at += sizeof(uint32_t)) {
        struct word word;
        memcpy(&word.before, mine + at, sizeof(uint32_t));
        memcpy(&word.after, mine + bytes + at, sizeof(uint32_t));
        memcpy(&word.their_before, theirs + at, sizeof(uint32_t));
        memcpy(&word.their_after, theirs + bytes + at, sizeof(uint32_t));
        if (has_before || word.their_before == word.their_after)
            compare_word(&found, &word);
    }
    const bool is_changed = differs(&found.changed);
    if (!is_changed && !differs(&found.others))
        return;
    struct check_row row = {.kind = CHECK_ROW_LEFT,
                            .step = check_turns.rounds + 1,
                            .tensor = {.role = CHECK_MEMORY,
                                       .group = is_copied(range->address),
                                       .number = (uint32_t)(range - left.ranges),
                                       .count = bytes / sizeof(uint32_t),
                                       .argument = range->known.argument & ((1U << POINTER_WORD_SHIFT) - 1)},
                            .value = turn->turn,
                            .of_change = is_changed,
                            .uneven = range->last != 0 && found.is_found_so, /* at its first batch that is not known */
                            .moved = found.is_added};
    snprintf(row.tensor.text, sizeof(row.tensor.text), "%s", range->known.name);
    snprintf(row.text, sizeof(row.text), "%s", range->known.frames);
    values_row(&row);
}

/* The reference has the range from here on. */
static void
settle_range(struct left_range *range)
{
    if (values_writer() == NULL || range->known.bytes > 0 || range->address == 0)
        return;
    range->known.bytes = bytes_of(range);
    values_put(&(struct reference_key){.kind = REFERENCE_LEFT, .number = (uint32_t)(range - left.ranges)},
               &range->known, sizeof(range->known));
}

/* At a batch's end: writes a range's bytes before and after the batch to the reference, or compares them with it. */
static void
keep_range(const struct left_range *range, const struct observed_turn *turn)
{
    const uint64_t bytes = range->known.bytes;
    const struct reference_key key = key_of(range, turn);
    OWNED char *both = values_room(NULL, 2 * bytes);
    if (!read_range(range->address, bytes, both + bytes))
        return;
    const bool has_before = range->has_before && range->last == range->address; /* else it is as if nothing changed */
    memcpy(both, has_before ? range->before : both + bytes, bytes);
    if (values_writer() != NULL) {
        values_put(&key, both, 2 * bytes);
        return;
    }
    OWNED char *theirs = values_room(NULL, 2 * bytes);
    const struct reference_entry *entry = reference_find(values_reader(), &key);
    if (entry != NULL && entry->record.bytes == 2 * bytes && values_get(&key, theirs, 2 * bytes))
        compare_range(range, has_before, both, theirs, turn);
}

/* At a turn's DDP_STEP: keeps all ranges, and forgets where they lay in this batch. */
static void
keep_batch(const struct observed_turn *turn)
{
    ENTER_CONTEXT();
    context_synchronize("at a turn's DDP_STEP");
    FOR_EACH_MUTABLE(range, left.ranges, left.count) {
        settle_range(range);
        if (is_kept(turn))
            keep_range(range, turn);
        range->last = range->address;
        range->address = 0;
    }
}

void
turn_memory_steps(const struct observed_turn *turn)
{
    HOLD(&memory_lock);
    if (left.is_open)
        keep_batch(turn);
    left.is_open = false;
    left.copy_count = 0;
}

void
turn_memory_open(void)
{
    struct reference_key key = {.kind = REFERENCE_LEFT};
    struct left_memory found;
    for (; values_reader() != NULL && key.number < RANGES_AT_MOST && values_get(&key, &found, sizeof(found));
         ++key.number) {
        if (found.bytes > KEPT_BYTES)
            values_stop_damaged();
        left.ranges[left.count++] = (struct left_range){.known = found};
    }
}
