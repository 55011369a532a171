/* figures.c - see figures.h. */
#include "tools/check/evidence/figures.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/each.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

enum { MOST_FIGURES = 2048, NOISE_FACTOR = 16 };

static const double SMALL_DIFFERENCE = 1e-3, SINGLE_DIFFERENCE = 0.03, NEAR_RATIO = 1e-3;

/* A number in a line. */
struct number {
    const char *begin, *end;
    bool is_figure; /* it has a decimal point */
};

struct figure {
    uint64_t name;       /* hash of the line without its numbers, and of the number's place in it */
    unsigned occurrence; /* of the name, from 0 */
    uint64_t lead;       /* hash of the line's first whole number; 0: it has none */
    double value, unit;  /* `unit`: one of the last digit that is printed */
    struct number number;
    const char *line, *line_end;
    const char *words; /* the name begins here, behind the number before it */
};

struct figure_list {
    struct figure *items; /* [count] */
    size_t count;
};

/* ---- words that explain a difference ---- */

/* Whether the word explains why a figure differs from run to run: times, rates, sizes of memory, ranks. */
static bool
is_one_of(const char *word, size_t length)
{
    static const char *const explaining[] = {
        "time",    "times",  "elapsed", "took",    "eta",       "wall",    "clock",  "seconds", "second", "secs",
        "sec",     "s",      "ms",      "us",      "ns",        "msec",    "usec",   "min",     "mins",   "minute",
        "minutes", "h",      "hour",    "hours",   "duration",  "latency", "speed",  "rate",    "per",    "throughput",
        "fps",     "tps",    "memory",  "mem",     "bytes",     "kb",      "mb",     "gb",      "kib",    "mib",
        "gib",     "k",      "m",       "g",       "flops",     "gflops",  "tflops", "hz",      "mhz",    "ghz",
        "util",    "power",  "temp",    "date",    "rank",      "ranks",   "world",  "gpu",     "gpus",   "device",
        "devices", "worker", "workers", "process", "processes", "share",   "shard",  "load",    "since",  "ago",
    };
    return ANY_NUMBER(i, 0, sizeof(explaining) / sizeof(explaining[0]),
                      strlen(explaining[i]) == length && strncasecmp(explaining[i], word, length) == 0);
}

/* Whether a word in the text explains what the machine or the number of ranks makes of a figure. */
static bool
has_explaining_word(const char *text, const char *end)
{
    while (text < end) {
        const char *word = text;
        while (text < end && isalpha((unsigned char)*text))
            ++text;
        if (text > word && is_one_of(word, (size_t)(text - word)))
            return true;
        text += text == word;
    }
    return false;
}

/* Whether the text has a word of two characters or more: a lone sign or letter names nothing. */
static bool
has_word(const char *text, const char *end)
{
    for (; text + 1 < end; ++text) {
        if (isalpha((unsigned char)text[0]) && isalnum((unsigned char)text[1]))
            return true;
    }
    return false;
}

/* The unit behind a number: to the next blank, of which one may stand before it. */
static const char *
end_of_unit(const char *unit, const char *line_end)
{
    unit += unit < line_end && *unit == ' ';
    while (unit < line_end && !isspace((unsigned char)*unit) && *unit != ',' && *unit != ';')
        ++unit;
    return unit;
}

/* Whether the words around a figure say why it differs from run to run, or no word says what it is. */
static bool
is_explained(const struct figure *figure)
{
    const char *after = figure->number.end, *unit_end = end_of_unit(after, figure->line_end);
    if (!has_word(figure->words, figure->number.begin) || has_explaining_word(figure->words, figure->number.begin))
        return true;
    return memchr(after, '/', (size_t)(unit_end - after)) != NULL || has_explaining_word(after, unit_end);
}

/* ---- a text becomes figures ---- */

static bool
is_sign(char c)
{
    return c == '-' || c == '+';
}

static const char *
skip_digits(const char *text, const char *end)
{
    while (text < end && isdigit((unsigned char)*text))
        ++text;
    return text;
}

/* Where the exponent at `text` ends; `text`: there is none. */
static const char *
skip_exponent(const char *text, const char *end)
{
    if (text >= end || (*text != 'e' && *text != 'E'))
        return text;
    const char *digits = text + 1;
    digits += digits < end && is_sign(*digits);
    const char *after = skip_digits(digits, end);
    return after > digits ? after : text;
}

/* Whether what stands around a number makes it a part of a date, an address, a version or a name. */
static bool
is_part(const char *begin, const char *line, const char *end, const char *line_end)
{
    const char before = begin > line ? begin[-1] : ' ';
    const char after = end < line_end ? end[0] : ' ';
    const char after_next = end + 1 < line_end ? end[1] : ' ';
    if (before == '.' || isalpha((unsigned char)after))
        return true;
    if (before == ':' && begin - 1 > line && isdigit((unsigned char)begin[-2]))
        return true;
    return (after == '.' || after == ':') && isdigit((unsigned char)after_next);
}

