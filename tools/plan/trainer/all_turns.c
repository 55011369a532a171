/*
 * all_turns.c - see player.h: one process that plays all turns. By gradients it adds these up on the host, in the type
 * that names and calls say, and drops all updates but the round's last. It keeps the memory of each rank beside the
 * device.
 */
#include "tools/plan/trainer/player.h"

#include "comm/nccl_versions.h"
#include "comm/nearness.h"
#include "comm/wire.h"
#include "tools/near/element.h"

#include <math.h>
#include <xxhash.h>

enum { ROUNDS_OF_ALARM = 2 };

/* Hash of all gradients of a turn, of the round's first one; whether two turns of a round differed so far, by more than
 * the rounding of sums; whether any differed by that. */
static uint64_t turn_hash, first_hash;
static bool any_differed, any_rounded, any_computed;

/* By tensor: what a round's first turn has computed, and how near to that the turn under way is. */
static double **first_values;
static struct nearness *nearness;

/* Of one process that plays all turns, by tensor. */
static struct held {
    char *begun; /* of a gradient: as the round began; the update that zeroes it is dropped */
    char *sum;   /* so far, in the type in which ranks send it */
    char **own;  /* memory of each rank, as its turn has left it */
} * held;

/* Reads a tensor of the plan from the device into *room, which is allocated at the first time. */
static void
read_into(char **room, const struct play_tensor *tensor)
{
    if (*room == NULL)
        *room = player_room(tensor->hi - tensor->lo);
    memory_read(player_allocation_needed(tensor), tensor->lo, *room, tensor->hi - tensor->lo);
}

static void
write_from(const char *bytes, const struct play_tensor *tensor)
{
    memory_write(player_allocation_needed(tensor), tensor->lo, bytes, tensor->hi - tensor->lo);
    memory_wait();
}

/* Whether turns add the tensor up: gradients, and with them, by gradients, statistics of batches. */
static bool
is_added_up(const struct play_tensor *tensor)
{
    return tensor->role == PLAY_GRADIENT || (tensor->role == PLAY_CHANGES && !player_is_by_state());
}

void
turns_begin(uint32_t period)
{
    uint32_t turn = period % player_world();
    if (held == NULL)
        held = scout_zeroed(player.play.plan.tensor_count, sizeof(*held));
    player_synchronize();
    FOR_EACH_THERE(tensor, allocation, turn == 0 && is_added_up(tensor))
        read_into(&held[NUMBER_OF(tensor)].begun, tensor);
    FOR_EACH_THERE(tensor, allocation, tensor->role == PLAY_PER_RANK) {
        struct held *of = &held[NUMBER_OF(tensor)];
        if (of->own == NULL)
            of->own = scout_zeroed(player_world(), sizeof(*of->own));
        for (uint32_t rank = 0; rank < player_world(); ++rank) {
            if (of->own[rank] == NULL)
                read_into(&of->own[rank], tensor);
        }
        write_from(of->own[turn], tensor);
    }
}

void
turns_end(uint32_t period)
{
    player_synchronize();
    FOR_EACH_THERE(tensor, allocation, tensor->role == PLAY_PER_RANK) {
        char **own = held[NUMBER_OF(tensor)].own;
        if (own != NULL)
            read_into(&own[period % player_world()], tensor);
    }
}

/* ---- what all ranks make beside their batches ---- */

bool
turns_may_share(const struct operation *operation)
{
    return operation->function == NULL && !operation->opaque && operation->operand_count > 0 &&
           ALL(it, operation->operands, operation->operand_count,
               operand_is_target(it) != allocations_is_host(it->address) && operand_rows(it) == 1);
}

