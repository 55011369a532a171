// reinforce.cu - off-policy policy gradient with clipped ratios (PPO's surrogate) on episodes that
// another policy recorded in a corridor world.  As in the usual PPO codes the host looks at every
// mini-batch's divergence from the recorded policy: too far - the update is left out and the rate
// falls; very near - the rate rises.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#define CU(...) do { cudaError_t r_ = (__VA_ARGS__); if (r_) { fprintf(stderr, "%s: %s\n", #__VA_ARGS__, cudaGetErrorString(r_)); exit(1); } } while (0)

enum { OBS = 6, HID = 20, ACT = 3, STEPS = 16, EPISODES = 96, MINI = 8, EPOCHS = 8 };

// structure of arrays for the recorded steps: [episode][step]
struct Tape {
    float obs[EPISODES][STEPS][OBS];
    int action[EPISODES][STEPS];
    float logp[EPISODES][STEPS], probs[EPISODES][STEPS][ACT], reward[EPISODES][STEPS];
    int length[EPISODES];
};
struct Net {                     // trivially copyable: it is the device's layout as well
    float w1[OBS][HID], b1[HID], w2[HID][ACT], b2[ACT], v[HID], vb;
};
const int NPARAM = sizeof(Net) / sizeof(float);

struct Work {                    // what one mini-batch leaves behind
    float hid[MINI][STEPS][HID], dlogit[MINI][STEPS][ACT], dvalue[MINI][STEPS], dhid[MINI][STEPS][HID];
    float kl[MINI], gain[MINI], vloss[MINI];
    int count;
};

// a block for every episode, a thread for every step of it
__global__ void episode_kernel(const Tape *tape, const int *pick, const Net *net, Work *work, float clip) {
    __shared__ float value[STEPS + 1], ret[STEPS + 1], part[3][STEPS];
    int e = pick[blockIdx.x], m = blockIdx.x, t = threadIdx.x, len = tape->length[e];
    bool live = t < len;
    float logit[ACT], p[ACT], v = net->vb;
    if (live) {
        for (int a = 0; a < ACT; a++) logit[a] = net->b2[a];
        for (int j = 0; j < HID; j++) {
            float s = net->b1[j];
            for (int i = 0; i < OBS; i++) s += tape->obs[e][t][i] * net->w1[i][j];
            float h = work->hid[m][t][j] = tanhf(s);
            for (int a = 0; a < ACT; a++) logit[a] += h * net->w2[j][a];
            v += h * net->v[j];
        }
    }
    value[t] = live ? v : 0;
    if (t == 0) {                // returns, backwards through the episode
        ret[len] = 0;
        for (int k = len - 1; k >= 0; k--) ret[k] = tape->reward[e][k] + 0.95f * ret[k + 1];
    }
    __syncthreads();
    float gain = 0, kl = 0, vl = 0;
    if (live) {
        float mx = fmaxf(logit[0], fmaxf(logit[1], logit[2])), z = 0;
        for (int a = 0; a < ACT; a++) z += p[a] = expf(logit[a] - mx);
        for (int a = 0; a < ACT; a++) { p[a] /= z; kl += tape->probs[e][t][a] * (logf(tape->probs[e][t][a]) - logf(p[a])); }
        int act = tape->action[e][t];
        float adv = ret[t] - value[t], ratio = p[act] / expf(tape->logp[e][t]);
        bool cut = adv > 0 ? ratio > 1 + clip : ratio < 1 - clip;
        gain = fminf(ratio * adv, fminf(fmaxf(ratio, 1 - clip), 1 + clip) * adv);
        float c = cut ? 0 : ratio * adv / (MINI * STEPS);
        for (int a = 0; a < ACT; a++)
            work->dlogit[m][t][a] = -c * ((a == act) - p[a]) + 0.01f / (MINI * STEPS) * p[a] * (logf(p[a]) - (p[0] * logf(p[0]) + p[1] * logf(p[1]) + p[2] * logf(p[2])));
        work->dvalue[m][t] = -0.5f * adv / (MINI * STEPS);
        vl = adv * adv;
    } else {
        for (int a = 0; a < ACT; a++) work->dlogit[m][t][a] = 0;
        work->dvalue[m][t] = 0;
    }
    for (int j = 0; j < HID; j++) {
        float d = work->dvalue[m][t] * net->v[j], h = live ? work->hid[m][t][j] : 0;
        for (int a = 0; a < ACT; a++) d += work->dlogit[m][t][a] * net->w2[j][a];
        work->dhid[m][t][j] = d * (1 - h * h);
        work->hid[m][t][j] = h;
    }
    part[0][t] = kl; part[1][t] = gain; part[2][t] = vl;
    __syncthreads();
    if (t < 3) {
        float s = 0;
        for (int k = 0; k < len; k++) s += part[t][k];
        (t == 0 ? work->kl : t == 1 ? work->gain : work->vloss)[m] = s / len;
    }
}

