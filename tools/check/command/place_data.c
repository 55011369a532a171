/*
 * place_data.c - data that stay on the device: does each rank read them from where its share begins (relation.h)?
 */
#include "tools/check/command/relation.h"

#include <string.h>

static const char begin_with_batch[] =
    "begin where the batch begins, and add `first` of DDP_SHARD: the beginning of a batch must advance by the whole "
    "batch in each step, not by the rank's share";

/* Whether the argument is memory without annotation which no operation of the steps that were looked at has written. */
static bool
is_data(const struct finding *finding, const struct where *read)
{
    const struct look_argument *of = relation_argument(finding, -1, read);
    struct where by;
    return of->is_memory && of->tensor == 0 && of->end == 0 &&
           !place_find_writer(&finding->one, read->operation, of, finding->question->since, &by);
}

bool
place_begins_elsewhere(const struct finding *finding, const struct where *read)
{
    const struct look_argument *one = relation_argument(finding, -1, read), *own = relation_argument(finding, 0, read);
    if (finding->question->is_update || finding->question->takes_turns || !is_data(finding, read))
        return false;
    return own != NULL && own->is_memory && own->offset != one->offset;
}

bool
place_say_begin(const struct finding *finding, const struct where *read)
{
    const struct looked_operation *op = &finding->one.operations[read->operation];
    const struct look_argument *one = relation_argument(finding, -1, read), *own = relation_argument(finding, 0, read);
    return place_say(finding, PLACE_DATA, op, NULL, begin_with_batch,
                     "%s points to byte %llu of its memory on rank 0, and to byte %llu in one process: rank 0's share "
                     "does not begin where the batch begins",
                     ARGUMENT_OF(op, &op->arguments[read->argument]), (unsigned long long)own->offset,
                     (unsigned long long)one->offset);
}

/* The rank's operation by the same call in that interval, also if it has other arguments; NULL: it makes none. */
static const struct looked_operation *
find_by_call(const struct looked *rank, const struct looked_operation *one)
{
    return FIND(op, rank->operations, rank->count,
                op->header->interval == one->header->interval && strcmp(op->header->name, one->header->name) == 0 &&
                    strcmp(op->header->place, one->header->place) == 0);
}

bool
place_say_no_memory(const struct finding *finding, const struct looked_operation *one, int rank)
{
    const struct looked_operation *own = find_by_call(&finding->ranks[rank], one);
    if (own == NULL)
        return false;
    FOR_EACH(it, one->arguments, one->header->arguments) {
        if (!it->is_memory ||
            ANY(of, own->arguments, own->header->arguments, of->number == it->number && of->is_memory))
            continue;
        return place_say(
            finding, PLACE_SCALAR, one, NULL,
            "the pointer leaves its memory: compute it from where the memory begins, by the rank's `first` item",
            "%s points to memory in one process, and on rank %d to no memory that is allocated", ARGUMENT_OF(one, it),
            rank);
    }
    return false;
}
