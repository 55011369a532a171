// Skip-gram with negative sampling. Each thread takes one (centre, context) pair; Hogwild-like updates of the tables.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>

#define VOCAB   300
#define DIM     20
#define NEG     4
#define WINDOW  2
#define PAIRS   128

struct Pair { int centre, context, neg[NEG]; };

__global__ void skipgram(const Pair *pairs, int n, float *syn0, float *syn1, float alpha, float *loss)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n) return;
    Pair q = pairs[p];
    float *v = syn0 + q.centre * DIM, neu1e[DIM];
    for (int k = 0; k < DIM; k++) neu1e[k] = 0;
    float l = 0;
    for (int s = 0; s <= NEG; s++) {
        int target = s == 0 ? q.context : q.neg[s - 1];
        float label = s == 0;
        float *u = syn1 + target * DIM, f = 0;
        for (int k = 0; k < DIM; k++) f += v[k] * u[k];
        float sg = 1 / (1 + expf(-f));
        float g = (label - sg) * alpha;
        l -= logf((s == 0 ? sg : 1 - sg) + 1e-7f);
        for (int k = 0; k < DIM; k++) {
            neu1e[k] += g * u[k];
            atomicAdd(&u[k], g * v[k]);
        }
    }
    for (int k = 0; k < DIM; k++) atomicAdd(&v[k], neu1e[k]);
    loss[p] = l;
}

int main()
{
    srand(31);
    // corpus: topics of 15 words; a sentence stays in its topic
    std::vector<int> corpus;
    for (int s = 0; s < 800; s++) {
        int topic = rand() % (VOCAB / 15);
        for (int i = 0; i < 8; i++) corpus.push_back(topic * 15 + rand() % 15);
    }
    float *syn0, *syn1, *d_loss;
    Pair *d_pairs;
    cudaMalloc(&syn0, VOCAB * DIM * sizeof(float));
    cudaMalloc(&syn1, VOCAB * DIM * sizeof(float));
    cudaMalloc(&d_pairs, PAIRS * sizeof(Pair));
    cudaMalloc(&d_loss, PAIRS * sizeof(float));
    std::vector<float> init(VOCAB * DIM);
    for (auto &x : init) x = (rand() / (float)RAND_MAX - 0.5f) / DIM * 4;
    cudaMemcpy(syn0, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(syn1, 0, VOCAB * DIM * sizeof(float));

    std::vector<Pair> pairs;
    std::vector<float> h(PAIRS);
    const int total = (int)corpus.size();
    float start = 0.3f, sum = 0;
    int steps = 0;
    for (int i = 0; i < total; i++) {
        for (int w = -WINDOW; w <= WINDOW; w++) {
            if (w == 0 || i + w < i / 8 * 8 || i + w >= i / 8 * 8 + 8) continue;
            Pair p;
            p.centre = corpus[i];
            p.context = corpus[i + w];
            for (int k = 0; k < NEG; k++) p.neg[k] = corpus[rand() % total];
            pairs.push_back(p);
        }
        if ((int)pairs.size() >= PAIRS) {
            float alpha = start * (1 - 0.9f * i / total);
            cudaMemcpy(d_pairs, pairs.data(), PAIRS * sizeof(Pair), cudaMemcpyHostToDevice);
            skipgram<<<PAIRS / 32, 32>>>(d_pairs, PAIRS, syn0, syn1, alpha, d_loss);
            cudaMemcpy(h.data(), d_loss, PAIRS * sizeof(float), cudaMemcpyDeviceToHost);
            for (float x : h) sum += x / PAIRS;
            pairs.erase(pairs.begin(), pairs.begin() + PAIRS);
            if (++steps % 20 == 0) {
                printf("step %d alpha %.4f loss %.4f\n", steps, alpha, sum / 20);
                sum = 0;
            }
        }
    }
    printf("%d words, %d steps\n", total, steps);
    cudaFree(syn0); cudaFree(syn1); cudaFree(d_pairs); cudaFree(d_loss);
    return 0;
}
