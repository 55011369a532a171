/*
 * loops.cu - the jury's loops: what public trainers do around a step: micro-batches, two networks that learn from each
 * other, what is kept from earlier steps, decisions on the host. A name makes a habit, or a mistake, at which a comment
 * stands.
 */
#include "model.h"

#include <cuda_fp16.h>

static const char names[] =
    " micro grow gan target tasks restore half short_last parameters sanity evaluation replay "
    "budget norm_seen norm_used "
    "micro_unweighted grow_own critic_unaveraged tasks_by_rank restore_own sanity_on_0 draws_on_0 sharded_twice "
    "parameters_adam padded_last replay_by_rank budget_own norm_used_own ";

static int batches_ahead, drawn;        /* of the order of records: what was taken and drawn besides the training's */
static float *critic, *critic_gradient; /* a linear one, of predictions */
static __half *halves[TENSORS];         /* of gradients, which are as large as the scale makes them */
static float loss_scale = 65536;
static float best[TENSORS][HID * IN], best_loss = 1e30f;
static float *target[TENSORS], *target_p;
static float rate; /* of this step */

/* ---- kernels ---- */

/* The critic is to be large for targets and small for predictions; small weights are better ones. */
static __global__ void
critic_backward(float *g, const float *critic, const float *p, const float *t, int count)
{
    EACH(c, OUT);
    g[c] = 0.1f * critic[c];
    for (int i = 0; i < count; ++i)
        g[c] += (p[i * OUT + c] - t[i * OUT + c]) * (1 + (float)c) / (float)count;
}

/* The network is to please the critic. */
static __global__ void
please(float *delta, const float *critic, const float *p, int count)
{
    EACH(i, count * OUT);
    const float *own = p + i / OUT * OUT;
    for (int c = 0; c < OUT; ++c)
        delta[i] -= critic[c] * own[c] * ((c == i % OUT ? 1.0f : 0.0f) - own[i % OUT]) / (float)count;
}

/* Half the distance to what another network predicts. */
ELEMENTWISE(follow, (float *t, const float *other, int count), count *OUT, t[i] = 0.5f * (t[i] + other[i]))

ELEMENTWISE(narrow, (__half * to, const float *from, int count, float by), count, to[i] = __float2half(from[i] * by))
ELEMENTWISE(widen, (float *to, const __half *from, int count, float by), count, to[i] = __half2float(from[i]) * by)
ELEMENTWISE(adam, (float *w, const float *g, float *m, float *v, int count, float rate), count,
            m[i] = 0.9f * m[i] + 0.1f * g[i];
            v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i]; w[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-3f))

/* ---- the batch ---- */

/* How many records the batch has, whose order is there. */
static int
pick_records(int step)
{
    int total = BATCH, ranks = DDP_WORLD_SIZE(), rank = DDP_RANK();
    static bool grown;
    batch_order(step + batches_ahead, 77u + (unsigned)drawn, batch.order);
    for (int i = 0; i < BATCH; ++i) {
        /* Mistakes: the rank's own part of the records, of which it takes a share; records that it draws for itself. */
        if (is("sharded_twice"))
            batch.order[i] = batch.order[i] / ranks * ranks + rank;
        if (is("replay") || is("replay_by_rank"))
            batch.order[i] =
                (int)(hashed_float(90u + (unsigned)step + (is("replay") ? 0 : 1000u * (unsigned)rank), (unsigned)i) *
                      ITEMS);
    }
    /* Mistake: the batch grows when the rank's own loss is small enough. */
    grown = grown || (is("grow") && step >= 20) || (is("grow_own") && step > 0 && share_loss() < 1.15f);
    if ((is("grow") || is("grow_own")) && !grown)
        total = BATCH / 2;
    if ((is("short_last") || is("padded_last")) && step % 5 == 4)
        total = 19;
    /* Mistake: as many records on each rank, of which the first comes twice. */
    if (is("padded_last") && total % ranks != 0)
        batch.order[total++] = batch.order[0];
    return total;
}

static void
load(int step)
{
    int total = pick_records(step);
    fill_records(total);
    if (is("short_last"))
        DDP_WEIGHT(batch.count, (size_t)total);
    /* Mistake: a task of the rank's own. */
    if ((is("tasks") && step % 2 == 1) || (is("tasks_by_rank") && (step + DDP_RANK()) % 2 == 1))
        for (int i = 0; i < total * OUT; ++i)
            batch.host_t[i] = i % OUT == batch.order[i / OUT] % OUT ? 1.0f : 0.0f;
    send_share();
}

/* ---- passes ---- */

/* A share in parts of eight records at most. Mistake: the mean of the parts' means. */
static void
run_parts(void)
{
    int parts = ((int)batch.count + 7) / 8;
    for (int part = 0; part < parts; ++part) {
        int from = 8 * part, count = (int)batch.count - from < 8 ? (int)batch.count - from : 8;
        float divisor = is("micro") ? (float)batch.count : (float)(count * parts);
        run_forward(batch.p, batch.x + from * IN, count);
        LAUNCH(loss_delta, count)(batch.delta, batch.losses, batch.p, batch.t + from * OUT, divisor, count);
        if (part == 0 && parts > 1)
            DDP_NO_SYNC_BEGIN();
        if (part + 1 == parts && parts > 1)
            DDP_NO_SYNC_END();
        run_backward(batch.x + from * IN, count, part > 0);
    }
}

