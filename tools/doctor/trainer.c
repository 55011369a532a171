/*
 * trainer.c - the doctor's look at the program: what it was built with, from its file, and what the dynamic loader
 * would make of it with the shim in front. None of the program's own code runs.
 *
 * The loader's answer is in loading.c.
 */
#include "tools/doctor/examine.h"

static bool
needs_library(const struct examination *examination, const char *prefix)
{
    return ANY(library, examination->loaded.libraries, examination->loaded.count,
               strncmp(library->name, prefix, strlen(prefix)) == 0);
}

static bool
opens_driver_itself(const struct elf_needs *needs)
{
    return needs->names_driver && needs->names_driver_entry;
}

bool
trainer_shows_cuda(const struct examination *examination)
{
    const struct elf_needs *needs = examination->needs;
    return (needs != NULL && (needs->has_kernels || opens_driver_itself(needs))) ||
           ANY(it, examination->loaded.libraries, examination->loaded.count, is_library_of_cuda(it->name));
}

static void
examine_device(struct examination *examination)
{
    struct findings *findings = examination->findings;
    const struct elf_needs *needs = examination->needs;
    struct error error;
    if (!devices_check_program(examination->options, examination->program, &error))
        findings_say_error(findings, FINDING_PROBLEM, "device", error.text);
    else if (examination->facts->built_for_softgpu)
        findings_ok(findings, "device", "built by softgpu-cc, for the stand-in");
    else if (examination->softgpu && needs->has_kernels)
        findings_say(findings, FINDING_PROBLEM, "device", "build it with softgpu-cc, or leave --device softgpu out",
                     "built for GPUs, with kernels of its own, which the stand-in cannot run");
    else if (trainer_shows_cuda(examination))
        findings_ok(findings, "device", "built for GPUs%s", needs->has_kernels ? ", with kernels of its own" : "");
    else
        findings_say(findings, FINDING_NOTE, "device",
                     "if it starts the trainer, examine the trainer: ddprun doctor PROGRAM; if it loads CUDA as a "
                     "plugin, ignore this",
                     "no sign of CUDA in its file");
}

/* A driver serves the programs of its own CUDA release and of those before it. */
static void
examine_shared_cudart(struct examination *examination)
{
    int major = 0;
    FOR_EACH(library, examination->loaded.libraries, examination->loaded.count)
        (void)sscanf(library->name, "libcudart.so.%4d", &major);
    if (!examination->softgpu && examination->driver_cuda > 0 && major > examination->driver_cuda / 1000)
        findings_say(examination->findings, FINDING_PROBLEM, "cudart",
                     "update the driver (release 580 or newer for CUDA 13), or build with an older toolkit",
                     "shared, of CUDA %d, but the driver serves CUDA %d.%d", major, examination->driver_cuda / 1000,
                     examination->driver_cuda % 1000 / 10);
    else
        findings_ok(examination->findings, "cudart", "shared");
}

/* Forwarders to the stand-in's runtime (softgpu/forward), or NVIDIA's, which they were meant to replace. */
static void
examine_softgpu_cudart(struct examination *examination)
{
    struct findings *findings = examination->findings;
    if (!examination->needs->names_softgpu && opens_driver_itself(examination->needs))
        findings_say(findings, FINDING_PROBLEM, "cudart",
                     "link it with softgpu-cc, or with -L and the stand-in's folder before that of the toolkit",
                     "static and NVIDIA's (libcudart_static.a), which cannot run kernels that softgpu-cc compiled");
    else
        findings_ok(findings, "cudart", "the stand-in's");
}

/* Which runtime library calls the driver for it. Static cudart leaves no name in NEEDED; the rest is evidence. */
static void
examine_cudart(struct examination *examination)
{
    struct findings *findings = examination->findings;
    const struct elf_needs *needs = examination->needs;
    if (needs_library(examination, "libcudart.so"))
        examine_shared_cudart(examination);
    else if (examination->facts->built_for_softgpu && (needs->names_softgpu || opens_driver_itself(needs)))
        examine_softgpu_cudart(examination);
    else if (opens_driver_itself(needs))
        findings_ok(findings, "cudart", "static, according to its file: it opens the driver by name");
    else if (needs_library(examination, "libcuda.so"))
        findings_ok(findings, "cudart", "not used: it calls the driver");
}

void
examine_program(struct examination *examination)
{
    if (examination->program->is_script) {
        findings_say(examination->findings, FINDING_NOTE, "file",
                     "examine the program that it starts, too: ddprun doctor PROGRAM, with --device softgpu if "
                     "softgpu-cc built that program",
                     "a script for %s; the shim has no effect in the interpreter", examination->program->interpreter);
        return;
    }
    if (examination->needs == NULL) {
        findings_say(examination->findings, FINDING_PROBLEM, "file", "build it again",
                     "its headers for the dynamic loader are invalid");
        return;
    }
    findings_ok(examination->findings, "file", "dynamically linked ELF, by %s", examination->facts->interpreter);
    examine_device(examination);
    examine_cudart(examination);
    examine_loading(examination);
}
