/* relation_parts.h - what relation.c and relation_copies.c share (relation.h). */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_RELATION_PARTS_H
#define DDPRUN_TOOLS_CHECK_COMMAND_RELATION_PARTS_H

#include "tools/check/command/relation.h"
#include "tools/near/numbers.h"

/* ---- relation_copies.c ---- */
/* Of all that a call copies from the host in the interval of the operation. */
enum relation relation_of_copied(const struct finding *finding, const struct where *where);

#endif
