/*
 * exchange.c - see player.h: data of other steps, for proofs. By gradients two ranks train as they are but for one
 * step, in which rank 1 gets what copies from the host have brought in the step before, or halves of that are
 * exchanged.
 *
 * And one process that trains as it is, for a proof of plans by state. At each border, in front
 * of a step, what has a class in the plan is hashed; from the third border on memory gets what it held at the border
 * before: all that has no class, or what ranks average. What is a step's scratch changes nothing then that comes later;
 * and what is a stream does not depend on what is averaged. Contents of another border, and no noise: an index stays
 * one. What is the same on all ranks is not exchanged (unclassed.c), and a copy to the host that brings what an earlier
 * step has written brings what it was before: the host gets the bytes of that step's rank (owner_reads.c). Behind the
 * last of these borders the program goes on as far as a pass outside of its steps, as validation: in front of it the
 * same is exchanged once more, but for what each step writes.
 *
 * And of plans of either kind, one process in which the host reads something else in one step, and in all later ones
 * what it does in another run: what it sends later differs if it carries what it reads from step to step. It reads by
 * copies, and in managed memory after it has waited.
 *
 * Called by follow.c, under its lock.
 */
#include "base/clock.h"
#include "tools/common/direct.h"
#include "tools/near/element.h"
#include "tools/plan/trainer/player.h"

#include <float.h>
#include <math.h>
#include <xxhash.h>

enum { FIRST_EXCHANGE = 2, DATA_BYTES = 64, OUTSIDE_MS = 2000 };

/* Bytes of an allocation at the border before. */
static struct piece {
    uint32_t number; /* of the allocation */
    uint64_t lo, bytes;
    char *held;
} * pieces;
static size_t piece_count;

/* The copies of a step to the device, or in runs that exchange reads to the host, and what each has brought in the
 * first steps. */
static struct copied {
    uint64_t bytes;
    char *content[FIRST_EXCHANGE];
} * copies;
static size_t copy_count, copy_at; /* ever, and in this step */
static bool is_unlike;             /* a copy has brought more bytes, or fewer, than in the first steps */
static __thread bool is_planned;   /* this thread's operation */
static __thread bool is_made_by_all;
static __thread bool is_handed_on; /* it brings the host what the rank of an earlier step has, whichever reads */
static __thread bool has_noise;    /* what it brings to the host */
static __thread bool is_alike;     /* what it brings to the host is the same on all ranks, whatever a batch computes */

static bool is_put; /* between these two steps, outside of the plan, memory was exchanged */
static uint64_t read_hash, changed_bytes;
static uint32_t number_count;
static uint32_t step; /* from 0 */

/* What is kept of the next copy of this step, in the order of copies; added if the step before had fewer. */
static struct copied *
next_copy(void)
{
    if (copy_at == copy_count)
        (void)SCOUT_GROWN(copies, copy_count);
    return &copies[copy_at++];
}

/* What is kept of bytes [lo, lo + bytes) of an allocation; added if there is nothing yet. */
static struct piece *
piece_at(uint32_t number, uint64_t lo, uint64_t bytes)
{
    struct piece *found = FIND(it, pieces, piece_count, it->number == number && it->lo == lo && it->bytes == bytes);
    if (found != NULL)
        return found;
    struct piece *added = SCOUT_GROWN(pieces, piece_count);
    *added = (struct piece){.number = number, .lo = lo, .bytes = bytes};
    return added;
}

/* Keeps bytes [lo, hi), and puts in what they were at the border before. */
static void
exchange_range(const struct allocation *allocation, uint64_t lo, uint64_t hi, bool puts)
{
    if (hi <= lo)
        return;
    struct piece *piece = piece_at(allocation->number, lo, hi - lo);
    char *now = player_room(piece->bytes), *before = piece->held;
    memory_read(allocation, lo, now, piece->bytes);
    if (player.play.plan.data == PLAY_REST_EXCHANGED && !is_put)
        unclassed_compare(allocation, lo, hi, step, now, puts ? before : NULL);
    if (puts && before != NULL) {
        for (uint64_t i = 0; i < piece->bytes; ++i)
            changed_bytes += now[i] != before[i];
        memory_write(allocation, lo, before, piece->bytes);
        memory_wait();
    }
    free(before);
    piece->held = now;
}