/* Where the next digit stands that belongs to no word, as that of `w1` does; the line's end: nowhere. */
static const char *
find_digit(const char *text, const char *line, const char *line_end)
{
    for (; text < line_end; ++text) {
        const bool is_of_word = text > line && (isalnum((unsigned char)text[-1]) || text[-1] == '_');
        if (isdigit((unsigned char)*text) && !is_of_word)
            return text;
    }
    return line_end;
}

/* The next number from `text` on; false: there is none. */
static bool
next_number(const char *text, const char *line, const char *line_end, struct number *number)
{
    text = find_digit(text, line, line_end);
    if (text == line_end)
        return false;
    number->begin = text - (text > line && is_sign(text[-1]));
    const char *whole_end = skip_digits(text, line_end);
    const bool has_point = whole_end + 1 < line_end && *whole_end == '.' && isdigit((unsigned char)whole_end[1]);
    const char *mantissa_end = has_point ? skip_digits(whole_end + 1, line_end) : whole_end;
    number->end = skip_exponent(mantissa_end, line_end);
    number->is_figure = has_point && !is_part(number->begin, line, number->end, line_end);
    return true;
}

/* One of the last digit of a number with a decimal point. */
static double
unit_of(const struct number *number)
{
    const char *point = memchr(number->begin, '.', (size_t)(number->end - number->begin));
    const char *digits_end = skip_digits(point + 1, number->end);
    const double exponent = digits_end < number->end ? strtod(digits_end + 1, NULL) : 0;
    return pow(10, exponent - (double)(digits_end - point - 1));
}