/* Of the bytes of a tensor that the operation has written, each rank gets what they are now. */
static void
share_bytes(const struct held *of, const struct play_tensor *tensor, const struct allocation *allocation,
            const struct operand *operand)
{
    const uint64_t begin = allocation->address + tensor->lo, end = allocation->address + tensor->hi;
    const uint64_t lo = operand->address > begin ? operand->address : begin;
    const uint64_t hi = operand->address + operand->bytes < end ? operand->address + operand->bytes : end;
    char *now = NULL;
    if (lo >= hi)
        return;
    player_synchronize();
    read_into(&now, tensor);
    for (uint32_t rank = 0; rank < player_world(); ++rank)
        memcpy(of->own[rank] + (lo - begin), now + (lo - begin), hi - lo);
    free(now);
}

void
turns_share(const struct operation *operation)
{
    if (held == NULL || !turns_may_share(operation))
        return;
    FOR_EACH_THERE(tensor, allocation, held[NUMBER_OF(tensor)].own != NULL) {
        FOR_EACH(operand, operation->operands, operation->operand_count) {
            if (operand_is_target(operand))
                share_bytes(&held[NUMBER_OF(tensor)], tensor, allocation, operand);
        }
    }
}

/* ---- whether turns have the same data ---- */

void
turns_compare(uint32_t turn, uint32_t tensor, double *values, size_t count)
{
    const uint32_t tensors = player.play.plan.tensor_count;
    bool is_known =
        element_size((int)player.play.tensors[tensor].type) >= sizeof(float); /* how 16 bits round, is not */
    if (first_values == NULL) {
        first_values = scout_zeroed(tensors, sizeof(*first_values));
        nearness = scout_zeroed(tensors, sizeof(*nearness));
    }
    if (turn == 0) {
        free(first_values[tensor]);
        first_values[tensor] = values;
        return;
    }
    nearness[tensor] = (struct nearness){0};
    for (size_t k = 0; k < count && first_values[tensor] != NULL; ++k)
        nearness_add(&nearness[tensor], first_values[tensor][k], values[k], is_known ? INFINITY : 0);
    free(values);
}

bool
turns_are_near(void)
{
    return nearness != NULL && nearness_holds(nearness, player.play.plan.tensor_count);
}

/* A gradient of this turn, as numbers. */
static void
compare_gradient(const char *now, uint32_t tensor, uint32_t turn)
{
    const struct play_tensor *it = &player.play.tensors[tensor];
    size_t count = (it->hi - it->lo) / element_size((int)it->type);
    double *values = scout_zeroed(count + 1, sizeof(*values));
    for (size_t k = 0; k < count; ++k)
        values[k] = element_get((int)it->type, now, k);
    turns_compare(turn, tensor, values, count);
}

/* A number that is rounded to the type. */
static double
rounded(int type, double value)
{
    char bytes[sizeof(double)];
    element_put(type, bytes, 0, value);
    return element_get(type, bytes, 0);
}

/* Adds what this turn has computed, as ranks do: each divides before, the sum is divided after. */
static void
add_up(struct held *of, uint32_t tensor, uint32_t turn)
{
    bool is_first = turn == 0, is_last = turn == player_world() - 1;
    static const ncclDataType_t types[] = {[ELEMENT_FLOAT32] = ncclFloat32,
                                           [ELEMENT_FLOAT64] = ncclFloat64,
                                           [ELEMENT_FLOAT16] = ncclFloat16,
                                           [ELEMENT_BFLOAT16] = NCCL_BFLOAT16};
    const struct wire_setting setting = {.divides = true, .world_size = (int)player_world()};
    const struct play_tensor *it = &player.play.tensors[tensor];
    const int type = (int)it->type, sent = wire_widens(&setting, types[type]) ? ELEMENT_FLOAT32 : type;
    const size_t count = (it->hi - it->lo) / element_size(type);
    const struct wire_mean mean = wire_mean(&setting, types[sent]);
    char *now = NULL;
    read_into(&now, it);
    turn_hash = XXH3_64bits_withSeed(now, it->hi - it->lo, turn_hash);
    any_computed = any_computed || ANY_NUMBER(at, 0, it->hi - it->lo, now[at] != 0);
    if (!any_differed && it->role == PLAY_GRADIENT)
        compare_gradient(now, tensor, turn);
    if (of->sum == NULL)
        of->sum = player_room(count * element_size(sent));
    if (of->begun == NULL) /* it was made in this round */
        of->begun = player_room(it->hi - it->lo);
    for (size_t k = 0; k < count; ++k) {
        double sum = rounded(sent, element_get(type, now, k) / mean.before);
        if (!is_first)
            sum = rounded(sent, sum + element_get(sent, of->sum, k));
        element_put(sent, of->sum, k, sum);
        element_put(type, now, k, rounded(sent, sum / mean.after));
    }
    write_from(is_last ? now : of->begun, it);
    free(now);
}

