/*
 * option_table.c - every option of ddprun, and what becomes of its value. To add one: a row at the end, a field in
 * struct options, a take_...() function.
 */
#include "launcher/options/option_table.h"

#include "base/protocol.h"
#include "launcher/common/network.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/host_list.h"
#include "launcher/options/option_values.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of an option without a value: given, or switched by a setting. */
static bool
is_on(const char *value)
{
    return value == NULL || strcmp(value, "0") != 0;
}

#define SWITCH(name, field, meaning)                                                                  \
    static bool take_##name(const struct option_row *row, struct options *options, const char *value, \
                            struct error *error)                                                      \
    {                                                                                                 \
        (void)row, (void)error;                                                                       \
        options->field = is_on(value) == (meaning);                                                   \
        return true;                                                                                  \
    }
SWITCH(share_gpu, share_gpu, true)
SWITCH(no_cost_cache, cost_cache, false)
SWITCH(no_overlap, overlap, false)
SWITCH(verify, verify, true)
SWITCH(subst, subst, true)
SWITCH(unannotated, unannotated, true)
SWITCH(dry_run, dry_run, true)
SWITCH(quiet, quiet, true)
SWITCH(verbose, verbose, true)
SWITCH(trace_args, trace_args, true)

static bool
take_ranks(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    /* More than OPTIONS_MOST_RANKS only with --hosts: check_rank_count(). */
    if (!option_whole_number(value, 1, HOST_LIST_MOST_HOSTS * HOST_LIST_MOST_RANKS, &number))
        return option_bad_value(error, row, value, "a number of ranks from 1 to 256");
    options->rank_count = (int)number;
    return true;
}

static bool
take_hosts(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    if (value[0] == '\0')
        return option_bad_value(error, row, value, "a list of hosts, such as h1:8,h2:8");
    options->hosts = value; /* read by hosts_run() */
    return true;
}

static bool
take_device(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    static const char *const names[] = {[DEVICE_AUTO] = "auto", [DEVICE_GPU] = "gpu", [DEVICE_SOFTGPU] = "softgpu"};
    int place = option_one_of(value, names, sizeof(names) / sizeof(names[0]));
    if (place < 0)
        return option_bad_value(error, row, value, "one of auto, gpu, softgpu");
    options->device = (enum device_choice)place;
    return true;
}

static bool
take_gpus(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    (void)row;
    gpu_list_free(&options->gpus);
    return gpu_list_parse(value, &options->gpus, error);
}

static bool
take_bind(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    static const char *const names[] = {[BIND_NONE] = "none", [BIND_NUMA] = "numa", [BIND_CORE] = "core"};
    int place = option_one_of(value, names, sizeof(names) / sizeof(names[0]));
    if (place < 0)
        return option_bad_value(error, row, value, "one of none, numa, core");
    options->bind = (enum bind_choice)place;
    return true;
}

static bool
take_bucket_mb(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    static const char wanted[] = "a size above 0 and up to 1048576 (MiB)";
    /* strtod also takes blanks, hexadecimal, "inf" and "nan". */
    if (value[0] == '\0' || strspn(value, "0123456789.eE+-") != strlen(value))
        return option_bad_value(error, row, value, wanted);
    char *end;
    double bytes = strtod(value, &end) * (1 << 20);
    if (*end != '\0' || !(bytes >= 1.0) || bytes > 1024.0 * 1024.0 * (1 << 20))
        return option_bad_value(error, row, value, wanted);
    options->bucket_bytes = (uint64_t)llround(bytes);
    return true;
}

const char *const reduction_names[DDPRUN_REDUCTION_COUNT] = {
    [DDPRUN_REDUCE_MEAN] = "mean", [DDPRUN_REDUCE_SUM] = "sum"};

static bool
take_reduce(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    int place = option_one_of(value, reduction_names, DDPRUN_REDUCTION_COUNT);
    if (place < 0)
        return option_bad_value(error, row, value, "one of mean, sum");
    options->reduction = (enum ddprun_reduction)place;
    return true;
}

const char *const compression_names[DDPRUN_COMPRESSION_COUNT] = {
    [DDPRUN_COMPRESS_NONE] = "none", [DDPRUN_COMPRESS_FP16] = "fp16", [DDPRUN_COMPRESS_BF16] = "bf16"};

