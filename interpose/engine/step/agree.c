/*
 * agree.c - what the ranks must agree on before they act: annotations, and whose boundary this is.
 *
 * All of it goes through the control plane, at places that every rank passes the same number of times: an annotation of
 * a parameter or state, the first boundary after annotations changed, a boundary that no rank could expect, and the
 * votes of planner.c. No rank acts on what it alone has learned.
 */
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/report/report.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

#include "comm/hash.h"

/* ---- annotations ---- */

enum { TEXT_BYTES = 64 };

/* One annotation, as ranks show it to each other. */
struct described {
    uint64_t count;
    int32_t type;
    int32_t line;
    int32_t group;
    int32_t kind; /* enum memory_kind */
    char text[TEXT_BYTES];
    char file[TEXT_BYTES];
};

static struct described
describe_tensor(const struct tensor *tensor)
{
    struct described described = {.count = tensor->count,
                                  .type = tensor->type,
                                  .line = tensor->site.line,
                                  .group = tensor->averaged ? tensor->group : 0,
                                  .kind = (int32_t)tensor->kind};
    snprintf(described.text, sizeof(described.text), "%s", tensor->site.text);
    snprintf(described.file, sizeof(described.file), "%s", file_name_of(tensor->site.file));
    return described;
}

static bool
is_same_shape(const struct described *a, const struct described *b)
{
    return a->count == b->count && a->type == b->type;
}

/* Whether it is the same annotation in the program: two of one shape in another order would be averaged with each
 * other. */
static bool
is_same_place(const struct described *a, const struct described *b)
{
    return a->line == b->line && strcmp(a->text, b->text) == 0 && strcmp(a->file, b->file) == 0;
}

static const char *
kind_name(int32_t kind)
{
    switch (kind) {
    case MEMORY_MANAGED:
        return "managed";
    case MEMORY_HOST:
        return "host";
    default:
        return "device";
    }
}

/* Compares what all described, from tensor number `first` on, with rank 0; ends the job, naming both ranks and sizes,
 * at the first difference. */
static void
compare_descriptions(const struct control_messages *all, const char *what, size_t first)
{
    const struct described *zero = all->messages[0];
    size_t zero_count = all->bytes[0] / sizeof(*zero);
    for (int r = 1; r < all->count; ++r) {
        const struct described *other = all->messages[r];
        size_t other_count = all->bytes[r] / sizeof(*other);
        size_t common = other_count < zero_count ? other_count : zero_count;
        for (size_t i = 0; i < common; ++i) {
            if (!is_same_shape(&zero[i], &other[i]))
                stop_job(
                    "ranks 0 and %d annotate different %ss: number %zu, `%s` (%s:%d), is %llu %s on rank 0, "
                    "`%s` (%s:%d) is %llu %s on rank %d; all ranks must make the same annotations in the same order",
                    r, what, first + i + 1, zero[i].text, zero[i].file, zero[i].line, (unsigned long long)zero[i].count,
                    type_name(zero[i].type), other[i].text, other[i].file, other[i].line,
                    (unsigned long long)other[i].count, type_name(other[i].type), r);
            if (!is_same_place(&zero[i], &other[i]))
                stop_job("ranks 0 and %d annotate %ss in another order: number %zu is `%s` (%s:%d) on rank 0, "
                         "`%s` (%s:%d) on rank %d; all ranks must make the same annotations in the same order",
                         r, what, first + i + 1, zero[i].text, zero[i].file, zero[i].line, other[i].text, other[i].file,
                         other[i].line, r);
            if (zero[i].group != other[i].group)
                stop_job(
                    "ranks 0 and %d annotate %s number %zu, `%s` (%s:%d), in different groups: %d on rank 0, %d on "
                    "rank %d",
                    r, what, first + i + 1, zero[i].text, zero[i].file, zero[i].line, (int)zero[i].group,
                    (int)other[i].group, r);
            if (zero[i].kind != other[i].kind)
                stop_job("ranks 0 and %d annotate %s number %zu, `%s` (%s:%d), in memory of different kinds: %s memory "
                         "on rank 0, %s memory on rank %d",
                         r, what, first + i + 1, zero[i].text, zero[i].file, zero[i].line, kind_name(zero[i].kind),
                         kind_name(other[i].kind), r);
        }
        if (other_count != zero_count)
            stop_job("rank 0 annotates %zu %ss, rank %d annotates %zu; the first that only one has is number %zu, `%s` "
                     "(%s:%d)",
                     zero_count, what, r, other_count, common + 1,
                     (other_count > zero_count ? other : zero)[common].text,
                     (other_count > zero_count ? other : zero)[common].file,
                     (other_count > zero_count ? other : zero)[common].line);
    }
}

