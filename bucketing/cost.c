/*
 * cost.c - see cost.h.
 */
#include "bucketing/cost.h"

#include "base/assertion.h"

static const int64_t most_sample_ns = INT64_C(1800) * 1000 * 1000 * 1000; /* half an hour */

static bool
are_samples_valid(const struct cost_sample *samples, size_t count)
{
    if (count == 0 || count > COST_SEGMENTS_AT_MOST - 1)
        return false;
    for (size_t i = 0; i < count; ++i) {
        if (samples[i].ns <= 0 || samples[i].ns > most_sample_ns || samples[i].bytes == 0 ||
            (i > 0 && samples[i].bytes <= samples[i - 1].bytes))
            return false;
    }
    return true;
}

/* Whole femtoseconds per byte, rounded down: the jump that is left at the next segment only ever goes up. */
static int64_t
slope(uint64_t from_bytes, int64_t from_fs, uint64_t to_bytes, int64_t to_fs)
{
    return (to_fs - from_fs) / (int64_t)(to_bytes - from_bytes);
}

/* How the cost continues after the last of segments[]: as it rose since a quarter of its size, never flat. */
static int64_t
last_slope(const struct cost_segment *segments, size_t count)
{
    const struct cost_segment *last = &segments[count - 1];
    size_t from = count - 1;
    while (from > 0 && segments[from].bytes > last->bytes / 4)
        --from;
    int64_t rise =
        from < count - 1 ? slope(segments[from].bytes, segments[from].base_fs, last->bytes, last->base_fs) : 0;
    if (rise == 0 && last->bytes > 0) /* one size only, or noise: what one byte costs at most */
        rise = last->base_fs / (int64_t)last->bytes;
    return rise > 0 ? rise : 1;
}

static int64_t
at_most(__int128 fs)
{
    return fs > COST_MOST_FS ? COST_MOST_FS : (int64_t)fs;
}

static int64_t
within(const struct cost_segment *segment, uint64_t bytes)
{
    return at_most(segment->base_fs + (__int128)segment->fs_per_byte * (bytes - segment->bytes));
}

/* Neither within a segment, nor from its end to the beginning of the next one. */
static bool
never_decreases(const struct cost *cost)
{
    for (size_t i = 0; i < cost->count; ++i) {
        const struct cost_segment *segment = &cost->segments[i], *next = segment + 1;
        if (segment->fs_per_byte < 0 || (i + 1 < cost->count && within(segment, next->bytes) > next->base_fs))
            return false;
    }
    return true;
}

bool
cost_fit(const struct cost_sample *samples, size_t count, struct cost *cost_p)
{
    if (!are_samples_valid(samples, count))
        return false;

    struct cost cost = {.count = count + 1};
    int64_t least_fs = INT64_MAX;
    for (size_t i = count; i-- > 0;) {
        int64_t fs = samples[i].ns * COST_FS_PER_NS;
        least_fs = fs < least_fs ? fs : least_fs;
        cost.segments[i + 1] = (struct cost_segment){.bytes = samples[i].bytes, .base_fs = least_fs};
    }
    cost.segments[0].base_fs = least_fs;
    for (size_t i = 0; i < count; ++i) {
        struct cost_segment *segment = &cost.segments[i], *next = segment + 1;
        segment->fs_per_byte = slope(segment->bytes, segment->base_fs, next->bytes, next->base_fs);
    }
    cost.segments[cost.count - 1].fs_per_byte = last_slope(cost.segments, cost.count);
    ASSERT(never_decreases(&cost));
    *cost_p = cost;
    return true;
}

bool
cost_of_link(int64_t latency_ns, double bytes_per_us, struct cost *cost_p)
{
    double fs_per_byte = bytes_per_us > 0.0 ? 1e9 / bytes_per_us : 0.0;
    if (latency_ns < 0 || latency_ns > most_sample_ns || !(fs_per_byte > 0.0 && fs_per_byte < 1e15))
        return false;
    struct cost_segment only = {.base_fs = latency_ns * COST_FS_PER_NS, .fs_per_byte = (int64_t)(fs_per_byte + 0.5)};
    *cost_p = (struct cost){.count = 1, .segments = {only}};
    return true;
}

int64_t
cost_fs(const struct cost *cost, uint64_t bytes)
{
    ASSERT(cost->count > 0);
    size_t low = 0, high = cost->count; /* the last segment that begins at or before `bytes` */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (cost->segments[middle].bytes <= bytes)
            low = middle;
        else
            high = middle;
    }
    return within(&cost->segments[low], bytes);
}

int64_t
cost_envelope_fs(const struct cost *cost, uint64_t bytes)
{
    /* Within a segment T(y)/y has no minimum inside: only its ends count, the right one as it is just before a jump. */
    int64_t least = cost_fs(cost, bytes);
    for (size_t i = 1; i < cost->count && cost->segments[i].bytes <= bytes; ++i) {
        uint64_t size = cost->segments[i].bytes;
        int64_t before_jump = within(&cost->segments[i - 1], size);
        int64_t scaled = at_most((__int128)before_jump * bytes / size);
        if (scaled < least)
            least = scaled;
    }
    return least;
}
