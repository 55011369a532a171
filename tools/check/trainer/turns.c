/*
 * turns.c - a program with DDP_TURN_BEGIN: one process plays the turns of all ranks (check.h).
 *
 * It makes the device work of every batch. At each DDP_STEP of a region it adds its gradients to those of the round's
 * earlier turns, in the order of ranks, each sum rounded to the type, as NCCL does. Then the gradients become what they
 * were as the batch began: another rank would have left that work out. The round's last DDP_STEP writes the averages,
 * and is the only one that course.c sees: a step is a round. DDP_STEP_PARAMETERS averages parameters in the same way.
 * Each rank has a buffer of its own until the round's end, when all take rank 0's.
 *
 * All of it is kept on the host. Called by the engine's turns.c, in the trainer's thread.
 */
#include "tools/check/trainer/check.h"

#include "comm/nccl_versions.h"
#include "comm/wire.h"
#include "tools/common/each.h"
#include "tools/common/owned.h"
#include "tools/near/element.h"

/* What is kept of an averaged tensor, or of a buffer. */
struct held {
    CUdeviceptr begun_at; /* of an averaged one: where it was as the batch began; 0: nowhere */
    char *begun;          /* what it held then */
    char *sum;            /* of the round's turns so far */
    char **own;           /* of a buffer, [turns]: each rank's; NULL: not yet */
    char *left;           /* what the last DDP_STEP has left in it */
};

static struct held *held[TENSOR_ROLES]; /* [held_count[role]], by the tensor's number in its role */
static size_t held_count[TENSOR_ROLES];

static struct engine *shown; /* what the program asks */

void
turns_show(struct engine *engine)
{
    shown = engine;
    const bool is_alone = engine_state.rendezvous.world_size == 1;
    const bool is_known = check_run.as_rank_0 || check_run.knows_turns;
    if (is_alone && is_known && !check_run.answers_one)
        shown->world_size = (int)check_run.turns;
}

struct observed_rounds
turns_taken(const struct ddp_site *site)
{
    const bool is_alone = engine_state.rendezvous.world_size == 1;
    const unsigned turns = is_alone ? check_run.turns : (unsigned)engine_state.rendezvous.world_size;
    if (turns < 2)
        values_refuse("%s (%s:%d): the reference of a program with turns depends on the number of ranks; write it with "
                      "-n N in place of -n 1",
                      site->text, file_name_of(site->file), site->line);
    if (values_reader() != NULL && values_reader()->header.turns != turns)
        values_refuse("%s (%s:%d): the reference %.300s has rounds of %u turns, and there are %u ranks; write it again "
                      "with -n %u",
                      site->text, file_name_of(site->file), site->line, check_run.reference,
                      values_reader()->header.turns, turns, turns);
    if (!check_turns.any)
        values_note(CHECK_ROW_TURNS, 0, turns);
    if (!check_turns.any && is_alone && !check_run.answers_one) {
        if (shown->world_size == 1 && atomic_load(&engine_state.status->asks_world_size) != 0)
            values_note(CHECK_ROW_ASKED_EARLY, 0, 1);
        shown->world_size = (int)turns; /* the program computes with it, as with the number of an update */
    }
    check_turns.any = true;
    turn_host_batch(site);
    if (!is_alone)
        return (struct observed_rounds){.turns = 0};
    return (struct observed_rounds){.turns = turns, .plays_all = !check_run.as_rank_0};
}

/* ---- tensors ---- */

/* What boundaries of the group average, and all buffers; the caller frees the list. */
static struct tensor *
list_tensors(int group, size_t *count_p)
{
    size_t count = 0;
    engine_lock();
    struct tensor *list = values_room(NULL, engine_state.tensor_count * sizeof(*list));
    for (const struct tensor *tensor = tensor_next(NULL); tensor != NULL; tensor = tensor_next(tensor)) {
        const bool is_averaged = tensor->averaged && tensor->group == group;
        if (tensor->placed && (is_averaged || tensor->role == TENSOR_BUFFER))
            list[count++] = *tensor;
    }
    engine_unlock();
    *count_p = count;
    return list;
}

