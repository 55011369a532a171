/*
 * preview.h - what a training by a plan is going to do, printed before it begins: `--plan auto`.
 */
#ifndef DDPRUN_TOOLS_PLAN_COMMAND_PREVIEW_H
#define DDPRUN_TOOLS_PLAN_COMMAND_PREVIEW_H

#include <json-c/json.h>

/* What is averaged and compared, which batches become one update, what printed figures mean, and what speed was
 * forecast: lines to stderr. `plan`: as plan_cache_next() or `ddprun scout --prove` has made it, with "forecast". */
void preview_print(struct json_object *plan, int ranks);

#endif
