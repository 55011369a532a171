/* apart.c - see play.h: how far two runs are from each other. */
#include "tools/check/format/element.h"
#include "tools/plan/format/play.h"

#include <math.h>

enum { UNITS = 8 }; /* in the last place: rounding of single elements */

/* As what its bytes are compared: of bytes that have no type, and of histories, as floats. */
static int
type_of(const struct play_tensor *tensor)
{
    bool is_open = tensor->type == 0 || tensor->type == ELEMENT_UINT32;
    bool is_whole = (tensor->lo | tensor->hi) % sizeof(float) != 0;
    return !is_open ? (int)tensor->type : is_whole ? ELEMENT_UINT8 : ELEMENT_FLOAT32;
}

struct play_apart
play_find_apart(const struct play_tensor *tensor, const char *now, const char *other, const char *before)
{
    int type = type_of(tensor);
    const size_t size = element_size(type), count = (tensor->hi - tensor->lo) / size;
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
        double apart = fabs(element_get(type, now, k) - value);
        apart = isfinite(apart) ? apart : INFINITY;
        double rest = apart - UNITS * element_unit(type, isfinite(value) ? value : 0);
        sum += apart;
        if (rest > 0)
            worst = fmax(worst, rest / (fabs(change) + moved / (double)count));
    }
    sum -= UNITS * element_unit(type, largest);
    return (struct play_apart){.sum = sum > 0 ? sum / moved : 0, .element = worst};
}