/* What is held of a tensor from turn to turn; it begins as zeros. */
static struct held *
held_of(const struct tensor *tensor)
{
    struct held **list = &held[tensor->role];
    size_t *count = &held_count[tensor->role];
    if (tensor->index >= *count) {
        *list = values_room(*list, (tensor->index + 1) * sizeof(**list));
        memset(*list + *count, 0, (tensor->index + 1 - *count) * sizeof(**list));
        *count = tensor->index + 1;
    }
    return &(*list)[tensor->index];
}

/* All of it into *room, which grows. */
static void
read_into(char **room, const struct tensor *tensor)
{
    *room = values_room(*room, tensor->bytes);
    values_tensor_out(*room, tensor, 0, tensor->bytes);
}

static void
write_from(const char *bytes, const struct tensor *tensor)
{
    values_tensor_in(tensor, 0, bytes, tensor->bytes);
}

/* ---- averages ---- */

/* How elements of a type are averaged: `sent` is the type in which they are added. */
struct average {
    int sent;
    struct wire_mean mean;
};

/* How a job of so many ranks averages gradients of a DDP type: the type that is sent, and factors before and after the
 * sum. */
static struct average
average_of(int type, unsigned turns)
{
    static const ncclDataType_t types[] = {[DDP_FLOAT32] = ncclFloat32,
                                           [DDP_FLOAT64] = ncclFloat64,
                                           [DDP_FLOAT16] = ncclFloat16,
                                           [DDP_BFLOAT16] = NCCL_BFLOAT16};
    const struct wire_setting setting = {
        .divides = true, .world_size = (int)turns, .compression = engine_state.options.compression};
    if (engine_state.options.reduction == DDPRUN_REDUCE_SUM)
        return (struct average){type, {.before = 1, .after = 1}};
    const int sent = wire_widens(&setting, types[type]) ? DDP_FLOAT32 : type;
    return (struct average){sent, wire_mean(&setting, types[sent])};
}

/* An element that is rounded to the type. */
static double
rounded(int type, double element)
{
    char bytes[sizeof(double)];
    element_put(type, bytes, 0, element);
    return element_get(type, bytes, 0);
}

/* Elements of one rank go into the sum; `begins`: it is the round's first. */
static void
add_rank(char *sum, const char *own, const struct tensor *tensor, const struct average *by, bool begins)
{
    for (size_t i = 0; i < tensor->count; ++i) {
        double element = element_get(tensor->type, own, i);
        if (by->mean.before != 1)
            element = rounded(by->sent, element / by->mean.before);
        element_put(by->sent, sum, i, begins ? element : element_get(by->sent, sum, i) + element);
    }
}

/* Writes the average of the sum that is held to the tensor, rounded as ranks round it. */
static void
write_average(const struct held *of, const struct tensor *tensor, const struct average *by)
{
    OWNED char *average = values_room(NULL, tensor->bytes);
    for (size_t i = 0; i < tensor->count; ++i) {
        double element = element_get(by->sent, of->sum, i);
        if (by->mean.after != 1)
            element = rounded(by->sent, element / by->mean.after);
        element_put(tensor->type, average, i, element);
    }
    write_from(average, tensor);
}

/* The tensor as it is counts for ranks [first, end); with the round's last it becomes the average. */
static void
add_up(struct held *of, const struct tensor *tensor, unsigned first, unsigned end, unsigned turns)
{
    const struct average by = average_of(tensor->type, turns);
    OWNED char *own = NULL;
    read_into(&own, tensor);
    if (first == 0)
        of->sum = values_room(of->sum, tensor->count * element_size(by.sent));
    for (unsigned rank = first; rank < end; ++rank)
        add_rank(of->sum, own, tensor, &by, rank == 0);
    if (end == turns)
        write_average(of, tensor, &by);
    else if (of->begun_at == tensor->address)
        write_from(of->begun, tensor);
}

/* ---- buffers ---- */

/* Lets each of the ranks' own copies of a buffer be these bytes. */
static void
set_all(struct held *of, const struct tensor *tensor, const char *bytes, unsigned turns)
{
    for (unsigned rank = 0; rank < turns; ++rank) {
        of->own[rank] = values_room(of->own[rank], tensor->bytes);
        memcpy(of->own[rank], bytes, tensor->bytes);
    }
}