/* Exchanges, or keeps for comparison, all bytes of an allocation that the plan gives no class. */
static void
exchange_unclassed(const struct allocation *allocation, bool puts)
{
    for (uint64_t at = 0; at < allocation->bytes;) {
        uint64_t next = allocation->bytes, end = unclassed_begins(allocation, at, is_put, &next);
        if (end == at && player.play.plan.data == PLAY_REST_EXCHANGED)
            exchange_range(allocation, at, next, puts);
        else if (end == at)
            unclassed_keep(allocation, at, next, step);
        at = end == at ? next : end;
    }
}

/* At a border of rounds: keeps all that the plan exchanges as it is and, with `puts`, sets it to what was kept at
 * the border before. */
static void
exchange_all(bool puts)
{
    size_t count;
    struct allocation **all = allocations_all(&count);
    const bool is_plain = player.play.plan.data == PLAY_BORDERS && !is_put;
    for (size_t i = 0; i < count && (is_plain || player.play.plan.data == PLAY_REST_EXCHANGED); ++i) {
        bool may_be_written = is_put && all[i]->memory == SCOUT_MANAGED; /* by the host, since the step */
        if (allocation_is_looked_at(all[i]) && !may_be_written)
            exchange_unclassed(all[i], puts);
    }
    FOR_EACH_THERE(tensor, allocation, player.play.plan.data == PLAY_STATE_EXCHANGED) {
        if (tensor->role == PLAY_CHANGES || tensor->role == PLAY_SUM || tensor->role == PLAY_PER_RANK)
            exchange_range(allocation, tensor->lo, tensor->hi, puts);
    }
}

/* ---- halves of data ---- */

/* How many bytes reads have brought to the host that are the same on all ranks. A copy to the device of as many may be
 * made of them, as weights that the host transposes: it brings no data. */
static uint64_t *alike_bytes; /* [alike_count] */
static size_t alike_count;

static bool
may_be_sent_back(uint64_t bytes)
{
    return ANY_NUMBER(i, 0, alike_count, alike_bytes[i] == bytes);
}

static void
note_alike_read(uint64_t bytes)
{
    if (!may_be_sent_back(bytes))
        *SCOUT_GROWN(alike_bytes, alike_count) = bytes;
}

/* Of what a copy of that many bytes brings in the step, the part that becomes that of the step before; 0: none. */
static uint64_t
exchanged_part(uint64_t bytes, uint64_t *from)
{
    bool is_whole = player.play.plan.data == PLAY_STEP_BEFORE;
    bool is_second =
        player.play.plan.data == PLAY_SECOND_HALVES || (player.play.plan.data == PLAY_HALVES && player.rank == 0);
    *from = is_second ? bytes / 2 : 0;
    if (!is_whole)
        return bytes / 2;
    return player.rank > 0 ? bytes : 0;
}

/* Of one step: a part of what the copy has brought becomes that of the step before. */
static void
exchange_part(const struct operation *operation)
{
    struct sent sent;
    uint64_t from;
    if (!player_sends(operation, &sent) || sent.to == 0 || sent.bytes <= DATA_BYTES || sent.bytes % 2 != 0 ||
        allocations_is_host(sent.to))
        return;
    struct copied *of = next_copy();
    const char *before = of->content[FIRST_EXCHANGE - 1];
    DRIVER(cuStreamSynchronize, operation->stream);
    if (step < FIRST_EXCHANGE) {
        of->bytes = sent.bytes;
        free(of->content[step]);
        of->content[step] = player_room(sent.bytes);
        memcpy(of->content[step], sent.source, sent.bytes);
        return;
    }
    uint64_t part = may_be_sent_back(sent.bytes) ? 0 : exchanged_part(sent.bytes, &from);
    if (step == FIRST_EXCHANGE && before != NULL && of->bytes == sent.bytes && part > 0) {
        changed_bytes += memcmp(sent.source + from, before + from, part) != 0 ? part : 0;
        DRIVER(cuMemcpyHtoDAsync, sent.to + from, before + from, part, operation->stream);
        DRIVER(cuStreamSynchronize, operation->stream);
    }
}

