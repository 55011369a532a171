/* doctor.c - see doctor.h: the order of the examinations, and what is printed. */
#include "tools/doctor/examine.h"

#include "base/protocol.h"
#include "launcher/cluster/launched.h"
#include "launcher/options/option_rows.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"

#include <fcntl.h>

/* The program and what its file tells; filled in from top to bottom. */
struct target {
    struct program program;
    struct elf_facts facts;
    bool is_known, has_facts, is_whole, has_kernels;
    struct error error; /* if it is not known */
};

static const struct option_row rows[] = {HELP_ROW, {0}};

static void
open_target(const char *name, struct target *target)
{
    target->is_known = program_find(name, getenv("PATH"), &target->program, &target->error);
    if (!target->is_known || target->program.is_script)
        return;
    struct elf_file file;
    OWNED_FD int fd = open(target->program.path, O_RDONLY | O_CLOEXEC);
    target->has_facts = fd >= 0 && elf_file_open(fd, &file) == 0;
    if (target->has_facts) {
        target->facts = elf_file_facts(&file);
        target->is_whole = elf_file_is_dynamic(&file);
        target->has_kernels = target->is_whole && elf_file_has_section(&file, is_section_of_kernels);
        elf_file_close(&file);
    }
}

/* Whether a launcher has started this process, and in which allocation of a scheduler. */
static void
examine_launcher(struct findings *findings)
{
    struct launched launched;
    struct error error;
    const char *job = getenv("SLURM_JOB_ID"), *nodes = getenv("SLURM_JOB_NODELIST");
    if (job != NULL)
        findings_ok(findings, "Slurm", "inside allocation %s, on %s", job, nodes != NULL ? nodes : "?");
    if (!launched_look(&(struct launch_request){.node_rank = -1}, &launched, &error))
        findings_say_error(findings, FINDING_PROBLEM, "launcher", error.text);
    else if (launched.by != LAUNCHED_ALONE)
        findings_ok(findings, "launcher", "this process is one of several, by %s", launched.variables);
}

static void
examine_machine(struct examination *examination)
{
    examination->findings->title = "this machine";
    examine_installation(examination);
    examine_list(examination);
    examine_gpus(examination);
    examine_libraries(examination);
    examine_launcher(examination->findings);
    examine_limits(examination);
}

static void
examine_target(struct examination *examination, const char *name, const struct target *target)
{
    OWNED char *title = xasprintf("the program %s", target->is_known ? target->program.path : name);
    examination->findings->title = title;
    if (target->is_known)
        examine_program(examination);
    else
        findings_say_error(examination->findings, FINDING_PROBLEM, "file", target->error.text);
}

static int
run_doctor(const struct command *command, const struct options *options)
{
    struct target target = {0};
    char **rest;
    int exit_code;
    if (!command_begin(command, options->program, NULL, &rest, &exit_code))
        return exit_code;
    if (rest[0] != NULL)
        open_target(rest[0], &target);

    struct findings findings = {.out = stdout, .colour = tool_wants_colour()};
    struct examination examination = {
        .findings = &findings,
        .options = options,
        .softgpu = options->device == DEVICE_SOFTGPU || target.program.built_for_softgpu,
        .needs_gpu = options->device == DEVICE_GPU || target.is_known,
        .program = target.is_known ? &target.program : NULL,
        .facts = target.has_facts ? &target.facts : NULL,
        .is_whole = target.is_whole,
        .has_kernels = target.has_kernels,
    };
    examination.needs_gpu = examination.needs_gpu && !examination.softgpu;
    examine_machine(&examination);
    if (rest[0] != NULL)
        examine_target(&examination, rest[0], &target);
    findings_say_counts(&findings);
    installation_free(&examination.found);
    loader_list_free(&examination.loaded);
    program_free(&target.program);
    int printed = close_stdout(stdout);
    return findings.counts[FINDING_PROBLEM] == 0 ? printed : DDPRUN_EXIT_FAILURE;
}

const struct command doctor_command = {
    .name = "doctor",
    .brief = "find problems of this machine and of a program",
    .usage = "Usage: ddprun [options] doctor [program]\n\n"
             "Checks whether this machine and the program can run a job, and prints for each\n"
             "problem what to do. Starts no rank.\n",
    .notes = "Exit codes: 0: no problem; 1: at least one problem; 2: wrong options.\n",
    .rows = rows,
    .run = run_doctor,
};
