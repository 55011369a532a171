/*
 * images.c - what the memory of a launch held before it, after it, and holds now.
 *
 * `now` is always what the device holds, as far as it was read: so only what differs is written back. Memory that no
 * run writes, as changing it has shown, is read at the end only.
 *
 * What was read is compared once, and a flag for each block keeps what came of it: judging a run, and putting back what
 * was there before, pass over blocks that are as they were.
 */
#include "tools/scout/trainer/scout.h"

#include "tools/near/near.h"

#include <xxhash.h>

/* Repetitions may differ by this much of the largest number. */
static const float MOST_DIFFERENCE = 1e-2F;

/* What may be rounding: differences of at most NEAR of a number, but for FAR_AT_MOST words, which few changed words
 * make. */
static const float NEAR = 1e-4F;
enum { FAR_AT_MOST = 24 };

/* So large that all of it for each launch would be too much. */
enum { LARGE_BYTES = 1 << 24 };

enum { BLOCK_WORDS = 4096, BLOCK_BYTES = BLOCK_WORDS * sizeof(uint32_t) };

static size_t
block_bytes(const struct image *image, size_t block)
{
    size_t rest = image->allocation->bytes - block * BLOCK_BYTES;
    return rest < BLOCK_BYTES ? rest : BLOCK_BYTES;
}

static bool
block_is_equal(const struct image *image, size_t block, const uint32_t *a, const uint32_t *b)
{
    return memcmp(a + block * BLOCK_WORDS, b + block * BLOCK_WORDS, block_bytes(image, block)) == 0;
}

/* The blocks that are looked at, from *first_p on: up to the returned one; *first_p == blocks: there are none. */
static size_t
next_looked(const struct image *image, size_t *first_p)
{
    while (*first_p < image->blocks && !image->looked[*first_p])
        ++*first_p;
    size_t end = *first_p;
    while (end < image->blocks && image->looked[end])
        ++end;
    return end;
}

static size_t
bytes_of_image(const struct image *image, size_t first, size_t end)
{
    return (end - 1 - first) * BLOCK_BYTES + block_bytes(image, end - 1);
}

/* Of blocks [first, end), what the device holds: at the next memory_wait(). */
static void
fetch_blocks(const struct image *image, size_t first, size_t end, uint32_t *to)
{
    size_t bytes = bytes_of_image(image, first, end);
    if (image->is_large)
        memory_update(image->allocation, first * BLOCK_BYTES, to + first * BLOCK_WORDS, bytes);
    else
        memory_read_later(image->allocation, first * BLOCK_BYTES, to + first * BLOCK_WORDS, bytes);
}

/* Reads those parts of an image's memory that are looked at from the device to `to`. */
static void
fetch_image(const struct image *image, uint32_t *to)
{
    size_t first = 0, end;
    while ((end = next_looked(image, &first)) > first) {
        fetch_blocks(image, first, end, to);
        first = end;
    }
}

/* Whether no more of it than needed is copied. */
static bool
is_large(const struct allocation *allocation)
{
    return allocation->bytes >= LARGE_BYTES && allocation->memory == SCOUT_DEVICE;
}

uint64_t
images_bytes(const struct allocation *allocation)
{
    return (is_large(allocation) ? COPIES_LARGE_TIMES : COPIES_VIEWS) * allocation->bytes;
}

/* Takes room for three copies of `room` bytes: before, after the first run, and after the present one. False: there is
 * no room; those that were taken stay the image's. */
static bool
get_copies(struct image *image, size_t room)
{
    void *copies[COPIES_VIEWS] = {NULL};
    bool ok = !image->is_large || copies_get_views(room, copies);
    for (size_t i = 0; i < COPIES_VIEWS && !image->is_large; ++i)
        ok = (copies[i] = copies_get(room)) != NULL && ok;
    image->before = copies[0];
    image->after = copies[1];
    image->now = copies[2];
    return ok;
}

void
images_look(struct image *image, uint64_t lo, uint64_t hi)
{
    size_t to = (hi + BLOCK_BYTES - 1) / BLOCK_BYTES;
    for (size_t first = lo / BLOCK_BYTES, end; first < to; first = end) {
        for (end = first; end < to && !image->looked[end];)
            image->looked[end++] = true;
        if (end > first)
            fetch_blocks(image, first, end, image->before);
        else
            ++end;
    }
    memory_wait();
}