/* With noise: the run that keeps what steps begin from keeps what the host has read, too, and other runs let it read
 * the same. False: the file cannot be written, or read. */
static bool
share_read(char *bytes, uint64_t count)
{
    static int file = -1;
    const struct play_plan *plan = &player.play.plan;
    bool keeps = plan->begun == PLAY_KEEPS_BEGUN;
    char path[PATH_MAX + 16];
    if (plan->begun == PLAY_BEGINS_ITSELF)
        return true;
    snprintf(path, sizeof(path), "%s.reads", plan->begun_path);
    if (file < 0)
        file = open_direct(path, O_CLOEXEC | O_NOFOLLOW | (keeps ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY), 0600);
    return keeps ? direct_write(file, bytes, count, -1) : direct_read(file, bytes, count, -1);
}

/* What a step has brought to the host becomes what the first ones have brought, from one of them on: so the host sees
 * nothing of what its own sends lead to. By gradients it may send on what an average has made. */
static void
exchange_read(char *bytes, uint64_t count)
{
    struct copied *of = next_copy();
    bool is_other = player.play.plan.data == PLAY_OTHER_READS && step == FIRST_EXCHANGE;
    bool is_first = step < FIRST_EXCHANGE, lacks = of->content[0] == NULL || of->content[1] == NULL;
    of->bytes = of->content[0] != NULL || !is_first ? of->bytes : count;
    is_unlike = is_unlike || of->bytes != count || (!is_first && lacks) || (is_first && !share_read(bytes, count));
    if (is_unlike)
        return;
    if (is_first && of->content[step] == NULL)
        of->content[step] = scout_zeroed(count, 1);
    if (!is_first)
        changed_bytes += memcmp(of->content[0], of->content[1], count) != 0;
    memcpy(is_first ? of->content[step] : bytes, is_first ? bytes : of->content[!is_other], count);
}

static bool
exchanges_reads(void)
{
    return player.play.plan.data == PLAY_SAME_READS || player.play.plan.data == PLAY_OTHER_READS;
}

/* Of the steps after the one of which the host has read something else: what it sends. */
static void
note_sent(const struct operation *operation)
{
    struct sent sent;
    if (step <= FIRST_EXCHANGE || !player_sends(operation, &sent) || sent.to == 0 || sent.bytes <= DATA_BYTES)
        return;
    player_synchronize(); /* the device may write there */
    read_hash = XXH3_64bits_withSeed(sent.source, sent.bytes, read_hash + 1);
}

static void
sample(uint32_t role)
{
    FOR_EACH_THERE(tensor, allocation, tensor->role == role)
        player_sample(tensor, allocation, play_sample(&player.play.plan, player.pages[0], NUMBER_OF(tensor)));
}

/* In front of a step's first operation. Does not return after the step that has other data. */
static void
begin_step(void)
{
    step = (uint32_t)player.period;
    copy_at = 0;
    if (step != FIRST_EXCHANGE + 1)
        return;
    player_synchronize();
    sample(PLAY_PER_RANK);
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        uint32_t role = player.play.tensors[i].role;
        if (role != PLAY_GRADIENT && role <= PLAY_COMPARED)
            play_seen(&player.play.plan, player.pages[0], 1, i)->hash = player_hash(&player.play.tensors[i]);
    }
    atomic_store(&player.pages[0]->exchanged, changed_bytes);
    player_set_steps(1);
    player_wait_for_end(PLAY_OVER);
}

/* The average of a round; at the exchange the gradients, before it as hashes and after it as samples, are shown to
 * the proof. */
