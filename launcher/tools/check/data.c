/*
 * data.c - see data.h.
 *
 * A call site says something of the batch where some rank copies less than one rank does. Its copies are right if the
 * ranks' pieces together are the reference's, in whatever order. What is wrong is named only where it is known which of
 * the reference's bytes a rank has, or that it has those of another step: contents that the reference never had, as
 * of an augmentation, prove nothing.
 */
#include "launcher/tools/check/data.h"

#include "base/mutant.h"
#include "launcher/common/xcalloc.h"
#include "launcher/tools/check/items.h"
#include "launcher/tools/check/place.h"
#include "launcher/tools/check/sentence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EARLIER = 2, LEAST_PIECES = 4, LEAST_PIECE_BYTES = 16, PLACE_BYTES = 300 };

enum kind {
    SILENT, /* nothing is known */
    RIGHT,
    NOT_ADDED, /* all ranks begin where the batch begins */
    UNIT,      /* `first` is added, and not in items */
    MOVED,     /* by whole items */
    SAME,
    OVERLAP,
    GAP,
    OTHER,   /* pieces that one rank has elsewhere */
    UNEQUAL, /* right, and not of one size */
    UNKNOWN, /* what one rank never has */
};

/* What ranks have copied from one call site in one step. */
struct copied {
    const struct check_copy **of; /* [ranks]; NULL: nothing */
    int ranks;
    uint32_t step;
    uint64_t site;
    bool was_right; /* in some step before */
    /* Filled in by classify(): */
    enum kind kind;
    int rank, other;   /* that it shows on */
    uint64_t from, to; /* bytes of the batch */
    uint64_t unit;     /* UNIT: bytes */
};

/* Rows of copies, by rank. */
struct copy_rows {
    const struct check_row **rows; /* [count] */
    size_t count;
};

/* ---- the copies of a call site ---- */

static struct copy_rows
list_copies(const struct check_rows *rows)
{
    struct copy_rows list = {.rows = xcalloc(rows->count + 1, sizeof(*list.rows))};
    for (size_t i = 0; i < rows->count; ++i) {
        if (rows->rows[i].kind == CHECK_ROW_COPY)
            list.rows[list.count++] = &rows->rows[i];
    }
    return list;
}

static const struct check_copy *
find_copy(const struct copy_rows *list, uint64_t site, uint32_t step)
{
    for (size_t i = 0; i < list->count; ++i) {
        if (list->rows[i]->copy.site == site && (step == 0 || list->rows[i]->step == step))
            return &list->rows[i]->copy;
    }
    return NULL;
}

/* Some copy of the step, for what all of them say of the reference. */
static const struct check_copy *
any_of(const struct copied *copied)
{
    int r = 0;
    while (copied->of[r] == NULL)
        ++r;
    return copied->of[r];
}

/* Shares of what one rank copies. */
static bool
is_divided(const struct copied *copied)
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

