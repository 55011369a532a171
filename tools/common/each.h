/*
 * each.h - loops over the items of a list, and what holds of them.
 */
#ifndef DDPRUN_TOOLS_COMMON_EACH_H
#define DDPRUN_TOOLS_COMMON_EACH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* FOR_EACH(tensor, finding->tensors, finding->tensor_count): all items, one after the other. The list and its length
 * are read in front of the loop. FOR_EACH_UNTIL: as long as `done` is false. FOR_EACH_MUTABLE: the loop may change
 * items. In the loop NUMBER_OF(tensor) is its number in the list, from 0. */
#define EACH_END(item, count) ((count) == 0 ? (item) : (item) + (count)) /* an empty list may be NULL */
#define EACH(type, item, list, count) \
    type *item = (list), *const item##_first = item, *const item##_end = EACH_END(item##_first, count)
#define FOR_EACH_UNTIL(item, list, count, done) \
    for (EACH(const __typeof__(*(list)), item, list, count); item < item##_end && !(done); ++item)
#define FOR_EACH(item, list, count) FOR_EACH_UNTIL(item, list, count, false)
#define FOR_EACH_MUTABLE(item, list, count) \
    for (EACH(__typeof__(*(list)), item, list, count); item < item##_end; ++item)
#define NUMBER_OF(item) ((uint32_t)((item)-item##_first))

/* The first item of which something holds; NULL: there is none. */
#define FIND(item, list, count, holds)                                                 \
    __extension__({                                                                    \
        __typeof__(*(list)) *item = (list), *const item##_end = EACH_END(item, count); \
        while (item < item##_end && !(holds))                                          \
            ++item;                                                                    \
        item < item##_end ? item : NULL;                                               \
    })

/* How many items something holds of, where it holds of the first ones and of no item after them. By halving. */
#define COUNT_SORTED(item, list, count, holds)                                                \
    __extension__({                                                                           \
        __typeof__((count) + 0) item##_low = 0, item##_high = (count);                        \
        while (item##_low < item##_high) {                                                    \
            __typeof__(*(list)) *item = &(list)[item##_low + (item##_high - item##_low) / 2]; \
            if (holds)                                                                        \
                item##_low = (__typeof__(item##_low))(item - (list)) + 1;                     \
            else                                                                              \
                item##_high = (__typeof__(item##_low))(item - (list));                        \
        }                                                                                     \
        item##_low;                                                                           \
    })

/* For qsort(): by a number of two items; where it is the same, by what comes then. */
#define COMPARE(a, b, by, then) ((a)->by != (b)->by ? ((a)->by < (b)->by ? -1 : 1) : (then))
/* qsort() of a list, which may be NULL if it is empty. */
#define SORT(list, count, order) ((count) > 1 ? qsort((list), (count), sizeof(*(list)), (order)) : (void)0)
/* Its function, of items `a` and `b`: COMPARES(by_size, struct part, COMPARE(a, b, bytes, 0)). */
#define COMPARES(name, type, order)                            \
    static int name(const void *first_item, const void *other) \
    {                                                          \
        type const *a = first_item;                            \
        type const *b = other;                                 \
        return (order);                                        \
    }

/* Whether something holds of any item, or number from `first` on below `end`; or of all. */
#define ANY(item, list, count, holds)                 \
    __extension__({                                   \
        bool item##_any = false;                      \
        FOR_EACH_UNTIL(item, list, count, item##_any) \
            item##_any = (holds);                     \
        item##_any;                                   \
    })
#define ALL(item, list, count, holds) (!ANY(item, list, count, !(holds)))
#define ANY_NUMBER(i, first, end, holds)                                                       \
    __extension__({                                                                            \
        bool i##_any = false;                                                                  \
        for (__typeof__((end) + 0) i = (first), i##_end = (end); i < i##_end && !i##_any; ++i) \
            i##_any = (holds);                                                                 \
        i##_any;                                                                               \
    })
#define ALL_NUMBERS(i, first, end, holds) (!ANY_NUMBER(i, first, end, !(holds)))

#endif