static void
average_exchanged(CUstream stream, const struct ddp_site *site)
{
    if (step == FIRST_EXCHANGE)
        player_synchronize();
    for (uint32_t i = 0; i < player.play.plan.tensor_count && step == FIRST_EXCHANGE; ++i) {
        if (player.play.tensors[i].role == PLAY_GRADIENT)
            play_seen(&player.play.plan, player.pages[0], 1, i)->hash = player_hash(&player.play.tensors[i]);
    }
    by_gradients.average(stream, site);
    if (step != FIRST_EXCHANGE)
        return;
    player_synchronize();
    sample(PLAY_GRADIENT);
}

/* ---- sums, and what each step changes a little ---- */

/* Of each tensor: samples at the two borders before. */
static float (*at_borders)[2][PLAY_SAMPLES];

/* What a sum would be if its contents had not been exchanged; NaN: so little was exchanged that an average that moves
 * slowly would show nothing. */
static float
unexchanged(float value, float then, float now)
{
    double difference = (double)now - (double)then;
    double largest = fmax(fabs((double)value), fmax(fabs((double)then), fabs((double)now)));
    return fabs(difference) * 1e-4 < 32 * FLT_EPSILON * largest ? NAN : (float)((double)value + difference);
}

/* Of what has been exchanged at the border before: samples as at_borders[] has them become what a proof compares. */
static void
settle_samples(uint32_t role, float *samples, const float *then, const float *now)
{
    for (int k = 0; k < PLAY_SAMPLES && role == PLAY_SUM; ++k)
        samples[k] = unexchanged(samples[k], then[k], now[k]);
    for (int k = 0; k < PLAY_SAMPLES / 2 && role == PLAY_CHANGES; ++k) {
        samples[PLAY_SAMPLES / 2 + k] = then[k] - now[k];
        samples[k] -= then[k] - now[k];
    }
}

/* At a border, counted from 0: samples memory of this role at the borders around the exchange, and one border later
 * makes them what a proof compares. Sums are kept at the border before FIRST_EXCHANGE, and put back at it. */
static void
watch(uint32_t role, uint32_t border)
{
    if (at_borders == NULL)
        at_borders = scout_zeroed(player.play.plan.tensor_count, sizeof(*at_borders));
    FOR_EACH_THERE(tensor, allocation, tensor->role == role) {
        uint32_t i = NUMBER_OF(tensor);
        if (border < FIRST_EXCHANGE + 1)
            player_sample(tensor, allocation, at_borders[i][border % 2]);
        if (border == FIRST_EXCHANGE + 1)
            settle_samples(role, play_sample(&player.play.plan, player.pages[0], i), at_borders[i][1],
                           at_borders[i][0]);
        if (role == PLAY_SUM && (border == FIRST_EXCHANGE || border + 1 == FIRST_EXCHANGE))
            exchange_range(allocation, tensor->lo, tensor->hi, border == FIRST_EXCHANGE);
    }
}

/* ---- a pass outside of steps ---- */

static bool is_outside; /* an operation of the pass was more than a copy */
static int64_t outside_until_ms;

static uint32_t
last_border(void)
{
    return player.play.plan.steps - 1;
}

static bool
goes_outside(void)
{
    const struct play_plan *plan = &player.play.plan;
    return plan->data == PLAY_BORDERS || (plan->data == PLAY_REST_EXCHANGED && plan->outside > 0);
}

static bool *made; /* [operation_count]: since the host has waited */

static void
note_alike(const struct operation *operation, uint32_t at)
{
    (void)operation;
    is_alike = player.play.plan.by != PLAY_BY_STATE && player.play.operations[at].reads == PLAY_READS_ALIKE;
}

/* Notes the planned operation `at` that is about to run: who makes it, and whether others get what it reads. */
static void
meet_planned(const struct operation *operation, uint32_t at)
{
    made[at] = true;
    is_planned = true;
    has_noise = player.play.operations[at].noise != 0;
    const struct play_operation *of = &player.play.operations[at];
    note_alike(operation, at);
    is_made_by_all = of->part == PLAY_BY_ALL;
    if (player.play.plan.data == PLAY_BORDERS)
        unclassed_note_touch(operation, is_made_by_all ? UINT32_MAX : at);
    is_handed_on = of->reads == PLAY_READS_STEP && of->back > 0 && !player.play.plan.reads_own;
    if (operation->function == NULL)
        unclassed_note(operation, false);
}