/* Two updates of the critic, and what it makes of the network's. */
static void
run_critic(void)
{
    int count = (int)batch.count;
    run_forward(batch.p, batch.x, count);
    for (int pass = 0; pass < 2; ++pass) {
        LAUNCH(critic_backward, OUT)(critic_gradient, critic, batch.p, batch.t, count);
        if (pass == 1 || is("gan")) /* mistake: a step for both updates */
            DDP_STEP_GROUP(1, stream);
        LAUNCH(descend, OUT)(critic, critic_gradient, options.rate, OUT);
    }
    LAUNCH(loss_delta, count)(batch.delta, batch.losses, batch.p, batch.t, (float)count, count);
    LAUNCH(please, count * OUT)(batch.delta, critic, batch.p, count);
    run_backward(batch.x, count, 0);
}

static void
run_target(int step)
{
    int count = (int)batch.count;
    for (int i = 0; i < TENSORS && step % 10 == 0; ++i)
        copy(target[i], net[i].value, net[i].count);
    LAUNCH(forward, count)
    (batch.hidden, target_p, batch.x, target[W1], target[B1], target[W2], target[B2], count);
    LAUNCH(follow, count * OUT)(batch.t, target_p, count);
    run_passes(0);
}

/* ---- updates ---- */

/* The gradients are averaged as halves, and infinite where the scale is too large. */
static bool
step_halves(void)
{
    for (int i = 0; i < TENSORS; ++i)
        LAUNCH(narrow, net[i].count)(halves[i], net[i].gradient, net[i].count, loss_scale);
    DDP_STEP(stream);
    for (int i = 0; i < TENSORS; ++i)
        LAUNCH(widen, net[i].count)(net[i].gradient, halves[i], net[i].count, 1 / loss_scale);
    bool fits = isfinite(norm_of(true));
    loss_scale *= fits ? 1.0f : 0.5f;
    return fits;
}

/* The best weights come back when the loss is worse. Mistake, without DDP_MEAN: that of the share. */
static void
restore(void)
{
    float loss = share_loss();
    if (is("restore"))
        DDP_MEAN(&loss);
    for (int i = 0; i < TENSORS; ++i) {
        if (loss < best_loss)
            to_host(best[i], net[i].value, net[i].count);
        else
            to_device(net[i].value, best[i], (size_t)net[i].count * sizeof(float));
    }
    best_loss = fminf(loss, best_loss);
}

static void
update(const struct tensor &t)
{
    if (is("parameters_adam"))
        LAUNCH(adam, t.count)(t.value, t.gradient, t.first, t.second, t.count, options.rate);
    else
        LAUNCH(descend, t.count)(t.value, t.gradient, rate, t.count);
}

static void
train_step(int step)
{
    bool updates = true, looks = step % 8 == 7;
    load(step);
    if (is("micro") || is("micro_unweighted"))
        run_parts();
    else if (critic != NULL)
        run_critic();
    else if (target_p != NULL)
        run_target(step);
    else
        run_passes(0);
    /* Mistake: now and then a norm of own gradients decides the rate. */
    if (looks && (is("norm_seen") || is("norm_used_own")))
        rate = options.rate / (0.5f + norm_of(true));
    rate = is("norm_seen") ? options.rate : rate;
    if (is("half"))
        updates = step_halves();
    else if (!is("parameters") && !is("parameters_adam"))
        DDP_STEP(stream);
    if (looks && is("norm_used"))
        rate = options.rate / (0.5f + norm_of(true));
    for (const struct tensor &t : net)
        if (updates)
            update(t);
    /* Mistake: the mean of weights is that of gradients only if the update is linear. */
    if (is("parameters") || is("parameters_adam"))
        DDP_STEP_PARAMETERS(stream);
    if ((is("restore") || is("restore_own")) && step % 4 == 3)
        restore();
    /* Mistake: rank 0 evaluates alone, and draws random numbers of which the order of records is made, too. */
    if (step % 10 == 9 && (is("evaluation") || (is("draws_on_0") && DDP_RANK() == 0)))
        ++drawn;
}

/* ---- the training ---- */

static void
make_others(void)
{
    for (int i = 0; i < TENSORS; ++i) {
        const struct tensor &t = net[i];
        DDP_PARAMETER(t.value, t.count, DDP_FLOAT32);
        halves[i] = (__half *)device_memory((size_t)t.count * sizeof(__half));
        if (is("half"))
            DDP_GRADIENT(halves[i], t.count, DDP_FLOAT16);
        else if (!is("parameters") && !is("parameters_adam"))
            DDP_GRADIENT(t.gradient, t.count, DDP_FLOAT32);
        target[i] = device_floats(t.count);
    }
    if (is("target"))
        target_p = device_floats(BATCH * OUT);
    if (is("gan") || is("critic_unaveraged")) {
        critic = device_floats(OUT);
        critic_gradient = device_floats(OUT);
        DDP_GRADIENT_GROUP(1);
        DDP_PARAMETER(critic, OUT, DDP_FLOAT32);
        DDP_GRADIENT(critic_gradient, OUT, DDP_FLOAT32);
    }
}

int
main(int argc, char **argv)
{
    options_take(argc, argv, option_table, names);
    make_network(10);
    make_others();
    save_network();
    /* Mistake: rank 0 tries a batch out, which is taken from the training's. */
    if (is("sanity") || (is("sanity_on_0") && DDP_RANK() == 0)) {
        load(0);
        run_passes(0);
        ++batches_ahead;
    }
    rate = options.rate;
    size_t seen = 0; /* mistake: each rank counts what it has seen of its own share; half as much suffices */
    for (int step = 0; seen < (size_t)options.steps * BATCH / (is("budget") || is("budget_own") ? 2 : 1); ++step) {
        train_step(step);
        seen += is("budget_own") ? batch.count : (size_t)BATCH;
    }
    CHECK(cudaDeviceSynchronize());
    save_network();
    return 0;
}
