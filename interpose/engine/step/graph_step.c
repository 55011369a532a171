/*
 * graph_step.c - DDP_STEP in a capture: its collectives become nodes of the graph, each after the last work on the
 * gradients of its bucket, and the captured stream continues after all of them.
 *
 * In a capture nothing has to be learned: when DDP_STEP is captured, the last touch of each gradient is known, and its
 * node with it. All collectives are on one internal stream, the lane, in one order, also where there are several
 * communicators: branches of a graph may run in any order, and ranks that reached two communicators in different orders
 * would wait for each other for ever.
 *
 * Ranks talk while they capture, by messages of the hosts: about the order of buckets at each DDP_STEP, and at the end
 * about what all of them hold now. Called by boundary.c, and by the hook of the end of a
 * capture.
 */
#include "interpose/engine/graphs/captures.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/plan/planner.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"
#include "interpose/engine/verify/verify.h"

/* Nodes that something must come after. */
struct nodes {
    CUgraphNode *items;
    size_t count, capacity;
};

static void
add_node(struct nodes *nodes, CUgraphNode node)
{
    for (size_t i = 0; i < nodes->count; ++i) {
        if (nodes->items[i] == node)
            return;
    }
    nodes->items = engine_grow(nodes->items, nodes->count, &nodes->capacity, sizeof(*nodes->items));
    nodes->items[nodes->count++] = node;
}

static void
add_nodes(struct nodes *nodes, const struct capture *capture, size_t first, size_t count) WITH_CAPTURES
{
    for (size_t i = 0; i < count; ++i)
        add_node(nodes, capture->nodes[first + i]);
}