static void
meet_loaded(const struct operation *operation)
{
    if (player.begun)
        unclassed_note(operation, true);
}

/* An operation outside of the plan's steps: all ranks make it, so none leaves it out (false). In front of the first one
 * of a pass after the last step of the proof, memory is exchanged, once. */
static bool
meet_outside(const struct operation *operation, const char *name)
{
    bool copies = operation->function == NULL && begins_with(name, "cuMem");
    is_planned = is_handed_on = false;
    is_made_by_all = true;
    if (player.play.plan.data == PLAY_BORDERS)
        unclassed_note_touch(operation, UINT32_MAX);
    has_noise = player.play.plan.begun != PLAY_BEGINS_ITSELF; /* it may read what has */
    if (!player.begun || player.next != 0 || step < last_border() || !goes_outside())
        return false;
    is_outside = is_outside || !copies;
    if (is_put)
        return false;
    player_synchronize();
    is_put = true;
    exchange_all(true);
    return false;
}

/* What copies have brought to the host so far. */
static void
show_reads(void)
{
    atomic_store(&player.pages[0]->reads, read_hash);
    player.pages[0]->number_count = number_count;
}

/* At a border after the last one, or at the program's end. */
static void
end_outside(uint32_t border, bool is_end)
{
    const struct play_plan *plan = &player.play.plan;
    bool is_late = plan->outside > 0 ? border >= plan->outside : clock_now_ms() > outside_until_ms;
    if (!is_outside && !is_late && !is_end)
        return;
    bool is_there = scout_state.driver.cuCtxSynchronize_p() == CUDA_SUCCESS; /* a program may give it up at its end */
    if (is_outside && is_there) {
        show_reads();
        atomic_store(&player.pages[0]->outside, border);
        turns_report(plan->steps);
    }
    player_wait_for_end(PLAY_OVER);
}

/* The program ends. Does not return if all has been seen. */
static void
end(void)
{
    if (step >= last_border() && goes_outside())
        end_outside(step + 1, true);
}

/* In front of the first operation of a step, from 0. */
static void
begin_border(void)
{
    struct play_page *page = player.pages[0];
    uint32_t border = step = (uint32_t)player.period;
    player_note_batch();
    if (border > last_border()) {
        end_outside(border, false);
        is_put = false;
        return;
    }
    copy_at = 0;
    player_synchronize();
    if (player.play.plan.data == PLAY_BORDERS)
        bits_judge(border == last_border() - 1);
    if (border == FIRST_EXCHANGE + 1) {
        sample(PLAY_CHANGES);
        sample(PLAY_SUM);
        sample(PLAY_PER_RANK);
    }
    if (player.play.plan.data == PLAY_SUMS_EXCHANGED)
        watch(PLAY_SUM, border);
    if (player.play.plan.data == PLAY_STATE_EXCHANGED)
        watch(PLAY_CHANGES, border);
    show_reads();
    atomic_store(&page->exchanged, is_unlike ? 0 : changed_bytes);
    turns_report(border);
    if (border == last_border() && !goes_outside())
        player_wait_for_end(PLAY_OVER);
    outside_until_ms = clock_now_ms() + OUTSIDE_MS;
    unclassed_meet_border(border);
    if (border + 1 >= FIRST_EXCHANGE)
        exchange_all(border >= FIRST_EXCHANGE);
    if (player.play.plan.data == PLAY_BORDERS)
        unclassed_save();
}

/* Numbers that have noise are compared by their values. */
static void
note_numbers(const char *bytes, size_t count)
{
    enum { OF_EACH = 64 };
    struct play_page *page = player.pages[0];
    int type = count == sizeof(double) ? ELEMENT_FLOAT64 : ELEMENT_FLOAT32;
    for (size_t k = 0; k < count / element_size(type) && k < OF_EACH && number_count < PLAY_SAMPLES; ++k)
        page->numbers[number_count++] = element_get(type, bytes, k);
}

