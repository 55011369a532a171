/*
 * hooks_aarch64.S - how each hook begins, generated from hooks.def; see hooks_x86_64.S.
 */
#include "interpose/shim/layout.h"

        .text
        .set    row, 0

        .macro  BEGIN name
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        hint    #34                     /* bti c */
        .endm

        .macro  END name
        .cfi_endproc
        .size   \name, .-\name
        .set    row, row+1
        .endm

        .macro  JUMP_ON
        adrp    x16, shim_routes+row*ROUTE_BYTES+ROUTE_REAL
        ldr     x16, [x16, #:lo12:shim_routes+row*ROUTE_BYTES+ROUTE_REAL]
        br      x16
        .endm

        .macro  COMPARE_MODE mode
        adrp    x16, shim
        ldr     w16, [x16, #:lo12:shim]
        cmp     w16, #\mode
        .endm

        .macro  HOOK name, mode, condition
        BEGIN   \name
        COMPARE_MODE \mode
        b.\condition \name\()_told
        JUMP_ON
        END     \name
        .endm

        /* Reported in every mode. */
        .macro  ALWAYS name
        BEGIN   \name
        b       \name\()_told
        END     \name
        .endm

        /* `function`: its register; `params` loads them into x9. x9 to x17 are free between a caller and a function. */
        .macro  LAUNCH_HOOK name, function, params:vararg
        BEGIN   \name
        COMPARE_MODE MODE_UNDECIDED
        b.ge    2f
1:      JUMP_ON
2:      b.eq    \name\()_told
        adrp    x16, :gottprel:shim_depth
        ldr     x16, [x16, #:gottprel_lo12:shim_depth]
        mrs     x17, tpidr_el0
        ldr     w17, [x17, x16]
        cbnz    w17, 1b
        \params
        cbz     x9, \name\()_told

        mov     w10, #FILTER_FACTOR & 0xFFFF
        movk    w10, #FILTER_FACTOR >> 16, lsl #16
        mul     x10, \function, x10
        lsr     x10, x10, #32
        adrp    x11, shim_filter
        add     x11, x11, #:lo12:shim_filter
        ldar    x12, [x11]
        ldr     x13, [x12]
        and     x10, x10, x13
        add     x12, x12, #KERNELS_SLOTS
        add     x12, x12, x10, lsl #3
4:      ldar    x10, [x12]
        ldr     x13, [x10, #KERNEL_KEY]
        cmp     x13, \function
        b.ne    7f

        add     x12, x11, #FILTER_VERSION
        ldar    x13, [x12]
        tbnz    x13, #0, \name\()_told
        add     x14, x11, #FILTER_LOWEST
        ldar    x14, [x14]
        add     x15, x11, #FILTER_SPAN
        ldar    x15, [x15]
        add     x10, x10, #KERNEL_WORDS
3:      ldrh    w16, [x10], #2
        mov     w17, #FILTER_END
        cmp     w16, w17
        b.eq    5f
        ldr     x16, [x9, x16, lsl #3]
        ldr     x16, [x16]
        sub     x16, x16, x14
        cmp     x16, x15
        b.lo    6f
        b       3b
5:      ldar    x16, [x12]
        cmp     x16, x13
        b.ne    \name\()_told
        adrp    x10, shim_launches      /* another thread's count may be lost: it is for reports only */
        add     x10, x10, #:lo12:shim_launches
        ldr     x11, [x10]
        add     x11, x11, #1
        stp     x11, \function, [x10]
        b       1b

7:      add     x12, x12, #8            /* another kernel, or the end */
        ldr     x13, [x10, #KERNEL_FUNCTION]
        cbnz    x13, 4b

6:      stp     x29, x30, [sp, #-80]!   /* x9: params */
        .cfi_adjust_cfa_offset 80
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        mov     x0, \function
        mov     x1, x9
        bl      hooks_launch_misses
        mov     w17, w0
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldp     x29, x30, [sp], #80
        .cfi_restore x29
        .cfi_restore x30
        .cfi_adjust_cfa_offset -80
        tst     w17, #0xFF
        b.ne    1b
        b       \name\()_told
        END     \name
        .endm

#define IF_ABOVE     gt
#define IF_NOT_BELOW ge
#define IF_OTHER     ne

/* cuLaunchKernel's parameters: `function` first, `params` the second on the stack; cuLaunchKernelEx's: second and third. */
        .macro  LAUNCH_PLAIN name
        LAUNCH_HOOK \name, x0, ldr x9, [sp, #8]
        .endm
        .macro  LAUNCH_CONFIG name
        LAUNCH_HOOK \name, x1, mov x9, x2
        .endm

#include "interpose/shim/hooks.def"

        .section .note.GNU-stack, "", %progbits
