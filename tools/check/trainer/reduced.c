/*
 * reduced.c - what DDP_REDUCE finds, in a run of `ddprun check`: compared with one rank's, call by call (check.h).
 *
 * A call is known by its line and by its number among the calls there in the step, so that calls which only several
 * ranks make do not shift the others: they are not compared, nor are those of another count, which may be the number of
 * ranks. Where steps begin from the reference a result that is the reference's, or N times or the Nth part of it, is
 * set to that multiple of the reference's bytes; any other stays, for it may be a number that has to depend on the
 * ranks. Called by course.c.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/each.h"
#include "tools/near/element.h"

_Static_assert((int)CHECK_OP_MEAN == (int)DDP_OP_MEAN && (int)CHECK_OP_MIN == (int)DDP_OP_MIN &&
                   (int)CHECK_OP_MAX == (int)DDP_OP_MAX,
               "run.h");

/* A call: its number in the reference is its place in the list. */
struct call {
    struct check_tensor tensor;
    uint32_t step; /* in which it was made last; 0: in none */
};

static struct {
    struct call *list;
    size_t count;
    bool is_read; /* from the reference */
} calls;

/* Adds a call of DDP_REDUCE, which has not come in this step yet. */
static struct call *
add_call(const struct check_tensor *tensor)
{
    calls.list = values_room(calls.list, (calls.count + 1) * sizeof(*calls.list));
    calls.list[calls.count] = (struct call){.tensor = *tensor};
    return &calls.list[calls.count++];
}

static struct reference_key
key_of(size_t number)
{
    return (struct reference_key){.kind = REFERENCE_TENSOR, .role = CHECK_REDUCE, .number = (uint32_t)number};
}

/* Reads, once, which calls of DDP_REDUCE the reference has. */
static void
read_calls(void)
{
    struct check_tensor tensor;
    struct reference_key key = key_of(0);
    if (values_reader() == NULL || calls.is_read)
        return;
    calls.is_read = true;
    for (; values_get(&key, &tensor, sizeof(tensor)); ++key.number)
        (void)add_call(&tensor);
}

/* The call's result as a row describes it; its `group` is the operation (DDP_OP_...). */
static struct check_tensor
describe_reduced(const struct tensor *memory, int op)
{
    struct check_row row;
    compare_describe(memory, CHECK_ROW_TENSOR, 0, &row);
    row.tensor.role = CHECK_REDUCE;
    row.tensor.group = (uint32_t)op;
    return row.tensor;
}

static bool
is_at(const struct call *call, const struct check_tensor *described)
{
    return call->tensor.line == described->line && strcmp(call->tensor.text, described->text) == 0 &&
           strcmp(call->tensor.file, described->file) == 0;
}

/* The call that is made now, in this step; NULL: one rank does not make it. */
static struct call *
find_call(const struct check_tensor *described, uint32_t step)
{
    uint32_t before = 0;
    read_calls();
    FOR_EACH(call, calls.list, calls.count)
        before += is_at(call, described) && call->step == step;
    struct call *known = FIND(call, calls.list, calls.count, is_at(call, described) && call->tensor.argument == before);
    if (known != NULL || values_writer() == NULL)
        return known;
    struct check_tensor tensor = *described;
    tensor.number = (uint32_t)calls.count;
    tensor.argument = before;
    struct reference_key key = key_of(calls.count);
    values_put(&key, &tensor, sizeof(tensor));
    return add_call(&tensor);
}

bool
reduced_repeats(const struct ddp_site *site, uint32_t step)
{
    struct check_tensor described = describe_reduced(&(struct tensor){.site = *site}, 0);
    read_calls();
    return ANY(call, calls.list, calls.count, call->step == step && is_at(call, &described));
}

void
reduced_restart(void)
{
    calls.count = 0;
}

/* How many times the reference's the result is: 1, N or 1 / N; 0: it is something else. */
static double
find_factor(const struct check_norms *norms)
{
    static const double same = 0.01; /* relative */
    double ranks = (double)engine_state.rendezvous.world_size;
    const double factors[] = {1, ranks, 1 / ranks};
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]) && norms->unbounded == 0; ++i) {
        if (norms_apart(norms, factors[i]) <= same * factors[i] * norms->reference)
            return factors[i];
    }
    return 0;
}

/* Every element becomes another one: no common factor may undo it. */
static void
change_elements(const struct tensor *memory, uint32_t number)
{
    size_t each = type_bytes(memory->type);
    bool is_integer = memory->type > DDP_BFLOAT16;
    for (size_t at = 0; at < memory->bytes; at += VALUES_PIECE_BYTES) {
        size_t here = memory->bytes - at < VALUES_PIECE_BYTES ? memory->bytes - at : VALUES_PIECE_BYTES;
        values_tensor_out(values_piece, memory, at, here);
        for (size_t i = 0; i < here / each; ++i) {
            uint64_t random = element_scramble((at / each + i) ^ (uint64_t)number << 40) % 1024;
            double more = 1 + (double)random / 1024, value = element_get(memory->type, values_piece, i);
            element_put(memory->type, values_piece, i, is_integer ? rint(value * (1 + more / 2)) + 1 : value * more);
        }
        values_tensor_in(memory, at, values_piece, here);
    }
}

void
reduced_look(const struct tensor *memory, int op, uint32_t step, bool in_rounds)
{
    struct check_tensor described = describe_reduced(memory, op);
    struct call *call = find_call(&described, step);
    if (call == NULL)
        return;
    call->step = step;
    if (check_run.look > 0)
        look_reduce_ends(call->tensor.number, step);
    struct check_row row = {.kind = CHECK_ROW_TENSOR, .tensor = call->tensor};
    if (described.count != call->tensor.count || described.type != call->tensor.type ||
        !compare_described(memory, &(struct compare_at){.step = step}, &row))
        return;
    double factor = row.same_bits ? 1 : find_factor(&row.norms);
    bool starts_nearby = check_run.perturbed && in_rounds, is_free = values_reader()->header.is_free;
    if (factor > 0 && (check_run.forced || (starts_nearby && !is_free)) && !(row.same_bits && factor == 1))
        compare_set(memory, &call->tensor, step, factor);
    if (starts_nearby) /* as far as other ranks' sums are rounded otherwise, in each round */
        values_perturb(memory, true);
    bool is_agreed = op == DDP_OP_MIN || op == DDP_OP_MAX; /* on a number of items, for instance: not beyond it */
    if (in_rounds && check_run.factor > 0 && step == 1 && !is_agreed)
        change_elements(memory, call->tensor.number);
}