void
agree_on_shared(const struct tensor *tensor, const char *place)
{
    struct control_messages all;
    struct described mine = describe_tensor(tensor);
    exchange_in_step(place, &mine, sizeof(mine), &all);
    compare_descriptions(&all, tensor_role_name(tensor->role), tensor->index);
    control_free_messages(&all);
}

/* Ends the job if ranks have annotated other things, or nothing. */
static void
exchange_described(enum tensor_role role, size_t count, const char *about, const char *what)
{
    struct described *mine = engine_calloc(count + 1, sizeof(*mine)); /* in the order of annotation */
    engine_lock();
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor)) {
        if (tensor->role == role && tensor->index < count) /* another thread may annotate: agree_on_annotations() */
            mine[tensor->index] = describe_tensor(tensor);
    }
    engine_unlock();
    struct control_messages all;
    exchange_in_step(about, mine, count * sizeof(*mine), &all);
    compare_descriptions(&all, what, 0);
    control_free_messages(&all);
    free(mine);
}

/* Ends the job if ranks do not average the same parameters and states in the same groups. What they are was compared
 * when they were annotated. */
static void
compare_averaged(void)
{
    uint64_t mine[GROUPS_AT_MOST] = {0}; /* hash of their places in the order of annotation, the same on all ranks */
    engine_lock();
    for (size_t i = 0; i < engine_state.tensor_count; ++i) {
        const struct tensor *tensor = &memory_state.tensors[i];
        bool counts = tensor->averaged && tensor->role != TENSOR_GRADIENT;
        if (counts)
            mine[tensor->group] = hash_chain(mine[tensor->group], i + 1);
    }
    engine_unlock();
    struct control_messages all;
    exchange_in_step("the first DDP_STEP_PARAMETERS after annotations changed", mine, sizeof(mine), &all);
    for (int r = 1; r < all.count; ++r) {
        for (int g = 0; g < GROUPS_AT_MOST; ++g) {
            const uint64_t *zero = all.messages[0], *theirs = all.messages[r];
            if (all.bytes[r] != sizeof(mine) || zero[g] != theirs[g])
                stop_job("ranks 0 and %d have different parameters in group %d, whose DDP_STEP_PARAMETERS averages "
                         "them: all ranks must annotate the same after the same DDP_GRADIENT_GROUP",
                         r, g);
        }
    }
    control_free_messages(&all);
}

/* For work on gradients before their annotation, at the next boundary or launch of a graph; the issuer's. */
static bool wait_owed;

void
agree_wait_owed(void)
{
    if (wait_owed)
        context_synchronize("at the first launch of a captured step");
    wait_owed = false;
}

/* What came or went since the ranks compared their annotations was compared by none of them. */
static void
refuse_change(bool changed)
{
    if (changed)
        stop_job("gradients or buffers were annotated or forgotten in another thread while DDP_STEP compared the "
                 "annotations of all ranks: do that in the thread that steps, or before the step");
}

void
agree_on_annotations(bool captured)
{
    engine_lock();
    size_t count = memory_state.gradient_count, buffer_count = memory_state.buffer_count;
    uint64_t changes = memory_state.annotation_changes, bytes = 0;
    size_t parameters = 0; /* and states that are averaged */
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor)) {
        bytes += tensor->averaged ? tensor->bytes : 0;
        parameters += tensor->averaged && tensor->role != TENSOR_GRADIENT;
    }
    engine_unlock();
    if (LOCKED(memory_state.agreements > 0)) {
        role_take();
        launch_take_back("what was launched before annotations changed");
        role_give();
    }
    exchange_described(TENSOR_GRADIENT, count, "the first DDP_STEP after annotations changed", "gradient");
    exchange_described(TENSOR_BUFFER, buffer_count, "the buffers at the first DDP_STEP after annotations changed",
                       "buffer");
    if (parameters > 0)
        compare_averaged();
    coverage_look(); /* not beside the line that ends the job where ranks differ */
    host_memory_say();
    device_ensure_collectives();

    /* Work on a gradient that was enqueued before its annotation was not seen: it is waited for, this once. */
    if (!captured)
        context_synchronize("at the first DDP_STEP with new gradients");
    first_sum_look();
    all_reduce_cost_find(bytes); /* on an idle device, where nothing is captured */

    role_take();
    wait_owed = captured;
    issuer_lock();
    bool indexed = tensor_index_gradients(), changed = memory_state.annotation_changes != changes;
    issuer_unlock();
    require_allocated(indexed);
    refuse_change(changed);
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        if (memory_state.groups[g].gradient_count > 0 || memory_state.groups[g].plan != NULL)
            planner_reset(&memory_state.groups[g]);
    }
    issuer_lock();
    bool too_late = memory_state.annotation_changes != changes;
    memory_state.annotations_changed = false; /* last: until now touches only leave their stream to the boundary */
    ++memory_state.agreements;
    memory_state.expected_group = groups_expected();
    issuer_unlock();
    refuse_change(too_late);
    checks_prepare();
    duplicate_batch_prepare();
    TRACED(trace_costs(all_reduce_cost()));
    role_give();
    engine_lock();
    tensor_report_averaged(NULL);
    engine_unlock();
}

