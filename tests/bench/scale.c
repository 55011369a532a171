/*
 * scale.c - a prediction: what would the step of a model take on 8 to 4,096 GPUs?
 *
 * Backward from tests/bench/data, the cost of an all-reduce from the textbook formulas for rings and trees over two
 * levels of network, the buckets from the measured partition, as a run would plan them. Nothing here is measured: every
 * assumption is printed, and figures that others have published stand beside it, with their sources, to judge it by.
 */
#include "bucketing/measured.h"
#include "models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int rank_counts[] = {8, 64, 512, 4096};
enum { COUNTS = sizeof(rank_counts) / sizeof(rank_counts[0]) };

/* Nodes with some GPUs each, and the network between them. */
struct network {
    const char *name;
    int gpus_per_node;
    double slowness;             /* backward takes this many times as long as tests/bench/data says */
    double inside_gbytes_per_s;  /* of one GPU, within its node: NCCL's bus bandwidth */
    double outside_gbytes_per_s; /* of one node, all its cards together */
    double inside_hop_us, outside_hop_us;
};

static const struct network networks[] = {
    {"NVLink inside, 8 x 400 Gb/s outside", 8, 1.0, 370.0, 8 * 50.0 * 0.85, 1.0, 5.0},
    {"PCIe inside, 100 Gb/s outside", 8, 1.0, 12.0, 12.5 * 0.85, 5.0, 8.0},
    {"4 slow GPUs, 25 Gb/s (as Horovod's)", 4, 8.0, 12.0, 3.125 * 0.85, 5.0, 15.0},
};
enum { NETWORKS = sizeof(networks) / sizeof(networks[0]) };

enum algorithm { RING, TREE, ALGORITHMS };
static const char *const algorithm_names[ALGORITHMS] = {"ring", "tree"};

/* Skew: how late the last of n ranks is, if each differs by 1 % (the largest of n normal deviates). */
static double
skew_factor(int ranks)
{
    return 1.0 + 0.01 * sqrt(2.0 * log((double)ranks));
}

/* The time of an all-reduce, in ns. Formulas: the head of print_assumptions(). */
static double
all_reduce_ns(const struct network *network, enum algorithm algorithm, int ranks, double bytes)
{
    double n = ranks, nodes = n / network->gpus_per_node;
    double bandwidth =
        nodes <= 1.0 ? network->inside_gbytes_per_s : fmin(network->inside_gbytes_per_s, network->outside_gbytes_per_s);
    double hops_us =
        algorithm == RING
            ? 2.0 * ((n - nodes) * network->inside_hop_us + (nodes > 1.0 ? nodes : 0.0) * network->outside_hop_us)
            : 2.0 * ((network->gpus_per_node - 1) * network->inside_hop_us + log2(nodes) * network->outside_hop_us);
    return 1000.0 * hops_us + bytes * 2.0 * (n - 1.0) / n / bandwidth;
}

static void
fit(const struct network *network, enum algorithm algorithm, int ranks, struct cost *cost)
{
    struct cost_sample samples[12];
    size_t count = 0;
    for (double bytes = 4096.0; count < sizeof(samples) / sizeof(samples[0]); bytes *= 4.0)
        samples[count++] =
            (struct cost_sample){(uint64_t)bytes, llround(all_reduce_ns(network, algorithm, ranks, bytes))};
    if (!cost_fit(samples, count, cost)) {
        fprintf(stderr, "bench: no cost\n");
        exit(1);
    }
}

/* One predicted step. */
struct prediction {
    double step_ms;
    double efficiency; /* a step of one GPU over this one */
    double exposed_ms, bound_ms;
    size_t buckets;
};

static struct prediction
predict(const struct model *model, const struct cost *cost, int ranks, double slowness)
{
    struct plan_forecast forecast;
    double skew = skew_factor(ranks), backward_ms = slowness * (double)model->backward_ns / 1e6,
           alone_ms = 1.5 * backward_ms;
    int64_t *late_ns = calloc(model->count + 1, sizeof(*late_ns));
    if (late_ns == NULL)
        exit(1);
    for (size_t i = 0; i < model->count; ++i)
        late_ns[i] = llround((double)model->ready_ns[i] * slowness * skew);
    struct plan *plan = plan_build_measured(1, model->gradients, late_ns, model->order, model->count, cost, &forecast);
    if (plan == NULL) {
        fprintf(stderr, "bench: no plan for %s\n", model->name);
        exit(1);
    }
    struct prediction made = {
        .exposed_ms = (double)forecast.end_ns / 1e6 - backward_ms * skew,
        .bound_ms = (double)forecast.bound_ns / 1e6 - backward_ms * skew,
        .buckets = plan->bucket_count,
    };
    made.step_ms = alone_ms * skew + made.exposed_ms;
    made.efficiency = alone_ms / made.step_ms;
    free(late_ns);
    plan_free(plan);
    return made;
}

