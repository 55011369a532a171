/* change.c - see change.h. */
#include "tools/near/change.h"

#include "tools/near/element.h"

enum { CHUNK = 512 }; /* elements that are converted at a time */

void
change_begin(struct update_change *change, size_t count)
{
    *change = (struct update_change){.square = 0};
    norms_begin(&change->norms, count);
}

void
change_add(struct update_change *change, int type, double units, const void *own, const void *before, const void *after,
           size_t count)
{
    double mine[CHUNK], theirs[CHUNK];
    for (size_t first = 0; first < count; first += CHUNK) {
        size_t here = count - first < CHUNK ? count - first : CHUNK;
        for (size_t i = 0; i < here; ++i) {
            double now = element_get(type, own, first + i), end = element_get(type, after, first + i),
                   begin = element_get(type, before, first + i);
            double apart = now - end, unit = element_unit(type, end), slack = units * unit;
            theirs[i] = isfinite(begin) ? end - begin : end;
            mine[i] = now;
            if (!isfinite(apart) || !isfinite(theirs[i])) { /* norms.c counts what is infinite or NaN */
                theirs[i] = end;
                continue;
            }
            change->square += apart * apart;
            change->rounding += fabs(theirs[i]) * unit;
            change->unit = fmax(change->unit, unit);
            change->own += (theirs[i] + apart) * (theirs[i] + apart);
            change->product += (theirs[i] + apart) * theirs[i];
            mine[i] = theirs[i] + (fabs(apart) > slack ? apart - copysign(slack, apart) : 0);
        }
        norms_add(&change->norms, ELEMENT_FLOAT64, mine, theirs, here);
    }
}
