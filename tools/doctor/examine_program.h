/*
 * examine_program.h - between the files that examine a program: trainer.c, script.c, loading.c; and doctor.c, which
 * wants to know of it before it looks at the machine.
 */
#ifndef DDPRUN_TOOLS_DOCTOR_EXAMINE_PROGRAM_H
#define DDPRUN_TOOLS_DOCTOR_EXAMINE_PROGRAM_H

#include "tools/doctor/examine.h"

/* Does the file show that it computes with CUDA? */
bool trainer_shows_cuda(const struct elf_needs *needs);

void examine_script(struct examination *examination);

/* Does this text mention something that takes the preload away? What it mentions, or NULL. Pure. */
const char *script_find_hazard(const char *text, size_t length);

/* Which libraries the loader finds, which of CUDA, and where the shim comes; which file is annotated. */
void examine_loading(struct examination *examination);

#endif
