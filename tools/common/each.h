/*
 * each.h - loops over the items of a list.
 */
#ifndef DDPRUN_TOOLS_COMMON_EACH_H
#define DDPRUN_TOOLS_COMMON_EACH_H

/* FOR_EACH(tensor, finding->tensors, finding->tensor_count): all items, one after the other. The list and its length
 * are read in front of the loop. FOR_EACH_UNTIL: as long as `done` is false. FOR_EACH_MUTABLE: the loop may change
 * items. */
#define EACH_END(item, count) ((count) == 0 ? (item) : (item) + (count)) /* an empty list may be NULL */
#define FOR_EACH_UNTIL(item, list, count, done)                                               \
    for (const __typeof__(*(list)) *item = (list), *const item##_end = EACH_END(item, count); \
         item < item##_end && !(done); ++item)
#define FOR_EACH(item, list, count) FOR_EACH_UNTIL(item, list, count, false)
#define FOR_EACH_MUTABLE(item, list, count) \
    for (__typeof__(*(list)) *item = (list), *const item##_end = EACH_END(item, count); item < item##_end; ++item)

#endif
