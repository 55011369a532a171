/*
 * program.h - logs of synthetic trainers, for tests of the analysis without a device.
 *
 * A program is a text. Its first lines declare memory: `NAME ELEMENTS` or `NAME ELEMENTS half`. After a line `step`
 * come the operations of a step, which is recorded four times:
 *
 *     h2d x               new data from the host;  `h2d= x`: the same bytes in each step
 *     d2h loss            to the host
 *     fill g              to zero
 *     copy a b            a = b
 *     new g               freed and allocated again
 *     kernel: y = x w ~z; m += x
 *
 * A kernel overwrites what is in front of `=`, adds to each element in front of `+=`, and computes it in front of `*=`
 * from all that was there; behind it stands what it reads, with `~` element by element. `x[8:16]` are elements of x
 * that an argument points to and reaches; `x{8:16}` are those that are touched, while the argument points to the whole,
 * and of `x(8:16)` the same, but the whole was noted as changed.
 * `?x`, `?y *=`: whether it goes element by element has stayed open.
 * `kernel!differs:`, `kernel!hidden:` and `kernel!excluded:` say what repetitions showed. A line with `<` in front is
 * of all steps but the last, one with `>` of the last.
 */
#ifndef DDPRUN_TESTS_TOOLS_SCOUT_PROGRAM_H
#define DDPRUN_TESTS_TOOLS_SCOUT_PROGRAM_H

#include "tools/scout/format/log.h"

/* The log of a program. `steps`: that are recorded in the deep pass. Freed by scout_log_free(). */
void program_record(const char *text, unsigned steps, struct scout_log *log);

/* The name of an allocation of the last program that was recorded. Static storage. */
const char *program_name(uint32_t alloc);

#endif