void
turns_add_up(uint64_t period)
{
    uint32_t turn = (uint32_t)(period % player_world());
    player_synchronize();
    turn_hash = 0;
    FOR_EACH_THERE(tensor, allocation, is_added_up(tensor))
        add_up(&held[NUMBER_OF(tensor)], NUMBER_OF(tensor), turn);
    first_hash = turn == 0 ? turn_hash : first_hash;
    bool is_same = turn_hash == first_hash;
    any_differed = any_differed || (!is_same && !turns_are_near());
    any_rounded = any_rounded || !is_same;
}

/* ---- reports of proofs ---- */

/* What a tensor of four bytes holds, as a whole number; else 0. */
static int32_t
whole_of(const struct play_tensor *tensor)
{
    const struct allocation *allocation = player_allocation(tensor);
    int32_t whole = 0;
    if (allocation != NULL && tensor->hi - tensor->lo == sizeof(whole))
        memory_read(allocation, tensor->lo, &whole, sizeof(whole));
    return whole;
}

/* Hashes all tensors as they are after so many rounds. */
static void
hash_tensors(uint32_t rounds)
{
    struct play_plan *plan = &player.play.plan;
    player_synchronize();
    for (uint32_t i = 0; i < plan->tensor_count; ++i) {
        const struct play_tensor *tensor = &player.play.tensors[i];
        uint64_t hash = player_hash(tensor);
        struct near_apart apart = {0};
        const int32_t whole = whole_of(tensor);
        const bool is_own = held != NULL && held[i].own != NULL && rounds > 0;
        char *newest = NULL; /* the host may read it before the next period begins */
        if (is_own)
            read_into(&newest, tensor);
        for (uint32_t page = 0; page < player.page_count; ++page) {
            uint32_t rank = player.page_count > 1 ? page : player.rank;
            if (is_own) { /* the next period begins with its own */
                write_from(held[i].own[rank], tensor);
                hash = player_hash(tensor);
            }
            if (is_own || page == 0)
                apart = begun_meet(i, rank, rounds, is_own ? held[i].own[rank] : NULL);
            *play_seen(plan, player.pages[page], rounds, i) = (struct play_seen){hash, apart, whole};
        }
        if (is_own)
            write_from(newest, tensor);
        free(newest);
    }
}

void
turns_report(uint32_t rounds)
{
    if (player.play.plan.data >= PLAY_TRAINING || rounds_are_timed())
        return;
    if (rounds == 0)
        player_set_stage(PLAY_RUNNING);
    if (rounds >= ROUNDS_OF_ALARM && player_world() > 1 && any_computed && !any_differed)
        scout_stop("in %u rounds all ranks had the same gradients%s. Usual cause: each batch is the whole data, so "
                   "more ranks gain nothing",
                   rounds, any_rounded ? ", but for the rounding of sums" : "");
    hash_tensors(rounds);
    player_set_steps(rounds);
    if (rounds == player.play.plan.steps && player.play.plan.is_timed)
        rounds_begin();
    else if (rounds == player.play.plan.steps)
        player_wait_for_end(PLAY_OVER);
}
