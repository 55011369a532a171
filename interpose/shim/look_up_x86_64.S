/*
 * look_up_x86_64.S - our dlsym, dlvsym and dlmopen, and the thunks for calls that are only recorded.
 *
 * RTLD_NEXT and RTLD_DEFAULT mean "as seen from the caller", which the real functions find by their return address. So whatever
 * we do not replace must be a jump, not a call: with a call the shim itself would become the caller (facts: an import that
 * looped for ever). look_up_aarch64.S is the same for that machine.
 */
        .text

/* void *dlsym(void *handle, const char *name); void *dlvsym(void *handle, const char *name, const char *version);
   void *dlmopen(Lmid_t id, const char *file, int flags) */
        .macro  LOOK_UP name, decide, real
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), %rcx          /* our caller; the stack is 16-byte aligned at the call */
        call    \decide                 /* (handle, name, version, caller): rax the pointer, rdx whether it answers */
        movq    %rdx, %rcx
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rcx, %rcx
        jne     1f
        jmp     *\real(%rip)
1:      ret
        .cfi_endproc
        .size   \name, .-\name
        .endm

        LOOK_UP dlsym, gate_look_up, gate_real_dlsym
        LOOK_UP dlvsym, gate_look_up_version, gate_real_dlvsym
        LOOK_UP dlmopen, namespaces_look, namespaces_real_dlmopen

/*
 * recorder_thunks: THUNKS entries of THUNK_BYTES (shim.h); entry i counts in recorder_thunk_calls[i], unless the call comes from
 * within a hook or the engine (shim_depth), and jumps to recorder_thunk_targets[i]. Changes no register that carries an argument,
 * so it fits every signature.
 */
        .globl  recorder_thunks
        .hidden recorder_thunks
        .type   recorder_thunks, @function
        .p2align 6
recorder_thunks:
        .set    i, 0
        .rept   64
        .p2align 6
        endbr64
        movq    shim_depth@gottpoff(%rip), %r11
        cmpl    $0, %fs:(%r11)
        jne     1f
        lock incq recorder_thunk_calls+8*i(%rip)
1:      jmp     *recorder_thunk_targets+8*i(%rip)
        .set    i, i+1
        .endr
        .p2align 6
        .size   recorder_thunks, .-recorder_thunks

        .section .note.GNU-stack, "", @progbits
