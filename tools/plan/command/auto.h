/*
 * auto.h - `ddprun --plan auto`: the plan of a program is looked for among those that are kept, or made, and proved;
 * what will happen is said, and asked about. From then on it is `--plan FILE`.
 */
#ifndef DDPRUN_TOOLS_PLAN_COMMAND_AUTO_H
#define DDPRUN_TOOLS_PLAN_COMMAND_AUTO_H

#include "launcher/common/error.h"
#include "launcher/options/options.h"

#include <json-c/json.h>

enum { PLAN_MOST_BYTES = 128 << 20 }; /* of a file */
struct auto_job {
    const char *program; /* its file */
    int ranks;
    int proving; /* ranks that its proof is made with, on this host: all, or those that are here, two at least */
    const char *per_rank; /* what --per-rank names: "a3,a7"; NULL: nothing */
    bool softgpu;
    bool in_cluster; /* one of several ddprun of a job */
    bool is_restart; /* of --max-restarts: it was asked before */
};

/* Refuses --plan for one rank, but in a run of `ddprun check`, and `--plan auto` where there is no one to ask.
 * *is_auto: whether it is that (a file of that name is "./auto"). Error: with the exit code of wrong usage. */
bool plan_auto_may_begin(const struct options *options, const struct auto_job *job, bool *is_auto,
                         struct error *error) MUST_USE;

/* Of options with `--plan auto`, for a job that is prepared: puts the plan's file into options->plan. Main thread,
 * before there is another one, and while no signal is blocked. Error: with the exit code of wrong usage, no folder of
 * the user's own to keep plans in; else as of `ddprun scout --prove`, or the user said no, or a signal asked for the
 * end. */
bool plan_auto(struct options *options, const struct auto_job *job, struct error *error) MUST_USE;

/* ---- preview.c: what a training by a plan is going to do, printed before it begins ---- */
/* What is averaged and compared, which batches become one update, what printed figures mean, and how fast it is: lines
 * to stderr. `plan`: as plan_cache_find() or `ddprun scout --prove` has made it; `timed`: ranks that its forecast is
 * of. */
void preview_print(struct json_object *plan, int ranks, int timed, bool reads_own);
/* How many operations of a step bring to the host what one rank computes; `prints`: each on a line. */
unsigned preview_reads(struct json_object *plan, bool prints);

/* ---- plan_file.c: `--plan FILE`: a plan of `ddprun scout --prove --json FILE`, made ready for the ranks ---- */
/* Reads the plan `path`, which messages call `name`, and writes `to`, mode 0600, for the players of the ranks
 * (tools/plan/format/play.h). `reads_own`: --reads own. `unproved`: also a plan whose proof (d) did not pass, and one
 * without the hash of what it holds. Error, with the exit code of wrong usage: it is no plan, of another version, of a
 * program that cannot be played, or not proved; or `to` cannot be written. */
bool plan_file_prepare(const char *path, const char *name, bool unproved, bool reads_own, const char *to,
                       struct error *error) MUST_USE;

/* Where the program allocates what previews and messages name, by `plan`, the whole of a plan; "": not known. */
const char *plan_file_place(struct json_object *plan, uint64_t alloc);
bool plan_file_is_by_state(struct json_object *plan);

/* ---- cache.c: plans that `--plan auto` has made, kept in ${XDG_CACHE_HOME:-~/.cache}/ddprun/plans ---- */
/*
 * A file is a plan of `ddprun scout --prove --json`, with the member "cache": of which program, arguments and options
 * it is, and the files of the program's code and those that it reads, with size and date. Where one of these is
 * another, all proofs have to be made again: other arguments may clip, or normalise over a batch.
 *
 * The folder and its files are the user's own: what another user could have written is an error. A file is written
 * beside its place and renamed. Main thread.
 */

struct plan_cache {
    char *path;                  /* for the plan of this program, these arguments and options */
    struct json_object *subject; /* all that */
};

/* `program`: its file; `arguments`: its argv; `folder`: in which it is started; `conditions`: ranks and options. Error,
 * with the exit code of wrong usage: there is no folder to keep plans in, or it is not the user's own.
 * plan_cache_close() releases it, whatever was returned. */
bool plan_cache_open(const char *program, char *const *arguments, const char *folder, bool softgpu,
                     const char *conditions, struct plan_cache *cache, struct error *error) MUST_USE;

/* The plan that was proved for this build, these arguments and the files that the program reads. *plan: NULL if there
 * is none, else for json_object_put(). One that is damaged, or of another build, of other files or of another version,
 * is removed with a message. Error, with the exit code of wrong usage: the file is not the user's own. */
bool plan_cache_find(const struct plan_cache *cache, struct json_object **plan, struct error *error) MUST_USE;

/* Keeps a plan that is proved for these arguments. Error: it cannot be written. */
bool plan_cache_keep(const struct plan_cache *cache, struct json_object *plan, struct error *error) MUST_USE;

void plan_cache_close(struct plan_cache *cache);

#endif
