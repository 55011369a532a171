/* place_writers.c - which operation has written what another one gets (relation.h). */
#include "tools/check/command/relation.h"

bool
place_reaches(const struct look_argument *it, const struct look_argument *of)
{
    return it->is_memory && it->end > 0 && it->address + it->first < of->address + of->bytes &&
           of->address < it->address + it->end;
}

bool
place_find_writer(const struct looked *one, size_t at, const struct look_argument *of, uint32_t least, struct where *by)
{
    for (*by = (struct where){.operation = at, .after = true};
         by->operation-- > 0 && one->operations[by->operation].header->interval >= least;)
        for (by->argument = 0; by->argument < one->operations[by->operation].header->arguments; ++by->argument)
            if (place_reaches(&one->operations[by->operation].arguments[by->argument], of))
                return true;
    return false;
}

bool
place_is_alike(const struct finding *finding, const struct where *where)
{
    double value = relation_argument(finding, -1, where)->value;
    for (int r = 0; r < finding->question->ranks; ++r) {
        const struct look_argument *it = relation_argument(finding, r, where);
        if (it == NULL || it->value != value)
            return false;
    }
    return true;
}
