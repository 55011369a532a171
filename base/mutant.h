/*
 * mutant.h - deliberate defects, with which the tests prove that they would notice. tests/mutants.txt names them all.
 *
 * Most stand in tests/woven.txt, and in copies of the sources. Builds with -DDDPRUN_MUTANTS, as one engine of
 * tests/end_to_end, have all, and the environment selects a defect by its name: DDPRUN_MUTANT=SUM_NOT_MEAN. mutants.sh
 * requires for each that a run which the real engine passes fails. In what users run every MUTANT(...) is a constant
 * false.
 */
#ifndef DDPRUN_BASE_MUTANT_H
#define DDPRUN_BASE_MUTANT_H

#ifdef DDPRUN_MUTANTS
#include <stdlib.h>
#include <string.h>
#define MUTANT(name) mutant_is(#name)

static inline int
mutant_is(const char *name)
{
    const char *selected = getenv("DDPRUN_MUTANT");
    return selected != NULL && strcmp(selected, name) == 0;
}
#else
#define MUTANT(name) (sizeof(#name) == 0)
#endif

#endif
