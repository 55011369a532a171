/*
 * options.h - what the user asked for: on the command line of `ddprun`, or in the environment.
 *
 * One table, options.def, is the source of both forms, of the help and of completion. The environment gives way to the
 * command line. Called by main() once, and by the unit tests.
 */
#ifndef DDPRUN_LAUNCHER_OPTIONS_OPTIONS_H
#define DDPRUN_LAUNCHER_OPTIONS_OPTIONS_H

#include "base/protocol.h"
#include "launcher/common/error.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/command.h"

#include <stddef.h>
#include <stdint.h>

/* Ranks on one machine; two pipes each must fit the usual limit of 1024 open files. */
#define OPTIONS_MOST_RANKS 256
#define OPTIONS_MOST_NODES 4096

/* A rank that keeps others waiting without a call ends the job after so long. The limit of a rank's own waiting
 * (DDPRUN_DEFAULT_TIMEOUT_S) comes later, for it knows less. */
#define OPTIONS_DEFAULT_HANG_TIMEOUT_S 600

enum device_choice {
    DEVICE_AUTO, /* what the program was built for */
    DEVICE_GPU,
    DEVICE_SOFTGPU,
};

/* Which processors and which memory ranks get. */
enum bind_choice {
    BIND_AUTO, /* near the GPU, where that is known and ddprun itself is not bound */
    BIND_NONE, /* as ddprun's own */
    BIND_NUMA, /* the GPU's NUMA node */
    BIND_CORE, /* cores of its own there */
};

/* Where ranks' output goes. */
enum output_choice {
    OUTPUT_TAGGED, /* rank 0 as it is, others' lines with their rank in front */
    OUTPUT_RANK0,  /* the same without the others' lines, but those of a rank that fails */
    OUTPUT_FILES,  /* each rank's in files of its own, in a folder */
    OUTPUT_NONE,   /* nowhere */
};

/* Whether the course of training is shown (progress.h). */
enum progress_choice {
    PROGRESS_AUTO, /* where stderr is a terminal */
    PROGRESS_ON,
    PROGRESS_OFF,
};

/* Strings point into argv or belong to `owned`. Release with options_free(). */
enum plan_by { PLAN_BY_GRADIENTS = 1, PLAN_BY_STATE };
enum plan_reads { PLAN_READS_OWNER = 1, PLAN_READS_OWN };

struct options {
    struct job_options job; /* what the engine reads, too; job_prepare() settles the paths in it */
    int rank_count;         /* 0: not given */
    bool has_settings;      /* some DDPRUN_ variable does */
    bool ranks_per_host;    /* rank_count was given as --nproc-per-node */
    unsigned node_count;    /* --nnodes; 0: not given */
    unsigned node_rank;     /* --node-rank */
    bool node_rank_given;
    const char *master; /* --master; NULL: not given */
    enum device_choice device;
    struct word_list gpus; /* empty: not given */
    bool share_gpu;
    bool one_device;        /* no ordinals up to the local rank */
    uint64_t reserve_bytes; /* by which the program is answered less free memory */
    enum bind_choice bind;
    const char *nccl; /* path or name; NULL: not given */
    unsigned timeout_s;
    unsigned heartbeat_timeout_s;       /* between the ddprun of a job under a cluster's launcher; 0: none */
    const char *interface;              /* that they find each other over: a name or a network; NULL: any */
    const char *secret_file, *job_name; /* for processes that meet at an address; NULL: the usual ones */
    unsigned hang_timeout_s;            /* 0: never */
    const char *trace_dir;              /* NULL: no trace */
    bool subst;                         /* {rank}, {local_rank} and {world_size} in arguments are replaced */
    bool dry_run;
    enum output_choice output;
    const char *output_dir; /* with OUTPUT_FILES */
    bool tee;               /* with OUTPUT_FILES: as OUTPUT_TAGGED besides */
    bool timestamps;        /* before lines that are passed on */
    enum progress_choice progress;
    const char *summary_json; /* file for the summary; NULL: none */
    const char *page;         /* file for a page about the run; NULL: none */
    const char *plan;         /* --plan; NULL: none */
    unsigned by;              /* enum plan_by; 0: whichever can be proved */
    unsigned reads;           /* enum plan_reads; 0: the owner's, where that is fast enough */
    bool unproved;
    bool yes;            /* what --plan auto asks is answered, */
    bool slow;           /* also where ranks are slower than one process */
    const char *metrics; /* file for figures of the job while it runs; NULL: none */
    const char *report;  /* file for long reports, "-": stderr; NULL: report.h names one */
    unsigned max_restarts, restart_delay_s;
    bool quiet, verbose;
    bool mixed;              /* the command of options_mix() was asked for */
    const char *mixed_given; /* name of the first of its options that was given; NULL: none was */
    char **program;          /* argv of the trainer, NULL-terminated, at least one word */
    struct word_list given;  /* the command line's options as "--name=value" */
    struct word_list owned;  /* copies of values */
};

/*
 * Options end at the first non-option argument, the program. options_free() releases them, whatever the result is.
 * Where it is OPTIONS_BAD they have no program, and what could be taken: a host tells the others that its options are
 * wrong. Reads the environment too, once the command line was found to be right. Not thread-safe (getopt).
 */
enum options_result options_parse(int argc, char **argv, struct options *options, struct error *error) MUST_USE;

/* What the engines of all ranks find in the status page: options->job, and what follows from several options. */
void options_settle_job(const struct options *options, struct job_options *job);

/* After how many seconds a rank that keeps others waiting is named: a tenth of --hang-timeout, at least one; without a
 * timeout, a tenth of the usual one. */
unsigned options_hang_warning_s(const struct options *options);

void options_free(struct options *options);

/* A copy of `text` that lives as long as the options. */
const char *option_keep(struct options *options, const char *text);

/* For a job of several ddprun: what must be equal in all of them, which is their options with TERM, ddprun's version,
 * GPU or stand-in. Writes "name value\n" ... into terms[bytes]; a longer text is cut. Pure. */
void terms_write(const struct options *options, bool softgpu, char *terms, size_t bytes);

/* ---- gpu_list.c: lists of GPUs as people write them: `--gpus 0,2,5-7` or `--gpus GPU-8e2d...,MIG-4f1a...` ---- */
/*
 * Syntax only: whether such a GPU exists is asked in devices.c. Each word is a decimal index without leading zeros, or
 * a UUID, as CUDA_VISIBLE_DEVICES takes them.
 */

/* Parses `text`; indices up to 1023. Error (DDPRUN_EXIT_USAGE): empty, an item that has none of the
 * forms, an item named twice. */
bool gpu_list_parse(const char *text, struct word_list *list, struct error *error) MUST_USE;

/* Appends a copy of `name`. Error (DDPRUN_EXIT_USAGE): it is in the list already. */
bool gpu_list_add_once(struct word_list *list, const char *name, struct error *error) MUST_USE;

/* The number that `name` is as an index, -1 if it is not an index (a UUID, -1, anything else). */
int gpu_list_index(const char *name);

/* ---- substitute.c: {rank}, {local_rank} and {world_size} in a program's arguments ---- */
/* Numbers to put in. */
struct places {
    int rank, local_rank, world_size;
};

/* A new string: `text` with the three names replaced; other braces stay as they are. */
char *substitute_text(const char *text, const struct places *places);

#endif
