/* choose.c - see rows.h: of the rows that apply, the one of the earliest stage. */
#include "tools/check/place/rows.h"

const struct place_row *const place_families[] = {
    place_rows_of_calls, place_rows_of_scalars, place_rows_of_memory, place_rows_of_results, NULL,
};

const struct place_row *
place_find_row(const struct operation *operation)
{
    const struct place_row *found = NULL;
    for (size_t family = 0; place_families[family] != NULL; ++family) {
        for (const struct place_row *row = place_families[family]; row->name != NULL; ++row) {
            bool is_earlier = found == NULL || row->stage < found->stage;
            if (is_earlier && row->applies(operation))
                found = row;
        }
    }
    return found;
}

/* A place that an input shows has a tensor of its own, and may be in a step before. */
static const struct place *
input_of_row(const struct operation *operation, const struct place_row *row)
{
    switch (row->stage) {
    case STAGE_INPUT:
        return &operation->input;
    case STAGE_INPUT_OF_ROWS:
        return &operation->input_of_rows;
    case STAGE_INPUT_BESIDES:
        return &operation->input_besides;
    default:
        return NULL;
    }
}

bool
place_choose(const struct operation *operation, struct place *place)
{
    const struct place_row *row = place_find_row(operation);
    if (row == NULL)
        return false;
    const struct place *input = input_of_row(operation, row);
    if (input != NULL) {
        *place = *input;
        place->rule = row->name;
        return true;
    }
    place->kind = row->kind_of != NULL ? row->kind_of(operation) : row->kind;
    place->advice = row->advise != NULL ? row->advise(operation) : row->advice;
    place->rule = row->name;
    row->say(operation, place->text);
    return true;
}
