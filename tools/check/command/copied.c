/* copied.c - see copied.h. */
#include "tools/check/command/copied.h"

#include "launcher/common/xcalloc.h"

#include <stdlib.h>

enum { LEAST_PIECES = 4, LEAST_PIECE_BYTES = 16 };

const struct check_copy *
copied_any(const struct copied *copied)
{
    int r = 0;
    while (copied->of[r] == NULL)
        ++r;
    return copied->of[r];
}

bool
copied_is_divided(const struct copied *copied)
{
    bool less = false;
    for (int r = 0; r < copied->ranks; ++r) {
        const struct check_copy *it = copied->of[r];
        if (it != NULL && it->bytes > it->whole)
            return false;
        less = less || (it != NULL && it->bytes < it->whole);
    }
    return less;
}

/* Which bytes of the batch the copy is, is known. */
static bool
is_placed(const struct check_copy *it)
{
    bool enough = it->total >= LEAST_PIECES || (it->total > 0 && it->bytes / it->total >= LEAST_PIECE_BYTES);
    return enough && it->begins >= 0 && it->run > 0 && 2 * it->run >= it->total;
}

static bool
are_all_placed(const struct copied *copied)
{
    bool placed = true;
    for (int r = 0; r < copied->ranks; ++r)
        placed = placed && copied->of[r] != NULL && is_placed(copied->of[r]);
    return placed;
}

/* Begin and end of a part of the batch. */
struct part {
    uint64_t begin, end;
    int rank;
};

static int
compare_parts(const void *a, const void *b)
{
    const struct part *l = a, *r = b;
    return l->begin != r->begin ? (l->begin > r->begin) - (l->begin < r->begin)
                                : (l->rank > r->rank) - (l->rank < r->rank);
}

/* Placed parts, one behind the other: COPIED_RIGHT if they are the batch. */
static enum copied_kind
lay_out(struct copied *copied)
{
    struct part *parts = xcalloc((size_t)copied->ranks, sizeof(*parts));
    for (int r = 0; r < copied->ranks; ++r) {
        const struct check_copy *it = copied->of[r];
        parts[r] = (struct part){(uint64_t)it->begins, (uint64_t)it->begins + it->bytes, r};
    }
    qsort(parts, (size_t)copied->ranks, sizeof(*parts), compare_parts);
    enum copied_kind kind = COPIED_RIGHT;
    struct part so_far = {.rank = 0};
    for (int i = 0; i <= copied->ranks && kind == COPIED_RIGHT; ++i) {
        uint64_t whole = copied_any(copied)->whole;
        struct part next = i < copied->ranks ? parts[i] : (struct part){whole, whole, -1};
        if (i > 0 && next.begin < so_far.end && next.rank >= 0) {
            kind = COPIED_OVERLAP;
            copied->from = next.begin;
            copied->to = next.end < so_far.end ? next.end : so_far.end;
            copied->rank = so_far.rank;
            copied->other = next.rank;
        } else if (next.begin > so_far.end) {
            kind = COPIED_GAP;
            copied->from = so_far.end;
            copied->to = next.begin;
        }
        if (next.end > so_far.end || i == 0)
            so_far = next;
    }
    free(parts);
    return kind;
}

static bool
is_the_batch(struct copied *copied)
{
    uint64_t bytes = 0, sum = 0;
    for (int r = 0; r < copied->ranks; ++r) {
        bytes += copied->of[r] != NULL ? copied->of[r]->bytes : 0;
        sum += copied->of[r] != NULL ? copied->of[r]->sum : 0;
    }
    const struct check_copy *any = copied_any(copied);
    if (bytes == any->whole && sum == any->whole_sum)
        return true;
    return bytes == any->whole && are_all_placed(copied) && lay_out(copied) == COPIED_RIGHT;
}

/* ---- what is wrong ---- */

/* All ranks share the items of the batch out by DDP_SHARD. */
static bool
knows_shares(const struct copied *copied)
{
    for (int r = 0; r < copied->ranks; ++r) {
        const struct check_copy *it = copied->of[r];
        if (it->record == 0 || it->items == 0 || it->whole % (it->record * it->items) != 0)
            return false;
    }
    return true;
}

