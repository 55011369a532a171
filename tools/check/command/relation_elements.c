/*
 * relation_elements.c - see relation.h: rows that are rank 0's alone, and the element by which memory differs most.
 */
#include "tools/check/command/relation_parts.h"

#include "launcher/common/xcalloc.h"

#include <math.h>

/* In which of `layers` equal parts of its own do the ranks' shares lie in one process's memory, as where items are
 * columns? The number with the most elements that are the same; 1 is also that of shares one after the other. */
static size_t
count_layers(const struct numbers *numbers, int ranks)
{
    enum { LAYERS_AT_MOST = 4096 };
    size_t best = 1, most = 0;
    for (size_t layers = 1; layers <= LAYERS_AT_MOST && layers <= numbers[1].count; ++layers) {
        size_t same = 0, behind = 0;
        bool fits = numbers[0].count % layers == 0 && ALL_NUMBERS(r, 1, ranks + 1, numbers[r].count % layers == 0);
        for (int r = 1; r <= ranks && fits; behind += numbers[r++].count / layers)
            for (size_t i = 0, width = numbers[r].count / layers; i < numbers[r].count; ++i)
                same += numbers[r].values[i] ==
                        numbers[0].values[i / width * (numbers[0].count / layers) + behind + i % width];
        best = same > most ? layers : best;
        most = same > most ? same : most;
    }
    return best;
}

/* Whether what a rank changed is, times `factor`, the rank's rows of one process's numbers, if all ranks have equally
 * many. *known_p: the numbers could be read. */
static bool
are_rows_of(const struct finding *finding, const struct where *where, const struct numbers *one, double factor,
            int rank, bool *known_p)
{
    const struct look_argument *it = relation_argument(finding, rank, where);
    OWNED_NUMBERS own = {.count = 0};
    size_t begin = 0;
    *known_p = it != NULL && it->is_memory && it->end > it->first &&
               relation_numbers(finding, rank, where, it->first, it->end, false, &own) && own.count > 0;
    begin = (size_t)rank * own.count;
    *known_p = *known_p && begin + own.count <= one->count;
    return *known_p && numbers_norm(own.values, one->values + begin, factor, own.count) <=
                           NUMBERS_NEAR * factor * numbers_norm(one->values + begin, NULL, 0, own.count);
}

/* Whether rank 0's rows are `factor` times one process's, as those of a mean over the share are, and another rank's
 * are not. A rank whose rows begin or end with elements that are as before has them at a place that is not known. */
static bool
are_rows_of_rank_0(const struct finding *finding, const struct where *where, const struct numbers *one, double factor)
{
    bool known = true;
    if (!are_rows_of(finding, where, one, factor, 0, &known))
        return false;
    return ANY_NUMBER(r, 1, finding->question->ranks, !are_rows_of(finding, where, one, factor, r, &known));
}

bool
relation_are_rows_of_rank_0(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where);
    OWNED_NUMBERS one = {.count = 0};
    if (mine->end <= mine->first || !relation_numbers(finding, -1, where, mine->first, mine->end, false, &one))
        return false;
    return are_rows_of_rank_0(finding, where, &one, 1) ||
           are_rows_of_rank_0(finding, where, &one, finding->question->ranks);
}

/* Of rows that each rank has changed, the bytes of an equal share; the first and the last elements may be as they were.
 * 0: none. */
static uint64_t
size_of_share(const struct finding *finding, const struct where *where)
{
    const struct look_argument *mine = relation_argument(finding, -1, where), *it;
    uint64_t ranks = (uint64_t)finding->question->ranks, share = ((mine->end + ranks - 1) / ranks + 3) / 4 * 4;
    bool is_one = !finding->question->is_uneven && ranks * share <= mine->bytes &&
                  ALL_NUMBERS(r, 0, (int)ranks,
                              (it = relation_argument(finding, r, where)) != NULL && it->end <= share &&
                                  it->end + share / 10 >= share && share <= it->bytes);
    return is_one ? share : 0;
}

size_t
relation_element(const struct finding *finding, const struct where *where, bool *of_share_p, double values[])
{
    const struct look_argument *mine = relation_argument(finding, -1, where), *it;
    int ranks = finding->question->ranks;
    bool are_copied = finding->one.operations[where->operation].header->from_host, known = !mine->is_part;
    struct numbers *numbers = xcalloc((size_t)ranks + 1, sizeof(*numbers));
    size_t found = SIZE_MAX, behind = 0, each = sizeof(float), all = 0, same = 0;
    double worst = NUMBERS_NEAR;
    uint64_t share = where->after && !are_copied ? size_of_share(finding, where) : 0;
    for (int r = -1; r < ranks && known; ++r) {
        it = relation_argument(finding, r, where);
        const bool are_changes = where->after && !are_copied;
        const uint64_t first = are_changes && share == 0 ? mine->first : 0;
        uint64_t end = 0;
        if (it != NULL && it->is_memory && share > 0)
            end = r < 0 ? (uint64_t)ranks * share : share;
        else if (it != NULL && it->is_memory)
            end = are_changes ? it->end : it->bytes;
        known = end > first && relation_numbers(finding, r, where, first, end, false, &numbers[r + 1]);
        if (known)
            each = (end - first) / (numbers[r + 1].count > 0 ? numbers[r + 1].count : 1);
        all += r >= 0 && known ? numbers[r + 1].count : 0;
        same += r >= 0 && known && numbers[r + 1].count == numbers[0].count;
    }
    bool are_rows = known && same < (size_t)ranks && mine->tensor == 0;
    bool are_laid = (share > 0 || are_copied) && all == numbers[0].count;
    size_t layers = known && are_rows && are_laid ? count_layers(numbers, ranks) : 1;
    /* Rows: the first rank whose own are others. The last elements may be unchanged, but not many: else each row of a
     * share is smaller than one process's, and only the first elements are of the same row and column. */
    bool are_small = are_rows && fabs((double)all - (double)numbers[0].count) > 0.1 * (double)all;
    for (int r = 0; r <= ranks && are_small; ++r)
        values[r] = (double)numbers[r].count;
    for (int r = 1; r <= ranks && known && (!are_rows || are_laid || r == 1); ++r) {
        size_t width = numbers[r].count / layers > 0 ? numbers[r].count / layers : 1;
        size_t end = are_small && numbers[r].count > 0 ? 1 : numbers[r].count;
        for (size_t i = 0; i < end && !(are_rows && found != SIZE_MAX); ++i) {
            size_t at = are_rows ? i / width * (numbers[0].count / layers) + behind + i % width : i;
            double one = at < numbers[0].count ? numbers[0].values[at] : NAN, own = numbers[r].values[i],
                   apart = fabs(own - one) / fmax(fmax(fabs(own), fabs(one)), 1e-30);
            if (!(apart > worst))
                continue;
            worst = apart;
            found = i;
            values[0] = one;
            for (int k = 1; k <= ranks; ++k)
                values[k] = i < numbers[k].count && (k == r || !are_rows) ? numbers[k].values[i] : NAN;
        }
        behind += are_rows ? width : 0;
    }
    *of_share_p = are_rows;
    found = are_small && found == SIZE_MAX ? RELATION_COUNTS : found;
    for (int r = 0; r <= ranks; ++r)
        free(numbers[r].values);
    free(numbers);
    return found < RELATION_COUNTS && where->after && !are_copied && share == 0 ? found + mine->first / each : found;
}
