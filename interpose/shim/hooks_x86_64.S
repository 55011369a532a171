/*
 * hooks_x86_64.S - how each hook begins, generated from hooks.def: is it only a jump?
 *
 * In assembly because a compiler moves the arguments on the stack around before it jumps on with them, and because what a
 * process pays that is not the rank is three instructions (and the landing pad). A launch of the rank's own is compared with
 * the tracked memory here, by filter_launch_misses() of filter.h in other words; what this cannot decide goes there.
 * hooks.c has the rest of each hook, NAME_told; routes.c has NAME_first, which finds the driver's function. hooks_aarch64.S is
 * the same for that machine.
 */
#include "interpose/shim/layout.h"

        .text
        .set    row, 0

        .macro  BEGIN name
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        .endm

        .macro  END name
        .cfi_endproc
        .size   \name, .-\name
        .set    row, row+1
        .endm

        .macro  JUMP_ON
        jmp     *shim_routes+row*ROUTE_BYTES+ROUTE_REAL(%rip)
        .endm

        /* Reported unless `mode` is below or equal, equal, different: `condition` jumps to NAME_told. */
        .macro  HOOK name, mode, condition
        BEGIN   \name
        cmpl    $\mode, shim(%rip)
        \condition \name\()_told
        JUMP_ON
        END     \name
        .endm

        /* Reported in every mode. */
        .macro  ALWAYS name
        BEGIN   \name
        jmp     \name\()_told
        END     \name
        .endm

        .macro  WORD offset
        movzwl  KERNEL_WORDS+\offset(%r10), %r11d
        movq    (%rax,%r11,8), %r11
        movq    (%r11), %r11
        subq    shim_filter+FILTER_LOWEST(%rip), %r11
        cmpq    shim_filter+FILTER_SPAN(%rip), %r11
        jb      6f
        .endm

        /* `function` and `params`: where the arguments are. */
        .macro  LAUNCH_HOOK name, function, params
        BEGIN   \name
        cmpl    $MODE_UNDECIDED, shim(%rip)
        jge     2f
1:      JUMP_ON
2:      je      \name\()_told
        movq    shim_depth@gottpoff(%rip), %rax
        cmpl    $0, %fs:(%rax)
        jne     1b
        movq    \params, %rax
        testq   %rax, %rax
        je      \name\()_told

        imulq   $FILTER_FACTOR, \function, %r10
        shrq    $32, %r10
        movq    shim_filter(%rip), %r11
        andq    (%r11), %r10
        leaq    KERNELS_SLOTS(%r11,%r10,8), %r11
3:      movq    (%r11), %r10
        cmpq    \function, KERNEL_KEY(%r10)
        jne     7f

        movq    shim_filter+FILTER_VERSION(%rip), %r11
        testb   $1, %r11b
        jne     \name\()_told
        movq    %r11, -8(%rsp)          /* in the red zone */
        cmpw    $FILTER_END-0x10000, KERNEL_WORDS(%r10)
        je      5f
4:      WORD    0
        WORD    2
        WORD    4
        WORD    6
        addq    $2*FILTER_UNROLL, %r10
        cmpw    $FILTER_END-0x10000, KERNEL_WORDS(%r10)
        jne     4b
5:      movq    -8(%rsp), %r11
        cmpq    shim_filter+FILTER_VERSION(%rip), %r11
        jne     \name\()_told
        incq    shim_launches(%rip)     /* another thread's may be lost: it is for reports only */
        movq    \function, shim_launches+LAUNCHES_LAST(%rip)
        jmp     1b

7:      addq    $8, %r11                /* another kernel, or the end */
        cmpq    $0, KERNEL_FUNCTION(%r10)
        jne     3b

6:      pushq   %rdi                    /* rax: params */
        pushq   %rsi
        pushq   %rdx
        pushq   %rcx
        pushq   %r8
        pushq   %r9
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 56
        movq    \function, %rdi
        movq    %rax, %rsi
        call    hooks_launch_misses
        addq    $8, %rsp
        popq    %r9
        popq    %r8
        popq    %rcx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        .cfi_adjust_cfa_offset -56
        testb   %al, %al
        jne     1b
        jmp     \name\()_told
        END     \name
        .endm

#define IF_ABOVE     jg
#define IF_NOT_BELOW jge
#define IF_OTHER     jne

/* cuLaunchKernel's parameters: `function` first, `params` the fourth on the stack; cuLaunchKernelEx's: second and third. */
        .macro  LAUNCH_PLAIN name
        LAUNCH_HOOK \name, %rdi, 32(%rsp)
        .endm
        .macro  LAUNCH_CONFIG name
        LAUNCH_HOOK \name, %rsi, %rdx
        .endm

#include "interpose/shim/hooks.def"

        .section .note.GNU-stack, "", @progbits
