/*
 * forward_aarch64.S - the functions of find.c's archive; see forward_x86_64.S.
 */
#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define SLOTS       JOIN(softgpu_forward_slots_, FORWARD_LIBRARY)
#define FIND        JOIN(softgpu_forward_find_, FORWARD_LIBRARY)

        .text

/* x16: the number of the function. */
        .type   first_call, %function
first_call:
        .cfi_startproc
        stp     x29, x30, [sp, #-224]!
        .cfi_adjust_cfa_offset 224
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        str     x8, [sp, #80]
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
        mov     w0, w16
        bl      FIND
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldr     x8, [sp, #80]
        ldp     q0, q1, [sp, #96]
        ldp     q2, q3, [sp, #128]
        ldp     q4, q5, [sp, #160]
        ldp     q6, q7, [sp, #192]
        ldp     x29, x30, [sp], #224
        .cfi_restore x29
        .cfi_restore x30
        .cfi_adjust_cfa_offset -224
        br      x16
        .cfi_endproc
        .size   first_call, .-first_call

        .macro  forward number, name
        .globl  \name
        .hidden \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        hint    #34                     /* bti c */
        adrp    x16, SLOTS+8*\number
        ldr     x16, [x16, #:lo12:SLOTS+8*\number]
        cbz     x16, 1f
        br      x16
1:      mov     w16, #\number
        b       first_call
        .cfi_endproc
        .size   \name, .-\name
        .endm

#define FORWARD(number, name) forward number, name
#include FORWARD_TABLE

        .section .note.GNU-stack, "", %progbits
