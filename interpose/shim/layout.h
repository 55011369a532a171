/*
 * layout.h - where things are in the structs that hooks_*.S reads; hooks.c asserts each of them. Included by both.
 */
#ifndef DDPRUN_INTERPOSE_SHIM_LAYOUT_H
#define DDPRUN_INTERPOSE_SHIM_LAYOUT_H

/* enum shim_mode; shim.mode is the first field of `shim` */
#define MODE_PASSIVE   0
#define MODE_ALONE     1
#define MODE_UNDECIDED 2

/* struct route */
#define ROUTE_BYTES 80
#define ROUTE_REAL  48

/* struct filter */
#define FILTER_VERSION 8
#define FILTER_LOWEST  16
#define FILTER_SPAN    24

/* struct shim_launches */
#define LAUNCHES_LAST 8

/* struct filter_kernels, struct filter_kernel */
#define KERNELS_SLOTS   16
#define KERNEL_KEY      0
#define KERNEL_FUNCTION 8
#define KERNEL_WORDS    24

#define FILTER_FACTOR 0x61C88647
#define FILTER_END    0xFFFF
#define FILTER_UNROLL 4

#ifdef __ASSEMBLER__
/* How the hook of each kind begins: HOOK compares the mode, and goes on in C if it is above, not below, other; ALWAYS
 * goes on in C. */
#define BEGIN_OPERATION(symbol)     HOOK symbol, MODE_ALONE, IF_ABOVE
#define BEGIN_LAUNCH_PLAIN(symbol)  LAUNCH_PLAIN symbol
#define BEGIN_LAUNCH_CONFIG(symbol) LAUNCH_CONFIG symbol
#define BEGIN_ALLOCATION(symbol)    HOOK symbol, MODE_UNDECIDED, IF_NOT_BELOW
#define BEGIN_FREE_MEMORY           BEGIN_ALLOCATION
#define BEGIN_RELEASE(symbol)       HOOK symbol, MODE_PASSIVE, IF_OTHER
#define BEGIN_RELEASE_ASYNC         BEGIN_RELEASE
#define BEGIN_NOTIFICATION          BEGIN_RELEASE
#define BEGIN_MODULE                BEGIN_RELEASE
#define BEGIN_GRAPH                 BEGIN_OPERATION
#define BEGIN_GRAPH_STREAM          BEGIN_OPERATION
#define BEGIN_WAIT                  BEGIN_OPERATION
#define BEGIN_WAIT_ALL              BEGIN_OPERATION
#define BEGIN_QUERY                 BEGIN_OPERATION
#define BEGIN_EXIT                  BEGIN_OPERATION
#define BEGIN_EXPORT                BEGIN_OPERATION
#define BEGIN_RECORDED              BEGIN_OPERATION
#define BEGIN_DEVICE(symbol)        ALWAYS symbol
#define BEGIN_NOTIFICATION_DEVICE   BEGIN_DEVICE
#define ONE(kind, symbol, ...)      BEGIN_##kind(symbol)
#define TWO(kind, symbol, twin, ...) \
    BEGIN_##kind(symbol);            \
    BEGIN_##kind(symbol##twin)
#endif

#endif
