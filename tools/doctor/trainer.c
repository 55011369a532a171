/*
 * trainer.c - the doctor's look at the program: what it was built with, from its file, and what the dynamic loader
 * would make of it with the shim in front. None of the program's own code runs.
 *
 * The loader's answer is in loading.c.
 */
#include "tools/doctor/examine.h"

bool
trainer_shows_cuda(const struct examination *examination)
{
    return examination->has_kernels ||
           ANY(it, examination->loaded.libraries, examination->loaded.count, is_library_of_cuda(it->name));
}

static void
examine_device(struct examination *examination)
{
    struct findings *findings = examination->findings;
    struct error error;
    if (!devices_check_program(examination->options, examination->program, &error))
        findings_say_error(findings, FINDING_PROBLEM, "device", error.text);
    else if (examination->facts->built_for_softgpu)
        findings_ok(findings, "device", "built by softgpu-cc, for the stand-in");
    else if (examination->softgpu && examination->has_kernels)
        findings_say(findings, FINDING_PROBLEM, "device", "build it with softgpu-cc, or leave --device softgpu out",
                     "built for GPUs, with kernels of its own, which the stand-in cannot run");
    else if (trainer_shows_cuda(examination))
        findings_ok(findings, "device", "built for GPUs%s",
                    examination->has_kernels ? ", with kernels of its own" : "");
    else
        findings_say(findings, FINDING_NOTE, "device",
                     "if it starts the trainer, examine the trainer: ddprun doctor PROGRAM; if it loads CUDA as a "
                     "plugin, ignore this",
                     "no sign of CUDA in its file");
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
    if (!examination->is_whole) {
        findings_say(examination->findings, FINDING_PROBLEM, "file", "build it again",
                     "its headers for the dynamic loader are invalid");
        return;
    }
    findings_ok(examination->findings, "file", "dynamically linked ELF, by %s", examination->facts->interpreter);
    examine_device(examination);
    examine_loading(examination);
}