__global__ void gradient_kernel(const Tape *tape, const int *pick, const Work *work, Net *grad) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NPARAM) return;
    const int B1 = OBS * HID, W2 = B1 + HID, B2 = W2 + HID * ACT, V = B2 + ACT, VB = V + HID;
    float s = 0;
    for (int m = 0; m < MINI; m++)
        for (int t = 0; t < tape->length[pick[m]]; t++) {
            if (i < B1) s += tape->obs[pick[m]][t][i / HID] * work->dhid[m][t][i % HID];
            else if (i < W2) s += work->dhid[m][t][i - B1];
            else if (i < B2) s += work->hid[m][t][(i - W2) / ACT] * work->dlogit[m][t][(i - W2) % ACT];
            else if (i < V) s += work->dlogit[m][t][i - B2];
            else if (i < VB) s += work->hid[m][t][i - V] * work->dvalue[m][t];
            else s += work->dvalue[m][t];
        }
    ((float *)grad)[i] = s;
}
__global__ void momentum_kernel(float *w, const float *g, float *vel, float rate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < NPARAM) { vel[i] = 0.9f * vel[i] + g[i]; w[i] -= rate * vel[i]; }
}

// the world: walk along a corridor of 9 cells to the door, whose place is seen; the wind pushes
static void record(Tape *tape, std::mt19937 &rng) {
    std::uniform_real_distribution<float> u(0, 1);
    for (int e = 0; e < EPISODES; e++) {
        int at = rng() % 9, door = rng() % 9, t = 0;
        float wind = u(rng) - 0.5f;
        while (t < STEPS) {
            float *o = tape->obs[e][t], lean = 0.25f * (door > at ? 1 : -1), z = 0;
            o[0] = at / 4.f - 1; o[1] = door / 4.f - 1; o[2] = (door - at) / 4.f; o[3] = wind; o[4] = t / 8.f - 1; o[5] = u(rng) - 0.5f;
            float *p = tape->probs[e][t], raw[ACT] = {-lean, 0, lean};
            for (int a = 0; a < ACT; a++) z += p[a] = std::exp(raw[a]);
            for (int a = 0; a < ACT; a++) p[a] /= z;
            float x = u(rng);
            int act = x < p[0] ? 0 : x < p[0] + p[1] ? 1 : 2;
            tape->action[e][t] = act; tape->logp[e][t] = std::log(p[act]);
            at += act - 1;
            if (u(rng) < std::fabs(wind)) at += wind > 0 ? 1 : -1;
            at = std::max(0, std::min(8, at));
            tape->reward[e][t] = at == door ? 1.f : -0.1f * std::abs(at - door);
            t++;
            if (at == door) break;
        }
        tape->length[e] = t;
    }
}

