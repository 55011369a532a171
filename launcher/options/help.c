/*
 * help.c - what `ddprun --help` (one screen) and `ddprun --help-all` print, made from the table of options.
 *
 * The man page is made from the second: two blanks and a dash, or six and two dashes, begin an option; what is indented
 * deeper describes it; a line at the margin that ends in a colon is a title.
 */
#include "launcher/options/option_table.h"

#include <stdio.h>
#include <string.h>

static const char *const group_titles[GROUP_COUNT] = {
    [GROUP_PLACES] = "Ranks and GPUs",          [GROUP_TRAINING] = "Averaging of gradients",
    [GROUP_SAFETY] = "Checks and records",      [GROUP_PROGRAM] = "Environment of the program",
    [GROUP_OUTPUT] = "Output and what is said", [GROUP_OTHER] = "Other",
    [GROUP_CHECK] = "Options of ddprun check",
};

static const char what_it_is[] = "Starts N ranks of a CUDA program that was written for one GPU, each with a GPU\n"
                                 "of its own, and averages their gradients: one model, trained N times as wide.\n";

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
print_row(FILE *out, const struct option_row *row)
{
    enum { COLUMN = 28 };
    print_name(out, row, COLUMN);
    for (const char *p = row->help; *p != '\0'; ++p) {
        fputc(*p, out);
        if (*p == '\n')
            fprintf(out, "%*s", COLUMN, "");
    }
    fputc('\n', out);
}

void
options_print_help(FILE *out)
{
    fprintf(out,
            "Usage: ddprun [options] program [arguments...]\n\n%s\n"
            "  ddprun -n 8 ./train --batch 256        eight ranks on eight GPUs\n"
            "  srun --mpi=pmix -n 64 ddprun ./train   64 ranks on a cluster (or mpirun -n)\n"
            "  ddprun scout ./train                   which annotations ./train needs\n"
            "  ddprun check ./train                   whether two ranks compute what one does\n"
            "  ddprun doctor ./train                  what this machine and ./train lack\n\n",
            what_it_is);
    for (int i = 0; i < option_row_count; ++i) {
        enum { COLUMN = 33 };
        if (option_rows[i].brief == NULL)
            continue;
        print_name(out, &option_rows[i], COLUMN);
        fprintf(out, "%s\n", option_rows[i].brief);
    }
    fputs("Options end at the program. ddprun --help-all explains all of them.\n", out);
}

void
options_print_help_all(FILE *out)
{
    fprintf(out,
            "Usage: ddprun [options] program [arguments...]\n"
            "       ddprun [options] check [options] program [arguments...]\n"
            "       ddprun [options] scout [options] program [arguments...]\n"
            "       ddprun [options] doctor [--json] [program]\n"
            "       ddprun trace DIR -o FILE\n"
            "       ddprun report DIR -o FILE\n"
            "       ddprun [options] predict [options] program [arguments...]\n\n%s"
            "Options end at the program; everything behind it belongs to the program.\n"
            "The second form runs a few steps on one rank and on several, and compares them\n"
            "tensor by tensor (ddprun check --help). A program of that name is started as\n"
            "./check.\n"
            "The third form finds gradients in a program without annotations\n"
            "(ddprun scout --help).\n"
            "The fourth form starts nothing: it says what this machine and the program have\n"
            "and lack for a job, and what to do. Its exit code is 1 if something is a\n"
            "problem. A program of that name is started as ./doctor.\n"
            "The fifth form makes a timeline of what --trace DIR has written\n"
            "(ddprun trace --help), the sixth one HTML page (ddprun report --help).\n"
            "The seventh form predicts what a step takes on other numbers of ranks\n"
            "(ddprun predict --help).\n",
            what_it_is);
    for (int group = 0; group < GROUP_COUNT; ++group) {
        fprintf(out, "\n%s:\n", group_titles[group]);
        for (int i = 0; i < option_row_count; ++i) {
            if (option_rows[i].group == (enum option_group)group)
                print_row(out, &option_rows[i]);
        }
    }
    fputs("\nOf an option that is given twice the last counts, but for --env.\n"
          "\nEach option that can stand for all runs is a setting too: --bucket-mb 10 is\n"
          "DDPRUN_BUCKET_MB=10 in the environment and \"bucket-mb\": 10 in the file of settings,\n"
          "$XDG_CONFIG_HOME/ddprun/config.json or what --config names. The file goes before the\n"
          "environment, the command line before both.\n"
          "\nThe program finds RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE in its\n"
          "environment. Rank 0 has the terminal's input and prints as it is; lines of other\n"
          "ranks begin with [rank] ([rank]+ where a line longer than 64 KiB continues).\n"
          "When one rank fails, all are stopped.\n"
          "\nExit codes: that of the rank that failed first (128 + signal if a signal ended\n"
          "it); 0: all ranks ended well; 1: ddprun or a rank stopped the job with a\n"
          "message; 2: wrong options; 127: the program cannot be started.\n"
          "\nExamples:\n"
          "  ddprun -n 2 ./train --batch 96         two ranks on two GPUs, or on the stand-in\n"
          "                                         if softgpu-cc built the program\n"
          "  ddprun --gpus 1,3 ./train              two ranks, on GPUs 1 and 3\n"
          "  ddprun -n 2 --share-gpu ./train        two ranks on one GPU\n"
          "  ddprun -n 4 --device softgpu ./run.sh  a script that starts such a program\n"
          "  ddprun -n 4 --subst ./train --log run-{rank}.log\n"
          "                                         a log file for each rank\n",
          out);
}

void
options_print_help_check(FILE *out)
{
    fputs("Usage: ddprun check [options] program [arguments...]\n\n"
          "Runs a few steps of the program on one rank, and again on several with the same\n"
          "batch. Compares gradients, parameters and other state of every rank with those of\n"
          "one rank, tensor by tensor. Prints whether they are equal; if not, where they begin\n"
          "to differ and which mistake makes such differences. Files that the program writes\n"
          "go to private folders; the user's files stay as they are.\n\n"
          "  ddprun check ./train                     two ranks, three steps\n"
          "  ddprun check -n 4 --steps 8 ./train      four ranks; eight steps show overlap, too\n"
          "  ddprun check --alone \"--batch 64\" ./train --batch 32\n"
          "                                           a program that takes the batch of a rank\n"
          "  ddprun check -n 1 --reference ref.ddp ./train\n"
          "  srun --mpi=pmix -n 8 ddprun check --reference ref.ddp ./train\n"
          "                                           in two commands, on a cluster\n\n",
          out);
    for (int i = 0; i < option_row_count; ++i) {
        if (option_rows[i].group == GROUP_CHECK)
            print_row(out, &option_rows[i]);
    }
    fputs("\n-n N (default 2) and all other options of ddprun (ddprun --help-all) are for the runs.\n"
          "Two ranks need two GPUs, or --share-gpu.\n"
          "--timeout SECONDS also limits how long a run may take to its first DDP_STEP.\n"
          "\nExit codes: 0: equal; 1: different; 3: not comparable, with what would make the two\n"
          "comparable; 2: wrong options, no annotations, no DDP_STEP, too few steps. A\n"
          "run that fails by itself: its own exit code, 4 in place of its 1 or 3.\n",
          out);
}
