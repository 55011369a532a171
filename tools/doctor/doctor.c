/* doctor.c - see examine.h: the order of the examinations. */
#include "tools/doctor/examine.h"

#include "base/protocol.h"
#include "launcher/cluster/launched.h"
#include "launcher/options/option_rows.h"
#include "tools/common/owned.h"
#include "tools/common/tool_options.h"

#include <fcntl.h>

/* What the file of the program that was named tells. *error: if there is none that can be started. */
static void
open_program(struct examination *it, const char *name, struct error *error)
{
    struct elf_file file;
    it->has_program = program_find(name, getenv("PATH"), &it->program, error);
    if (!it->has_program || it->program.is_script)
        return;
    OWNED_FD int fd = open(it->program.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || elf_file_open(fd, &file) != 0)
        return;
    it->facts = elf_file_facts(&file);
    it->is_whole = elf_file_is_dynamic(&file);
    it->has_kernels = it->is_whole && elf_file_has_section(&file, is_section_of_kernels);
    elf_file_close(&file);
}

/* Whether a launcher has started this process, and in which allocation of a scheduler. */
static void
examine_launcher(struct examination *it)
{
    struct launched launched;
    struct error error;
    const char *job = getenv("SLURM_JOB_ID"), *nodes = getenv("SLURM_JOB_NODELIST");
    if (job != NULL)
        findings_ok(it, "Slurm", "inside allocation %s, on %s", job, nodes != NULL ? nodes : "?");
    if (!launched_look(&(struct launch_request){.node_rank = -1}, &launched, &error))
        findings_say_error(it, FINDING_PROBLEM, "launcher", error.text);
    else if (launched.by != LAUNCHED_ALONE)
        findings_ok(it, "launcher", "this process is one of several, by %s", launched.variables);
}

static void
examine_machine(struct examination *it)
{
    it->title = "this machine";
    examine_installation(it);
    examine_list(it);
    examine_gpus(it);
    examine_nccl(it);
    examine_launcher(it);
    examine_limits(it);
}

static void
examine_target(struct examination *it, const char *name, const struct error *error)
{
    OWNED char *title = xasprintf("the program %s", it->has_program ? it->program.path : name);
    it->title = title;
    if (it->has_program)
        examine_program(it);
    else
        findings_say_error(it, FINDING_PROBLEM, "file", error->text);
}

static int
run_doctor(const struct command *command, const struct options *options)
{
    struct examination it = {.out = stdout, .options = options};
    struct error error;
    char **rest;
    int exit_code;
    if (!command_begin(command, options->program, NULL, &rest, &exit_code))
        return exit_code;
    if (rest[0] != NULL)
        open_program(&it, rest[0], &error);
    it.colour = tool_wants_colour();
    it.softgpu = options->device == DEVICE_SOFTGPU || it.program.built_for_softgpu;
    it.needs_gpu = (options->device == DEVICE_GPU || it.has_program) && !it.softgpu;
    examine_machine(&it);
    if (rest[0] != NULL)
        examine_target(&it, rest[0], &error);
    findings_say_counts(&it);
    installation_free(&it.found);
    loader_list_free(&it.loaded);
    program_free(&it.program);
    int printed = close_stdout(stdout);
    return it.counts[FINDING_PROBLEM] == 0 ? printed : DDPRUN_EXIT_FAILURE;
}

static const struct option_row rows[] = {HELP_ROW, {0}};

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
