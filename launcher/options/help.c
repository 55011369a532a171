/*
 * help.c - what `ddprun --help` (one screen), `ddprun --help-all` and `ddprun COMMAND --help` print, made from the
 * tables of options, and what completion reads of them.
 *
 * The man page is made from the second: two blanks and a dash, or six and two dashes, begin an option; what is indented
 * deeper describes it; a line at the margin that ends in a colon is a title.
 */
#include "launcher/options/option_table.h"

#include "base/message.h"
#include "base/protocol.h"

#include <errno.h>
#include <string.h>

static const char *const group_titles[GROUP_COUNT] = {
    [GROUP_PLACES] = "Ranks and GPUs",
    [GROUP_TRAINING] = "Averaging of gradients",
    [GROUP_SAFETY] = "Checks and records",
    [GROUP_PROGRAM] = "Environment of the program",
    [GROUP_OUTPUT] = "Output",
    [GROUP_OTHER] = "Other",
};

static const char usage[] = "Usage: ddprun [options] program [arguments...]\n"
                            "       ddprun [options] COMMAND ...\n\n";
static const char what_it_is[] = "Starts N ranks of a CUDA program that was written for one GPU, each with a GPU\n"
                                 "of its own, and averages their gradients: data-parallel training of one model.\n";

static void
print_name(FILE *out, const struct option_row *row, int column)
{
    char left[80];
    snprintf(left, sizeof(left), "  %c%c%s--%s%s%s", row->letter != 0 ? '-' : ' ', row->letter != 0 ? row->letter : ' ',
             row->letter != 0 ? ", " : "  ", row->name, row->argument != NULL ? " " : "",
             row->argument != NULL ? row->argument : "");
    if ((int)strlen(left) < column - 1)
        fprintf(out, "%-*s", column, left);
    else
        fprintf(out, "%s\n%*s", left, column, "");
}

static void
print_rows(FILE *out, const struct option_row *row, enum option_group group)
{
    enum { COLUMN = 28 };
    for (; row->name != NULL; ++row) {
        if (row->group != group)
            continue;
        print_name(out, row, COLUMN);
        for (const char *p = row->help; *p != '\0'; ++p) {
            fputc(*p, out);
            if (*p == '\n')
                fprintf(out, "%*s", COLUMN, "");
        }
        fputc('\n', out);
    }
}

void
command_print_help(FILE *out, const struct command *command)
{
    fprintf(out, "%s\n", command->usage);
    print_rows(out, command->rows, command->group);
    fprintf(out, "\n%s", command->notes);
}

static void
print_commands(FILE *out, const struct command *const *commands)
{
    for (; *commands != NULL; ++commands)
        fprintf(out, "  %-10s%s\n", (*commands)->name, (*commands)->brief);
}

void
commands_print(FILE *out, const struct command *const *commands)
{
    fprintf(out, "%s%s\nCommands:\n", usage, what_it_is);
    print_commands(out, commands);
    fputs("\nddprun help COMMAND explains a command. ddprun --help lists the most used\n"
          "options, ddprun --help-all all options. A program with the name of a command is\n"
          "started as ./NAME.\n",
          out);
}

void
options_print_help(FILE *out)
{
    fprintf(out,
            "Usage: ddprun [options] program [arguments...]\n\n%s\n"
            "  ddprun -n 8 ./train --batch 256        eight ranks on eight GPUs\n"
            "  srun -n 64 ddprun ./train              64 ranks on a cluster (or mpirun -n)\n"
            "  ddprun scout ./train                   which annotations ./train needs\n"
            "  ddprun check ./train                   compare two ranks with one process\n"
            "  ddprun doctor ./train                  problems of this machine and of ./train\n\n",
            what_it_is);
    for (const struct option_row *row = option_rows; row->name != NULL; ++row) {
        enum { COLUMN = 33 };
        if (row->brief == NULL)
            continue;
        print_name(out, row, COLUMN);
        fprintf(out, "%s\n", row->brief);
    }
    fputs("Options stand before the program. All: ddprun --help-all. Commands: ddprun help.\n", out);
}

void
options_print_help_all(FILE *out, const struct command *const *commands)
{
    fprintf(out,
            "%s%s"
            "Options stand before the program; the words after it are its arguments. A\n"
            "command can stand in place of the program (ddprun COMMAND --help explains it); a\n"
            "program with the name of a command is started as ./NAME:\n",
            usage, what_it_is);
    print_commands(out, commands);
    for (enum option_group group = GROUP_PLACES; group < GROUP_COUNT; ++group) {
        if (group == GROUP_MIXED && option_mixed == NULL)
            continue;
        fprintf(out, group == GROUP_MIXED ? "\nOptions of ddprun %s:\n" : "\n%s:\n",
                group == GROUP_MIXED ? option_mixed->name : group_titles[group]);
        print_rows(out, option_rows, group);
    }
    fputs("\nIf an option is given twice, the last one counts.\n"
          "\nMost options can be set in the environment, too: --bucket-mb 10 is\n"
          "DDPRUN_BUCKET_MB=10. The command line has precedence over the environment.\n"
          "\nThe program finds RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE in its\n"
          "environment. Rank 0 reads the terminal's input, and its output is unchanged.\n"
          "Lines of other ranks begin with [rank] (with [rank]+ where a line longer than\n"
          "64 KiB continues). When one rank fails, ddprun stops all ranks.\n"
          "\nExit codes: 0: all ranks ended well; 1: ddprun or a rank stopped the job with a\n"
          "message; 2: wrong options; 127: the program cannot be started; otherwise the\n"
          "exit code of the rank that failed first (128 + signal if a signal ended it).\n"
          "\nExamples:\n"
          "  ddprun -n 2 ./train --batch 96         two ranks on two GPUs, or on the stand-in\n"
          "                                         if softgpu-cc built the program\n"
          "  ddprun --gpus 1,3 ./train              two ranks, on GPUs 1 and 3\n"
          "  ddprun -n 2 --share-gpu ./train        two ranks on one GPU\n"
          "  ddprun -n 4 --device softgpu ./run.sh  a script that starts such a program\n"
          "  ddprun -n 4 --subst ./train --log run-{rank}.log\n"
          "                                         a log file for each rank\n"
          "\nMessages, sorted by symptom: man ddprun-troubleshooting. Annotations: man ddprun.h.\n",
          out);
}

/* ---- completion ---- */

static void
print_completion(FILE *out, const char *command, const struct option_row *row)
{
    for (; row->name != NULL; ++row)
        fprintf(out, "%s %c %s %s\n", command, row->letter != 0 ? row->letter : '-', row->name,
                row->argument != NULL ? row->argument : "-");
}

void
commands_print_completion(FILE *out, const struct command *const *commands)
{
    print_completion(out, "-", option_rows);
    for (; *commands != NULL; ++commands) {
        fprintf(out, "%s\n", (*commands)->name);
        print_completion(out, (*commands)->name, (*commands)->rows);
    }
}

/* ---- its end ---- */

int
close_stdout(FILE *out)
{
    bool flushed = fflush(out) == 0;
    int why = errno;
    if (flushed && !ferror(out))
        return 0;
    message_line("cannot write to stdout: %s; make room, or print elsewhere",
                 flushed ? "a part was refused" : strerror(why));
    return DDPRUN_EXIT_FAILURE;
}
