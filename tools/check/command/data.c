/* data.c - see pattern.h. Which call sites count, in which steps, and the sentence. */
#include "tools/check/command/pattern.h"

#include "launcher/common/xcalloc.h"
#include "tools/check/command/copied.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EARLIER = 2 };

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
    EACH_ROW(row, rows, CHECK_ROW_COPY)
        list.rows[list.count++] = row;
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

/* ---- which copies of which step ---- */

struct search {
    const struct check_evidence *evidence;
    struct copy_rows *lists; /* [ranks] */
    struct copy_rows again;
    uint64_t sites[COPIES_SITES_AT_MOST];
    bool was_right[COPIES_SITES_AT_MOST];
    bool is_chance[COPIES_SITES_AT_MOST]; /* what it copies may be wrong by chance only */
    size_t site_count;
    bool weighs; /* shares may be unequal */
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
look_at_site(const struct search *search, uint64_t site, uint32_t step, struct copied *copied)
{
    bool any = false;
    copied->ranks = search->evidence->ranks;
    copied->site = site;
    copied->step = step;
    for (int r = 0; r < copied->ranks; ++r) {
        copied->of[r] = find_copy(&search->lists[r], site, step);
        any = any || copied->of[r] != NULL;
    }
    if (!any || (copied_any(copied)->steady && !search->steady))
        return false;
    copied_classify(copied);
    if (copied->kind == COPIED_UNEQUAL && search->weighs)
        copied->kind = COPIED_RIGHT;
    return true;
}

static void
search_prepare(struct search *search, const struct check_evidence *evidence)
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
release_search(struct search *search)
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
    return a->kind < b->kind || (a->kind == b->kind && copied_any(a)->whole > copied_any(b)->whole);
}

/*
 * The ranks have the first of the reference's items: so they do where each rank draws as many random numbers as its
 * share has items, from one seed. Data are of this step's batch in the next step, too; numbers go on. Beside data that
 * are right, only labels or what lies in a data set are not taken for such numbers. Or one rank has its share by
 * chance, where each goes through a part of the data set.
 */
static bool
may_be_chance(const struct search *search, const struct copied *copied, bool any_right)
{
    const struct check_copy *any = copied_any(copied), **of;
    bool is_alike = copied->kind == COPIED_NOT_ADDED || copied->kind == COPIED_SAME;
    if ((!is_alike && copied->kind != COPIED_OTHER) || copied->was_right)
        return false;
    if (is_alike && any_right && any->distinct && !any->is_data_set)
        return true;
    of = xcalloc((size_t)copied->ranks, sizeof(*of));
    struct copied next = {.of = of};
    bool persists = look_at_site(search, copied->site, copied->step + 1, &next) && next.kind == copied->kind;
    free(of);
    return !persists;
}

/* Of all call sites in a step, into kinds[]; whether one is right: *right_p, 0: none. */
static void
look_at_step(struct search *search, uint32_t step, struct copied *scratch, enum copied_kind *kinds, uint64_t *right_p)
{
    *right_p = 0;
    for (size_t i = 0; i < search->site_count; ++i) {
        scratch->was_right = search->was_right[i];
        kinds[i] = !search->is_chance[i] && look_at_site(search, search->sites[i], step, scratch) ? scratch->kind
                                                                                                  : COPIED_SILENT;
        if (kinds[i] == COPIED_RIGHT)
            *right_p = search->sites[i];
    }
    for (size_t i = 0; i < search->site_count; ++i) {
        scratch->was_right = search->was_right[i];
        if (kinds[i] > COPIED_RIGHT && look_at_site(search, search->sites[i], step, scratch) &&
            may_be_chance(search, scratch, *right_p != 0)) {
            search->is_chance[i] = true;
            kinds[i] = COPIED_SILENT;
        }
        search->was_right[i] = search->was_right[i] || kinds[i] == COPIED_RIGHT;
    }
}

/* The most telling of the copies that are wrong in the first step in which some are; *right_p: a call site whose copies
 * are right then, 0: none. Copies of a later step than `last` explain nothing, unless contents are unknown before. */
