/*
 * mutant.h - deliberate defects, with which the tests prove that they would notice. tests/lib/mutants.txt names them
 * all.
 *
 * No source of the product has one: tests/lib/weave.awk writes them into copies of the sources, as tests/lib/woven.txt
 * says. The environment selects a defect by its name: DDPRUN_MUTANT=SUM_NOT_MEAN. mutants.sh requires for each that a
 * run which the real engine passes fails, assertions.sh of some that it ends by an assertion.
 */
#ifndef DDPRUN_TESTS_MUTANT_H
#define DDPRUN_TESTS_MUTANT_H

#include <stdlib.h>
#include <string.h>
#define MUTANT(name) mutant_is(#name)

static inline int
mutant_is(const char *name)
{
    const char *selected = getenv("DDPRUN_MUTANT");
    return selected != NULL && strcmp(selected, name) == 0;
}

#endif
