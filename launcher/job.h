/*
 * job.h - a job from its refusals to its end, and the steps in which main() goes through it.
 *
 * job_look() and job_join() find out whose job it is, job_prepare() refuses what can be refused, job_meet() brings the
 * supervisors of several hosts together, job_start() starts what is to run here, job_run() stays with it, job_end()
 * puts everything away, job_free() what is left in memory. One in a process; main thread.
 */
#ifndef DDPRUN_LAUNCHER_JOB_H
#define DDPRUN_LAUNCHER_JOB_H

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/handshake.h"
#include "launcher/cluster/launched.h"
#include "launcher/cluster/supervisor_client.h"
#include "launcher/cluster/supervisor_server.h"
#include "launcher/common/signals.h"
#include "launcher/options/options.h"
#include "launcher/output/output.h"
#include "launcher/output/relay.h"
#include "launcher/output/terminal_input.h"
#include "launcher/start/devices.h"
#include "launcher/start/engine_link.h"
#include "launcher/start/environment.h"
#include "launcher/start/job_folder.h"
#include "launcher/start/placement.h"
#include "launcher/start/program.h"

#include <sys/types.h>

struct job {
    char **inherited;  /* the environment that ddprun was started with */
    unsigned restarts; /* of --max-restarts, so far */
    char *attempts;    /* how the attempts before ended, from job_run() on this one too (summary.h); NULL: none */
    struct options options;
    /* By main(): find the plan of --plan auto, and put its file into options.plan; make what the players of --plan
     * follow, of the plan that messages call `name`; and the page of --page. */
    bool (*find_plan)(struct job *job, struct error *error);
    bool (*make_plan)(const char *plan, const char *name, bool unproved, bool reads_own, const char *to,
                      struct error *error);
    bool (*make_page)(const char *trace_dir, const char *file, const char *option, struct error *error);
    const struct rank_equipment *equipment; /* of its ranks, by main(); NULL: none */
    struct signals signals;                 /* fd -1: not taken over yet */
    bool interrupted;                       /* a signal has asked for the end, here or elsewhere */
    enum job_final final;                   /* whether the job may begin again (--max-restarts) */

    /* under a cluster's launcher, or on one of several hosts */
    struct launched launched;
    bool has_launcher; /* there is one, though this may be the only process of its job */
    bool in_cluster;   /* one of several processes of its job */
    struct cluster cluster;
    struct handshake *handshakes; /* [world_size] on supervisor 0, [1] elsewhere: supervisor 0's first */
    struct listener listener;
    struct supervisor_server *server; /* supervisor 0 */
    struct supervisor_client client;
    bool have_met;     /* all ranks may be started */
    bool is_client;    /* `client` is connected: another supervisor judges and reports */
    bool is_plan_made; /* by rank 0: --plan auto */
    char *plan;        /* what rank 0 has given to all; NULL: each has its own, or there is none */
    size_t plan_bytes;

    struct program program;
    struct device_plan devices;
    struct installation installation;
    struct job_place place;
    struct placement placement;
    struct job_folder folder;
    struct engine_link link;
    void *status_page;
    int trace_fd; /* the folder of --trace, locked; -1: none is */
    struct terminal_input input;
    struct empty_input empty;
    int started;                           /* ranks */
    int64_t begun_unix_ns;                 /* time of day when job_start() began */
    pid_t *pids;                           /* [started]; each leads its process group */
    struct relay_source *outputs, *errors; /* what the relays of stdout and stderr read */
    int output_count, error_count;
    struct relay *relays[2];  /* of stdout and stderr; NULL where there is one rank */
    struct messages messages; /* from job_start() to the end of job_run() */
};

/* Before PMIx adds to the environment. */
struct job job_new(void);

/* What the command line says of how this process is launched. */
struct launch_request job_launch_request(const struct options *options);

/* Whether it says what all ddprun of this host know: with --nnodes the first of them does, elsewhere each. */
bool job_speaks_for_host(const struct job *job);

/* Whether users see what this ddprun prints, and not what that of rank 0 does: it is the first one on another host, and
 * no launcher brings the output of all hosts to one place. After the handshakes. */
bool job_speaks_for_other_host(const struct job *job);

/* Joins the job of the launcher that started this process, if one did. Error: it cannot be joined. */
bool job_join(struct job *job, struct error *error) MUST_USE;

/* Finds the program and the devices, and so how many ranks are started here. */
bool job_choose(struct job *job, struct error *error) MUST_USE;

/*
 * In place of all that follows, where job->launched.is_host: starts a ddprun for each rank of this host, with `argv`,
 * and waits for all. False: they cannot be started; none is left. Without options.program `error` holds why.
 */
bool node_run(struct job *job, char **argv, int *exit_code, struct error *error) MUST_USE;

/* All that can be refused without having started anything. */
bool job_prepare(struct job *job, struct error *error) MUST_USE;

/* In a cluster, where job->devices.is_open: this rank's GPU is that with the number `place` of those that it sees,
 * `among` ranks of this host seeing the same ones. */
bool job_settle_devices(struct job *job, int place, int among, struct error *error) MUST_USE;

struct rank_settings job_settings(const struct job *job, const char *job_dir);

/*
 * In a cluster: all tell each other whether they are prepared, and connect. `error`: why this one is not, or NULL.
 * False: not all are, or they cannot reach each other; the error has been said, once, and *exit_code is the job's.
 */
bool job_meet(struct job *job, const struct error *error, int *exit_code) MUST_USE;

/* Everything that needs an end, and the ranks. After an error job_run() still ends what has been started. */
bool job_start(struct job *job, struct error *error) MUST_USE;

/* Returns the exit code. `error`: why the job could not be started, or NULL. */
int job_run(struct job *job, const struct error *error);

/* Its middle, until no process of the job is left and its output has been passed on (supervisor.c). Prints the reason
 * of a failure. */
int supervisor_run(struct job *job, const struct error *error);

/* False, in a cluster only: PMIx hangs, and its threads are left to the end of the process, by _exit() or execve(). All
 * else has been put away. */
bool job_end(struct job *job) MUST_USE;

/* The memory, but for what PMIx's threads may still use. */
void job_free(struct job *job);

#endif