static bool
find_wrong(struct search *search, uint32_t last, struct copied *wrong, struct copied *scratch, uint64_t *right_p)
{
    enum copied_kind kinds[COPIES_SITES_AT_MOST];
    bool unknown = false;
    wrong->kind = COPIED_SILENT;
    for (uint32_t step = 1; step <= search->evidence->steps && wrong->kind == COPIED_SILENT; ++step) {
        if (step > last && !unknown)
            return false;
        bool was_right[COPIES_SITES_AT_MOST];
        memcpy(was_right, search->was_right, sizeof(was_right));
        look_at_step(search, step, scratch, kinds, right_p);
        for (size_t i = 0; i < search->site_count; ++i) {
            scratch->was_right = was_right[i];
            if (!look_at_site(search, search->sites[i], step, scratch))
                continue;
            unknown = unknown || (kinds[i] == COPIED_SILENT && step + EARLIER >= last && copied_is_divided(scratch));
            if (step > last && scratch->kind == COPIED_UNEQUAL) /* how much is copied is known in each step */
                continue;
            if (kinds[i] > COPIED_RIGHT && (wrong->kind == COPIED_SILENT || is_worse(scratch, wrong))) {
                const struct check_copy **of = wrong->of;
                *wrong = *scratch;
                scratch->of = of;
            }
        }
    }
    return wrong->kind != COPIED_SILENT && wrong->step + EARLIER >= last;
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

const char *
data_name_site(const struct check_evidence *evidence, uint64_t site, char text[DATA_PLACE_BYTES])
{
    snprintf(text, DATA_PLACE_BYTES, "?");
    for (int r = 0; r < evidence->ranks; ++r) {
        EACH_ROW(row, &evidence->ranked[r], CHECK_ROW_SITE) {
            if (row->value == site)
                return place_name(row->text, text, DATA_PLACE_BYTES);
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
    if (wrong->kind == COPIED_NOT_ADDED) {
        sentence_say(verdict->text,
                     "in step %u every rank copies %s at %s: `first` of DDP_SHARD (%s:%d) is not added there",
                     wrong->step, part, place, it->shard_file, it->shard_line);
        sentence_say(verdict->advice,
                     "the copy at %s must begin with item `first` of the batch: add `first` items of %llu bytes to its "
                     "source, or where the source is filled",
                     place, (unsigned long long)it->record);
    } else if (wrong->kind == COPIED_UNIT) {
        sentence_say(verdict->text,
                     "in step %u rank %d copies from byte %llu of the batch on at %s, and its share, by DDP_SHARD "
                     "(%s:%d), begins at byte %llu: `first` is added in units of %llu bytes, and an item has %llu",
                     wrong->step, wrong->rank, (unsigned long long)begins, place, it->shard_file, it->shard_line,
                     (unsigned long long)share_begins, (unsigned long long)wrong->unit, (unsigned long long)it->record);
        sentence_say(verdict->advice,
                     "multiply `first` by %llu, the elements of an item, in the address of the copy at %s",
                     (unsigned long long)(it->record / wrong->unit), place);
    } else {
        sentence_say(verdict->text, "in step %u rank %d copies %s at %s, and its share, by DDP_SHARD (%s:%d), is %s",
                     wrong->step, wrong->rank, part, place, it->shard_file, it->shard_line, share);
        sentence_say(verdict->advice,
                     "the copy at %s must begin with item `first` of the batch: add `first` items, and nothing else",
                     place);
    }
}

static void
say_other(const struct copied *wrong, struct check_verdict *verdict, const char *place, bool beside_right)
{
    const struct check_copy *it = wrong->of[wrong->rank];
    bool are_values = beside_right && !copied_is_telling(it) && it->elsewhere == 0;
    char what[160] = "";
    if (!copied_is_telling(it))
        snprintf(what, sizeof(what), "%llu of %llu items are those of its share, and all were in an earlier step",
                 (unsigned long long)it->in_place, (unsigned long long)it->total);
    else if (it->elsewhere > 0)
        snprintf(what, sizeof(what), "of %llu pieces one rank has %llu in this step, and %llu in others, as in step %u",
                 (unsigned long long)it->total, (unsigned long long)it->here, (unsigned long long)it->elsewhere,
                 it->elsewhere_step);
    else
        snprintf(what, sizeof(what), "one rank has them in this step in another order");
    sentence_say(verdict->text,
                 "in step %u rank %d copies other data than its share of one rank's batch at %s (%s): %s", wrong->step,
                 wrong->rank, place, what,
                 are_values     ? "the host computes them in another way"
                 : beside_right ? "the host computes them in another way, or drawn in another order"
                                : "the ranks go through the data in another order");
    sentence_say(verdict->advice,
                 are_values ? "look for a number that the host computes from the share alone: a maximum, a sum or a "
                              "mean by which values are divided (DDP_REDUCE computes it for the batch); random "
                              "numbers; labels whose shuffle is not that of their records"
                 : beside_right
                     ? "look for random numbers that are seeded by rank, or values that the host computes from the "
                       "share alone; shuffle alike on all ranks: draw nothing from the shuffle's generator that "
                       "depends on the rank or its share"
                     : "shuffle alike on all ranks: the same seed, and draw nothing from the shuffle's generator that "
                       "depends on the rank or its share; the same number of batches in each epoch");
}

static void
say_unequal(const struct copied *wrong, struct check_verdict *verdict, const char *place)
{
    const struct check_copy *any = copied_any(wrong);
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
                 "in step %u rank %d copies %llu %s at %s, and rank %d %llu: the mean over ranks gives both the same "
                 "weight, and is not the mean over the batch",
                 wrong->step, least, (unsigned long long)(bytes[0] / each), unit, place, most,
                 (unsigned long long)(bytes[1] / each));
    sentence_say(verdict->advice, "take equal shares (DDP_SHARD), or weigh them: DDP_WEIGHT(count, total)");
}

static void
say_copied(const struct copied *wrong, struct check_verdict *verdict, const char *place, bool beside_right)
{
    const struct check_copy *it = wrong->of[0];
    char part[96];
    if (wrong->kind < COPIED_SAME) {
        say_shares(wrong, verdict, place);
    } else if (wrong->kind == COPIED_OTHER) {
        say_other(wrong, verdict, place, beside_right);
    } else if (wrong->kind == COPIED_UNEQUAL) {
        say_unequal(wrong, verdict, place);
    } else {
        if (wrong->kind == COPIED_SAME)
            sentence_say(verdict->text, "in step %u all %d ranks copy the same %llu bytes at %s, of %llu on one rank",
                         wrong->step, wrong->ranks, (unsigned long long)it->bytes, place,
                         (unsigned long long)it->whole);
        else if (wrong->kind == COPIED_OVERLAP)
            sentence_say(verdict->text, "in step %u ranks %d and %d both copy %s at %s", wrong->step, wrong->rank,
                         wrong->other, name_part(it, wrong->from, wrong->to, part), place);
        else
            sentence_say(verdict->text, "in step %u no rank copies %s at %s", wrong->step,
                         name_part(it, wrong->from, wrong->to, part), place);
        sentence_say(
            verdict->advice,
            "the shares together must be the batch, each item once: DDP_SHARD gives each rank its `first` and `count`");
    }
}

bool
data_say(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    struct check_verdict *verdict = judgement->verdict;
    const struct pattern *pattern = &judgement->pattern;
    uint32_t last = first_step(evidence, pattern);
    if (last == 0 || evidence->ranks < 2 || pattern_takes_whole_batches(evidence))
        return false;
    struct search search;
    struct copied wrong = {.of = xcalloc((size_t)evidence->ranks, sizeof(*wrong.of))},
                  scratch = {.of = xcalloc((size_t)evidence->ranks, sizeof(*scratch.of))};
    uint64_t right = 0;
    search_prepare(&search, evidence);
    double factor;
    bool found = find_wrong(&search, last, &wrong, &scratch, &right) &&
                 !(wrong.kind == COPIED_UNEQUAL && pattern_is_scaled(evidence, &factor));
    if (found) {
        char place[DATA_PLACE_BYTES], other[DATA_PLACE_BYTES], differs[600], said[1024];
        sentence_decide(verdict, CHECK_DIFFERENT, CAUSE_DATA, pattern->first);
        say_copied(&wrong, verdict, data_name_site(evidence, wrong.site, place), right != 0);
        memcpy(said, verdict->text, sizeof(said));
        if (right != 0 && strcmp(data_name_site(evidence, right, other), place) == 0)
            snprintf(other, sizeof(other), "the same line");
        sentence_say(verdict->text, "%s: %s%s%s%s", sentence_place(evidence, verdict, pattern->first, differs), said,
                     right != 0 ? "; the copy at " : "", right != 0 ? other : "", right != 0 ? " is right" : "");
    }
    release_search(&search);
    free(wrong.of);
    free(scratch.of);
    return found;
}

/* ---- what the host keeps and trains ---- */

/* What the rows have of the call site in the step, 0: of other values than one rank's in any; NULL: nothing. */
static const struct check_copy *
find_of_site(const struct check_rows *rows, uint64_t site, uint32_t step)
{
    const struct check_row *row = NULL;
    do
        row = check_rows_next(rows, CHECK_ROW_COPY, row);
    while (row != NULL &&
           (row->copy.site != site || (step == 0 ? row->copy.values == row->copy.whole_values : row->step != step)));
    return row != NULL ? &row->copy : NULL;
}

/* What one rank copies there is the same in each run, and changes with the parameters, as far as that is known. */
static bool
is_computed(const struct check_evidence *evidence, uint64_t site)
{
    bool is_data = evidence->far.count > 0 && find_of_site(&evidence->far, site, 0) == NULL;
    return find_of_site(&evidence->again, site, 0) == NULL && !is_data;
}

/* The first copy that has other values on a rank than on rank 0, and as many bytes as on one rank; NULL: none. */
static const struct check_row *
find_carried(const struct check_evidence *evidence, int *rank_p)
{
    for (int r = 1; r < evidence->ranks; ++r) {
        EACH_ROW(row, &evidence->ranked[r], CHECK_ROW_COPY) {
            const struct check_copy *mine = &row->copy,
                                    *first = find_of_site(&evidence->ranked[0], mine->site, row->step);
            *rank_p = r;
            if (mine->bytes == mine->whole && first != NULL && first->bytes == mine->bytes &&
                first->values != mine->values && is_computed(evidence, mine->site))
                return row;
        }
    }
    return NULL;
}

void
carried_judge(const struct check_evidence *evidence, struct check_verdict *verdict, struct check_wishes *wishes)
{
    int rank;
    char place[DATA_PLACE_BYTES];
    const struct check_row *row = verdict->result == CHECK_EQUAL ? find_carried(evidence, &rank) : NULL;
    if (row == NULL)
        return;
    wishes->far = evidence->far.count == 0;
    sentence_decide(verdict, CHECK_NOT_COMPARABLE, CAUSE_CARRIED, NULL);
    sentence_say(verdict->text,
                 "gradients and parameters are equal, but in step %u rank %d copies %llu bytes of the host's memory to "
                 "the device at %s that have other bits on rank 0, %s",
                 row->step, rank, (unsigned long long)row->copy.bytes, data_name_site(evidence, row->copy.site, place),
                 evidence->far.count > 0 ? "and they depend on the parameters: each rank trains its own copy"
                                         : "and it is not known whether they depend on the parameters");
    sentence_say(verdict->advice,
                 "if the host updates this memory, as a weight or an optimizer's state: annotate it with DDP_PARAMETER "
                 "and its gradient with DDP_GRADIENT, or with DDP_STATE; if each rank is to have its own values there, "
                 "as the loss of its share, the program is right");
}
