/* nearness.c - see nearness.h. */
#include "comm/nearness.h"

#include <math.h>

static const double between_steps = 1.0 / 16; /* nearer than two steps are */
static const double telling = 1e-4;           /* of the greatest tensor's mean magnitude */

void
nearness_add(struct nearness *nearness, double mine, double theirs, double change)
{
    double size = fmax(fabs(mine), fabs(theirs)), difference = fabs(mine - theirs);
    ++nearness->count;
    nearness->size += size;
    if (difference <= NEARNESS_UNITS * 0x1p-24 * size && difference <= between_steps * change)
        nearness->near += difference > 0;
    else
        ++nearness->apart;
}

bool
nearness_holds(const struct nearness *tensors, size_t count)
{
    double greatest = 0;
    size_t near = 0;
    for (size_t i = 0; i < count; ++i)
        greatest = fmax(greatest, tensors[i].size / (double)(tensors[i].count > 0 ? tensors[i].count : 1));
    for (size_t i = 0; i < count; ++i) {
        const struct nearness *it = &tensors[i];
        if (it->size < telling * greatest * (double)it->count)
            continue;
        near += it->near;
        if (3 * it->apart > it->near)
            return false;
    }
    return near > 0;
}
