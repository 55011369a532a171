/*
 * elf_needs.h - what a program's file tells of CUDA: for `ddprun doctor`. Which libraries it needs, the loader says.
 *
 * Evidence, not proof: a file can be stripped of what is looked for. Nothing of the file is believed; whatever points
 * outside of it makes it damaged.
 */
#ifndef DDPRUN_TOOLS_DOCTOR_ELF_NEEDS_H
#define DDPRUN_TOOLS_DOCTOR_ELF_NEEDS_H

#include "launcher/start/elf_file.h"

struct elf_needs {
    bool has_kernels;        /* a section .nv_fatbin: nvcc compiled some of it */
    bool names_driver;       /* the text "libcuda.so.1" is in it: it opens the driver by itself */
    bool names_driver_entry; /* "cuGetProcAddress_v2": so does cudart */
    bool names_softgpu;      /* "libsoftgpu.so": it was linked with the stand-in's libraries or their forwarders */
};

/* False: no dynamically linked ELF file of 64 bits, or a damaged one. */
bool elf_needs_read(const struct elf_file *file, struct elf_needs *needs) __attribute__((warn_unused_result));

#endif
