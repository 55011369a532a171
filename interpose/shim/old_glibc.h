/*
 * old_glibc.h - the shim asks for functions as glibc 2.17 has them, wherever it was built, so that it loads in old
 * containers. Included by the compiler before each of the shim's files; tests/lint/exports.sh checks the result.
 *
 * glibc 2.34 gave the functions of libdl new versions when they moved into libc, and 2.33 the same to fstat, which the
 * shim therefore does without. The versions below are the first that the architecture's glibc had. The libraries that
 * hold them differ; the shim names both as needed.
 */
#ifndef DDPRUN_INTERPOSE_OLD_GLIBC_H
#define DDPRUN_INTERPOSE_OLD_GLIBC_H

#if defined(__x86_64__)
#define FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_GLIBC "GLIBC_2.17"
#else
#error "the first glibc of this architecture is not known here: add its symbol version"
#endif

__asm__(".symver dladdr, dladdr@" FIRST_GLIBC);
__asm__(".symver dlclose, dlclose@" FIRST_GLIBC);
__asm__(".symver dlerror, dlerror@" FIRST_GLIBC);
__asm__(".symver dlopen, dlopen@" FIRST_GLIBC);

#endif
