/* play_plan.c - see prove.h. */
#include "tools/scout/command/proofs/prove.h"

#include "tools/near/element.h"

#include <stdarg.h>

enum { HALVES_ALIGNED = 16, ROUNDS = 3, SHORT_ROUNDS = 1 };

static bool __attribute__((format(printf, 2, 3))) refuse(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, PLAY_WHY_BYTES, format, args);
    va_end(args);
    return false;
}

/* ---- copies ---- */

static bool
is_from_host(const struct scout_op *op)
{
    return op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE && op->to.alloc != SCOUT_NONE;
}

bool
play_plan_has_halves(const struct scout_log *log, const struct scout_finding *finding, char *why)
{
    if (ANY(tensor, finding->tensors, finding->tensor_count, tensor->role == ROLE_STATISTICS))
        return refuse(why, "the program keeps statistics of its batches, which tie their records together");
    bool any = false;
    for (uint32_t i = finding->first; i < finding->first + finding->period; ++i) {
        const struct scout_op *op = &log->ops[i];
        if (!is_from_host(op))
            continue;
        any = any || scout_brings_data(op);
        if (scout_brings_data(op) && op->bytes % HALVES_ALIGNED != 0)
            return refuse(why, "a copy of %llu bytes from the host cannot be divided into two halves of whole records",
                          (unsigned long long)op->bytes);
        if (!scout_brings_data(op) && op->content != log->ops[i + finding->period].content)
            return refuse(why,
                          "a copy of %llu bytes from the host differs from step to step: it may belong to the "
                          "records, or to all of them",
                          (unsigned long long)op->bytes * op->rows);
    }
    return any || refuse(why, "no copy from the host brings data in a step: there is no batch to halve");
}

/* Operations [first, end) of the log that the player counts. */
static uint32_t
counted(const struct scout_log *log, uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < end; ++i)
        count += log->ops[i].ahead == 0;
    return count;
}

/* turns_noisy.by, with the operations that the player counts. */
static uint32_t
counted_noise(const struct scout_log *log, const struct scout_finding *finding, uint32_t by)
{
    return by > 0 ? 1 + counted(log, finding->first, finding->first + by - 1) : 0;
}

/* ---- call sites ---- */

/* Whether two operations do the same to the same tensors: data, and what was not recorded deeply, may lie elsewhere. */
static bool
is_alike(const struct scout_finding *finding, const struct scout_op *a, const struct scout_op *b)
{
    bool same = a->kind == b->kind && a->name == b->name && a->ahead == b->ahead && a->from.alloc == b->from.alloc &&
                a->to.alloc == b->to.alloc;
    for (uint32_t i = 0; same && i < a->argument_count && i < b->argument_count; ++i) {
        const struct scout_argument *x = &a->arguments[i], *y = &b->arguments[i];
        bool has_tensor = ANY(tensor, finding->tensors, finding->tensor_count, tensor->alloc == x->alloc);
        same = x->alloc == y->alloc && (x->offset == y->offset || !has_tensor);
    }
    return same;
}

/* Where the first of the whole periods begins that are alike up to those that were recorded deeply. */
static uint32_t
first_alike(const struct scout_log *log, const struct scout_finding *finding)
{
    uint32_t alike = finding->first;
    while (alike > 0 && is_alike(finding, &log->ops[alike - 1], &log->ops[alike - 1 + finding->period]))
        --alike;
    return finding->first - (finding->first - alike) / finding->period * finding->period;
}

/* All places that have called operation `first`, and those like it in later periods. What follows the last whole
 * period may begin as a period does: validation. What comes before the first may end as one does, but for an update. */
static bool
take_sites(const struct scout_log *log, const struct scout_finding *finding, uint32_t first, struct play_operation *to,
           char *why)
{
    uint32_t end = finding->end - (finding->end - finding->first) % finding->period;
    uint32_t taken[PLAY_SITES];
    bool has_before = to->part == PLAY_BY_LAST && first >= finding->begin + finding->period;
    for (uint32_t i = first - (has_before ? finding->period : 0); i < end; i += finding->period) {
        uint32_t number = log->ops[i].site, frames = number < log->site_count ? log->sites[number].count : 0;
        if (ANY_NUMBER(known, 0, to->site_count, taken[known] == number))
            continue;
        if (to->site_count == PLAY_SITES)
            return refuse(why, "%s is called from more than %d places of the program", to->name, PLAY_SITES);
        taken[to->site_count] = number;
        struct play_site *site = &to->sites[to->site_count++];
        while (site->frame_count < frames && site->frame_count < PLAY_FRAMES) {
            site->frames[site->frame_count] = log->sites[number].frames[site->frame_count];
            ++site->frame_count;
        }
    }
    return true;
}

