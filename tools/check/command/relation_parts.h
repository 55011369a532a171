/* relation_parts.h - what relation.c, relation_copies.c and relation_elements.c share (relation.h). */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_RELATION_PARTS_H
#define DDPRUN_TOOLS_CHECK_COMMAND_RELATION_PARTS_H

#include "tools/check/command/relation.h"
#include "tools/near/numbers.h"

/* ---- relation_copies.c ---- */
/* Of all that a call copies from the host in the interval of the operation. */
enum relation relation_of_copied(const struct finding *finding, const struct where *where);

/* ---- relation.c ---- */
/* The numbers of bytes [first, end) of an argument; `of_change`: how much they have changed, zeros where the rank does
 * not make the operation. False: they were not kept. */
bool relation_numbers(const struct finding *finding, int rank, const struct where *where, uint64_t first, uint64_t end,
                      bool of_change, struct numbers *numbers);

#endif
