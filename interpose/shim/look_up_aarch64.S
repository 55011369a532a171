/*
 * look_up_aarch64.S - our dlsym, dlvsym and dlmopen, and the thunks for calls that are only recorded; see look_up_x86_64.S.
 */
        .text

        .macro  LOOK_UP name, decide, real
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        hint    #34                     /* bti c */
        stp     x29, x30, [sp, #-48]!
        .cfi_adjust_cfa_offset 48
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        mov     x3, x30                 /* our caller */
        bl      \decide                 /* (handle, name, version, caller): x0 the pointer, x1 whether it answers */
        mov     x16, x1
        mov     x17, x0
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        ldp     x29, x30, [sp], #48
        .cfi_restore x29
        .cfi_restore x30
        .cfi_adjust_cfa_offset -48
        cbnz    x16, 1f
        adrp    x16, \real
        ldr     x16, [x16, #:lo12:\real]
        br      x16
1:      mov     x0, x17
        ret
        .cfi_endproc
        .size   \name, .-\name
        .endm

        LOOK_UP dlsym, gate_look_up, gate_real_dlsym
        LOOK_UP dlvsym, gate_look_up_version, gate_real_dlvsym
        LOOK_UP dlmopen, namespaces_look, namespaces_real_dlmopen

/* Only x16 and x17 are free between a caller and a function; the loop of the count needs a third register, from the stack. */
        .globl  recorder_thunks
        .hidden recorder_thunks
        .type   recorder_thunks, %function
        .p2align 6
recorder_thunks:
        .set    i, 0
        .rept   64
        .p2align 6
        hint    #34
        adrp    x16, :gottprel:shim_depth
        ldr     x16, [x16, #:gottprel_lo12:shim_depth]
        mrs     x17, tpidr_el0
        ldr     w17, [x17, x16]
        mov     x16, #i
        cbz     w17, recorder_count
        b       recorder_jump
        .set    i, i+1
        .endr
        .p2align 6
        .size   recorder_thunks, .-recorder_thunks

        .type   recorder_count, %function
recorder_count:                         /* x16: the thunk */
        adrp    x17, recorder_thunk_calls
        add     x17, x17, #:lo12:recorder_thunk_calls
        add     x17, x17, x16, lsl #3
        stp     x0, x1, [sp, #-16]!
1:      ldxr    x0, [x17]
        add     x0, x0, #1
        stxr    w1, x0, [x17]
        cbnz    w1, 1b
        ldp     x0, x1, [sp], #16
recorder_jump:
        adrp    x17, recorder_thunk_targets
        add     x17, x17, #:lo12:recorder_thunk_targets
        ldr     x16, [x17, x16, lsl #3]
        br      x16
        .size   recorder_count, .-recorder_count

        .section .note.GNU-stack, "", %progbits