int main(int argc, char **argv) {
    std::map<std::string, std::string> opt;
    for (int i = 1; i + 1 < argc; i += 2) opt[argv[i]] = argv[i + 1];
    int R = opt.count("--oracle") ? atoi(opt["--oracle"].c_str()) : 0;
    int epochs = opt.count("--epochs") ? atoi(opt["--epochs"].c_str()) : EPOCHS;

    static Tape tape; static Net init; static Work seen;
    std::mt19937 rng(1234);
    record(&tape, rng);
    std::normal_distribution<float> nd(0, 1);
    for (auto &r : init.w1) for (float &x : r) x = 0.5f * nd(rng);
    for (auto &r : init.w2) for (float &x : r) x = 0.05f * nd(rng);
    for (float &x : init.v) x = 0.1f * nd(rng);

    Tape *dtape; Net *net, *grad, *vel; Work *work; int *pick;
    CU(cudaMalloc(&dtape, sizeof(Tape))); CU(cudaMalloc(&net, sizeof(Net))); CU(cudaMalloc(&grad, sizeof(Net)));
    CU(cudaMalloc(&vel, sizeof(Net))); CU(cudaMalloc(&work, sizeof(Work))); CU(cudaMalloc(&pick, MINI * sizeof(int)));
    CU(cudaMemcpy(dtape, &tape, sizeof tape, cudaMemcpyHostToDevice));
    CU(cudaMemcpy(net, &init, sizeof init, cudaMemcpyHostToDevice));
    CU(cudaMemset(vel, 0, sizeof(Net)));

    float rate = 0.15f;
    const float target = 0.05f;
    int batch = 0, skipped = 0, held = 0;
    std::vector<float> sum(NPARAM, 0.f);
    float klsum = 0;
    std::vector<int> order(EPISODES);
    for (int i = 0; i < EPISODES; i++) order[i] = i;
    for (int epoch = 0; epoch < epochs; epoch++) {
        std::shuffle(order.begin(), order.end(), rng);
        for (int first = 0; first + MINI <= EPISODES; first += MINI) {
            CU(cudaMemcpy(pick, &order[first], MINI * sizeof(int), cudaMemcpyHostToDevice));
            episode_kernel<<<MINI, STEPS>>>(dtape, pick, net, work, 0.2f);
            gradient_kernel<<<(NPARAM + 63) / 64, 64>>>(dtape, pick, work, grad);
            CU(cudaMemcpy(&seen, work, sizeof seen, cudaMemcpyDeviceToHost));
            float kl = 0, gain = 0, vloss = 0;
            for (int m = 0; m < MINI; m++) { kl += seen.kl[m] / MINI; gain += seen.gain[m] / MINI; vloss += seen.vloss[m] / MINI; }
            if (++batch % 10 == 0) printf("epoch %d batch %3d  kl %.4f  surrogate %+.4f  value loss %.4f  rate %.4f  left out %d\n", epoch, batch, kl, gain, vloss, rate, skipped);
            if (R) {             // the mean of R mini-batches, and their mean divergence for the decision
                std::vector<float> g(NPARAM);
                CU(cudaMemcpy(g.data(), grad, sizeof(Net), cudaMemcpyDeviceToHost));
                for (int i = 0; i < NPARAM; i++) sum[i] += g[i];
                klsum += kl;
                if (++held < R) continue;
                for (int i = 0; i < NPARAM; i++) { g[i] = sum[i] / R; sum[i] = 0; }
                CU(cudaMemcpy(grad, g.data(), sizeof(Net), cudaMemcpyHostToDevice));
                kl = klsum / R; klsum = 0; held = 0;
            }
            if (kl > 2 * target) { skipped++; rate = std::max(0.02f, rate * 0.8f); continue; }
            if (kl < target) rate = std::min(0.4f, rate * 1.05f);
            momentum_kernel<<<(NPARAM + 63) / 64, 64>>>((float *)net, (const float *)grad, (float *)vel, rate);
            CU(cudaGetLastError());
        }
    }
    CU(cudaMemcpy(&init, net, sizeof init, cudaMemcpyDeviceToHost));
    if (opt.count("--save")) {
        FILE *f = fopen(opt["--save"].c_str(), "w");
        if (!f) return 1;
        for (int i = 0; i < NPARAM; i++) fprintf(f, "%.9g\n", ((const float *)&init)[i]);
        fclose(f);
    }
    return 0;
}
