/*
 * softgpu_note.c - linked with fake_trainer.c, makes it a program "built for the stand-in": an ELF note with owner
 * "softgpu".
 */
__asm__(".pushsection .note.softgpu, \"a\", %note\n"
        ".balign 4\n"
        ".long 8, 4, 1\n"
        ".asciz \"softgpu\"\n"
        ".long 1\n"
        ".popsection\n");