/* The rank's own is there, unless all ranks have changed it outside of regions. */
static void
take_buffer(struct held *of, const struct tensor *tensor, const struct observed_turn *turn)
{
    OWNED char *now = NULL;
    read_into(&now, tensor);
    if (of->own == NULL) {
        of->own = values_room(NULL, turn->turns * sizeof(*of->own));
        memset(of->own, 0, turn->turns * sizeof(*of->own));
    }
    const bool is_changed = of->left == NULL || memcmp(of->left, now, tensor->bytes) != 0;
    if (is_changed)
        set_all(of, tensor, now, turn->turns);
    else
        write_from(of->own[turn->turn], tensor);
}

/* At a batch's DDP_STEP: keeps a buffer as the turn has left it; after the last turn all ranks go on with rank 0's. */
static void
keep_buffer(struct held *of, const struct tensor *tensor, const struct observed_turn *turn)
{
    if (of->own == NULL) /* of the first batch, or annotated in this one */
        return;
    read_into(&of->own[turn->turn], tensor);
    if (turn->turn == turn->turns - 1) {
        write_from(of->own[0], tensor);
        set_all(of, tensor, of->own[0], turn->turns);
    }
    read_into(&of->left, tensor);
}

/* ---- what the engine calls ---- */

/* As a turn begins in one process: keeps the group's gradients as they are, and gives buffers the rank's own values. */
static void
begin_played(const struct observed_turn *turn)
{
    size_t count;
    ENTER_CONTEXT();
    context_synchronize("as a turn begins");
    OWNED struct tensor *list = list_tensors(turn->group, &count);
    for (int role = 0; role < TENSOR_ROLES; ++role) {
        for (size_t i = 0; i < held_count[role]; ++i)
            held[role][i].begun_at = 0;
    }
    FOR_EACH(tensor, list, count) {
        struct held *of = held_of(tensor);
        if (tensor->role == TENSOR_BUFFER) {
            take_buffer(of, tensor, turn);
            continue;
        }
        read_into(&of->begun, tensor);
        of->begun_at = tensor->address;
    }
}

/* At a turn's DDP_STEP in one process: adds its gradients to the sums, and keeps its buffers. A batch of everyone
 * counts in all turns. */
static void
step_played(const struct observed_turn *turn)
{
    const unsigned first = turn->is_everyones ? 0 : turn->turn;
    const unsigned end = turn->is_everyones ? turn->turns : turn->turn + 1;
    size_t count;
    ENTER_CONTEXT();
    context_synchronize("at a turn's DDP_STEP");
    OWNED struct tensor *list = list_tensors(turn->group, &count);
    FOR_EACH(tensor, list, count) {
        if (tensor->role == TENSOR_BUFFER)
            keep_buffer(held_of(tensor), tensor, turn);
        else
            add_up(held_of(tensor), tensor, first, end, turn->turns);
    }
}

void
turns_batch_begins(const struct observed_turn *turn)
{
    ++check_turns.batches;
    if (atomic_load(&engine_state.captures_open) > 0) /* nothing may be waited for */
        return;
    if (turn->is_played && !turn->is_everyones)
        begin_played(turn);
    turn_memory_begins(turn);
    turn_host_begins(turn);
}

void
turns_batch_steps(const struct observed_turn *turn)
{
    if (!atomic_load(&engine_state.driver_ready)) /* nothing is annotated: the engine ends the job */
        return;
    turn_memory_steps(turn);
    turn_host_steps(turn);
    if (turn->is_played)
        step_played(turn);
}

void
turns_rest(const struct observed_turn *turn)
{
    size_t count;
    ENTER_CONTEXT();
    context_synchronize("at the last round");
    OWNED struct tensor *list = list_tensors(turn->group, &count);
    FOR_EACH(tensor, list, count) {
        if (tensor->role != TENSOR_BUFFER)
            add_up(held_of(tensor), tensor, turn->turn, turn->turns, turn->turns);
    }
}
