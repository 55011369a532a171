/*
 * dlsym_x86_64.S - our dlsym, and the thunks for calls that are only recorded.
 *
 * RTLD_NEXT and RTLD_DEFAULT mean "as seen from the caller", which the real dlsym finds by its return address. So whatever we
 * do not replace must be a jump, not a call: with a call the shim itself would become the caller (facts: an import that
 * looped for ever).
 */
        .text

/* void *dlsym(void *handle, const char *name) */
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        movq    16(%rsp), %rdx          /* our caller */
        subq    $8, %rsp                /* the stack is 16-byte aligned at the call */
        .cfi_adjust_cfa_offset 8
        call    gate_look_up            /* (handle, name, caller): rax the pointer, rdx whether it answers */
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rdx, %rdx
        jne     1f
        jmp     *gate_real_dlsym(%rip)
1:      ret
        .cfi_endproc
        .size   dlsym, .-dlsym

/*
 * gate_thunks: THUNKS entries of 32 bytes; entry i counts in gate_thunk_calls[i] and jumps to gate_thunk_targets[i]. Changes
 * no register that carries an argument, so it fits every signature. THUNKS is also in gate.c.
 */
        .globl  gate_thunks
        .hidden gate_thunks
        .type   gate_thunks, @function
        .p2align 5
gate_thunks:
        .set    i, 0
        .rept   64
        .p2align 5
        endbr64
        lock incq gate_thunk_calls+8*i(%rip)
        jmp     *gate_thunk_targets+8*i(%rip)
        .set    i, i+1
        .endr
        .p2align 5
        .size   gate_thunks, .-gate_thunks

        .section .note.GNU-stack, "", @progbits