bool
images_add(struct images *images, struct allocation *allocation)
{
    if (images_find(images, allocation->number) != NULL)
        return true;
    size_t room = allocation->bytes + sizeof(uint32_t);
    struct image image = {.number = images->count,
                          .allocation = allocation,
                          .words = (allocation->bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t),
                          .last_mask = UINT32_MAX >> (0 - allocation->bytes) % sizeof(uint32_t) * CHAR_BIT,
                          .blocks = (allocation->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES,
                          .is_large = is_large(allocation)};
    bool has_copies = get_copies(&image, room);
    image.looked = scout_zeroed(image.blocks, sizeof(*image.looked));
    image.written = scout_zeroed(image.blocks, sizeof(*image.written));
    image.differs = scout_zeroed(image.blocks, sizeof(*image.differs));
    *SCOUT_GROWN(images->items, images->count) = image;
    if (!has_copies)
        return false;
    image.before[image.words - 1] = image.after[image.words - 1] = image.now[image.words - 1] = 0;
    if (!image.is_large)
        images_look(&image, 0, allocation->bytes);
    return true;
}

void
images_note_host(const struct images *images)
{
    FOR_EACH(image, images->items, images->count) {
        struct allocation *allocation = image->allocation;
        if (allocation->left_known && XXH3_64bits(image->before, allocation->bytes) != allocation->left)
            allocation->is_shared = true;
    }
}

void
images_note_left(const struct images *images)
{
    FOR_EACH(image, images->items, images->count) {
        struct allocation *allocation = image->allocation;
        allocation->left_known = allocation->memory == SCOUT_MANAGED;
        if (allocation->left_known)
            allocation->left = XXH3_64bits(image->after, allocation->bytes);
    }
}

struct image *
images_find(const struct images *images, uint32_t alloc)
{
    return FIND(image, images->items, images->count, image->allocation->number == alloc);
}

/* What the first run has written of blocks [first, end). */
static void
note_first_run(struct image *image, size_t first, size_t end)
{
    for (size_t block = first; block < end; ++block) {
        image->written[block] = !block_is_equal(image, block, image->before, image->after);
        image->is_written = image->is_written || image->written[block];
    }
    const size_t words = end < image->blocks ? (end - first) * BLOCK_WORDS : image->words - first * BLOCK_WORDS;
    image->allocation->held_floats =
        image->allocation->held_floats || change_looks_like_floats(image->after + first * BLOCK_WORDS, words);
}

const struct allocation *
images_first_run(struct images *images)
{
    const struct allocation *of_host = NULL;
    FOR_EACH(image, images->items, images->count)
        fetch_image(image, image->after);
    memory_wait();
    FOR_EACH_MUTABLE(image, images->items, images->count) {
        size_t first = 0, end;
        while ((end = next_looked(image, &first)) > first) {
            note_first_run(image, first, end);
            first = end;
        }
        image->is_read = true;
        if (of_host == NULL && image->is_written && image->allocation->memory == SCOUT_PINNED)
            of_host = image->allocation;
    }
    return of_host;
}

/* Whether runs leave the memory as it is put there, so that `now` need not be read. */
static bool
is_passed_over(const struct image *image)
{
    return !image->is_written && image->is_settled;
}

static bool
is_wanted(const struct image *image, bool all)
{
    return !image->is_read && (all || !is_passed_over(image));
}

void
images_read(struct images *images, bool all, bool again)
{
    FOR_EACH_MUTABLE(image, images->items, images->count) {
        image->is_read = image->is_read && !again;
        if (is_wanted(image, all))
            fetch_image(image, image->now);
    }
    memory_wait();
    FOR_EACH_MUTABLE(image, images->items, images->count) {
        if (!is_wanted(image, all))
            continue;
        for (size_t block = 0; block < image->blocks; ++block)
            image->differs[block] = image->looked[block] && !block_is_equal(image, block, image->now, image->after);
        image->is_read = image->is_known = true;
    }
}

void
images_restore(struct images *images, bool after)
{
    FOR_EACH_MUTABLE(image, images->items, images->count) {
        const uint32_t *wanted = after ? image->after : image->before;
        bool knows = image->is_known;
        for (size_t block = 0, end; block < image->blocks; block = end + 1) {
            /* what the device may hold something else in */
            for (end = block; end < image->blocks && (image->differs[end] || (!after && image->written[end])) &&
                              !(image->is_known && block_is_equal(image, end, image->now, wanted));)
                ++end;
            if (end == block)
                continue;
            size_t first = block * BLOCK_WORDS;
            size_t bytes = bytes_of_image(image, block, end);
            if (is_passed_over(image))
                memcpy(image->now + first, wanted + first, bytes);
            else
                knows = false; /* it is read after the next run */
            memory_write(image->allocation, first * sizeof(uint32_t), wanted + first, bytes);
        }
        image->is_known = knows;
        for (size_t block = 0; block < image->blocks; ++block)
            image->differs[block] = !after && image->written[block];
    }
}

void
images_change(struct image *image, size_t first, size_t end)
{
    size_t limit = image->allocation->bytes;
    size_t bytes = (end * sizeof(uint32_t) < limit ? end * sizeof(uint32_t) : limit) - first * sizeof(uint32_t);
    memory_write(image->allocation, first * sizeof(uint32_t), image->now + first, bytes);
    for (size_t block = first / BLOCK_WORDS; block * BLOCK_WORDS < end; ++block)
        image->differs[block] = true;
}

/* The first word of [from, to) in which two images differ; `to`: there is none. */
static size_t
first_difference(const uint32_t *a, const uint32_t *b, size_t from, size_t to)
{
    if (memcmp(a + from, b + from, (to - from) * sizeof(*a)) == 0)
        return to;
    while (a[from] == b[from])
        ++from;
    return from;
}

/* The first word of [from, to) in which a and b differ, in blocks of words that are marked; `to`: there is none. */
static size_t
first_marked(const bool *marked, const uint32_t *a, const uint32_t *b, size_t from, size_t to)
{
    while (from < to) {
        size_t block = from / BLOCK_WORDS, end = (block + 1) * BLOCK_WORDS < to ? (block + 1) * BLOCK_WORDS : to;
        from = marked[block] ? first_difference(a, b, from, end) : end;
        if (from < end)
            break;
    }
    return from;
}

size_t
images_next_different(const struct image *image, size_t from, size_t to)
{
    return first_marked(image->differs, image->now, image->after, from, to);
}

size_t
images_next_written(const struct image *image, size_t from, size_t to)
{
    return first_marked(image->written, image->before, image->after, from, to);
}

void
images_free(struct images *images)
{
    FOR_EACH(image, images->items, images->count) {
        for (size_t k = 0; k < COPIES_VIEWS && !image->is_large; ++k)
            copies_put((void *[]){image->before, image->after, image->now}[k]);
        free(image->looked);
        free(image->written);
        free(image->differs);
    }
    copies_settle();
    free(images->items);
    *images = (struct images){0};
}

/* By how much the words of an image differ from those of the first run, up to the one after `most_far`. */
struct apart {
    float most, largest;
    size_t near, far; /* words, by NEAR */
};

/* How far two runs' results of an image are apart, as floats: the largest difference, and how many words are near or
 * far. Stops when more than `most_far` are far. */
static struct apart
find_apart(const struct image *image, size_t most_far)
{
    struct apart apart = {0};
    size_t k = images_next_different(image, 0, image->words);
    for (; k < image->words && apart.far <= most_far; k = images_next_different(image, k + 1, image->words)) {
        float of = fabsf(element_from_bits(image->after[k]));
        float difference = fabsf(element_from_bits(image->now[k]) - element_from_bits(image->after[k]));
        apart.most = isfinite(difference) ? fmaxf(apart.most, difference) : INFINITY;
        apart.largest = fmaxf(apart.largest, of);
        apart.near += difference <= NEAR * of;
        apart.far += !(difference <= NEAR * of);
    }
    return apart;
}

void
images_widen(struct images *images)
{
    FOR_EACH_MUTABLE(image, images->items, images->count) {
        float largest = 0;
        const size_t end = image->allocation->held_floats ? image->words : 0;
        for (size_t k = images_next_written(image, 0, end); k < end; k = images_next_written(image, k + 1, end)) {
            float size = fabsf(element_from_bits(image->after[k]));
            largest = isfinite(size) ? fmaxf(largest, size) : largest;
        }
        image->tolerance = fmaxf(image->tolerance, (float)near_noise(0, largest));
    }
}

bool
images_learn(struct images *images, bool *differs_p)
{
    bool within = true;
    FOR_EACH_MUTABLE(image, images->items, images->count) {
        struct apart apart = find_apart(image, SIZE_MAX);
        bool differs = apart.near + apart.far > 0;
        within = within && (!differs || apart.most > 0) && apart.most <= MOST_DIFFERENCE * apart.largest;
        image->tolerance = fmaxf(image->tolerance, (float)near_noise(apart.most, 0));
        *differs_p = *differs_p || differs;
    }
    if (*differs_p)
        images_widen(images);
    return within;
}

bool
images_are_near(const struct images *images)
{
    bool any = false;
    FOR_EACH_UNTIL(image, images->items, images->count, any) {
        struct apart apart = image->is_written ? find_apart(image, FAR_AT_MOST) : (struct apart){0};
        any = apart.near > 0 && apart.far <= FAR_AT_MOST;
    }
    return any;
}
