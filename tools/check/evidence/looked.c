/* looked.c - see looked.h. */
#include "tools/check/evidence/looked.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/each.h"
#include "tools/common/grown.h"
#include "tools/common/owned.h"

#include <stdio.h>

/* ---- the file ---- */

/* All bytes of the file into looked->file; how many there are. NULL: none. */
static size_t
read_all(FILE *file, struct looked *looked)
{
    size_t room = 1 << 20, bytes = 0, got = 1;
    looked->file = xcalloc(1, room);
    while (file != NULL && got > 0) {
        got = fread(looked->file + bytes, 1, room - bytes, file);
        bytes += got;
        if (bytes == room)
            looked->file = xrealloc(looked->file, room *= 2);
    }
    return bytes;
}

/* False: it is damaged. */
static bool
read_records(struct looked *looked, size_t bytes)
{
    size_t at = 0;
    while (at + sizeof(struct look_operation) <= bytes) {
        struct look_operation *record = (void *)(looked->file + at);
        size_t follow = record->arguments > 0 ? record->arguments * sizeof(struct look_argument) : record->bytes;
        at += sizeof(*record);
        if (record->arguments > LOOK_ARGUMENTS || follow > bytes - at)
            return false;
        if (record->arguments > 0)
            *GROWN(looked->operations, looked->count) = (struct looked_operation){record, (void *)(looked->file + at)};
        else
            *GROWN(looked->contents, looked->content_count) =
                (struct contents){record->hash, record->bytes, looked->file + at};
        at += (follow + 7) / 8 * 8;
    }
    return true;
}

/* The memory of the argument is the tensor's: in operations before `end`, which came before its annotation, too. */
static void
annotate_before(struct looked *looked, size_t end, const struct look_argument *known)
{
    FOR_EACH(op, looked->operations, end) {
        FOR_EACH_MUTABLE(it, op->arguments, op->header->arguments) {
            if (!it->is_memory || it->address != known->address)
                continue;
            it->is_before = it->is_before || it->tensor == 0;
            it->tensor = known->tensor;
        }
    }
}

/* Operations before the first DDP_STEP get memory before its annotation. */
static void
annotate_early(struct looked *looked)
{
    for (size_t i = 0; i < looked->count; ++i) {
        const struct looked_operation *later = &looked->operations[i];
        for (uint32_t a = 0; a < later->header->arguments && later->header->interval == 0; ++a) {
            if (later->arguments[a].tensor != 0)
                annotate_before(looked, i, &later->arguments[a]);
        }
    }
}

bool
looked_load(const char *results, int rank, struct looked *looked, bool *lost_p)
{
    OWNED char *path = xasprintf("%s-%d.look", results, rank);
    FILE *file = fopen(path, "rb");
    *looked = (struct looked){.count = 0};
    size_t bytes = read_all(file, looked);
    *lost_p = *lost_p || file == NULL;
    if (file != NULL)
        fclose(file);
    unlink(path);
    bool ok = read_records(looked, bytes);
    annotate_early(looked);
    return ok && looked->count > 0 && looked->count < LOOK_OPERATIONS;
}

void
looked_free(struct looked *looked)
{
    free(looked->file);
    free(looked->contents);
    free(looked->operations);
    free(looked->matches);
}

const struct contents *
looked_find_contents(const struct looked *looked, uint64_t hash)
{
    return FIND(contents, looked->contents, looked->content_count, contents->hash == hash);
}

/* ---- which operation of a rank is which of the one process's ---- */

bool
looked_is_one_call(const struct looked_operation *a, const struct looked_operation *b)
{
    return a->header->interval == b->header->interval && a->header->arguments == b->header->arguments &&
           strcmp(a->header->name, b->header->name) == 0 && strcmp(a->header->place, b->header->place) == 0;
}

/* Sets rank->matches[]: for each operation of one process the first of the rank's, not yet taken, that the same call
 * has made in the same interval; -1: none. */
static void
find_operations(const struct looked *one, struct looked *rank)
{
    OWNED bool *taken = xcalloc(rank->count + 1, sizeof(*taken));
    rank->matches = xcalloc(one->count + 1, sizeof(*rank->matches));
    for (size_t i = 0; i < one->count; ++i) {
        rank->matches[i] = -1;
        for (size_t k = 0; k < rank->count && rank->matches[i] < 0; ++k) {
            if (taken[k] || !looked_is_one_call(&one->operations[i], &rank->operations[k]))
                continue;
            taken[k] = true;
            rank->matches[i] = (int)k;
        }
    }
}

/* Dividing by 1 leaves what is there. */
static void
share_changes(struct looked *one, const struct looked *rank)
{
    for (size_t i = 0; i < one->count; ++i) {
        for (uint32_t a = 0; a < one->operations[i].header->arguments && rank->matches[i] >= 0; ++a) {
            const struct look_argument *theirs = &rank->operations[rank->matches[i]].arguments[a];
            struct look_argument *mine = &one->operations[i].arguments[a];
            if (mine->is_memory && mine->end == 0 && theirs->end <= mine->bytes) {
                mine->first = theirs->first;
                mine->end = theirs->end;
            }
        }
    }
}

void
looked_align(struct looked *one, struct looked *rank)
{
    find_operations(one, rank);
    share_changes(one, rank);
}
