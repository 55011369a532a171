/*
 * softgpu.c - how fast the stand-in is, as ratios within this run: bench/softgpu [--json] [--pairs N].
 *
 * Matrix products are measured here; kernels, launches and all-reduces by programs beside this one, whose output it
 * reads. The peers - OpenBLAS called directly, plain loops, Open MPI - run in turn with what they are compared with.
 */
#include "allreduce.h"
#include "report.h"

#include <cblas.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { PAIRS_AT_MOST = 101, COMMAND_BYTES = 2 * PATH_MAX };

static char folder[PATH_MAX]; /* of this program */

static void
expect(int result, const char *call)
{
    if (result == 0)
        return;
    fprintf(stderr, "bench: %s failed with %d\n", call, result);
    exit(1);
}

/* Runs `program` beside this one and gives each line of its output to `read_line`. */
static void
run_program(const char *before, const char *program, const char *after,
            void (*read_line)(const char *line, void *context), void *context)
{
    char command[COMMAND_BYTES], line[512];
    int wanted = snprintf(command, sizeof(command), "%s%s/%s%s", before, folder, program, after);
    FILE *output = wanted > 0 && (size_t)wanted < sizeof(command) ? popen(command, "r") : NULL;
    if (output == NULL) {
        fprintf(stderr, "bench: cannot run %s: %s\n", program, strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof(line), output) != NULL)
        read_line(line, context);
    if (pclose(output) != 0) {
        fprintf(stderr, "bench: this failed: %s\n", command);
        exit(1);
    }
}

/* ---- matrix products ---- */

enum { SIDE = 1024 };

static void
measure_sgemm(struct report *report, int pairs)
{
    size_t bytes = sizeof(float) * SIDE * SIDE;
    float *host = malloc(3 * bytes), one = 1, zero = 0;
    double ratios[PAIRS_AT_MOST];
    CUcontext context;
    CUdeviceptr memory;
    cublasHandle_t handle;
    for (size_t i = 0; i < 3 * bytes / sizeof(float); ++i)
        host[i] = (float)(i % 13) - 6;
    expect(cuInit(0), "cuInit");
    expect(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    expect(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    expect(cuMemAlloc(&memory, 3 * bytes), "cuMemAlloc");
    expect(cuMemcpyHtoD(memory, host, 3 * bytes), "cuMemcpyHtoD");
    expect(cublasCreate(&handle), "cublasCreate"); /* from here on OpenBLAS has one thread, for both */
    float *device = (float *)memory;
    const size_t matrix = SIDE * SIDE;
    for (int i = -1; i < pairs; ++i) {
        double begin = allreduce_now();
        cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, one, host, SIDE, host + matrix, SIDE,
                    zero, host + 2 * matrix, SIDE);
        double middle = allreduce_now();
        expect(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE, SIDE, &one, device, SIDE, device + matrix,
                           SIDE, &zero, device + 2 * matrix, SIDE),
               "cublasSgemm");
        expect(cuStreamSynchronize(NULL), "cuStreamSynchronize");
        if (i >= 0)
            ratios[i] = (middle - begin) / (allreduce_now() - middle);
    }
    report_figure(report, "SGEMM 1024: speed over OpenBLAS's, called directly", report_median(ratios, (size_t)pairs),
                  "ratio", BAR_AT_LEAST, 0.95);
    cublasDestroy(handle);
    cuMemFree(memory);
    free(host);
}

/* ---- kernels ---- */

/* A figure as softgpu_kernels prints it with --json. */
static void
relay_figure(const char *line, void *report)
{
    json_object *figure = json_tokener_parse(line), *name, *value, *unit, *bar;
    if (figure == NULL || !json_object_object_get_ex(figure, "name", &name) ||
        !json_object_object_get_ex(figure, "value", &value) || !json_object_object_get_ex(figure, "unit", &unit) ||
        !json_object_object_get_ex(figure, "bar", &bar)) {
        fprintf(stderr, "bench: not a figure: %s", line);
        exit(1);
    }
    report_figure(report, json_object_get_string(name), json_object_get_double(value), json_object_get_string(unit),
                  BAR_AT_MOST, json_object_get_double(bar));
    json_object_put(figure);
}

static void
read_launches(const char *line, void *report)
{
    double rate, share;
    if (sscanf(line, "launches %lf idle %lf", &rate, &share) != 2)
        return;
    report_figure(report, "empty launches, whole path", rate, "per s", BAR_AT_LEAST, 200000);
    report_figure(report, "idle process: share of a core", 100 * share, "%", BAR_AT_MOST, 1);
}

/* ---- all-reduce ---- */

/* The times of one run, by size. */
struct times {
    double seconds[ALLREDUCE_SIZES];
    int count;
};