/* `first` is counted in other units than items; *unit_p: in bytes, 0: in none. */
static bool
has_other_unit(const struct copied *copied, uint64_t *unit_p)
{
    uint64_t record = copied_any(copied)->record, unit = record;
    for (int r = 0; r < copied->ranks; ++r) {
        const struct check_copy *it = copied->of[r];
        uint64_t begins = (uint64_t)it->begins, here = it->first > 0 ? begins / it->first : unit;
        if (it->first == 0 ? begins != 0 : begins % it->first != 0 || (unit != record && here != unit))
            return false;
        unit = it->first > 0 ? here : unit;
    }
    *unit_p = unit;
    return unit < record && (unit == 0 || record % unit == 0);
}

/* Some ranks, all alike, begin so many items away from their share. */
static bool
is_moved(struct copied *copied)
{
    int64_t record = (int64_t)copied_any(copied)->record, by = 0;
    for (int r = 0; r < copied->ranks; ++r) {
        const struct check_copy *it = copied->of[r];
        int64_t away = it->begins - (int64_t)it->first * record;
        if (away % record != 0 || (away != 0 && by != 0 && away != by))
            return false;
        if (away != 0 && by == 0) {
            by = away;
            copied->rank = r;
        }
    }
    return by != 0;
}

static bool
is_same_copy(const struct copied *copied)
{
    for (int r = 1; r < copied->ranks; ++r) {
        if (copied->of[r]->chain != copied->of[0]->chain || copied->of[r]->bytes != copied->of[0]->bytes)
            return false;
    }
    return true;
}

bool
copied_is_telling(const struct check_copy *it)
{
    return it->total > 0 && ((it->distinct && it->record > 0) || it->bytes / it->total >= LEAST_PIECE_BYTES);
}

/* Whole pieces, and the reference has each, but not where the share is. Small numbers, as labels are, tell it if they
 * were where the share is in earlier steps. */
static bool
is_elsewhere(const struct copied *copied, const struct check_copy *it)
{
    bool has_moved = it->total >= LEAST_PIECES && it->record > 0 && copied->was_right && 2 * it->in_place < it->total;
    return (copied_is_telling(it) || has_moved) && it->here + it->elsewhere == it->total;
}

/* Some rank has its share, or had it before: else the ranks may go through parts of the data set, each by itself. */
static bool
is_other(struct copied *copied)
{
    int placed = 0, other = -1;
    for (int r = 0; r < copied->ranks; ++r) {
        const struct check_copy *it = copied->of[r];
        bool is_here = it->total > 0 && it->in_place == it->total;
        if (!is_here && !is_elsewhere(copied, it))
            return false;
        placed += is_here;
        other = !is_here && other < 0 ? r : other;
    }
    copied->rank = other;
    return other >= 0 && (placed > 0 || copied->was_right);
}

/* By more than the item that DDP_SHARD may make it, of which the verdict on first gradients has its own word. */
static bool
is_unequal(const struct copied *copied)
{
    const struct check_copy *any = copied_any(copied);
    uint64_t least = any->whole, most = 0;
    for (int r = 0; r < copied->ranks; ++r) {
        uint64_t bytes = copied->of[r] != NULL ? copied->of[r]->bytes : 0;
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    uint64_t one = copied->step == 1 ? any->record : 0;
    return most - least > (any->record > 0 ? one : most / 4);
}

void
copied_classify(struct copied *copied)
{
    copied->kind = COPIED_SILENT;
    if (!copied_is_divided(copied))
        return;
    if (is_the_batch(copied)) {
        copied->kind = is_unequal(copied) ? COPIED_UNEQUAL : COPIED_RIGHT;
        return;
    }
    for (int r = 0; r < copied->ranks; ++r) {
        if (copied->of[r] == NULL)
            return;
    }
    bool placed = are_all_placed(copied), shared = placed && knows_shares(copied);
    if (shared && has_other_unit(copied, &copied->unit)) {
        copied->kind = copied->unit > 0 ? COPIED_UNIT : COPIED_NOT_ADDED;
        copied->rank = 1;
    } else if (shared && is_moved(copied)) {
        copied->kind = COPIED_MOVED;
    } else if (is_same_copy(copied) && copied->of[0]->here > 0) {
        copied->kind = COPIED_SAME;
    } else if (placed) {
        copied->kind = lay_out(copied);
        copied->kind = copied->kind == COPIED_RIGHT ? COPIED_SILENT : copied->kind;
    } else if (is_other(copied)) {
        copied->kind = COPIED_OTHER;
    }
}
