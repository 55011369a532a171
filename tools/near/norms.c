/* norms.c - see norms.h. */
#include "tools/near/norms.h"

#include "tools/near/element.h"

#include <stdbool.h>

void
norms_begin(struct norms *norms, size_t count)
{
    *norms = (struct norms){.block_elements = count > 0 ? (count + NORM_BLOCKS - 1) / NORM_BLOCKS : 1};
}

enum { CHUNK = 512 }; /* elements that are converted at a time */

/* The common type in a loop of its own, without a choice in it. */
static void
convert_elements(int type, const void *data, size_t first, size_t count, double *values)
{
    const char *bytes = (const char *)data + first * sizeof(float);
    if (type != ELEMENT_FLOAT32) {
        for (size_t i = 0; i < count; ++i)
            values[i] = element_get(type, data, first + i);
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        float single;
        memcpy(&single, bytes + i * sizeof(single), sizeof(single));
        values[i] = (double)single;
    }
}

/* Whether sums of squares are finite, as they are of finite floats: x - x is 0 of those, and NaN of others. */
static bool
are_finite(const double *lanes)
{
    double sum = 0;
    for (size_t lane = 0; lane < NORM_LANES; ++lane)
        sum += lanes[lane] - lanes[lane];
    return sum == 0;
}

/* Counts what is infinite or NaN, and puts zeros in its place. */
static void
take_out_unbounded(struct norms *norms, double *mine, double *theirs, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (isfinite(mine[i]) && isfinite(theirs[i]))
            continue;
        bool alike = (isnan(mine[i]) && isnan(theirs[i])) || mine[i] == theirs[i];
        norms->endless += !isfinite(theirs[i]);
        norms->unlike += !alike && !isfinite(mine[i]) && !isfinite(theirs[i]);
        if (!alike && norms->unbounded++ == 0)
            norms->unbounded_first = norms->added + i;
        mine[i] = theirs[i] = 0;
    }
}

static inline void
add_one(struct norm_lanes *lanes, size_t lane, double mine, double theirs)
{
    double difference = mine - theirs;
    lanes->difference[lane] += difference * difference;
    lanes->reference[lane] += theirs * theirs;
    lanes->own[lane] += mine * mine;
    lanes->product[lane] += mine * theirs;
}

/* The elements' lanes follow from their places in the block: the sums do not depend on how many are added at a time. */
static struct norm_lanes
add_to_lanes(struct norm_lanes lanes, size_t place, const double *mine, const double *theirs, size_t count)
{
    size_t i = 0;
    for (; i < count && (place + i) % NORM_LANES != 0; ++i)
        add_one(&lanes, (place + i) % NORM_LANES, mine[i], theirs[i]);
    for (; i + NORM_LANES <= count; i += NORM_LANES) {
        for (size_t lane = 0; lane < NORM_LANES; ++lane)
            add_one(&lanes, lane, mine[i + lane], theirs[i + lane]);
    }
    for (size_t lane = 0; i < count; ++i, ++lane)
        add_one(&lanes, lane, mine[i], theirs[i]);
    return lanes;
}

/* The block that has begun ends. */
static void
close_block(struct norms *norms)
{
    size_t block = (norms->added - 1) / norms->block_elements;
    for (size_t lane = 0; lane < NORM_LANES; ++lane) {
        norms->difference[block] += norms->lanes.difference[lane];
        norms->reference[block] += norms->lanes.reference[lane];
        norms->own += norms->lanes.own[lane];
        norms->product += norms->lanes.product[lane];
    }
    norms->lanes = (struct norm_lanes){0};
}

void
norms_add(struct norms *norms, int type, const void *own, const void *reference, size_t count)
{
    double mine[CHUNK], theirs[CHUNK];
    for (size_t done = 0; done < count;) {
        size_t place = norms->added % norms->block_elements, here = norms->block_elements - place;
        here = count - done < here ? count - done : here;
        here = here < CHUNK ? here : CHUNK;
        convert_elements(type, own, done, here, mine);
        convert_elements(type, reference, done, here, theirs);
        struct norm_lanes lanes = add_to_lanes(norms->lanes, place, mine, theirs, here);
        if (!are_finite(lanes.own) || !are_finite(lanes.reference)) {
            take_out_unbounded(norms, mine, theirs, here);
            lanes = add_to_lanes(norms->lanes, place, mine, theirs, here);
        }
        norms->lanes = lanes;
        norms->added += here;
        done += here;
        if (norms->added % norms->block_elements == 0)
            close_block(norms);
    }
}

static size_t
elements_of(const struct norms *norms, size_t block)
{
    size_t first = block * norms->block_elements;
    return first + norms->block_elements <= norms->added ? norms->block_elements : norms->added - first;
}

/* A distance over its scale; over nothing, it is infinite. */
static double
relative_of(double far, double scale)
{
    if (scale > 0)
        return far / scale;
    return far > 0 ? INFINITY : 0;
}

struct check_norms
norms_end(const struct norms *unfinished)
{
    struct norms closed = *unfinished;
    const struct norms *norms = &closed;
    if (closed.added % closed.block_elements != 0)
        close_block(&closed);
    struct check_norms result = {.own = sqrt(norms->own),
                                 .product = norms->product,
                                 .unbounded = norms->unbounded,
                                 .unlike = norms->unlike,
                                 .endless = norms->endless};
    size_t blocks = (norms->added + norms->block_elements - 1) / norms->block_elements;
    double difference = 0, reference = 0, worst = -1;
    for (size_t i = 0; i < blocks; ++i) {
        difference += norms->difference[i];
        reference += norms->reference[i];
    }
    for (size_t i = 0; i < blocks; ++i) {
        double share = reference * (double)elements_of(norms, i) / (double)norms->added;
        double scale = sqrt(fmax(norms->reference[i], share)), far = sqrt(norms->difference[i]);
        double relative = relative_of(far, scale);
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