/* FNV-1a of the bytes after what `hash` is of. */
static uint64_t
hash_on(uint64_t hash, const char *text, const char *end)
{
    for (; text < end; ++text)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Hash of the line with a zero in place of each number and the blanks before it. */
static uint64_t
hash_of_words(const char *line, const char *line_end)
{
    static const char zero[1] = "";
    struct number number;
    uint64_t hash = HASH_BEGIN;
    const char *text = line;
    for (; next_number(text, line, line_end, &number); text = number.end) {
        const char *words_end = number.begin;
        while (words_end > text && words_end[-1] == ' ')
            --words_end;
        hash = hash_on(hash, text, words_end);
        hash = hash_on(hash, zero, zero + 1);
    }
    return hash_on(hash, text, line_end);
}

/* Adds a figure to the list, with its value, unit and how often a figure of its name came before. */
static void
add_figure(struct figure_list *list, const struct figure *figure)
{
    if (list->count == MOST_FIGURES)
        return;
    if ((list->count & (list->count - 1)) == 0)
        list->items = xrealloc(list->items, (2 * list->count + 1) * sizeof(*list->items));
    struct figure *added = &list->items[list->count];
    *added = *figure;
    added->value = strtod(figure->number.begin, NULL);
    added->unit = unit_of(&figure->number);
    added->occurrence = 0;
    for (size_t i = list->count; i > 0 && added->occurrence == 0; --i) {
        if (list->items[i - 1].name == figure->name)
            added->occurrence = list->items[i - 1].occurrence + 1;
    }
    ++list->count;
}

/* Adds the figures of a line of output. Their names are the hash of the line's words and their number in it, from 1. */
static void
add_line(struct figure_list *list, const char *line, const char *line_end)
{
    const uint64_t words = hash_of_words(line, line_end);
    struct figure figure = {.line = line, .line_end = line_end, .words = line};
    uint64_t place = 0;
    while (next_number(figure.words, line, line_end, &figure.number)) {
        const struct number *number = &figure.number;
        if (figure.lead == 0 && !number->is_figure)
            figure.lead = hash_on(HASH_BEGIN, number->begin, number->end);
        figure.name = words + ++place;
        if (number->is_figure && !is_explained(&figure))
            add_figure(list, &figure);
        figure.words = number->end;
    }
}

/* All figures of a program's output, in its order. The caller frees list.items. */
static struct figure_list
read_figures(const char *text)
{
    struct figure_list list = {0};
    while (*text != '\0') {
        const size_t length = strcspn(text, "\r\n");
        add_line(&list, text, text + length);
        text += length + (text[length] != '\0');
    }
    return list;
}

/* ---- runs against each other ---- */

static const struct figure *
find_same(const struct figure_list *list, const struct figure *wanted)
{
    return FIND(it, list->items, list->count, it->name == wanted->name && it->occurrence == wanted->occurrence);
}

static bool
is_printed_alike(const struct figure *a, const struct figure *b)
{
    const size_t length = (size_t)(a->number.end - a->number.begin);
    return length == (size_t)(b->number.end - b->number.begin) && memcmp(a->number.begin, b->number.begin, length) == 0;
}

struct comparison {
    struct figure_list one, again, perturbed, *ranks; /* [count] */
    int count;
};

/* What one unit in the last place of the parameters makes of the figures of that name; infinite where one process does
 * not repeat them. */
static double
noise_of(const struct comparison *of, uint64_t name)
{
    double noise = 0;
    FOR_EACH(figure, of->one.items, of->one.count) {
        if (figure->name != name)
            continue;
        const struct figure *again = find_same(&of->again, figure), *near = find_same(&of->perturbed, figure);
        if (again == NULL || near == NULL || !is_printed_alike(figure, again))
            return INFINITY;
        noise = fmax(noise, fabs(near->value - figure->value));
    }
    return noise;
}

/* How many ranks print the figure; 0: they print different values, each that of its share. */
static int
count_ranks_that_agree(const struct comparison *of, const struct figure *figure)
{
    const struct figure *first = find_same(&of->ranks[0], figure);
    int count = first != NULL;
    for (int r = 1; r < of->count && first != NULL; ++r) {
        const struct figure *other = find_same(&of->ranks[r], figure);
        if (other != NULL && fabs(other->value - first->value) > first->unit)
            return 0;
        count += other != NULL;
    }
    return count;
}

/* Whether the figure counts what is in a share: rank 0's is N times that of one process, or its Nth part. */
static bool
is_of_share(double one, double ranked, int ranks)
{
    const double ratio = ranked / one;
    return fabs(ratio * ranks - 1) < NEAR_RATIO || fabs(ratio / ranks - 1) < NEAR_RATIO;
}

/* Whether a rank's figure is so far from one process's that neither rounding, as printed, nor noise, nor the rank's
 * share explains it. `noise`: between two runs of one process. */
static bool
is_far_from(const struct figure *one, const struct figure *ranked, double noise, int ranks)
{
    const double larger = fmax(fabs(one->value), fabs(ranked->value));
    const double bearable = 2 * fmax(one->unit, ranked->unit) + NOISE_FACTOR * noise + SMALL_DIFFERENCE * larger;
    return fabs(one->value - ranked->value) > bearable && !is_of_share(one->value, ranked->value, ranks);
}

/* Fills the sentence's parts on a figure that differs: the words before it as its name, both numbers as printed, and
 * the line of one process. */
static void
describe(const struct comparison *of, const struct figure *one, const struct figure *ranked,
         struct figure_difference *difference)
{
    const char *name = one->words;
    while (name < one->number.begin && !isalpha((unsigned char)*name))
        ++name;
    const char *name_end = one->number.begin;
    while (name_end > name && !isalnum((unsigned char)name_end[-1]))
        --name_end;
    snprintf(difference->name, sizeof(difference->name), "%.*s", (int)(name_end - name), name);
    snprintf(difference->one, sizeof(difference->one), "%.*s", (int)(one->number.end - one->number.begin),
             one->number.begin);
    snprintf(difference->ranked, sizeof(difference->ranked), "%.*s", (int)(ranked->number.end - ranked->number.begin),
             ranked->number.begin);
    snprintf(difference->line, sizeof(difference->line), "%.*s", (int)(one->line_end - one->line), one->line);
    difference->is_alone = count_ranks_that_agree(of, one) < of->count;
}

/* All figures of the name of `first`. False: what differs is explained, or nothing does. */
static bool
compare_name(const struct comparison *of, const struct figure *first, struct figure_difference *difference)
{
    const double noise = noise_of(of, first->name);
    double largest = 0;
    difference->differing = difference->count = 0;
    FOR_EACH(figure, of->one.items, of->one.count) {
        const struct figure *ranked = figure->name == first->name ? find_same(&of->ranks[0], figure) : NULL;
        if (ranked == NULL || ranked->lead != figure->lead)
            continue;
        if (count_ranks_that_agree(of, figure) == 0)
            return false;
        ++difference->count;
        if (!is_far_from(figure, ranked, noise, of->count))
            continue;
        if (difference->differing++ == 0)
            describe(of, figure, ranked, difference);
        largest = fmax(largest, fabs(ranked->value / figure->value - 1));
    }
    if (difference->count == 1 && largest < SINGLE_DIFFERENCE)
        return false;
    return difference->differing > 0 && 2 * difference->differing >= difference->count;
}

bool
figures_compare(const struct figures_runs *runs, struct figure_difference *difference)
{
    struct comparison of = {.one = read_figures(runs->one),
                            .again = read_figures(runs->again),
                            .perturbed = read_figures(runs->perturbed),
                            .ranks = xcalloc((size_t)runs->count, sizeof(*of.ranks)),
                            .count = runs->count};
    bool found = false;
    for (int r = 0; r < of.count; ++r)
        of.ranks[r] = read_figures(runs->ranks[r]);
    FOR_EACH_UNTIL(figure, of.one.items, of.one.count, found) {
        found = figure->occurrence == 0 && compare_name(&of, figure, difference);
    }
    for (int r = 0; r < of.count; ++r)
        free(of.ranks[r].items);
    free(of.ranks);
    free(of.one.items);
    free(of.again.items);
    free(of.perturbed.items);
    return found;
}