/* Placed parts, one behind the other: RIGHT if they are the batch. */
static enum kind
lay_out(struct copied *copied)
{
    struct part *parts = xcalloc((size_t)copied->ranks, sizeof(*parts));
    for (int r = 0; r < copied->ranks; ++r) {
        const struct check_copy *it = copied->of[r];
        parts[r] = (struct part){(uint64_t)it->begins, (uint64_t)it->begins + it->bytes, r};
    }
    qsort(parts, (size_t)copied->ranks, sizeof(*parts), compare_parts);
    enum kind kind = RIGHT;
    struct part so_far = {.rank = 0};
    for (int i = 0; i <= copied->ranks && kind == RIGHT; ++i) {
        uint64_t whole = any_of(copied)->whole;
        struct part next = i < copied->ranks ? parts[i] : (struct part){whole, whole, -1};
        if (i > 0 && next.begin < so_far.end && next.rank >= 0) {
            kind = OVERLAP;
            copied->from = next.begin;
            copied->to = next.end < so_far.end ? next.end : so_far.end;
            copied->rank = so_far.rank;
            copied->other = next.rank;
        } else if (next.begin > so_far.end) {
            kind = GAP;
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
    const struct check_copy *any = any_of(copied);
    if (bytes == any->whole && sum == any->whole_sum && !MUTANT(CHECK_DATA_ORDER))
        return true;
    return bytes == any->whole && are_all_placed(copied) && lay_out(copied) == RIGHT;
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
    uint64_t record = any_of(copied)->record, unit = record;
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
    int64_t record = (int64_t)any_of(copied)->record, by = 0;
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
is_same(const struct copied *copied)
{
    for (int r = 1; r < copied->ranks; ++r) {
        if (copied->of[r]->chain != copied->of[0]->chain || copied->of[r]->bytes != copied->of[0]->bytes)
            return false;
    }
    return true;
}

/* A piece is enough to know an item by. */
static bool
is_telling(const struct check_copy *it)
{
    return it->total > 0 && (it->distinct || it->bytes / it->total >= LEAST_PIECE_BYTES);
}

/* Whole pieces, and the reference has each, but not where the share is. Small numbers, as labels are, tell it if they
 * were where the share is in earlier steps. */
static bool
is_elsewhere(const struct copied *copied, const struct check_copy *it)
{
    bool has_moved = it->total >= LEAST_PIECES && it->record > 0 && copied->was_right && 2 * it->in_place < it->total;
    return (is_telling(it) || has_moved) && (it->here + it->elsewhere == it->total || MUTANT(CHECK_DATA_NOISE));
}

static bool
is_other(struct copied *copied)
{
    bool any = false;
    for (int r = 0; r < copied->ranks; ++r) {
        const struct check_copy *it = copied->of[r];
        bool placed = (is_placed(it) && it->run == it->total) || (it->total > 0 && it->in_place == it->total);
        if (!placed && !is_elsewhere(copied, it))
            return false;
        if (!placed && !any)
            copied->rank = r;
        any = any || !placed;
    }
    return any;
}

static bool
is_unknown(struct copied *copied)
{
    int r = copied->ranks - 1;
    while (r >= 0 &&
           (!is_telling(copied->of[r]) || 2 * (copied->of[r]->here + copied->of[r]->elsewhere) > copied->of[r]->total))
        --r;
    copied->rank = r;
    return r >= 0;
}

/* By more than an item. */
static bool
is_unequal(const struct copied *copied)
{
    const struct check_copy *any = any_of(copied);
    uint64_t least = any->whole, most = 0;
    for (int r = 0; r < copied->ranks; ++r) {
        uint64_t bytes = copied->of[r] != NULL ? copied->of[r]->bytes : 0;
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    return most - least > (any->record > 0 ? any->record : most / 4);
}

static void
classify(struct copied *copied)
{
    copied->kind = SILENT;
    if (!is_divided(copied))
        return;
    if (is_the_batch(copied)) {
        copied->kind = is_unequal(copied) ? UNEQUAL : RIGHT;
        return;
    }
    for (int r = 0; r < copied->ranks; ++r) {
        if (copied->of[r] == NULL)
            return;
    }
    bool placed = are_all_placed(copied), shared = placed && knows_shares(copied);
    if (shared && has_other_unit(copied, &copied->unit)) {
        copied->kind = copied->unit > 0 ? UNIT : NOT_ADDED;
        copied->rank = 1;
    } else if (shared && is_moved(copied)) {
        copied->kind = MOVED;
    } else if (is_same(copied) && copied->of[0]->here > 0) {
        copied->kind = SAME;
    } else if (placed) {
        copied->kind = lay_out(copied);
        copied->kind = copied->kind == RIGHT ? SILENT : copied->kind;
    } else if (is_other(copied)) {
        copied->kind = OTHER;
    } else if (is_unknown(copied)) {
        copied->kind = UNKNOWN;
    }
}

/* ---- which copies of which step ---- */

struct search {
    const struct check_evidence *evidence;
    struct copy_rows *lists; /* [ranks] */
    struct copy_rows again;
    uint64_t sites[COPIES_SITES_AT_MOST];
    bool was_right[COPIES_SITES_AT_MOST];
    size_t site_count;
    bool weighs; /* shares may be unequal */
    bool unknown_too;
    bool steady; /* all that is divided is the same in each step */
};

static void
note_site(struct search *search, uint64_t site)
{
    for (size_t i = 0; i < search->site_count; ++i) {
        if (search->sites[i] == site)
            return;
    }
    bool repeats = find_copy(&search->again, site, 0) == NULL; /* a run of one rank has copied the same */
    if (repeats && search->site_count < COPIES_SITES_AT_MOST)
        search->sites[search->site_count++] = site;
}

/* False: no rank has copied from there in that step what one rank copies otherwise. */
static bool
look_at(const struct search *search, uint64_t site, uint32_t step, struct copied *copied)
{
    bool any = false;
    copied->ranks = search->evidence->ranks;
    copied->site = site;
    copied->step = step;
    for (int r = 0; r < copied->ranks; ++r) {
        copied->of[r] = find_copy(&search->lists[r], site, step);
        any = any || copied->of[r] != NULL;
    }
    if (!any || (any_of(copied)->steady && !search->steady))
        return false;
    classify(copied);
    if (copied->kind == UNEQUAL && search->weighs)
        copied->kind = RIGHT;
    if (copied->kind == UNKNOWN && !search->unknown_too)
        copied->kind = SILENT;
    return true;
}

static void
prepare(struct search *search, const struct check_evidence *evidence)
{
    *search = (struct search){.evidence = evidence,
                              .again = list_copies(&evidence->again),
                              .weighs = evidence->sums || check_evidence_weighs(evidence),
                              .steady = true};
    search->lists = xcalloc((size_t)evidence->ranks, sizeof(*search->lists));
    for (int r = 0; r < evidence->ranks; ++r) {
        search->lists[r] = list_copies(&evidence->ranked[r]);
        for (size_t i = 0; i < search->lists[r].count; ++i) {
            const struct check_copy *it = &search->lists[r].rows[i]->copy;
            note_site(search, it->site);
            search->steady = search->steady && (it->steady || it->bytes >= it->whole);
        }
    }
}

static void
release(struct search *search)
{
    for (int r = 0; r < search->evidence->ranks; ++r)
        free(search->lists[r].rows);
    free(search->lists);
    free(search->again.rows);
}

/* The step whose gradients differ first; 0: something else does. */
static uint32_t
first_step(const struct check_evidence *evidence, const struct pattern *pattern)
{
    const struct check_item *first = pattern->first;
    if (first->tensor.role == CHECK_GRADIENT)
        return first->first_step;
    bool averaged = check_rows_find(&evidence->ranked[0], CHECK_ROW_AVERAGED) != NULL;
    return averaged && first->tensor.role == CHECK_PARAMETER && first->first_step > 1 ? first->first_step - 1 : 0;
}

/* More telling, or of more bytes. */
static bool
is_worse(const struct copied *a, const struct copied *b)
{
    return a->kind < b->kind || (a->kind == b->kind && any_of(a)->whole > any_of(b)->whole);
}

/* The most telling of the copies that are wrong in the first step in which some are; *right_p: a call site whose copies
 * are right then, 0: none. Copies of a later step than `last` explain nothing, unless contents are unknown before. */
static bool
find_wrong(struct search *search, uint32_t last, struct copied *wrong, struct copied *scratch, uint64_t *right_p)
{
    bool unknown = false;
    wrong->kind = SILENT;
    for (uint32_t step = 1; step <= search->evidence->steps && wrong->kind == SILENT; ++step) {
        if (step > last && !unknown && !MUTANT(CHECK_DATA_ANY_STEP))
            return false;
        *right_p = 0;
        for (size_t i = 0; i < search->site_count; ++i) {
            scratch->was_right = search->was_right[i];
            if (!look_at(search, search->sites[i], step, scratch))
                continue;
            search->was_right[i] = search->was_right[i] || scratch->kind == RIGHT;
            unknown = unknown || (scratch->kind == SILENT && step + EARLIER >= last && is_divided(scratch));
            bool is_wrong = scratch->kind != RIGHT && scratch->kind != SILENT;
            if (scratch->kind == RIGHT)
                *right_p = scratch->site;
            else if (is_wrong && (wrong->kind == SILENT || is_worse(scratch, wrong))) {
                const struct check_copy **of = wrong->of;
                *wrong = *scratch;
                scratch->of = of;
            }
        }
    }
    return wrong->kind != SILENT && (wrong->step + EARLIER >= last || MUTANT(CHECK_DATA_ANY_STEP));
}

/* ---- words ---- */

/* "items 12 to 23 of 24", or bytes. */
static const char *
name_part(const struct check_copy *it, uint64_t from, uint64_t to, char text[96])
{
    bool in_items = it->record > 0 && from % it->record == 0 && to % it->record == 0;
    uint64_t each = in_items ? it->record : 1;
    snprintf(text, 96, "%s %llu to %llu of %llu", in_items ? "items" : "bytes", (unsigned long long)(from / each),
             (unsigned long long)(to / each - 1), (unsigned long long)(it->whole / each));
    return text;
}

static const char *
name_site(const struct check_evidence *evidence, uint64_t site, char text[PLACE_BYTES])
{
    snprintf(text, PLACE_BYTES, "?");
    for (int r = 0; r < evidence->ranks; ++r) {
        for (size_t i = 0; i < evidence->ranked[r].count; ++i) {
            const struct check_row *row = &evidence->ranked[r].rows[i];
            if (row->kind == CHECK_ROW_SITE && row->value == site)
                return place_name(row->text, text, PLACE_BYTES);
        }
    }
    return text;
}

static void
say_shares(const struct copied *wrong, struct check_verdict *verdict, const char *place)
{
    const struct check_copy *it = wrong->of[wrong->rank];
    char part[96], share[96];
    uint64_t begins = (uint64_t)it->begins, share_begins = it->first * it->record;
    name_part(it, begins, begins + it->bytes, part);
    name_part(it, share_begins, share_begins + it->count * it->record, share);
    if (wrong->kind == NOT_ADDED) {
        sentence_say(verdict->text,
                     "in step %u every rank copies %s at %s: `first` of DDP_SHARD (%s:%d) is not added there",
                     wrong->step, part, place, it->shard_file, it->shard_line);
        sentence_say(verdict->advice, "add `first` items, of %llu bytes each, to the address that is copied from at %s",
                     (unsigned long long)it->record, place);
    } else if (wrong->kind == UNIT) {
        sentence_say(verdict->text,
                     "in step %u rank %d copies from byte %llu of the batch on at %s, and its share, by DDP_SHARD "
                     "(%s:%d), begins at byte %llu: `first` is added in units of %llu bytes, and an item has %llu",
                     wrong->step, wrong->rank, (unsigned long long)begins, place, it->shard_file, it->shard_line,
                     (unsigned long long)share_begins, (unsigned long long)wrong->unit, (unsigned long long)it->record);
        sentence_say(verdict->advice, "multiply `first` by %llu, the elements of an item, at %s",
                     (unsigned long long)(it->record / wrong->unit), place);
    } else {
        sentence_say(verdict->text, "in step %u rank %d copies %s at %s, and its share, by DDP_SHARD (%s:%d), is %s",
                     wrong->step, wrong->rank, part, place, it->shard_file, it->shard_line, share);
        sentence_say(verdict->advice, "add `first` items, and nothing else, to where the batch begins, at %s", place);
    }
}

static void
say_other(const struct copied *wrong, struct check_verdict *verdict, const char *place)
{
    const struct check_copy *it = wrong->of[wrong->rank];
    char what[160] = "";
    if (!is_telling(it))
        snprintf(what, sizeof(what), "%llu of %llu items are those of its share, and all were in an earlier step",
                 (unsigned long long)it->in_place, (unsigned long long)it->total);
    else if (it->elsewhere > 0)
        snprintf(what, sizeof(what), "of %llu pieces one rank has %llu in this step, and %llu in others, as in step %u",
                 (unsigned long long)it->total, (unsigned long long)it->here, (unsigned long long)it->elsewhere,
                 it->elsewhere_step);
    else
        snprintf(what, sizeof(what), "one rank has them in this step in another order");
    sentence_say(verdict->text,
                 "in step %u rank %d copies other data than its share of one rank's batch at %s (%s): the ranks go "
                 "through the data in another order",
                 wrong->step, wrong->rank, place, what);
    sentence_say(verdict->advice,
                 "shuffle alike on all ranks: the same seed, and from the shuffle's generator nothing that depends on "
                 "the rank or its share; the same number of batches in each epoch");
}

static void
say_unknown(const struct copied *wrong, struct check_verdict *verdict, const char *place)
{
    const struct check_copy *it = wrong->of[wrong->rank];
    sentence_say(verdict->text,
                 "in step %u rank %d copies data at %s that one rank does not copy there: of %llu pieces one rank has "
                 "%llu in any step",
                 wrong->step, wrong->rank, place, (unsigned long long)it->total,
                 (unsigned long long)(it->here + it->elsewhere));
    sentence_say(verdict->advice,
                 "look for random numbers that are seeded by rank, or drawn for the share only: a shuffle and random "
                 "positions must be the same on all ranks, and each rank takes its share of them");
}

static void
say_unequal(const struct copied *wrong, struct check_verdict *verdict, const char *place)
{
    const struct check_copy *any = any_of(wrong);
    const char *unit = any->record > 0 ? "items" : "bytes";
    int least = 0, most = 0;
    uint64_t bytes[2] = {UINT64_MAX, 0};
    for (int r = 0; r < wrong->ranks; ++r) {
        uint64_t mine = wrong->of[r] != NULL ? wrong->of[r]->bytes : 0;
        least = mine < bytes[0] ? r : least;
        bytes[0] = mine < bytes[0] ? mine : bytes[0];
        most = mine > bytes[1] ? r : most;
        bytes[1] = mine > bytes[1] ? mine : bytes[1];
    }
    uint64_t each = any->record > 0 ? any->record : 1;
    sentence_say(verdict->text,
                 "in step %u rank %d copies %llu %s at %s, and rank %d %llu: the mean over ranks counts their means "
                 "alike, and is not the mean over the batch",
                 wrong->step, least, (unsigned long long)(bytes[0] / each), unit, place, most,
                 (unsigned long long)(bytes[1] / each));
    sentence_say(verdict->advice, "take equal shares (DDP_SHARD), or weigh them: DDP_WEIGHT(count, total)");
}

static void
say(const struct copied *wrong, struct check_verdict *verdict, const char *place)
{
    const struct check_copy *it = wrong->of[0];
    char part[96];
    if (wrong->kind < SAME) {
        say_shares(wrong, verdict, place);
    } else if (wrong->kind == OTHER) {
        say_other(wrong, verdict, place);
    } else if (wrong->kind == UNEQUAL) {
        say_unequal(wrong, verdict, place);
    } else if (wrong->kind == UNKNOWN) {
        say_unknown(wrong, verdict, place);
    } else {
        if (wrong->kind == SAME)
            sentence_say(verdict->text, "in step %u all %d ranks copy the same %llu bytes at %s, of %llu on one rank",
                         wrong->step, wrong->ranks, (unsigned long long)it->bytes, place,
                         (unsigned long long)it->whole);
        else if (wrong->kind == OVERLAP)
            sentence_say(verdict->text, "in step %u ranks %d and %d both copy %s at %s", wrong->step, wrong->rank,
                         wrong->other, name_part(it, wrong->from, wrong->to, part), place);
        else
            sentence_say(verdict->text, "in step %u no rank copies %s at %s", wrong->step,
                         name_part(it, wrong->from, wrong->to, part), place);
        sentence_say(verdict->advice,
                     "the shares together must be the batch, each item once: DDP_SHARD gives each rank its `first` and "
                     "`count`");
    }
}

static bool
judge(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern,
      bool unknown_too)
{
    uint32_t last = first_step(evidence, pattern);
    if (last == 0 || evidence->ranks < 2 || pattern_takes_whole_batches(evidence))
        return false;
    struct search search;
    struct copied wrong = {.of = xcalloc((size_t)evidence->ranks, sizeof(*wrong.of))},
                  scratch = {.of = xcalloc((size_t)evidence->ranks, sizeof(*scratch.of))};
    uint64_t right = 0;
    prepare(&search, evidence);
    search.unknown_too = unknown_too;
    double factor;
    bool found = find_wrong(&search, last, &wrong, &scratch, &right) &&
                 !(wrong.kind == UNEQUAL && pattern_is_scaled(evidence, &factor));
    if (found) {
        char place[PLACE_BYTES], other[PLACE_BYTES];
        sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_DATA, pattern->first);
        say(&wrong, verdict, name_site(evidence, wrong.site, place));
        size_t length = strlen(verdict->text);
        if (right != 0)
            snprintf(verdict->text + length, sizeof(verdict->text) - length, "; what is copied at %s is right",
                     name_site(evidence, right, other));
    }
    release(&search);
    free(wrong.of);
    free(scratch.of);
    return found;
}

bool
data_verdict(const struct check_evidence *evidence, struct check_verdict *verdict, const struct pattern *pattern)
{
    return judge(evidence, verdict, pattern, false);
}

bool
data_verdict_unknown(const struct check_evidence *evidence, struct check_verdict *verdict,
                     const struct pattern *pattern)
{
    return judge(evidence, verdict, pattern, true);
}
