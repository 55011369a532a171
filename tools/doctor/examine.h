/*
 * examine.h - the doctor's examinations: each looks at one subject and adds what it found.
 *
 * Called by doctor.c, in the order of this file. Main thread.
 */
#ifndef DDPRUN_TOOLS_DOCTOR_EXAMINE_H
#define DDPRUN_TOOLS_DOCTOR_EXAMINE_H

#include "launcher/options/command.h"
#include "launcher/options/options.h"
#include "launcher/start/elf_file.h"
#include "launcher/start/environment.h"
#include "launcher/start/loader.h"
#include "launcher/start/program.h"
#include "tools/common/each.h"
#include "tools/doctor/findings.h"

struct examination {
    struct findings *findings;
    const struct options *options;
    bool softgpu;                  /* jobs of interest run on the stand-in: by --device, or by the program's note */
    bool needs_gpu;                /* else: of this program, or with --device gpu, no rank is started without a GPU */
    int gpu_count;                 /* once examine_gpus() has looked */
    bool is_installed;             /* then the next is filled in */
    struct installation found;     /* what lies next to the launcher */
    const struct program *program; /* NULL: none was named, or it cannot be started at all */
    const struct elf_facts *facts; /* of the program, or of a script's interpreter; NULL: not known */
    bool is_whole;                 /* what its file says to the dynamic loader */
    bool has_kernels;              /* nvcc compiled some of it */
    bool has_list;                 /* then the next is what the loader would load for the program, with the shim */
    struct loader_list loaded;
    char why[96]; /* it has none */
};

void examine_installation(struct examination *examination); /* installed.c: ddprun's own parts */
void examine_gpus(struct examination *examination);         /* gpus.c: driver and GPUs */
void examine_libraries(struct examination *examination);    /* libraries.c: CUDA, NCCL */
void examine_limits(struct examination *examination);       /* limits.c: what the system allows */
void examine_program(struct examination *examination);      /* trainer.c: the program, which must be known */

/* ---- trainer.c, loading.c ---- */
/* Does the file show that it computes with CUDA? */
bool trainer_shows_cuda(const struct examination *examination);

/* Asks the loader. */
void examine_list(struct examination *examination);
/* Which libraries the loader finds, which of CUDA, and where the shim comes; which file is annotated. */
void examine_loading(struct examination *examination);

/* ---- doctor.c ---- */
/* What this machine and a program have and lack. Runs nothing of the program; opens libraries in children only. */
/* Exit code 1: something is a problem. */
extern const struct command doctor_command;

#endif
