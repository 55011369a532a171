/*
 * norms.c - see norms.h.
 */
#include "base/check/norms.h"

#include "base/check/element.h"

#include <math.h>
#include <stdbool.h>

void
norms_begin(struct norms *norms, size_t count)
{
    *norms = (struct norms){.block_elements = (count + NORM_BLOCKS - 1) / NORM_BLOCKS};
    if (norms->block_elements == 0)
        norms->block_elements = 1;
}

void
norms_add(struct norms *norms, int type, const void *own, const void *reference, size_t count)
{
    for (size_t i = 0; i < count; ++i, ++norms->at) {
        double mine = element_get(type, own, i), theirs = element_get(type, reference, i);
        if (!isfinite(mine) || !isfinite(theirs)) {
            bool alike = (isnan(mine) && isnan(theirs)) || mine == theirs;
            if (!alike && norms->unbounded++ == 0)
                norms->unbounded_first = norms->at;
            continue;
        }
        size_t block = norms->at / norms->block_elements;
        double difference = mine - theirs;
        norms->difference[block] += difference * difference;
        norms->reference[block] += theirs * theirs;
        norms->own += mine * mine;
        norms->product += mine * theirs;
    }
}

static size_t
elements_of(const struct norms *norms, size_t block)
{
    size_t first = block * norms->block_elements;
    return first + norms->block_elements <= norms->at ? norms->block_elements : norms->at - first;
}

struct norm_result
norms_end(const struct norms *norms)
{
    struct norm_result result = {.own = sqrt(norms->own), .product = norms->product, .unbounded = norms->unbounded};
    size_t blocks = (norms->at + norms->block_elements - 1) / norms->block_elements;
    double difference = 0, reference = 0, worst = -1;
    for (size_t i = 0; i < blocks; ++i) {
        difference += norms->difference[i];
        reference += norms->reference[i];
    }
    for (size_t i = 0; i < blocks; ++i) {
        double share = reference * (double)elements_of(norms, i) / (double)norms->at;
        double scale = sqrt(fmax(norms->reference[i], share)), far = sqrt(norms->difference[i]);
        double relative = scale > 0 ? far / scale : far > 0 ? INFINITY : 0;
        if (!(relative > worst))
            continue;
        worst = relative;
        result.block_first = i * norms->block_elements;
        result.block_count = elements_of(norms, i);
        result.block_difference = far;
        result.block_scale = scale;
    }
    if (norms->unbounded > 0) {
        result.block_first = norms->unbounded_first;
        result.block_count = norms->unbounded;
    }
    result.difference = sqrt(difference);
    result.reference = sqrt(reference);
    return result;
}
