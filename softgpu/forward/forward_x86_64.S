/*
 * forward_x86_64.S - the functions of find.c's archive: each jumps to what its slot holds, and has it found first if that is
 * nothing. No register that carries an argument changes, so this fits every signature. forward_aarch64.S is the same for
 * that machine.
 */
#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define SLOTS       JOIN(softgpu_forward_slots_, FORWARD_LIBRARY)
#define FIND        JOIN(softgpu_forward_find_, FORWARD_LIBRARY)

        .text

/* r11: the number of the function. */
        .type   first_call, @function
first_call:
        .cfi_startproc
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        movq    %rsp, %rbp
        .cfi_def_cfa_register rbp
        andq    $-16, %rsp
        subq    $192, %rsp
        movq    %rax, 0(%rsp)
        movq    %rdi, 8(%rsp)
        movq    %rsi, 16(%rsp)
        movq    %rdx, 24(%rsp)
        movq    %rcx, 32(%rsp)
        movq    %r8, 40(%rsp)
        movq    %r9, 48(%rsp)
        movq    %r10, 56(%rsp)
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movaps  %xmm\i, 64+16*\i(%rsp)
        .endr
        movl    %r11d, %edi
        call    FIND
        movq    %rax, %r11
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movaps  64+16*\i(%rsp), %xmm\i
        .endr
        movq    0(%rsp), %rax
        movq    8(%rsp), %rdi
        movq    16(%rsp), %rsi
        movq    24(%rsp), %rdx
        movq    32(%rsp), %rcx
        movq    40(%rsp), %r8
        movq    48(%rsp), %r9
        movq    56(%rsp), %r10
        leave
        .cfi_def_cfa rsp, 8
        .cfi_restore rbp
        jmp     *%r11
        .cfi_endproc
        .size   first_call, .-first_call

        .macro  forward number, name
        .globl  \name
        .hidden \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        movq    SLOTS+8*\number(%rip), %r11
        testq   %r11, %r11
        je      1f
        jmp     *%r11
1:      movl    $\number, %r11d
        jmp     first_call
        .cfi_endproc
        .size   \name, .-\name
        .endm

#define FORWARD(number, name) forward number, name
#include FORWARD_TABLE

        .section .note.GNU-stack, "", @progbits
