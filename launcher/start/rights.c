/*
 * rights.c - see rights.h.
 */
#include "launcher/start/rights.h"

#include "base/protocol.h"

#include <sys/auxv.h>

bool
rights_check(struct problem *problem)
{
    /* The kernel's own word for "more rights than the caller", for all three ways (getauxval(3)). */
    return getauxval(AT_SECURE) == 0 ||
           problem_set(problem, DDPRUN_EXIT_USAGE,
                       "ddprun has other rights than its user (setuid, setgid or file capabilities) and would lend "
                       "them to every program; take them off its file: chmod u-s,g-s, setcap -r");
}