static bool
take_compress(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    int place = option_one_of(value, compression_names, DDPRUN_COMPRESSION_COUNT);
    if (place < 0)
        return option_bad_value(error, row, value, "one of none, fp16, bf16");
    options->compression = (enum ddprun_compression)place;
    return true;
}

static bool
take_communicators(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    if (!option_whole_number(value, 1, DDPRUN_MOST_COMMUNICATORS, &number))
        return option_bad_value(error, row, value, "a number from 1 to 8");
    options->communicator_count = (unsigned)number;
    return true;
}

static bool
take_nccl(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    if (value[0] == '\0')
        return option_bad_value(error, row, value, "a path or a library name");
    options->nccl = value;
    return true;
}

static bool
take_sync_every(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    if (!option_whole_number(value, 1, 1000000000, &number))
        return option_bad_value(error, row, value, "a number of steps from 1 to 1000000000");
    options->sync_every = (unsigned)number;
    return true;
}

static bool
take_outer_lr(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    options->has_outer = true;
    return (option_real_number(value, 0, 100, &options->outer_rate) && options->outer_rate > 0) ||
           option_bad_value(error, row, value, "a rate above 0 and up to 100");
}

static bool
take_outer_momentum(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    options->has_outer = true;
    return (option_real_number(value, 0, 1, &options->outer_momentum) && options->outer_momentum < 1) ||
           option_bad_value(error, row, value, "a number from 0 to below 1");
}

static bool
take_check_every(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    if (!option_whole_number(value, 0, 1000000000, &number))
        return option_bad_value(error, row, value, "a number of steps from 0 (never) to 1000000000");
    options->check_every = (unsigned)number;
    return true;
}

static bool
take_timeout(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    if (!option_whole_number(value, 1, 1000000, &number))
        return option_bad_value(error, row, value, "a whole number of seconds from 1 to 1000000");
    options->timeout_s = (unsigned)number;
    return true;
}

/* Seconds, or 0 for never. */
static bool
take_limit(const struct option_row *row, unsigned *field, const char *value, struct error *error)
{
    unsigned long number;
    if (!option_whole_number(value, 0, 1000000, &number))
        return option_bad_value(error, row, value, "a whole number of seconds from 0 (never) to 1000000");
    *field = (unsigned)number;
    return true;
}

static bool
take_hang_warning(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    options->hang_warning_given = true;
    return take_limit(row, &options->hang_warning_s, value, error);
}

static bool
take_hang_timeout(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    return take_limit(row, &options->hang_timeout_s, value, error);
}

static bool
take_heartbeat_timeout(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    if (!option_whole_number(value, 0, 1000000, &number) || number == 1 || number == 2)
        return option_bad_value(error, row, value, "0 (never) or a whole number of seconds from 3 to 1000000");
    options->heartbeat_timeout_s = (unsigned)number;
    return true;
}

static bool
take_interface(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    struct network network;
    if (value[0] == '\0' || (strchr(value, '/') != NULL && !network_parse(value, &network)))
        return option_bad_value(error, row, value, "the name of an interface or a network such as 10.1.0.0/16");
    options->interface = value;
    return true;
}

static bool
take_trace(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    if (value[0] == '\0')
        return option_bad_value(error, row, value, "a folder");
    options->trace_dir = value;
    return true;
}

static bool
take_trace_steps(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    enum { DIGITS = 20 };
    const char *dash = strchr(value, '-');
    char first_text[DIGITS] = "";
    unsigned long first, last;
    if (dash != NULL && dash - value < DIGITS)
        memcpy(first_text, value, (size_t)(dash - value));
    if (dash == NULL || !option_whole_number(first_text, 1, UINT32_MAX, &first) ||
        !option_whole_number(dash + 1, first, UINT32_MAX, &last))
        return option_bad_value(error, row, value, "two steps such as 5000-5100");
    options->trace_first = first;
    options->trace_last = last;
    return true;
}

/* Variables that ddprun would overwrite without a message. */
static bool
is_ranks_own(const char *name, size_t length)
{
    static const char *const names[] = {DDPRUN_ENV_RANK, DDPRUN_ENV_WORLD_SIZE, DDPRUN_ENV_LOCAL_RANK,
                                        DDPRUN_ENV_LOCAL_WORLD_SIZE, "CUDA_VISIBLE_DEVICES"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return true;
    }
    return false;
}