/* What a copy brings to the host of bytes that were exchanged at the border is what they were before. */
static void
bring_held(const struct operation *operation)
{
    char *to = NULL;
    const struct piece *from = NULL;
    uint64_t offset = 0, bytes = 0;
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        const struct allocation *allocation = allocations_find(operand->address);
        if (operand_rows(operand) > 1)
            return;
        if (operand_is_target(operand))
            to = (char *)(uintptr_t)operand->address;
        if (operand_is_target(operand) || allocation == NULL)
            continue;
        offset = operand->address - allocation->address;
        bytes = operand->bytes;
        from = FIND(it, pieces, piece_count,
                    it->number == allocation->number && it->lo <= offset && offset + bytes <= it->lo + it->bytes);
    }
    if (from == NULL || from->held == NULL || to == NULL)
        return;
    player_synchronize_stream(operation->stream);
    memcpy(to, from->held + (offset - from->lo), bytes);
}

/* Behind an operation: what a copy has brought to the device, or to the host. */
static void
note_copy(const struct operation *operation)
{
    const uint32_t data = player.play.plan.data;
    const bool is_rest = (data == PLAY_BORDERS || data == PLAY_REST_EXCHANGED) && operation->function == NULL;
    if (is_rest && is_made_by_all)
        unclassed_note_copy(operation);
    if (is_rest && is_handed_on && data == PLAY_REST_EXCHANGED && step >= FIRST_EXCHANGE)
        bring_held(operation);
    bool has_parts =
        player_makes_all() || player.play.plan.data == PLAY_FIRST_HALVES || player.play.plan.data == PLAY_SECOND_HALVES;
    if (has_parts && operation->function == NULL)
        exchange_part(operation);
    if (exchanges_reads() && is_planned && operation->function == NULL)
        note_sent(operation);
    FOR_EACH(operand, operation->operands, operation->operand_count) {
        if (operation->function != NULL || !operand_is_target(operand) || !allocations_is_host(operand->address))
            continue;
        DRIVER(cuStreamSynchronize, operation->stream);
        char *bytes = (char *)(uintptr_t)operand->address;
        if (is_alike)
            note_alike_read(operand_rows(operand) * operand_row_bytes(operand));
        for (uint64_t row = 0; row < operand_rows(operand); ++row, bytes += operand->pieces.inner_stride) {
            if (!exchanges_reads() && has_noise)
                note_numbers(bytes, operand_row_bytes(operand));
            else if (!exchanges_reads())
                read_hash = XXH3_64bits_withSeed(bytes, operand_row_bytes(operand), read_hash + 1);
            else if (is_planned && !is_alike)
                exchange_read(bytes, operand_row_bytes(operand));
        }
    }
}

void
exchange_waited(void)
{
    if (!exchanges_reads())
        return;
    player_lock();
    FOR_EACH(written, player.play.written, player.play.plan.written_count) {
        const struct play_tensor place = {.bytes = written->bytes, .ordinal = written->ordinal};
        const struct allocation *allocation = player_allocation(&place);
        if (!written->unread || !made[written->writer] || allocation == NULL || allocation->memory != SCOUT_MANAGED)
            continue;
        made[written->writer] = false;
        player_synchronize();
        exchange_read((char *)(uintptr_t)(allocation->address + written->lo), written->hi - written->lo);
    }
    player_unlock();
}

static bool
makes_all(uint32_t part)
{
    (void)part;
    return true;
}

void
exchange_change(struct way *way)
{
    static const struct way borders = {.begin_period = begin_border,
                                       .makes = makes_all,
                                       .meet = meet_planned,
                                       .meet_unplanned = meet_outside,
                                       .meet_loaded = meet_loaded,
                                       .after = note_copy,
                                       .end = end};
    made = scout_zeroed(player.play.plan.operation_count, sizeof(*made));
    if (player.play.plan.data >= PLAY_BORDERS && player.play.plan.data < PLAY_WRITES)
        *way = borders;
    if (!player_makes_all())
        return;
    way->differ_from = PLAY_COMPARED; /* as data do */
    way->begin_period = begin_step;
    way->meet = note_alike;
    way->average = average_exchanged;
    way->after = note_copy;
}
