/*
 * ending.c - at the program's end the engine is called before the driver.
 *
 * exit() calls last what was registered first: so the engine registers itself again whenever the driver, or a library
 * on it, has come up.
 */
#include "interpose/engine/core/core.h"

#include <unistd.h>

static void (*end)(void), (*fail)(void); /* constant once the engine has started */

/* Called by exit(), in the process that is the rank; a forked child has inherited it, and has nothing to end. */
static void
at_exit(int exit_status, void *unused)
{
    (void)unused;
    if (getpid() != engine_state.pid)
        return;
    stop_if_asked();               /* that a check has failed explains more than the exit status */
    if ((exit_status & 0xff) == 0) /* as others see it; else the launcher does, and ends the others */
        end();
    else
        fail();
}

void
ending_before_driver(void)
{
    require_allocated(on_exit(at_exit, NULL) == 0);
}

void
ending_open(void (*end_of_engine)(void), void (*before_failure)(void))
{
    end = end_of_engine;
    fail = before_failure;
    ending_before_driver();
}