static bool
take_env(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    size_t length = strcspn(value, "=");
    bool named = length > 0 && !isdigit((unsigned char)value[0]);
    for (size_t i = 0; i < length; ++i)
        named = named && (isalnum((unsigned char)value[i]) || value[i] == '_');
    if (!named || value[length] != '=')
        return option_bad_value(error, row, value, "NAME=VALUE");
    if (is_ranks_own(value, length))
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "'%.*s' is what ddprun itself tells each rank, in --env; which GPUs: --gpus, how many ranks: "
                         "-n; or choose another name",
                         (int)length, value);
    if (strncmp(value, "DDPRUN_", 7) == 0 || strncmp(value, "_DDPRUN_", 8) == 0 || strncmp(value, "PMIX_", 5) == 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "'%.*s' is ddprun's own variable, in --env; use the option, or choose another name",
                         (int)length, value);

    size_t count = 0;
    while (options->variables != NULL && options->variables[count] != NULL)
        ++count;
    options->variables = xrealloc(options->variables, (count + 2) * sizeof(*options->variables));
    options->variables[count] = xstrdup(value);
    options->variables[count + 1] = NULL;
    return true;
}

static bool
take_cwd(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    return option_take_text(row, &options->cwd, value, "a folder", error);
}

static bool
take_config(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    return option_take_text(row, &options->config, value, "a file", error);
}

static bool
take_metrics(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    return option_take_text(row, &options->metrics, value, "a file", error);
}

static bool
take_page(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    return option_take_text(row, &options->page, value, "a file", error);
}

static bool
take_summary_json(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    return option_take_text(row, &options->summary_json, value, "a file", error);
}

static bool
take_report(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    return option_take_text(row, &options->report, value, "a file", error);
}

static bool
take_output(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    static const char *const names[] = {[OUTPUT_TAGGED] = "tagged", [OUTPUT_RANK0] = "rank0", [OUTPUT_NONE] = "none"};
    int place = option_one_of(value, names, sizeof(names) / sizeof(names[0]));
    if (place >= 0) {
        options->output = (enum output_choice)place;
        return true;
    }
    if (strncmp(value, "files=", 6) != 0 || value[6] == '\0')
        return option_bad_value(error, row, value, "one of tagged, rank0, files=DIR, none");
    options->output = OUTPUT_FILES;
    options->output_dir = value + 6;
    return true;
}

static bool
take_output_buffering(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    static const char *const names[] = {[BUFFERING_LINE] = "line", [BUFFERING_FULL] = "full"};
    int place = option_one_of(value, names, sizeof(names) / sizeof(names[0]));
    if (place < 0)
        return option_bad_value(error, row, value, "one of line, full");
    options->buffering = (enum buffering_choice)place;
    return true;
}

static bool
take_progress(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    static const char *const names[] = {[PROGRESS_AUTO] = "auto", [PROGRESS_ON] = "on", [PROGRESS_OFF] = "off"};
    int place = option_one_of(value, names, sizeof(names) / sizeof(names[0]));
    if (place < 0)
        return option_bad_value(error, row, value, "one of auto, on, off");
    options->progress = (enum progress_choice)place;
    return true;
}

static bool
take_max_restarts(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    if (!option_whole_number(value, 0, 1000, &number))
        return option_bad_value(error, row, value, "a number of restarts from 0 to 1000");
    options->max_restarts = (unsigned)number;
    return true;
}

/* ---- of `ddprun check` ---- */

static void
note_check(const struct option_row *row, struct options *options)
{
    if (options->check.given == NULL)
        options->check.given = row->name;
}

static bool
take_steps(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    note_check(row, options);
    if (!option_whole_number(value, 1, 10000, &number))
        return option_bad_value(error, row, value, "a number of steps from 1 to 10000");
    options->check.steps = (unsigned)number;
    return true;
}

static bool
take_sample(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    unsigned long number;
    note_check(row, options);
    if (!option_whole_number(value, 1, 1000000000, &number))
        return option_bad_value(error, row, value, "a number of elements from 1 to 1000000000");
    options->check.sample = (unsigned)number;
    return true;
}

static bool
take_scout(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    (void)value, (void)error;
    note_check(row, options);
    options->check.scout = true;
    return true;
}

static bool
take_alone(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    (void)error;
    note_check(row, options);
    options->check.alone = value;
    return true;
}

static bool
take_reference(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    note_check(row, options);
    return option_take_text(row, &options->check.reference, value, "a file", error);
}

static bool
take_json(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    note_check(row, options);
    return option_take_text(row, &options->check.json, value, "a file", error);
}

