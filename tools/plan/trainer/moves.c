/*
 * moves.c - see player.h: data that lies on the device from the start, of which a step gets another part each time, by
 * a pointer, by a number, or by a copy from there. Rank 1 gets the part of the step before.
 *
 * A launch's parameters are the caller's: they hold other values for the time of the call.
 */
#include "tools/plan/trainer/player.h"

#include <stdlib.h>
#include <string.h>

enum { MOVED_BYTES = 512 };

/* What an operation gets, in this period and in the one before: a launch its parameters, a copy where it begins and
 * where it goes. */
static struct moved {
    char now[MOVED_BYTES], before[MOVED_BYTES];
} * moved; /* [operation_count of the plan] */

/* What this thread's operation has got that is of the step before; NULL: nothing. */
static __thread const struct moved *given __attribute__((tls_model("initial-exec")));
static __thread uint32_t given_at __attribute__((tls_model("initial-exec")));
static __thread void *const *given_parameters __attribute__((tls_model("initial-exec")));
static __thread const struct kernel *given_kernel __attribute__((tls_model("initial-exec")));

static bool
is_address(const char *value)
{
    uint64_t word;
    memcpy(&word, value, sizeof(word));
    return allocations_find(word) != NULL;
}

/* Whether a parameter says where, or by which number, a launch reads what is only read. */
static bool
is_moving(const struct kernel_parameter *parameter, unsigned slot)
{
    const struct play_operation *known = &player.play.operations[given_at];
    const char *now = given->now + parameter->offset, *before = given->before + parameter->offset;
    if (known->moves == PLAY_MOVES_POINTERS)
        return slot < 64 && (known->slots >> slot & 1) != 0;
    return memcmp(now, before, parameter->bytes) != 0 &&
           (parameter->bytes == sizeof(uint32_t) ||
            (parameter->bytes == sizeof(uint64_t) && !is_address(now) && !is_address(before)));
}

static void
put_parameters(bool before)
{
    for (unsigned i = 0; i < given_kernel->parameter_count; ++i) {
        const struct kernel_parameter *parameter = &given_kernel->parameters[i];
        if (is_moving(parameter, i))
            memcpy(given_parameters[i], (before ? given->before : given->now) + parameter->offset, parameter->bytes);
    }
}

void
moves_keep(uint32_t index, const struct operation *operation)
{
    const struct kernel *kernel = operation->function != NULL ? kernels_find(operation->function) : NULL;
    if (moved == NULL)
        moved = calloc(player.play.plan.operation_count + 1, sizeof(*moved));
    if (moved == NULL)
        player_refuse("no memory");
    struct moved *values = &moved[index];
    memcpy(values->before, values->now, sizeof(values->now));
    for (unsigned i = 0; kernel != NULL && i < kernel->parameter_count; ++i) {
        const struct kernel_parameter *parameter = &kernel->parameters[i];
        if (operation->params == NULL || parameter->offset + parameter->bytes > MOVED_BYTES)
            player_refuse("the arguments of %s, which say where data lies, cannot be changed", kernel->plain);
        memcpy(values->now + parameter->offset, operation->params[i], parameter->bytes);
    }
    for (unsigned i = 0; kernel == NULL && i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        bool is_target = (operand->argument & ((1u << OPERAND_LIST_SHIFT) - 1)) == 0;
        memcpy(values->now + (is_target ? sizeof(operand->address) : 0), &operand->address, sizeof(operand->address));
    }
}

void
moves_begin(uint32_t index, const struct operation *operation)
{
    given = &moved[index];
    given_at = index;
    given_kernel = operation->function != NULL ? kernels_find(operation->function) : NULL;
    given_parameters = operation->params;
    if (given_kernel != NULL)
        put_parameters(true);
}

void
moves_end(const struct operation *operation)
{
    CUdeviceptr from, to;
    if (given == NULL)
        return;
    if (given_kernel != NULL) {
        put_parameters(false);
    } else if (operation != NULL) { /* the same copy, from where it began */
        memcpy(&from, given->before, sizeof(from));
        memcpy(&to, given->now + sizeof(from), sizeof(to));
        scout_require(scout_state.driver.cuMemcpyDtoDAsync_p(to, from, operation->operands[0].bytes, operation->stream),
                      "cuMemcpyDtoD");
        scout_require(scout_state.driver.cuStreamSynchronize_p(operation->stream), "cuMemcpyDtoD");
    }
    given = NULL;
}
