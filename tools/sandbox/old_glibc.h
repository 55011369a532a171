/*
 * old_glibc.h - as interpose/shim/old_glibc.h, with dlsym, which this library calls and the shim must not: where both
 * are loaded, the call passes the shim's dlsym.
 */
#ifndef DDPRUN_TOOLS_SANDBOX_OLD_GLIBC_H
#define DDPRUN_TOOLS_SANDBOX_OLD_GLIBC_H

#include "interpose/shim/old_glibc.h"

__asm__(".symver dlsym, dlsym@" FIRST_GLIBC);

#endif