static bool
take_keep_files(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    note_check(row, options);
    return option_take_text(row, &options->check.keep_files, value, "a folder", error);
}

static bool
take_tolerance(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    note_check(row, options);
    return option_real_number(value, 0, 1, &options->check.tolerance) ||
           option_bad_value(error, row, value, "a relative difference from 0 to 1");
}

static bool
take_floor_factor(const struct option_row *row, struct options *options, const char *value, struct error *error)
{
    note_check(row, options);
    return option_real_number(value, 1, 1e6, &options->check.floor_factor) ||
           option_bad_value(error, row, value, "a number from 1 to 1000000");
}

const struct option_row option_rows[] = {
    {'n', "ranks", "N", GROUP_PLACES, take_ranks,
     "how many ranks to start, 1 to 256 (default: one per GPU that is\n"
     "visible; stand-in: $SOFTGPU_DEVICES, or 1); also written -np N,\n--np N or --nproc-per-node N",
     .brief = "how many ranks (default: one for each GPU)", .not_handed_on = true},
    {0, "device", "auto|gpu|softgpu", GROUP_PLACES, take_device,
     "where to run: GPUs, or the CPU stand-in for programs built with\n"
     "softgpu-cc (default auto: what the program was built for;\nscripts and wrappers count as gpu)"},
    {0, "gpus", "LIST", GROUP_PLACES, take_gpus,
     "GPUs to use, one per rank, in this order: 0,2,5-7 or UUIDs;\n"
     "numbers count within an inherited CUDA_VISIBLE_DEVICES\n(default: all visible ones)",
     .brief = "which GPUs, such as 0,2,5-7"},
    {0, "share-gpu", NULL, GROUP_PLACES, take_share_gpu,
     "allow more ranks than GPUs: ranks take turns on the GPUs (for\n"
     "trying things out; sets NCCL_MULTI_RANK_GPU_ENABLE, before NCCL\n2.30 NCCL_HOSTID, and NCCL_SOCKET_IFNAME=lo "
     "unless it is set)",
     .brief = "allow more ranks than GPUs"},
    {0, "hosts", "LIST", GROUP_PLACES, take_hosts,
     "start ranks on several hosts, by mpirun of Open MPI or prterun:\n"
     "h1:8,h2:8 for eight on each, or file=PATH with one host a line\n(-n: fewer than that)",
     .command_line_only = true, .not_handed_on = true},
    {0, "bind", "none|numa|core", GROUP_PLACES, take_bind,
     "processors and memory of a rank: as ddprun's own; those of its\n"
     "GPU's NUMA node; cores of its own there (default: numa where the\n"
     "GPUs' places are known and ddprun was not bound itself, else none)"},
    {0, "bucket-mb", "X", GROUP_TRAINING, take_bucket_mb,
     "buckets of at most X MiB, fractions allowed (default: as measured\n"
     "ready times and costs of an all-reduce make best; 25 until then)"},
    {0, "no-cost-cache", NULL, GROUP_TRAINING, take_no_cost_cache,
     "measure what an all-reduce costs in this run, instead of keeping\nit in ~/.cache/ddprun"},
    {0, "no-overlap", NULL, GROUP_TRAINING, take_no_overlap,
     "average everything at the end of the step instead of during\nbackward",
     .brief = "average after backward, not during it"},
    {0, "reduce", "mean|sum", GROUP_TRAINING, take_reduce,
     "what becomes of a gradient: the mean of all ranks', or their\nsum (default mean)"},
    {0, "sync-every", "K", GROUP_TRAINING, take_sync_every,
     "average parameters every K steps, instead of gradients in\neach (default: not; docs/annotations.md)"},
    {0, "outer-lr", "X", GROUP_TRAINING, take_outer_lr,
     "with --sync-every: behind each average, a step of SGD with this\n"
     "rate from the average before (DiLoCo; default 1, the average)"},
    {0, "outer-momentum", "Y", GROUP_TRAINING, take_outer_momentum,
     "Nesterov's momentum of that step, from 0 to below 1 (default 0)"},
    {0, "compress", "none|fp16|bf16", GROUP_TRAINING, take_compress,
     "send float32 gradients in 16 bits: half the bytes, rounded\n(default none)",
     .brief = "send float32 gradients in 16 bits"},
    {0, "communicators", "K", GROUP_TRAINING, take_communicators,
     "buckets take turns on K NCCL communicators, 1 to 8 (default 1)"},
    {0, "nccl", "PATH", GROUP_TRAINING, take_nccl, "NCCL library to use (default libnccl.so.2)"},
    {0, "check-every", "K", GROUP_SAFETY, take_check_every,
     "compare the parameters of all ranks every K steps, besides\nthe first and the first overlapped ones; 0: never "
     "(default 100)"},
    {0, "verify", NULL, GROUP_SAFETY, take_verify,
     "check every gradient of every step for writes that were not\n"
     "seen, and compare the parameters after every step; slow",
     .brief = "check every gradient of every step; slow"},
    {0, "timeout", "SECONDS", GROUP_SAFETY, take_timeout,
     "how long a rank may wait for the others before the job is\nstopped, even if they continue (default 900)",
     .brief = "how long a rank may wait (default 900)"},
    {0, "hang-warning", "SECONDS", GROUP_SAFETY, take_hang_warning,
     "name a rank that makes no CUDA call for so long while others\nwait for it, or for its exit; the same if all wait "
     "for their\ndevices; 0: never (default 60)"},
    {0, "hang-timeout", "SECONDS", GROUP_SAFETY, take_hang_timeout,
     "end the job, with a report, when others have waited so long;\n0: never (default 600)"},
    {0, "max-restarts", "K", GROUP_SAFETY, take_max_restarts,
     "when a rank fails, start the whole job again, up to K times\n"
     "(default 0), for programs that continue from their checkpoints;\nDDPRUN_RESTART tells them how often it has "
     "happened",
     .brief = "start again after a failure, up to K times"},
    {0, "trace", "DIR", GROUP_SAFETY, take_trace,
     "write what each rank did to DIR/rank-N.jsonl, for ddprun trace;\nDIR is made if absent (default: no trace)",
     .brief = "write what each rank did, step by step"},
    {0, "trace-steps", "A-B", GROUP_SAFETY, take_trace_steps,
     "with --trace or --page: all steps from A to B are in the trace; of\nsteps beyond the first thousand it has only "
     "some (default: none)"},
    {0, "trace-args", NULL, GROUP_SAFETY, take_trace_args,
     "with --trace or --page: write the program's arguments, too\n(default: its name only)"},
    {0, "env", "NAME=VALUE", GROUP_PROGRAM, take_env, "a variable for the ranks; may be given again"},
    {0, "cwd", "DIR", GROUP_PROGRAM, take_cwd, "folder to start the ranks in (default: this one)"},
    {0, "subst", NULL, GROUP_PROGRAM, take_subst,
     "replace {rank}, {local_rank} and {world_size} in the program's\narguments and in --env"},
    {0, "config", "FILE", GROUP_PROGRAM, take_config, "read settings from FILE (JSON) instead of the user's own",
     .command_line_only = true},
    {0, "dry-run", NULL, GROUP_OUTPUT, take_dry_run, "print what would be started, and start nothing",
     .brief = "print what would be started", .command_line_only = true, .not_handed_on = true},
    {0, "output", "WHICH", GROUP_OUTPUT, take_output,
     "where ranks' output goes:\n"
     "tagged     rank 0's as it is, others' lines with [rank] (default)\n"
     "rank0      the same, without what others write to stdout\n"
     "files=DIR  DIR/rank-N.out and DIR/rank-N.err, of all ranks\n"
     "none       nowhere",
     .brief = "tagged, rank0, files=DIR or none"},
    {0, "output-buffering", "line|full", GROUP_OUTPUT, take_output_buffering,
     "when a line that ranks print leaves them: at its end, as under\n"
     "stdbuf -oL (default), or when libc's buffer is full"},
    {0, "progress", "auto|on|off", GROUP_OUTPUT, take_progress,
     "the course of training in the last row of a terminal: steps,\n"
     "exposed communication, means (default auto: if stderr is a\n"
     "terminal; on: else a line every 10 s; off: for programs that\nmove the cursor themselves)"},
    {0, "metrics", "FILE", GROUP_OUTPUT, take_metrics,
     "every 10 s replace FILE by figures of the job, in the text format\nof Prometheus"},
    {0, "summary-json", "FILE", GROUP_OUTPUT, take_summary_json, "write how the job ended to FILE, as JSON"},
    {0, "page", "FILE", GROUP_OUTPUT, take_page,
     "at the end write a page about the run to FILE, in HTML: what cost\n"
     "time, a step's timeline, stragglers, curves (ddprun report); from\nthe trace of --trace, or one that is removed",
     .brief = "make a page about the run, in HTML"},
    {0, "report", "FILE", GROUP_OUTPUT, take_report,
     "a report of a failure has 25 lines; the whole of a longer one goes\n"
     "to FILE (default: ddprun-report.PID.txt in this folder, or in\n$TMPDIR if that fails; -: to stderr)"},
    {0, "interface", "NAME|NETWORK", GROUP_PLACES, take_interface,
     "under srun or mpirun: the network over which the ddprun of several\n"
     "hosts find each other, such as eth0 or 10.1.0.0/16 (default: any;\nNCCL has its own, NCCL_SOCKET_IFNAME)"},
    {0, "heartbeat-timeout", "SECONDS", GROUP_SAFETY, take_heartbeat_timeout,
     "under srun or mpirun: how long a host may be silent before the job\nis stopped; 0: for ever (default 15)"},
    {0, "steps", "K", GROUP_CHECK, take_steps, "compare K steps, 1 to 10000 (default 3)", .command_line_only = true,
     .not_handed_on = true},
    {0, "alone", "ARGS", GROUP_CHECK, take_alone,
     "the program's arguments in the runs of one rank, in place of all\n"
     "others: for programs whose own options set the batch of a rank\n"
     "(split at blanks; quotes as in a shell, nothing is expanded)",
     .command_line_only = true, .not_handed_on = true},
    {0, "reference", "FILE", GROUP_CHECK, take_reference,
     "check in two commands: with -n 1 write what one rank computes to\n"
     "FILE, with more ranks, also under srun or mpirun, compare with FILE",
     .command_line_only = true, .not_handed_on = true},
    {0, "sample", "COUNT", GROUP_CHECK, take_sample,
     "keep COUNT elements of each larger tensor, and a hash of all of it,\n"
     "for models whose states do not fit the disk",
     .command_line_only = true, .not_handed_on = true},
    {0, "tolerance", "X", GROUP_CHECK, take_tolerance,
     "relative difference that counts as equal (default 1e-4; 4e-3 where\n"
     "gradients have or are sent in float16, 3e-2 in bfloat16)",
     .command_line_only = true, .not_handed_on = true},
    {0, "floor-factor", "X", GROUP_CHECK, take_floor_factor,
     "so does X times what repeating and rounding alone make (default 20)", .command_line_only = true,
     .not_handed_on = true},
    {0, "scout", NULL, GROUP_CHECK, take_scout,
     "first scout the program (ddprun scout), and compare all memory that\n"
     "stays from step to step, also what no annotation leads to",
     .command_line_only = true, .not_handed_on = true},
    {0, "json", "FILE", GROUP_CHECK, take_json, "write the verdict and all tensors to FILE, as JSON",
     .command_line_only = true, .not_handed_on = true},
    {0, "keep-files", "DIR", GROUP_CHECK, take_keep_files,
     "keep the files that the program writes, by run and rank, in DIR\n(default: they are removed)",
     .command_line_only = true, .not_handed_on = true},
    {0, "unannotated", NULL, GROUP_PROGRAM, take_unannotated,
     "run copies of a program that is not annotated, or that makes no\n"
     "step: nothing is averaged, and the exit code is the program's"},
    {'v', "verbose", NULL, GROUP_OUTPUT, take_verbose, "say which process and GPU each rank is"},
    {'q', "quiet", NULL, GROUP_OUTPUT, take_quiet, "no closing summary (errors are still reported)"},
    {'V', "version", NULL, GROUP_OTHER, NULL, "print the version and exit"},
    {'h', "help", NULL, GROUP_OTHER, NULL, "print a short help and exit"},
    {0, "help-all", NULL, GROUP_OTHER, NULL, "print this help and exit"},
};

const int option_row_count = sizeof(option_rows) / sizeof(option_rows[0]);

const struct option_synonym option_synonyms[] = {
    {"np", "ranks", false},
    {"nproc-per-node", "ranks", true},
    {"nproc_per_node", "ranks", true},
};

const int option_synonym_count = sizeof(option_synonyms) / sizeof(option_synonyms[0]);

const struct option_row *
option_row_named(const char *name)
{
    for (int i = 0; i < option_row_count; ++i) {
        if (strcmp(option_rows[i].name, name) == 0)
            return &option_rows[i];
    }
    return NULL;
}