static void
read_time(const char *line, void *context)
{
    struct times *times = context;
    size_t bytes;
    double seconds;
    if (times->count < ALLREDUCE_SIZES && sscanf(line, ALLREDUCE_LINE, &bytes, &seconds) == 2 &&
        bytes == allreduce_sizes[times->count].bytes)
        times->seconds[times->count++] = seconds;
}

static struct times
run_allreduce(const char *before, const char *program, const char *after)
{
    struct times times = {.count = 0};
    run_program(before, program, after, read_time, &times);
    if (times.count != ALLREDUCE_SIZES) {
        fprintf(stderr, "bench: %s printed %d times of %d\n", program, times.count, ALLREDUCE_SIZES);
        exit(1);
    }
    return times;
}

/* Of one of our programs, the times of all runs and how many times faster than Open MPI it was in each. */
struct measured {
    const char *what;
    double ratios[ALLREDUCE_SIZES][PAIRS_AT_MOST], ours[ALLREDUCE_SIZES][PAIRS_AT_MOST];
};

static void
report_allreduce(struct report *report, struct measured *measured, int rank_count, int pairs)
{
    char name[96];
    for (int s = 0; s < ALLREDUCE_SIZES; ++s) {
        size_t bytes = allreduce_sizes[s].bytes;
        bool large = bytes >= ALLREDUCE_BAR_BYTES;
        double ratio = report_median(measured->ratios[s], (size_t)pairs);
        snprintf(name, sizeof(name), "%s of %zu %s, %d processes: speed over Open MPI's", measured->what,
                 large ? bytes >> 20 : bytes >> 10, large ? "MiB" : "KiB", rank_count);
        if (large)
            report_figure(report, name, ratio, "ratio", BAR_AT_LEAST, 1);
        else
            report_value(report, name, ratio, "ratio");
        if (!report->json)
            printf("  (%.3g ms)\n", 1e3 * report_median(measured->ours[s], (size_t)pairs));
    }
}

static void
measure_allreduce(struct report *report, int rank_count, int pairs)
{
    static struct measured nccl = {.what = "all-reduce"}, ddp = {.what = "DDP_REDUCE"};
    bool bound = rank_count <= sysconf(_SC_NPROCESSORS_ONLN); /* a core for each, as mpirun does it */
    char mpi[160], count[16], ddprun[PATH_MAX + 64];
    snprintf(ddprun, sizeof(ddprun), "%s/../bin/ddprun --quiet -n %d --device softgpu %s", folder, rank_count,
             bound ? "--bind core " : "");
    snprintf(mpi, sizeof(mpi), "mpirun %s%s-n %d ", getuid() == 0 ? "--allow-run-as-root " : "",
             rank_count > sysconf(_SC_NPROCESSORS_ONLN) ? "--oversubscribe " : "", rank_count);
    snprintf(count, sizeof(count), " %d", rank_count);
    for (int i = 0; i < pairs; ++i) {
        struct times peer = run_allreduce(mpi, "allreduce_mpi", "");
        struct times ours[2] = {run_allreduce("", "allreduce_nccl", count), run_allreduce(ddprun, "allreduce_ddp", "")};
        for (int s = 0; s < ALLREDUCE_SIZES; ++s) {
            nccl.ratios[s][i] = peer.seconds[s] / ours[0].seconds[s];
            nccl.ours[s][i] = ours[0].seconds[s];
            ddp.ratios[s][i] = peer.seconds[s] / ours[1].seconds[s];
            ddp.ours[s][i] = ours[1].seconds[s];
        }
    }
    report_allreduce(report, &nccl, rank_count, pairs);
    report_allreduce(report, &ddp, rank_count, pairs);
}

static void
measure(struct report *report, int pairs)
{
    measure_sgemm(report, pairs);
    run_program("", "softgpu_kernels", " --json", relay_figure, report);
    run_program("", "softgpu_launches", "", read_launches, report);
    char program[PATH_MAX + 16];
    snprintf(program, sizeof(program), "%s/allreduce_mpi", folder);
    if (access(program, X_OK) != 0 || system("mpirun --version >/dev/null 2>&1") != 0) {
        fprintf(stderr, "skipped: all-reduce against Open MPI: no mpirun, or none when this was built\n");
        return;
    }
    measure_allreduce(report, 2, pairs);
    measure_allreduce(report, 4, pairs);
}

int
main(int argc, char **argv)
{
    struct report report = {.json = false};
    int pairs = 5;
    if (!report_take_options(&report, argc, argv, &pairs, PAIRS_AT_MOST))
        return 2;
    report_program_folder(folder, 1);
    struct utsname machine;
    if (!report.json && uname(&machine) == 0)
        printf("stand-in on %s %s, %ld cores, medians of %d pairs\n", machine.sysname, machine.machine,
               sysconf(_SC_NPROCESSORS_ONLN), pairs);
    measure(&report, pairs);
    return 0;
}
