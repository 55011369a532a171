/*
 * absent.c - cuFFT, cuSPARSE and cuSOLVER, which the stand-in lacks: archives of stubs (stubs.cmake), so that a program
 * which names them in a path that it does not take links and runs. Part of users' programs, so it needs the C library
 * only.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Says once that there is no such function, and returns the library's status for that. Any thread. */
int ABSENT_STUB(const char *name, _Atomic bool *said);

int
ABSENT_STUB(const char *name, _Atomic bool *said)
{
    if (!atomic_exchange(said, true))
        dprintf(2, "softgpu: %s returns %s: the stand-in has no %s\n", name, ABSENT_STATUS_NAME, ABSENT_LIBRARY);
    return ABSENT_STATUS;
}
