/*
 * bits.c - see player.h: whether the bits of a tensor are of the type that a plan by state says. A mean in another type
 * is another number, and ranks and one process that plays all turns would come to the same wrong one.
 *
 * What is looked at is how far the exponents of its words are spread. Numbers that are trained lie within some octaves
 * of each other; the lower half of a wide number, or a random state, has any exponent; a small whole number has none.
 * float16 and bfloat16 are not told apart.
 *
 * Called by exchange.c, under the lock of follow.c.
 */
#include "tools/near/element.h"
#include "tools/plan/trainer/player.h"

enum { BYTES_AT_MOST = 1 << 18, LEAST_WORDS = 32, EXPONENTS = 2048, EVEN, ODD, ALL };

/* Where a float of as many bytes has its exponent. */
static const struct layout {
    uint32_t bytes, shift, exponents;
    const char *name;
} layouts[] = {
    [ELEMENT_FLOAT32] = {4, 23, 256, "float32"}, [ELEMENT_FLOAT64] = {8, 52, 2048, "float64"},
    [ELEMENT_FLOAT16] = {2, 10, 32, "float16"},  [ELEMENT_BFLOAT16] = {2, 7, 256, "bfloat16"},
    [ELEMENT_INT32] = {4, 23, 256, "int32"},     [ELEMENT_INT64] = {8, 52, 2048, "int64"},
};

/* Of words that are not zero: exponents. */
struct spread {
    uint32_t seen, middle, repeated; /* words that are the one before */
    uint32_t count[EXPONENTS];
};

/* Counts exponents of a content's numbers, as the layout has them: ALL, or only those at even or odd places;
 * spread->middle is the median's. */
static void
find_spread(const char *content, uint64_t bytes, const struct layout *of, int which, struct spread *spread)
{
    uint64_t word = 0, before = 0, step = which == ALL ? of->bytes : 2 * of->bytes, below = 0;
    *spread = (struct spread){0};
    for (uint64_t at = which == ODD ? of->bytes : 0; at + of->bytes <= bytes; at += step) {
        memcpy(&word, content + at, of->bytes);
        spread->seen += word != 0;
        spread->repeated += word == before;
        spread->count[word >> of->shift & (of->exponents - 1)] += word != 0;
        before = word;
    }
    while (2 * (below + spread->count[spread->middle]) < spread->seen)
        below += spread->count[spread->middle++];
}

/* Whether so many quarters of the words have exponents near to the middle one. */
static bool
is_near(const struct spread *spread, uint32_t distance, uint32_t quarters)
{
    uint32_t near = 0, from = spread->middle > distance ? spread->middle - distance : 0;
    for (uint32_t i = from; i < EXPONENTS && i <= spread->middle + distance; ++i)
        near += spread->count[i];
    return 4 * near >= quarters * spread->seen;
}

/* Whether the words at even or odd places have any exponent. */
static bool
is_random(const char *content, uint64_t bytes, const struct layout *of, int which)
{
    struct spread spread;
    find_spread(content, bytes, of, which, &spread);
    return spread.seen >= LEAST_WORDS && !is_near(&spread, of->exponents / 8, 2);
}

/* Whether both halves of the words are numbers, of the same size. */
static bool
is_pair(const char *content, uint64_t bytes, const struct layout *half, uint32_t quarters)
{
    struct spread low, high;
    uint32_t distance = half->exponents / 16;
    find_spread(content, bytes, half, EVEN, &low);
    find_spread(content, bytes, half, ODD, &high);
    return low.seen >= LEAST_WORDS && is_near(&low, distance, quarters) && is_near(&high, distance, quarters) &&
           low.middle <= high.middle + distance && high.middle <= low.middle + distance &&
           2 * high.repeated < high.seen; /* numbers that are all the same show nothing */
}