/* ---- operations ---- */

static bool
take_operations(const struct scout_log *log, const struct scout_finding *finding, const struct turns *turns,
                struct play *play, char *why)
{
    uint32_t at = 0, first = first_alike(log, finding);
    for (uint32_t i = 0; i < finding->period; ++i) {
        const struct scout_op *op = &log->ops[finding->first + i];
        const struct reads_of *of = &turns->reads.by_operation[i];
        if (op->ahead != 0)
            continue;
        struct play_operation *to = &play->operations[at++];
        snprintf(to->name, sizeof(to->name), "%s", scout_log_name(log, op->name));
        to->part = turns->parts[i];
        to->host_bytes = is_from_host(op) && op->rows == 1 ? op->bytes : 0;
        to->reads = of->kind;
        to->writer = counted(log, finding->first, finding->first + of->writer);
        to->back = of->back;
        to->noise = counted_noise(log, finding, of->noise);
        if (!take_sites(log, finding, first + i, to, why))
            return false;
    }
    play->written = xcalloc(turns->reads.written_count + 1, sizeof(*play->written));
    FOR_EACH(written, turns->reads.written, turns->reads.written_count) {
        struct play_written *to = &play->written[play->plan.written_count++];
        *to = *written;
        to->writer = counted(log, finding->first, finding->first + written->writer);
    }
    return true;
}

/* ---- tensors ---- */

/* enum play_role. */
static uint32_t
played_role(enum scout_role role)
{
    static const uint32_t roles[] = {[ROLE_PARAMETER] = PLAY_PARAMETER,
                                     [ROLE_GRADIENT] = PLAY_GRADIENT,
                                     [ROLE_OPTIMIZER_STATE] = PLAY_STATE,
                                     [ROLE_AVERAGE] = PLAY_STATE,
                                     [ROLE_STATISTICS] = PLAY_PER_RANK,
                                     [ROLE_CARRIED] = PLAY_PER_RANK,
                                     [ROLE_RANDOM] = 0};
    return roles[role];
}

uint32_t
play_plan_type(uint32_t type)
{
    static const uint32_t types[] = {
        [SCOUT_FLOAT32] = 1, [SCOUT_FLOAT64] = 2, [SCOUT_FLOAT16] = 3, [SCOUT_BFLOAT16] = 4, [SCOUT_INTEGER] = 7};
    return type > SCOUT_UNKNOWN && type <= SCOUT_INTEGER ? types[type] : types[SCOUT_INTEGER];
}

static void
add_tensor(const struct scout_log *log, struct play *play, const struct play_tensor *tensor)
{
    struct play_tensor *to = &play->tensors[play->plan.tensor_count++];
    *to = *tensor;
    to->ordinal = log->allocs[tensor->alloc].ordinal;
    to->bytes = log->allocs[tensor->alloc].bytes;
}

/* What a finding has a role for. */
static bool
take_tensors(const struct scout_log *log, const struct scout_finding *finding, struct play *play, char *why)
{
    FOR_EACH(tensor, finding->tensors, finding->tensor_count) {
        uint32_t role = played_role(tensor->role), type = play_plan_type(tensor->type);
        if (tensor->fused)
            return refuse(why, "a%u is updated without a gradient of its own", tensor->alloc);
        if (role == 0)
            continue;
        if (tensor->role == ROLE_STATISTICS && type < play_plan_type(SCOUT_INTEGER) && !tensor->guessed &&
            tensor->hi - tensor->lo > ELEMENT_BYTES)
            role = PLAY_CHANGES;
        if (role == PLAY_STATE && scout_is_in_gradient(finding, tensor))
            role = PLAY_COMPARED;
        if ((role == PLAY_PARAMETER || role == PLAY_GRADIENT) && type == play_plan_type(SCOUT_INTEGER))
            return refuse(why, "the type of the %s a%u is not known", scout_role_name(tensor->role), tensor->alloc);
        struct play_tensor to = {
            .role = role, .type = type, .alloc = tensor->alloc, .lo = tensor->lo, .hi = tensor->hi};
        add_tensor(log, play, &to);
    }
    return true;
}

