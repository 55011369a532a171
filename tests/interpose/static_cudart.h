/*
 * static_cudart.h - a tiny stand-in for NVIDIA's static cudart: how a program that has it reaches the driver.
 *
 * Linked into a program as an archive, so that the program itself is the caller, as there. Knows nothing but the
 * look-ups.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_STATIC_CUDART_H
#define DDPRUN_TESTS_INTERPOSE_STATIC_CUDART_H

#include <stdbool.h>
#include <stddef.h>

struct static_lookup {
    const char *name;
    int version;
    unsigned long long flags;
    int result;     /* CUresult of the look-up */
    void *function; /* what came back */
};

/* The look-ups in the order in which cudart makes them; count in *count_p. */
struct static_lookup *static_cudart_lookups(size_t *count_p);

/* Does what cudart does at its first call. False, with a message on stderr, if there is no driver. */
bool static_cudart_start(void);

/* What came back for this look-up; NULL if it is not one of cudart's, or was not answered. */
void *static_cudart_function(const char *name, int version, unsigned long long flags);

#endif