/* ---- boundaries ---- */

/* What a rank says at a boundary that was not expected. */
struct arrival {
    uint64_t group;
    uint64_t sequence; /* hash of the boundaries before */
};

static void
compare_arrivals(const struct control_messages *all, const struct arrival *mine, const struct ddp_site *site)
{
    for (int r = 0; r < all->count; ++r) {
        const struct arrival *theirs = all->messages[r];
        if (theirs->group != mine->group || theirs->sequence != mine->sequence)
            stop_job("ranks %d and %d step different groups (%d and %d) at DDP_STEP (%s:%d): all ranks must step the "
                     "same groups in the same order",
                     engine_state.rendezvous.rank, r, (int)mine->group, (int)theirs->group, site->file, site->line);
    }
}

void
agree_on_boundary(const struct group *group, const struct ddp_site *site)
{
    struct arrival mine = {.group = (uint64_t)group->id};
    issuer_lock();
    bool expected = memory_state.expected_group == group->id;
    mine.sequence = memory_state.boundaries.hash;
    int other = memory_state.expected_group;
    issuer_unlock();

    if (!expected) {
        struct control_messages all;
        exchange_in_step("a DDP_STEP of another group than expected", &mine, sizeof(mine), &all);
        compare_arrivals(&all, &mine, site);
        control_free_messages(&all);
        launch_rest(other); /* ranks may have launched different numbers of its buckets */
    }
    issuer_lock();
    sequence_add(&memory_state.boundaries, group->id);
    memory_state.expected_group = groups_expected();
    issuer_unlock();
}

/* ---- what comes: a step outside of graphs, or which graph ---- */

enum { KINDS = SEQUENCE_IDS };

/* The recordings that stand after the sequence's numbers, which are fewer; the same on all ranks. */
static uint64_t number_of_kind[KINDS];
static struct sequence kinds; /* of boundaries, once there are graphs with DDP_STEP; the issuer's */

struct coming {
    uint64_t number;
    char text[120];
};

static void
describe_coming(struct coming *coming, uint64_t number, const char *what, const struct ddp_site *site)
{
    const char *file = file_name_of(site->file);
    coming->number = number;
    if (number > 0)
        snprintf(coming->text, sizeof(coming->text), "the launch of CUDA graph %llu with DDP_STEP (%.50s:%d)",
                 (unsigned long long)number, file, site->line);
    else
        snprintf(coming->text, sizeof(coming->text), "%s (%.50s:%d) outside of a CUDA graph", what, file, site->line);
}

/* Ends the job if another rank reaches something else. */
static void
compare_coming(const struct coming *mine)
{
    struct control_messages all;
    exchange_at(mine->text, "a step that ranks did not expect", mine, sizeof(*mine), &all);
    for (int r = 0; r < all.count; ++r) {
        const struct coming *theirs = all.messages[r];
        if (all.bytes[r] != sizeof(*mine) || theirs->number != mine->number)
            stop_job("ranks %d and %d do different things after step %llu: %s on rank %d, %.119s on rank %d; all ranks "
                     "must make the same steps",
                     engine_state.rendezvous.rank, r, (unsigned long long)engine_state.boundary_count, mine->text,
                     engine_state.rendezvous.rank, theirs->text, r);
    }
    control_free_messages(&all);
}

void
agree_on_coming(uint64_t number, const char *what, const struct ddp_site *site)
{
    if (atomic_load(&engine_state.graph_count) == 0)
        return;
    struct coming mine;
    int kind = number == 0 ? 0 : 1 + (int)((number - 1) % (KINDS - 1));
    bool expected = sequence_next(&kinds) == kind && number_of_kind[kind] == number;
    if (!expected) {
        describe_coming(&mine, number, what, site);
        compare_coming(&mine);
    }
    sequence_add(&kinds, kind);
    number_of_kind[kind] = number;
}
