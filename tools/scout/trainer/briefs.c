/* briefs.c - see briefs.h. */
#include "tools/scout/trainer/briefs.h"

#include <search.h>
#include <xxhash.h>

/* Where operations were, and since when: a tree of search.h. */
struct first_use {
    uint64_t name, offset;
    uint32_t begun;
};

struct brief *briefs;
size_t brief_count;
struct brief_argument *brief_arguments;
enum likeness briefs_likeness;
static size_t argument_count;
static struct first_use **places; /* all that are in the tree */
static size_t place_count;
static bool *written; /* by number of an allocation: a kernel changed it */
static uint32_t written_count;
static unsigned looks;

/* While only some are there: all, and of each the number that it has among these, or the next of them has. */
static struct {
    struct brief *briefs;
    struct brief_argument *arguments;
    size_t count;
    uint32_t *numbers; /* [count + 1]; NULL: all are there */
} whole;

/* ---- what is kept of an operation ---- */

COMPARES(compare_places, struct first_use, COMPARE(a, b, name, COMPARE(a, b, offset, 0)))

/* The operation that was the first one in a place; this one, if none was there before. */
static uint32_t
place_begun(uint64_t name, uint64_t offset)
{
    static void *tree;
    static struct first_use *added;
    added = added == NULL ? scout_zeroed(1, sizeof(*added)) : added;
    *added = (struct first_use){name, offset, (uint32_t)brief_count};
    struct first_use *const *found = tsearch(added, &tree, compare_places);
    if (found == NULL)
        scout_stop("out of memory");
    if (*found != added)
        return (*found)->begun;
    *SCOUT_GROWN(places, place_count) = added;
    added = NULL;
    return (uint32_t)brief_count;
}

/* Adds an argument of the operation that is being added: allocation `number`, byte offset in it, parameter slot. */
static void
add_argument(uint32_t number, uint64_t offset, uint32_t slot)
{
    struct allocation *allocation = allocations_numbered(number);
    if (allocation == NULL)
        return;
    uint64_t name = allocations_name(allocation);
    allocation->met_at = allocation->met_at > 0 ? allocation->met_at : brief_count + 1;
    *SCOUT_GROWN(brief_arguments, argument_count) = (struct brief_argument){
        name, allocation->bytes, offset, number, slot, place_begun(name, offset), (uint32_t)allocation->met_at - 1};
}

/* What the operation does, for readers; static, or the kernel's name. */
static const char *
words_of(const struct noted *noted)
{
    const struct scout_op *op = &noted->op;
    switch (op->kind) {
    case SCOUT_FILL:
        return "fills";
    case SCOUT_COPY:
        if (op->from.alloc == SCOUT_NONE)
            return "copies from the host";
        return op->to.alloc == SCOUT_NONE ? "copies to the host" : "copies on the device";
    default:
        return noted->text;
    }
}

struct brief
briefs_outline(const struct noted *noted)
{
    const struct scout_op *op = &noted->op;
    const bool is_copy = op->kind == SCOUT_COPY, is_loaded = is_copy && op->from.alloc == SCOUT_NONE;
    const uint64_t what[] = {op->kind,    op->name,    is_loaded,   op->block[0], op->block[1], op->block[2],
                             op->grid[0], op->grid[1], op->grid[2], op->bytes,    op->rows,     noted->named_count};
    return (struct brief){.what = XXH3_64bits(what, sizeof(what)),
                          .any_size = XXH3_64bits(what, 6 * sizeof(*what)),
                          .lengths = noted->lengths,
                          .site = op->site,
                          .words = words_of(noted),
                          .computes = op->kind == SCOUT_LAUNCH,
                          .is_loaded = is_loaded,
                          .is_read = is_copy && !is_loaded && op->to.alloc == SCOUT_NONE};
}

void
briefs_add(const struct noted *noted)
{
    const struct scout_op *op = &noted->op;
    struct brief brief = briefs_outline(noted);
    brief.first = (uint32_t)argument_count;
    FOR_EACH(argument, op->arguments, noted->named_count)
        add_argument(argument->alloc, argument->offset, argument->slot);
    if (op->kind == SCOUT_COPY || op->kind == SCOUT_FILL)
        add_argument(op->to.alloc, op->to.offset, 0);
    if (op->kind == SCOUT_COPY)
        add_argument(op->from.alloc, op->from.offset, 1);
    brief.count = (uint32_t)argument_count - brief.first;
    *SCOUT_GROWN(briefs, brief_count) = brief;
}

/* ---- likeness ---- */

