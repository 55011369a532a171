/* tolerances.c - see measure.h: up to which difference tensors of this check are equal. */
#include "tools/check/evidence/measure.h"

#include "tools/near/near.h"

/* The narrowest type that parameters or gradients have, that gradients are sent in, or that calls of libraries name. */
static int
narrowest_type(const struct check_evidence *evidence)
{
    int type = evidence->wire_type;
    EACH_ROW(row, &evidence->ranked[0], CHECK_ROW_TENSOR) {
        bool narrow = row->tensor.type == ELEMENT_FLOAT16 || row->tensor.type == ELEMENT_BFLOAT16;
        bool counts = row->tensor.role == CHECK_GRADIENT || row->tensor.role == CHECK_PARAMETER;
        if (counts && narrow && type != ELEMENT_BFLOAT16)
            type = (int)row->tensor.type;
    }
    const struct check_row *alone = check_rows_find(&evidence->alone, CHECK_ROW_TYPES),
                           *ranked = check_rows_find(&evidence->ranked[0], CHECK_ROW_TYPES);
    uint64_t named = (alone != NULL ? alone->value : 0) | (ranked != NULL ? ranked->value : 0);
    if ((named & CHECK_TYPES_BFLOAT16) != 0)
        return ELEMENT_BFLOAT16;
    if (type == 0 && (named & CHECK_TYPES_FLOAT16) != 0)
        return ELEMENT_FLOAT16;
    return type;
}

struct check_evidence
limits_settle(const struct check_evidence *given)
{
    struct check_evidence settled = *given;
    double tolerance = near_tolerance(narrowest_type(given));
    settled.is_asked = given->tolerance >= 0;
    if (!settled.is_asked)
        settled.tolerance = tolerance;
    settled.bearable = ITEMS_BEARABLE * tolerance;
    return settled;
}
