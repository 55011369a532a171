/*
 * begun.c - see player.h: of what has noise, how far a run is from another one behind steps that begin with the same
 * bytes. The other run has written them to a file; so noise does not grow from step to step.
 */
#include "tools/check/format/element.h"
#include "tools/common/direct.h"
#include "tools/plan/trainer/player.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 8 }; /* in the last place: rounding of single elements */

static int file = -1;

static uint64_t
bytes_of(const struct play_tensor *tensor)
{
    return tensor->hi - tensor->lo;
}

/* How often a tensor stands in the file at each step: once, or for each rank that has its own. */
static uint64_t
copies_of(const struct play_tensor *tensor)
{
    return tensor->noise == 0 ? 0 : tensor->role == PLAY_PER_RANK ? player_world() : 1;
}

/* The place in the file of a tensor behind a step. */
static off_t
place_of(uint32_t number, uint32_t rank, uint32_t step)
{
    const struct play_tensor *all = player.play.tensors;
    uint64_t each = 0, at = 0;
    for (uint32_t i = 0; i < player.play.plan.tensor_count; ++i) {
        at += i < number ? copies_of(&all[i]) * bytes_of(&all[i]) : 0;
        each += copies_of(&all[i]) * bytes_of(&all[i]);
    }
    return (off_t)(step * each + at +
                   (all[number].role == PLAY_PER_RANK && step > 0 ? rank : 0) * bytes_of(&all[number]));
}

static char *
content_of(uint32_t number, uint32_t rank, uint32_t step)
{
    uint64_t bytes = bytes_of(&player.play.tensors[number]);
    char *content = scout_zeroed(bytes, 1);
    if (!direct_read(file, content, bytes, place_of(number, rank, step)))
        player_refuse("what another run has kept of %s cannot be read", player.named[number].text);
    return content;
}

/* As what its bytes are compared: of bytes that have no type, and of histories, as floats. */
static int
type_of(const struct play_tensor *tensor)
{
    bool is_open = tensor->type == 0 || tensor->type == ELEMENT_UINT32;
    bool is_whole = (tensor->lo | tensor->hi) % sizeof(float) != 0;
    return !is_open ? (int)tensor->type : is_whole ? ELEMENT_UINT8 : ELEMENT_FLOAT32;
}

static struct play_apart
find_apart(const struct play_tensor *tensor, const char *now, const char *other, const char *before)
{
    int type = type_of(tensor);
    const size_t size = element_size(type), count = bytes_of(tensor) / size;
    double sum = 0, moved = 0, largest = 0, worst = 0;
    for (size_t k = 0; k < count; ++k) {
        double value = element_get(type, other, k),
               change = before != NULL ? value - element_get(type, before, k) : value;
        moved += isfinite(change) ? fabs(change) : 0;
        largest = isfinite(value) ? fmax(largest, fabs(value)) : largest;
    }
    for (size_t k = 0; k < count; ++k) {
        if (memcmp(now + k * size, other + k * size, size) == 0)
            continue;
        double value = element_get(type, other, k),
               change = before != NULL ? value - element_get(type, before, k) : value;
        double apart = fabs(element_get(type, now, k) - value), rest = apart - UNITS * element_unit(type, value);
        sum += isfinite(apart) ? apart : INFINITY;
        worst = rest > 0 || !isfinite(rest) ? fmax(worst, rest / (fabs(change) + moved / (double)count)) : worst;
    }
    sum -= UNITS * element_unit(type, largest);
    return (struct play_apart){.sum = sum > 0 ? sum / moved : 0, .element = isnan(worst) ? INFINITY : worst};
}

/* What a sum holds on purpose is not its own. */
static bool
is_exchanged(const struct play_tensor *tensor)
{
    return player.play.plan.data == PLAY_SUMS_EXCHANGED && tensor->role == PLAY_SUM;
}

struct play_apart
begun_meet(uint32_t number, uint32_t rank, uint32_t step, char *own)
{
    const struct play_plan *plan = &player.play.plan;
    const struct play_tensor *tensor = &player.play.tensors[number];
    const struct allocation *allocation = player_allocation(tensor);
    struct play_apart apart = {0};
    if (tensor->noise == 0 || plan->begun == PLAY_BEGINS_ITSELF || allocation == NULL)
        return apart;
    if (file < 0)
        file = open_direct(
            plan->begun_path,
            O_CLOEXEC | O_NOFOLLOW | (plan->begun == PLAY_KEEPS_BEGUN ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY), 0600);
    char *now = scout_zeroed(bytes_of(tensor), 1);
    memory_read(allocation, tensor->lo, now, bytes_of(tensor));
    if (plan->begun == PLAY_KEEPS_BEGUN) {
        if (!direct_write(file, now, bytes_of(tensor), place_of(number, rank, step)))
            player_refuse("there is no room in %s for what proofs keep of %s", plan->begun_path,
                          player.named[number].text);
    } else {
        char *other = content_of(number, rank, step), *before = step > 0 ? content_of(number, rank, step - 1) : NULL;
        apart = find_apart(tensor, now, other, before);
        if (!is_exchanged(tensor)) {
            memory_write(allocation, tensor->lo, other, bytes_of(tensor));
            memory_wait();
        }
        if (own != NULL)
            memcpy(own, other, bytes_of(tensor));
        free(other);
        free(before);
    }
    free(now);
    return apart;
}