/* What the bits look like, other than the type; NULL: nothing. A count has an exponent that is tiny or huge. */
static const char *
shown_type(const char *content, uint64_t bytes, uint32_t type, uint32_t quarters)
{
    enum { OCTAVES = 40 };
    const struct layout *of = &layouts[type];
    struct spread all;
    find_spread(content, bytes, of, ALL, &all);
    if (type > ELEMENT_BFLOAT16)
        return all.middle + OCTAVES > of->exponents / 2 && all.middle < of->exponents / 2 + OCTAVES
                   ? layouts[type - ELEMENT_BFLOAT16].name
                   : NULL;
    if (all.seen > 0 && all.count[0] == all.seen)
        return "whole numbers";
    if (is_random(content, bytes, of, EVEN) || is_random(content, bytes, of, ODD))
        return "random bits, or a wider type";
    const struct layout *pair = FIND(half, &layouts[ELEMENT_FLOAT32], ELEMENT_BFLOAT16,
                                     2 * half->bytes == of->bytes && is_pair(content, bytes, half, quarters));
    return pair != NULL ? pair->name : NULL;
}

/* Why a content does not fit the type, shown by all of it or else by a part that would show it by chance in one of a
 * million; NULL: nothing shows it. */
static const char *
shown_somewhere(const char *content, uint64_t bytes, uint32_t type)
{
    enum { PARTS = 4, MOST = 2, ALMOST_ALL = 3 };
    uint64_t part = 2 * LEAST_WORDS * sizeof(uint32_t);
    const char *shown = shown_type(content, bytes, type, MOST);
    for (uint64_t at = 0; shown == NULL && type == ELEMENT_FLOAT64 && at + part <= bytes; at += part / PARTS)
        shown = shown_type(content + at, part, type, ALMOST_ALL);
    return shown;
}

/* What words of what is averaged held at the border before, and what they looked like so far (changed_inputs.h). */
static struct words {
    char *before;
    uint8_t *kinds;
} * words;

/* Whether a word of `bytes` is a whole number among floats, which most of the others are: at *at. */
static bool
has_whole(uint32_t tensor, const char *content, uint64_t bytes, uint64_t *at)
{
    size_t count = bytes / sizeof(uint32_t);
    struct words *of = &words[tensor];
    const uint32_t *before = (const uint32_t *)(const void *)of->before, *now = (const uint32_t *)(const void *)content;
    for (size_t i = 0; i < count && before != NULL; ++i) {
        if (before[i] != now[i])
            whole_look(of->kinds, before, now, i, count, player.play.tensors[tensor].type == ELEMENT_FLOAT64);
    }
    if (of->before == NULL) {
        of->before = scout_zeroed(bytes, 1);
        of->kinds = scout_zeroed(count + 1, 1);
    }
    memcpy(of->before, content, bytes);
    *at = whole_next(of->kinds, 0, count) * sizeof(uint32_t);
    return *at < count * sizeof(uint32_t);
}

void
bits_judge(bool judges)
{
    static _Alignas(uint64_t) char content[BYTES_AT_MOST];
    if (words == NULL)
        words = scout_zeroed(player.play.plan.tensor_count + 1, sizeof(*words));
    FOR_EACH_THERE(tensor, allocation,
                   tensor->role == PLAY_CHANGES || (tensor->role == PLAY_SUM && tensor->type != ELEMENT_UINT32)) {
        uint32_t i = NUMBER_OF(tensor);
        uint64_t bytes = tensor->hi - tensor->lo < BYTES_AT_MOST ? tensor->hi - tensor->lo : BYTES_AT_MOST;
        memory_read(allocation, tensor->lo, content, bytes);
        const char *shown = judges ? shown_somewhere(content, bytes, tensor->type) : NULL;
        uint64_t at = 0;
        bool is_whole = tensor->role == PLAY_CHANGES && element_size((int)tensor->type) >= sizeof(uint32_t) &&
                        has_whole(i, content, bytes, &at) && judges;
        for (uint32_t k = 0; k < player.page_count && (is_whole || shown != NULL); ++k)
            player.pages[k]->scratch = (struct scout_bytes){(uint32_t)tensor->alloc, tensor->lo, tensor->hi};
        if (is_whole && shown == NULL)
            player_refuse("%s is called %s, and holds a whole number among floats, at byte %" PRIu64
                          ": whole numbers have no mean",
                          player.named[i].text, layouts[tensor->type].name, tensor->lo + at);
        if (shown != NULL)
            player_refuse("%s is called %s, and its bits look like %s", player.named[i].text,
                          layouts[tensor->type].name, shown);
    }
}
