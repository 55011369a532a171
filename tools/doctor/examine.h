/*
 * examine.h - the doctor's examinations: each looks at one subject and adds what it found, a line each, as it is found,
 * and at the end how many there are of each state.
 *
 * Texts may hold names from files and variables whose content is not trusted; control characters and broken UTF-8 are
 * replaced, so that they reach no terminal. Main thread.
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

#include <stdio.h>

enum finding_state {
    FINDING_OK,
    FINDING_NOTE,    /* works; good to know */
    FINDING_WARNING, /* works now, but not in every job */
    FINDING_PROBLEM, /* ddprun cannot work with this */
    FINDING_STATE_COUNT,
};

struct examination {
    FILE *out; /* nothing of it waits in its buffer: examinations fork */
    bool colour;
    int counts[FINDING_STATE_COUNT];
    const char *title; /* what follows is about this: "this machine", "the program ./train"; printed once */
    const struct options *options;
    bool softgpu;              /* jobs of interest run on the stand-in: by --device, or by the program's note */
    bool needs_gpu;            /* else: of this program, or with --device gpu, no rank is started without a GPU */
    int gpu_count;             /* once examine_gpus() has looked */
    bool is_installed;         /* then the next is filled in */
    struct installation found; /* what lies next to the launcher */
    bool has_program;          /* one was named, and can be started at all: then the next is filled in */
    struct program program;
    bool is_whole;          /* what its file says to the dynamic loader: then the next is filled in */
    struct elf_facts facts; /* of a program that is no script */
    bool has_kernels;       /* nvcc compiled some of it */
    bool has_list;          /* then the next is what the loader would load for the program, with the shim */
    struct loader_list loaded;
    char why[96]; /* it has none */
};

/* `advice` says what to do; NULL: nothing. The text is one line, without a full stop. */
void findings_say(struct examination *it, enum finding_state state, const char *subject, const char *advice,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

/* All is well with `subject`. */
#define findings_ok(it, subject, ...) findings_say(it, FINDING_OK, subject, NULL, __VA_ARGS__)

/* From the text of a struct error, "what; what to do". */
void findings_say_error(struct examination *it, enum finding_state state, const char *subject, const char *text);

/* The last line. */
void findings_say_counts(const struct examination *it);

/* ---- called by doctor.c, in this order ---- */
void examine_installation(struct examination *it); /* installed.c: ddprun's own parts */
void examine_list(struct examination *it);         /* trainer.c: asks the loader, if there is a program */
void examine_gpus(struct examination *it);         /* gpus.c: driver and GPUs */
void examine_nccl(struct examination *it);         /* installed.c */
void examine_limits(struct examination *it);       /* limits.c: what the system allows */
void examine_program(struct examination *it);      /* trainer.c: the program, which must be there */

/* ---- trainer.c ---- */
/* Does the file show that it computes with CUDA? */
bool trainer_shows_cuda(const struct examination *it);

/* ---- doctor.c ---- */
/* What this machine and a program have and lack. Runs nothing of the program; opens libraries in children only. */
/* Exit code 1: something is a problem. */
extern const struct command doctor_command;

#endif
