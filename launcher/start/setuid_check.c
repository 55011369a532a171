/*
 * setuid_check.c - see setuid_check.h.
 */
#include "launcher/start/setuid_check.h"

#include "base/protocol.h"

#include <sys/auxv.h>

bool
setuid_check(struct error *error)
{
    /* The kernel's own word for "more rights than the caller", for all three ways (getauxval(3)). */
    return getauxval(AT_SECURE) == 0 ||
           error_set(error, DDPRUN_EXIT_USAGE,
                     "ddprun has other rights than its user (setuid, setgid or file capabilities) and would lend "
                     "them to every program; take them off its file: chmod u-s,g-s, setcap -r");
}