static void
print_assumptions(const struct model *models)
{
    printf("PREDICTION, not a measurement. Assumptions:\n"
           "- the trainer: forward takes half as long as backward, the optimizer nothing; gradients in float32; weak\n"
           "  scaling; backward is not slowed down by communication.\n"
           "- ranks differ by 1 %% in speed, all wait for the slowest: backward x (1 + 0.01 sqrt(2 ln n)).\n"
           "- one all-reduce at a time, buckets as the measured partition makes them.\n"
           "- ring: 2 ((n - nodes) inside hop + nodes outside hop) + 2 (n - 1) / n bytes / bandwidth.\n"
           "- tree: 2 ((GPUs a node - 1) inside hops + log2(nodes) outside hops) + 2 (n - 1) / n bytes / bandwidth.\n"
           "- bandwidth: on one node the GPU's within it, else the lesser of that and of all the node's cards "
           "together.\n");
    for (size_t w = 0; w < NETWORKS; ++w)
        printf("- %s: %d GPUs a node, backward %g x that below; %g GB/s a GPU inside, %.4g GB/s a node\n"
               "  outside (85 %% of line rate), hops of %g and %g us.\n",
               networks[w].name, networks[w].gpus_per_node, networks[w].slowness, networks[w].inside_gbytes_per_s,
               networks[w].outside_gbytes_per_s, networks[w].inside_hop_us, networks[w].outside_hop_us);
    for (size_t m = 0; m < MODEL_COUNT; ++m)
        printf("- %s: %zu tensors, %.1f MB of gradients, backward %.2f ms (tests/bench/data/%s.model).\n",
               models[m].name, models[m].count, (double)models[m].bytes / 1e6, (double)models[m].backward_ns / 1e6,
               models[m].name);
    printf(
        "\nMeasured by others, on other machines and models, and with other software:\n"
        "- Horovod (benchmarks.rst in its documentation): 128 servers of 4 Pascal GPUs, 25 Gb/s RoCE, 512 GPUs: "
        "efficiency 0.90\n"
        "  for Inception V3 and ResNet-101, 0.68 for VGG-16.\n"
        "- BytePS (its docs): BERT-large on 256 GPUs: about 0.90; Horovod with NCCL there about 0.70.\n"
        "- NVIDIA sentiment-discovery (analysis/scale.md): an mLSTM on 128 V100, gradients in float16: 0.73 without\n"
        "  InfiniBand, 0.85 and 0.94 (a larger model) with it.\n"
        "- NCCL's maintainers (nccl-tests issues 212, 272): all-reduce on one node of 8 H100 about 370 GB/s bus "
        "bandwidth\n"
        "  with rings, 475 to 480 with NVLink SHARP.\n\n"
        "%-14s %-36s %5s %5s %8s %9s %9s %8s %10s\n",
        "model", "network", "ranks", "alg.", "step ms", "exposed", "bound", "buckets", "efficiency");
}

static void
print_prediction(const struct model *model, const struct network *network, int ranks, enum algorithm algorithm)
{
    struct cost cost;
    fit(network, algorithm, ranks, &cost);
    struct prediction made = predict(model, &cost, ranks, network->slowness);
    printf("%-14s %-36s %5d %5s %8.2f %9.3f %9.3f %8zu %10.3f\n", model->name, network->name, ranks,
           algorithm_names[algorithm], made.step_ms, made.exposed_ms, made.bound_ms, made.buckets, made.efficiency);
}

static int
usage(FILE *out, int code)
{
    fputs("Usage: scale\n"
          "Predicts, from formulas, the step of four models on 8 to 4,096 GPUs; measures nothing.\n\n"
          "  --help  print this\n\n"
          "Reads tests/bench/data/*.model; $BENCH_DATA names another folder. Exits with 0; 1 when it cannot read\n"
          "them; 2 for a mistake on the command line.\n",
          out);
    return code;
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0)
        return usage(stdout, 0);
    if (argc > 1)
        return usage(stderr, 2);
    struct model models[MODEL_COUNT];
    for (size_t m = 0; m < MODEL_COUNT; ++m)
        model_read(model_folder(), model_names[m], &models[m]);
    print_assumptions(models);
    for (size_t m = 0; m < MODEL_COUNT; ++m) {
        for (size_t w = 0; w < NETWORKS; ++w) {
            for (size_t c = 0; c < COUNTS; ++c) {
                for (enum algorithm algorithm = RING; algorithm < ALGORITHMS; ++algorithm)
                    print_prediction(&models[m], &networks[w], rank_counts[c], algorithm);
            }
        }
        model_free(&models[m]);
    }
    return 0;
}