/* Where the stream has got to. */
static void
add_tail(struct nodes *nodes, CUstream stream)
{
    struct capture_answer answer;
    if (!capture_ask(stream, &answer) || answer.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        stop_job("a capture in which DDP_STEP stands has failed before its end");
    for (size_t i = 0; i < answer.node_count; ++i)
        add_node(nodes, answer.nodes[i]);
}

/* ---- what a bucket comes after ---- */

/* With both locks held: the last touches of the tensor since the last step, one for each stream. */
static void
add_producers(struct nodes *nodes, const struct capture *capture, size_t place) WITH_LOCK WITH_CAPTURES
{
    struct {
        CUstream stream;
        pid_t owner;
    } seen[STREAMS_AT_MOST];
    size_t seen_count = 0;
    for (size_t at = capture->last[place]; at != NO_MARK; at = capture->marks[at].previous) {
        const struct mark *mark = &capture->marks[at];
        bool later = false; /* on the same stream there was a later one */
        for (size_t i = 0; i < seen_count; ++i)
            later = later || (seen[i].stream == mark->stream && seen[i].owner == mark->owner);
        if (later)
            continue;
        add_nodes(nodes, capture, mark->first, mark->count);
        if (seen_count < STREAMS_AT_MOST) {
            seen[seen_count].stream = mark->stream;
            seen[seen_count++].owner = mark->owner;
        }
    }
}

/* With both locks held: whether the program says in this capture, since the last step, when it is complete. */
static bool
is_declared(const struct capture *capture, size_t place) WITH_LOCK WITH_CAPTURES
{
    size_t at = capture->last[place];
    while (at != NO_MARK && !capture->marks[at].declares)
        at = capture->marks[at].previous;
    return at != NO_MARK;
}

/* With both locks held: kernels may touch it unseen, on any stream, or functions of the host. What was declared in
 * steps before need not be in this one. (Whether steps outside differ from each other does not matter here: what the
 * capture touches is known.) */
static bool
is_hidden(const struct capture *capture, size_t place) WITH_LOCK WITH_CAPTURES
{
    const struct tensor *tensor = &memory_state.tensors[place];
    return tensor_is_shared(tensor) || (tensor->escaped && !is_declared(capture, place));
}

/* What bucket `bucket` comes after. *waits_p: for the DDP_STEP, too. */
static void
find_producers(struct nodes *nodes, const struct capture *capture, const struct captured_step *step, size_t bucket,
               bool *waits_p)
{
    const struct plan_bucket *of = &step->shipment.plan->buckets[bucket];
    bool hidden = !engine_state.options.overlap;
    nodes->count = 0;
    *waits_p = hidden;
    engine_lock();
    capture_lock();
    for (size_t i = of->first; i < of->first + of->count; ++i) {
        size_t place = step->places[step->shipment.plan->pieces[i].gradient];
        hidden = hidden || is_hidden(capture, place);
        *waits_p = *waits_p || capture->last[place] == NO_MARK;
        add_producers(nodes, capture, place);
    }
    for (size_t i = 0; i < capture->stream_count && hidden; ++i)
        add_nodes(nodes, capture, capture->streams[i].first, capture->streams[i].count);
    capture_unlock();
    engine_unlock();
    *waits_p = *waits_p || hidden;
}

/* ---- the lane ---- */

/* What is enqueued on the lane next comes after these nodes and after what it has; at first only after these. */
static void
order_lane(const struct capture *capture, const struct nodes *nodes, bool first)
{
    unsigned how = first ? CU_STREAM_SET_CAPTURE_DEPENDENCIES : CU_STREAM_ADD_CAPTURE_DEPENDENCIES;
    CUDA("cuStreamUpdateCaptureDependencies", cuStreamUpdateCaptureDependencies, capture->lane->stream, nodes->items,
         NULL, nodes->count, how);
}

/* Draws the lane into the capture, after where the stream has got to. */
static void
join_lane(struct capture *capture, CUstream stream)
{
    CUDA("cuEventRecord in a capture", cuEventRecord, capture->lane->joins, stream);
    CUDA("joining a stream to a capture", cuStreamWaitEvent, capture->lane->stream, capture->lane->joins, 0);
}

/* Of the capture's steps so far, those of the group. */
static size_t
steps_of(const struct recording *recording, int group)
{
    size_t count = 0;
    for (size_t i = 0; i < recording->step_count; ++i)
        count += recording->steps[i].group == group;
    return count;
}

static void
send_bucket(const struct capture *capture, const struct captured_step *step, size_t bucket, bool first,
            CUstream stream) BY_ISSUER
{
    struct nodes nodes = {0};
    struct comm_error error;
    bool waits;
    find_producers(&nodes, capture, step, bucket, &waits);
    if (waits)
        add_tail(&nodes, stream);
    order_lane(capture, &nodes, first);
    free(nodes.items);
    nonfinite_look_captured(&memory_state.groups[step->group], &step->shipment.wires[bucket],
                            capture->recording->step_count, steps_of(capture->recording, step->group));
    if (!collectives_reduce(&engine_state.collectives, &step->shipment.wires[bucket], weight_factor(&step->weight),
                            capture->lane->stream, &error))
        stop_job_by(error.cause, "bucket %zu of a DDP_STEP in a capture: %s", bucket, error.text);
}

/* Buffers are sent after the last work on them. */
static void
send_buffers(struct capture *capture, CUstream stream) BY_ISSUER
{
    struct nodes nodes = {0};
    if (buffers_count() == 0)
        return;
    add_tail(&nodes, stream);
    capture_lock();
    for (size_t i = 0; i < capture->stream_count; ++i) {
        if (capture->streams[i].on_buffer)
            add_nodes(&nodes, capture, capture->streams[i].first, capture->streams[i].count);
        capture->streams[i].on_buffer = false;
    }
    capture_unlock();
    order_lane(capture, &nodes, false);
    free(nodes.items);
    buffers_send_on(capture->lane->stream);
}

static void
release(struct capture *capture, CUstream stream)
{
    CUDA("cuEventRecord in a capture", cuEventRecord, capture->lane->reduced, capture->lane->stream);
    CUDA("waiting for a captured reduction", cuStreamWaitEvent, stream, capture->lane->reduced, 0);
}

/* ---- the plan ---- */

/* With both locks held: when the gradient is complete; NO_MARK: at DDP_STEP. */
static size_t
completion_of(const struct capture *capture, const struct group *group, size_t gradient) WITH_LOCK WITH_CAPTURES
{
    size_t place = group->places[gradient];
    return is_hidden(capture, place) ? NO_MARK : capture->last[place];
}

/* The group's gradients in the order in which they are complete in the capture. */
static void
order_of_touches(const struct capture *capture, const struct group *group, size_t *order) BY_ISSUER
{
    size_t count = group->gradient_count;
    issuer_lock();
    capture_lock();
    for (size_t i = 0; i < count; ++i) { /* an insertion: it is nearly in order, forwards or backwards, and rare */
        size_t at = i, mine = completion_of(capture, group, i);
        while (at > 0 && mine < completion_of(capture, group, order[at - 1])) {
            order[at] = order[at - 1];
            --at;
        }
        order[at] = i;
    }
    capture_unlock();
    issuer_unlock();
}

/* Ends the job if another rank captures another step. */
static void
compare_steps(const struct control_messages *all, const uint64_t *mine, size_t words, const struct ddp_site *site)
{
    for (int r = 0; r < all->count; ++r) {
        const uint64_t *theirs = all->messages[r];
        if (all->bytes[r] != words * sizeof(*mine) || theirs[0] != mine[0] || theirs[1] != mine[1])
            stop_job("ranks %d and %d capture different steps: DDP_STEP (%s:%d) of group %llu is number %llu of its "
                     "capture on rank %d; on rank %d number %llu, of group %llu, is captured. All ranks must capture "
                     "the same",
                     engine_state.rendezvous.rank, r, site->file, site->line, (unsigned long long)mine[0],
                     (unsigned long long)mine[1] + 1, engine_state.rendezvous.rank, r,
                     (unsigned long long)theirs[1] + 1, (unsigned long long)theirs[0]);
    }
}

/* The buckets of the step, the same on all ranks: those of the plan in force, or in the order of rank 0's capture. */
static const struct plan *
agree_on_plan(const struct capture *capture, const struct group *group, const struct ddp_site *site) BY_ISSUER
{
    size_t count = group->gradient_count, words = 2 + count;
    uint64_t *mine = engine_calloc(words, sizeof(*mine));
    size_t *order = engine_calloc(count + 1, sizeof(*order));
    order_of_touches(capture, group, order);
    mine[0] = (uint64_t)group->id;
    mine[1] = capture->recording->step_count;
    for (size_t i = 0; i < count; ++i)
        mine[2 + i] = order[i];

    char about[96];
    struct control_messages all;
    snprintf(about, sizeof(about), "a DDP_STEP in a capture, after step %llu",
             (unsigned long long)engine_state.boundary_count);
    exchange_in_step(about, mine, words * sizeof(*mine), &all);
    compare_steps(&all, mine, words, site);
    const uint64_t *zero = all.messages[0];
    for (size_t i = 0; i < count; ++i)
        order[i] = (size_t)zero[2 + i];
    control_free_messages(&all);
    const struct plan *plan = planner_for_capture(group, order);
    free(order);
    free(mine);
    return plan;
}

/* ---- the step ---- */

static void
refuse_what_cannot_be(const struct capture *capture, const struct ddp_site *site)
{
    char why[256];
    engine_lock();
    bool stale = capture->recording->placements != engine_state.placements;
    engine_unlock();
    if (capture->unseen)
        snprintf(why, sizeof(why),
                 "that ddprun did not see begin: begin it with cuStreamBeginCapture, after the first annotation");
    else if (capture->into_graph)
        snprintf(why, sizeof(why),
                 "into a graph of the program's own (cuStreamBeginCaptureToGraph), which ddprun does "
                 "not follow: capture the step with cuStreamBeginCapture");
    else if (capture->changed_by != NULL)
        snprintf(why, sizeof(why), "that %s has changed, which ddprun does not follow: capture all work of the step",
                 capture->changed_by);
    else if (stale)
        snprintf(why, sizeof(why),
                 "that had begun before gradients or buffers were annotated, freed or forgotten: do "
                 "that before the capture");
    else if (escape_certain_since(&capture->recording->escapes, site))
        snprintf(why, sizeof(why),
                 "during which a gradient's address was copied to the device: copy it before the capture");
    else
        return;
    stop_job("DDP_STEP (%s:%d) stands in a capture %s", site->file, site->line, why);
}

/* With both locks held: whether the bucket waits for less than all work on gradients; `latest` is the last of it. */
static bool
leaves_early(const struct capture *capture, const struct captured_step *step, size_t bucket,
             size_t latest) WITH_LOCK WITH_CAPTURES
{
    const struct plan_bucket *of = &step->shipment.plan->buckets[bucket];
    for (size_t i = of->first; i < of->first + of->count; ++i) {
        size_t place = step->places[step->shipment.plan->pieces[i].gradient], last = capture->last[place];
        if (last == NO_MARK || last == latest || is_hidden(capture, place))
            return false;
    }
    return engine_state.options.overlap;
}

/* Touches of the group's gradients since the last step were this one's; the next begins. */
static void
begin_next(struct capture *capture, const struct group *group, struct captured_step *step)
{
    size_t latest = 0;
    engine_lock();
    capture_lock();
    for (size_t i = 0; i < group->gradient_count; ++i) {
        size_t last = capture->last[group->places[i]];
        step->touch_count += last != NO_MARK;
        latest = last != NO_MARK && last > latest ? last : latest;
    }
    for (size_t k = 0; k < step->shipment.plan->bucket_count; ++k)
        step->overlaps = step->overlaps || leaves_early(capture, step, k, latest);
    for (size_t i = 0; i < group->gradient_count; ++i)
        capture->last[group->places[i]] = NO_MARK;
    step->marks_before = capture->mark_count;
    capture_unlock();
    engine_unlock();
}

static struct captured_step *
add_step(struct capture *capture, const struct group *group, const struct ddp_site *site) BY_ISSUER
{
    struct recording *recording = capture->recording;
    recording->steps = engine_realloc(recording->steps, (recording->step_count + 1) * sizeof(*recording->steps));
    struct captured_step *step = &recording->steps[recording->step_count];
    *step = (struct captured_step){.site = *site, .group = group->id, .places = group->places};
    return step;
}

void
capture_step(struct capture *capture, struct group *group, CUstream stream, const struct ddp_site *site)
{
    struct recording *recording = capture->recording;
    refuse_what_cannot_be(capture, site);
    role_take();
    bool first = capture->lane == NULL;
    if (first) {
        capture->lane = capture_take_lane();
        join_lane(capture, stream);
    }
    capture_before_touch(capture, stream);
    struct captured_step *step = add_step(capture, group, site);
    weight_agree(group, true, true);
    step->shipment.plan = agree_on_plan(capture, group, site);
    issuer_lock();
    step->weight = group->weight;
    group->weight = (struct weight){0, 0};
    issuer_unlock();
    wires_prepare_captured(&step->shipment, step->places);
    for (size_t k = 0; k < step->shipment.plan->bucket_count; ++k)
        send_bucket(capture, step, k, first && k == 0, stream);
    send_buffers(capture, stream);
    release(capture, stream);
    begin_next(capture, group, step);
    step->places = NULL;
    capture_lock();
    ++recording->step_count;
    capture_unlock();
    capture_note_waited(capture, stream);
    role_give();
}

/* ---- the end of the capture ---- */

/* What a rank says at the end. */
struct outcome {
    uint64_t done, step_count, line;
};

static void __attribute__((noreturn))
stop_different(int other, const struct outcome *mine, const struct outcome *theirs, const struct ddp_site *site)
{
    if (mine->done != theirs->done)
        stop_job("a capture with DDP_STEP (%s:%d) has failed on rank %d and not on rank %d: all ranks must capture the "
                 "same",
                 site->file, site->line, mine->done ? other : engine_state.rendezvous.rank,
                 mine->done ? engine_state.rendezvous.rank : other);
    stop_job(
        "ranks %d and %d have captured different graphs: %llu DDP_STEPs, the first at %s:%d, on rank %d; %llu, the "
        "first in line %llu, on rank %d",
        engine_state.rendezvous.rank, other, (unsigned long long)mine->step_count, site->file, site->line,
        engine_state.rendezvous.rank, (unsigned long long)theirs->step_count, (unsigned long long)theirs->line, other);
}

/* From now on a graph may be a step: no bucket is launched early outside of graphs, for what a launch averages must not
 * have been averaged before. */
static void
begin_graphs(struct capture *capture)
{
    role_take();
    launch_take_back("what was launched outside of a capture with DDP_STEP");
    issuer_lock();
    capture->recording->number = atomic_fetch_add(&engine_state.graph_count, 1) + 1;
    engine_state.graph_launches = 0;
    for (int g = 0; g < GROUPS_AT_MOST; ++g)
        memory_state.groups[g].overlapping = false;
    issuer_unlock();
    role_give();
    size_t buckets = 0; /* for the report */
    for (size_t i = 0; i < capture->recording->step_count; ++i) {
        const struct captured_step *step = &capture->recording->steps[i];
        buckets = step->overlaps && step->shipment.wire_count > buckets ? step->shipment.wire_count : buckets;
    }
    planner_report_buckets(buckets);
}

/* The end of a capture with steps, collective: whether all ranks have a graph now. */
static bool
agree_on_graph(struct capture *capture, bool done)
{
    const struct recording *recording = capture->recording;
    const struct ddp_site site = recording->steps[0].site;
    struct outcome mine = {.done = done, .step_count = recording->step_count, .line = (uint64_t)site.line};
    if (done && capture->changed_by != NULL)
        stop_job("%s has changed a capture in which DDP_STEP (%s:%d) stands, which ddprun does not follow: capture all "
                 "work of the step",
                 capture->changed_by, site.file, site.line);
    char about[96];
    struct control_messages all;
    snprintf(about, sizeof(about), "the end of a capture with DDP_STEP, after step %llu",
             (unsigned long long)engine_state.boundary_count);
    exchange_in_step(about, &mine, sizeof(mine), &all);
    for (int r = 0; r < all.count; ++r) {
        const struct outcome *theirs = all.messages[r];
        if (theirs->done != mine.done || theirs->step_count != mine.step_count || theirs->line != mine.line)
            stop_different(r, &mine, theirs, &site);
    }
    control_free_messages(&all);
    if (done)
        begin_graphs(capture);
    return done;
}

void
capture_ended(void *ended, const CUgraph *graph, bool done)
{
    struct capture *capture = ended, *goes_on;
    if (capture == NULL)
        return;
    if (!done && capture->origin != NULL && capture_find(capture->origin, &goes_on) == CAPTURE_ACTIVE &&
        goes_on == capture)
        return; /* the call was not one that could end it */
    if (!capture->unseen)
        atomic_fetch_sub(&engine_state.captures_open, 1);
    capture_list_places(capture);
    bool holds = recording_steps(capture->recording) ? agree_on_graph(capture, done) : done;
    if (holds && !capture->into_graph)
        recording_set(*graph, false, capture->recording);
    capture_leave(capture);
}
