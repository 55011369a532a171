/*
 * thunks.S - what a look-up of a library's function gets: code that notes which real function was meant, then jumps to
 * its hook with all arguments as they came. One for each entry of library_thunk_table (look_up.c): {real, hook}. Only
 * registers that a call may destroy on its way (procedure linkage) are used.
 */
#define THUNKS 1024

    .text
    .globl library_thunks
    .hidden library_thunks
    .hidden library_thunk_table
    .hidden library_bound
    .type library_thunks, %function
    .balign 16

#if defined(__x86_64__)
library_thunks:
    .set number, 0
    .rept THUNKS
    .balign 16
    .byte 0xf3, 0x0f, 0x1e, 0xfa        /* endbr64 */
    movl $(number * 16), %r11d
    jmp library_thunk_common
    .set number, number + 1
    .endr
    .balign 16
library_thunk_common:
    leaq library_thunk_table(%rip), %r10
    addq %r10, %r11
    movq (%r11), %r10
    movq library_bound@gottpoff(%rip), %rax
    movq %r10, %fs:(%rax)
    jmp *8(%r11)
#elif defined(__aarch64__)
library_thunks:
    .set number, 0
    .rept THUNKS
    .balign 16
    hint #34                            /* bti c */
    mov w17, #(number * 16)
    b library_thunk_common
    .set number, number + 1
    .endr
    .balign 16
library_thunk_common:
    adrp x16, library_thunk_table
    add x16, x16, :lo12:library_thunk_table
    add x16, x16, x17
    ldr x17, [x16]
    adrp x9, :gottprel:library_bound
    ldr x9, [x9, :gottprel_lo12:library_bound]
    mrs x10, tpidr_el0
    str x17, [x10, x9]
    ldr x16, [x16, #8]
    br x16
#else
#error "thunks.S: no code for this processor"
#endif
    .size library_thunks, . - library_thunks
    .section .note.GNU-stack, "", %progbits