void
briefs_compare_memory(void)
{
    size_t count;
    struct allocation **all = allocations_all(&count);
    scout_require(scout_state.driver.cuCtxSynchronize_p(), "cuCtxSynchronize");
    memory_hash(all, count, false);
    for (size_t i = 0; i < count; ++i) {
        while (all[i]->number >= written_count)
            (void)SCOUT_GROWN(written, written_count);
        if (all[i]->hash_known && all[i]->met != all[i]->hash && !all[i]->host_wrote)
            written[all[i]->number] = true;
        all[i]->hash = all[i]->met;
        all[i]->hash_known = true;
        all[i]->host_wrote = false;
    }
    ++looks;
}

static bool
is_size(const struct brief_argument *argument)
{
    return looks > 1 && (argument->alloc >= written_count || !written[argument->alloc]);
}

bool
briefs_are_same_place(const struct brief_argument *a, const struct brief_argument *b)
{
    return a->name == b->name && a->offset == b->offset;
}

uint64_t
briefs_what(const struct brief *brief)
{
    return briefs_likeness == LIKE_BUT_FOR_SIZES ? brief->any_size : brief->what;
}

/* Whether two arguments, `lag` operations apart, are alike: the same place, or `both_new`: each is in a place that
 * is new in its period, and was new as many operations ago. */
static bool
is_argument_alike(const struct brief_argument *a, const struct brief_argument *b, bool both_new)
{
    if (is_size(a) != is_size(b))
        return false;
    if (is_size(a))
        return briefs_likeness == LIKE_BUT_FOR_SIZES || a->bytes == b->bytes;
    return briefs_are_same_place(a, b) || (both_new && a->bytes == b->bytes);
}

bool
briefs_are_alike(size_t i, size_t lag)
{
    const struct brief *now = &briefs[i], *then = &briefs[i - lag];
    bool sizes = briefs_likeness != LIKE_BUT_FOR_SIZES;
    if (briefs_what(now) != briefs_what(then) || now->count != then->count)
        return false;
    for (uint32_t k = 0; k < now->count; ++k) {
        const struct brief_argument *a = &brief_arguments[now->first + k], *b = &brief_arguments[then->first + k];
        bool both_new = i - a->begun < lag && i - a->begun == i - lag - b->begun;
        if (a->slot != b->slot)
            return false;
        if (!sizes && i - a->met < lag && i - a->met == i - lag - b->met)
            continue;
        if (briefs_likeness == LIKE_BUT_FOR_PLACES && now->is_loaded && a->name == b->name)
            continue;
        if (!is_argument_alike(a, b, both_new))
            return false;
    }
    return true;
}

/* ---- without some ---- */

/* All arguments: those of operations that are left out stay where they are. */
static void
number_arguments(void)
{
    const size_t all = argument_count;
    brief_arguments = NULL;
    argument_count = 0;
    for (size_t i = 0; i < all; ++i) {
        struct brief_argument argument = whole.arguments[i];
        argument.begun = whole.numbers[argument.begun];
        argument.met = whole.numbers[argument.met];
        *SCOUT_GROWN(brief_arguments, argument_count) = argument;
    }
}

void
briefs_narrow(bool (*left_out)(const struct brief *brief))
{
    whole.briefs = briefs;
    whole.arguments = brief_arguments;
    whole.count = brief_count;
    whole.numbers = scout_zeroed(brief_count + 1, sizeof(*whole.numbers));
    briefs = NULL;
    brief_count = 0;
    for (size_t i = 0; i < whole.count; ++i) {
        whole.numbers[i] = (uint32_t)brief_count;
        if (!left_out(&whole.briefs[i]))
            *SCOUT_GROWN(briefs, brief_count) = whole.briefs[i];
    }
    whole.numbers[whole.count] = (uint32_t)brief_count;
    number_arguments();
}

/* What begins with an operation begins where that one is now. */
static void
renumber(void)
{
    size_t count;
    struct allocation **all = allocations_all(&count);
    for (size_t i = 0; i < place_count; ++i)
        places[i]->begun = whole.numbers[places[i]->begun];
    for (size_t i = 0; i < count; ++i)
        all[i]->met_at = all[i]->met_at > 0 ? whole.numbers[all[i]->met_at - 1] + 1 : 0;
}

void
briefs_settle(bool kept)
{
    if (kept)
        renumber();
    free(kept ? whole.briefs : briefs);
    free(kept ? whole.arguments : brief_arguments);
    free(whole.numbers);
    briefs = kept ? briefs : whole.briefs;
    brief_arguments = kept ? brief_arguments : whole.arguments;
    brief_count = kept ? brief_count : whole.count;
    whole.numbers = NULL;
}