/* Of sums of whole numbers of so many bytes; 0: of words. */
static uint32_t
type_of_whole(uint32_t width)
{
    switch (width) {
    case 0:
        return ELEMENT_UINT32;
    case sizeof(int64_t):
        return ELEMENT_INT64;
    default:
        return ELEMENT_INT32;
    }
}

static uint32_t
type_of_range(const struct turns_range *range)
{
    if (range->role == PLAY_CHANGES || range->role == PLAY_PER_RANK || range->type != SCOUT_UNKNOWN)
        return play_plan_type(range->type);
    return range->role == PLAY_SUM ? type_of_whole(range->width) : 0;
}

/* What else stays. Words of a history are added up as words, whatever they hold. */
static void
take_ranges(const struct scout_log *log, const struct turns *turns, struct play *play)
{
    FOR_EACH(range, turns->ranges, turns->range_count) {
        add_tensor(
            log, play,
            &(struct play_tensor){.role = range->role,
                                  .type = type_of_range(range),
                                  .alloc = range->alloc,
                                  .lo = range->lo,
                                  .hi = range->hi,
                                  .is_overwritten = range->is_overwritten,
                                  .is_in_place = range->is_in_place,
                                  .may_be_sum = range->may_be_sum,
                                  .may_decide = range->may_decide,
                                  .written_before = counted(log, turns->first, turns->first + range->written_before)});
    }
}

void
play_plan_settle(struct play *play)
{
    struct play_plan *plan = &play->plan;
    plan->state_before = 0;
    FOR_EACH(it, play->tensors, plan->tensor_count) {
        if (it->role == PLAY_CHANGES && it->written_before > plan->state_before)
            plan->state_before = it->written_before;
    }
    if (plan->state_before == 0)
        plan->state_before = plan->average_before;
}

/* Where gradients are averaged. */
static bool
take_group(const struct scout_log *log, const struct scout_finding *finding, struct play *play, char *why)
{
    uint32_t at = finding->group_count > 0 ? counted(log, finding->first, finding->groups[0].before) : 0;
    play->plan.average_before = at;
    return (at > 0 && at < play->plan.operation_count) || refuse(why, "gradients are averaged where a step begins");
}

bool
play_plan_make(const struct scout_log *log, const struct scout_finding *found, const struct turns *turns,
               struct play *play, char *why)
{
    struct scout_finding turned = *found, *finding = &turned;
    bool is_by_state = turns->by == PLAY_BY_STATE;
    uint32_t tensors = finding->tensor_count + turns->range_count;
    turned.first = turns->first;
    *play = (struct play){.plan = {.version = PLAY_VERSION,
                                   .by = turns->by,
                                   .steps = ROUNDS + (is_by_state ? SHORT_ROUNDS : 0),
                                   .operation_count = counted(log, finding->first, finding->first + finding->period)},
                          .tensors = xcalloc(tensors + 1, sizeof(*play->tensors)),
                          .operations = xcalloc(finding->period + 1, sizeof(*play->operations)),
                          .objects = xcalloc(log->object_count + 1, sizeof(*play->objects))};
    FOR_EACH(object, log->objects, log->object_count) {
        struct play_object *to = &play->objects[play->plan.object_count++];
        snprintf(to->path, sizeof(to->path), "%s", object->path);
        snprintf(to->build_id, sizeof(to->build_id), "%s", object->build_id);
    }
    if (is_by_state && turns->reason != NULL)
        return refuse(why, "%s", turns->reason);
    if (!is_by_state && finding->group_count > 1)
        return refuse(why, "gradients are averaged in %u places", finding->group_count);
    if (!take_operations(log, finding, turns, play, why))
        return false;
    if (is_by_state)
        play->plan.average_before = counted(log, finding->first, finding->first + turns->border);
    else if (!take_tensors(log, finding, play, why))
        return false;
    take_ranges(log, turns, play);
    if (is_by_state)
        play_plan_settle(play);
    FOR_EACH_MUTABLE(it, play->tensors, play->plan.tensor_count)
        it->noise = counted_noise(log, finding, noise_at(log, turns, it->alloc, it->lo, it->hi));
    return is_by_state ||
           (take_group(log, finding, play, why) && (turns->reason == NULL || refuse(why, "%s", turns->reason)));
}
